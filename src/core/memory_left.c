/* Remaining memory on Linux: /proc/meminfo, control groups version 1 and 2. */
#include "core/memory_left.h"

#if GLI_LINUX

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 640, GROUP_BYTES = 512 };

/* File names of one version of control groups. */
typedef struct group_files {
  const char *mark; /* marker of its line in /proc/self/cgroup */
  const char *mount, *limit, *usage;
  const char *cached[2]; /* fields of memory.stat */
} group_files;

static const group_files versions[] = {
    {"0::",
     "/sys/fs/cgroup",
     "memory.max",
     "memory.current",
     {"inactive_file", "active_file"}},
    {":memory:",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
};

static FILE *memory_left_open_in(const char *directory, const char *name) {
  char path[PATH_BYTES];
  int bytes = snprintf(path, sizeof path, "%s/%s", directory, name);
  return bytes < PATH_BYTES ? fopen(path, "re") : NULL;
}

/* Returns UINT64_MAX if the file does not exist, or holds no number ("max"). */
static uint64_t memory_left_read_number(const char *directory,
                                        const char *name) {
  FILE *file = memory_left_open_in(directory, name);
  if (file == NULL) return UINT64_MAX;
  uint64_t value;
  if (fscanf(file, "%" SCNu64, &value) != 1) value = UINT64_MAX;
  fclose(file);
  return value;
}

/* Returns the number after `name` in a file of names and numbers, or 0. */
static uint64_t read_field(const char *directory, const char *file_name,
                           const char *name) {
  FILE *file = memory_left_open_in(directory, file_name);
  if (file == NULL) return 0;
  char line[256], found[65];
  uint64_t value = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "%64s %" SCNu64, found, &value) == 2 &&
        strcmp(found, name) == 0)
      break;
    value = 0;
  }
  fclose(file);
  return value;
}

static uint64_t memory_left_minus(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

static uint64_t left_in(const char *directory, const group_files *files) {
  uint64_t limit = memory_left_read_number(directory, files->limit);
  if (limit > UINT64_MAX / 4) return UINT64_MAX; /* no limit */
  uint64_t used = memory_left_read_number(directory, files->usage);
  if (used == UINT64_MAX) return UINT64_MAX;
  for (int i = 0; i < 2; i++)
    used = memory_left_minus(
        used, read_field(directory, "memory.stat", files->cached[i]));
  return memory_left_minus(limit, used);
}

/* Finds the control group of this process, "/" for the root. */
static bool find_control_group(const char *mark, char group[GROUP_BYTES]) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return false;
  const char *at = NULL;
  while (at == NULL && fgets(group, GROUP_BYTES, file) != NULL)
    at = strstr(group, mark);
  fclose(file);
  if (at == NULL) return false;
  at += strlen(mark);
  size_t length = strcspn(at, "\n");
  memmove(group, at, length);
  group[length] = '\0';
  return group[0] == '/';
}

/* Returns the least memory left in a group of this process, or an ancestor. In
 * a container the first paths may not exist, only the mounted root. */
static uint64_t left_in_groups(const group_files *files) {
  char group[GROUP_BYTES], path[PATH_BYTES];
  uint64_t least = UINT64_MAX;
  if (!find_control_group(files->mark, group)) return least;
  for (;;) {
    (void)snprintf(path, sizeof path, "%s%s", files->mount,
                   strcmp(group, "/") == 0 ? "" : group);
    uint64_t left = left_in(path, files);
    if (left < least) least = left;
    char *slash = strrchr(group, '/');
    if (slash == NULL || group[1] == '\0') return least;
    slash[slash == group ? 1 : 0] = '\0';
  }
}

uint64_t gli_memory_left(void) {
  uint64_t least = UINT64_MAX;
  uint64_t free_kib = read_field("/proc", "meminfo", "MemAvailable:");
  if (free_kib > 0 && free_kib < UINT64_MAX / 1024) least = free_kib * 1024;
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
    uint64_t left = left_in_groups(&versions[i]);
    if (left < least) least = left;
  }
  return least;
}

#else

uint64_t gli_memory_left(void) {
  return UINT64_MAX;
}

#endif
