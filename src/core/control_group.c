/* Limits of the control groups of this process (Linux, versions 1 and 2): CPU
 * time and memory. */
#include "core/cpu.h"
#include "core/memory_left.h"

#if GLI_LINUX

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 512 };

static FILE *group_open_in(const char *directory, const char *name) {
  char path[PATH_BYTES];
  int bytes = snprintf(path, sizeof path, "%s/%s", directory, name);
  return bytes < PATH_BYTES ? fopen(path, "re") : NULL;
}

/* Reads up to `n` numbers from the start of a file. Returns their count. */
static int group_read_numbers(const char *directory, const char *name,
                              int64_t *numbers, int n) {
  FILE *file = group_open_in(directory, name);
  if (file == NULL) return 0;
  int found = 0;
  while (found < n && fscanf(file, "%" SCNd64, &numbers[found]) == 1) found++;
  fclose(file);
  return found;
}

/* Returns the number after `name` in a file of names and numbers, or 0. */
static uint64_t group_read_field(const char *directory, const char *file_name,
                                 const char *name) {
  FILE *file = group_open_in(directory, file_name);
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

/* Reads the files of one group; `unified` is true for version 2. */
typedef void (*group_look)(const char *directory, bool unified, void *to);

/* Looks at a group and its ancestors, up to the root of the hierarchy. In a
 * container the first paths may not exist; the container's limit is then that
 * of the mounted root. */
static void group_look_up(const char *root, const char *mount,
                          const char *group, bool unified, group_look look,
                          void *to) {
  char path[PATH_BYTES];
  for (size_t length = strlen(group);;) {
    int bytes = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%.*s", root,
                         mount, (int)length, group);
    if (bytes < PATH_BYTES) look(path, unified, to);
    if (length == 0) return;
    do length--;
    while (length > 0 && group[length] != '/');
  }
}

/* Returns true if a list such as "cpu,cpuacct" contains `name`. */
static bool group_lists(const char *controllers, const char *name) {
  for (const char *at = controllers; *at != 0;) {
    size_t length = strcspn(at, ",");
    if (length == strlen(name) && strncmp(at, name, length) == 0) return true;
    at += length;
    if (*at == ',') at++;
  }
  return false;
}

/* Looks at the groups of "HIERARCHY:CONTROLLERS:GROUP", a line of the file. */
static void group_look_at_line(const char *root, char *line, const char *name,
                               group_look look, void *to) {
  char *controllers = strchr(line, ':');
  char *group = controllers != NULL ? strchr(++controllers, ':') : NULL;
  if (group == NULL) return;
  *group++ = 0;
  group[strcspn(group, "\n")] = 0;
  if (group[0] != '/') return;
  if (strcmp(group, "/") == 0) group[0] = 0;
  if (controllers[0] == 0) group_look_up(root, "", group, true, look, to);
  if (!group_lists(controllers, name)) return;
  /* The hierarchy may be mounted under all its controllers' names, or one. */
  char mount[LINE_BYTES + 1];
  snprintf(mount, sizeof mount, "/%s", controllers);
  group_look_up(root, mount, group, false, look, to);
  if (strcmp(controllers, name) == 0) return;
  snprintf(mount, sizeof mount, "/%s", name);
  group_look_up(root, mount, group, false, look, to);
}

/* Looks at all groups of this process that a controller may limit. */
static void group_look_at_all(const char *root, const char *name,
                              group_look look, void *to) {
  char line[LINE_BYTES], path[PATH_BYTES];
  if (snprintf(path, sizeof path, "%s/proc/self", root) >= PATH_BYTES) return;
  FILE *file = group_open_in(path, "cgroup");
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL)
    group_look_at_line(root, line, name, look, to);
  fclose(file);
}

/* ---- CPU time ------------------------------------------------------------ */

/* Reads "QUOTA PERIOD" or "max PERIOD"; in version 1, two files, with a quota
 * of -1 for no limit. The limit is their quotient, rounded up. */
static void group_look_at_cpu(const char *directory, bool unified, void *to) {
  unsigned *least = to;
  int64_t n[2]; /* quota, period */
  if (unified ? group_read_numbers(directory, "cpu.max", n, 2) != 2
              : group_read_numbers(directory, "cpu.cfs_quota_us", n, 1) +
                        group_read_numbers(directory, "cpu.cfs_period_us",
                                           n + 1, 1) !=
                    2)
    return;
  if (n[0] <= 0 || n[1] <= 0) return;
  int64_t cores = n[0] / n[1] + (n[0] % n[1] > 0);
  if (cores < INT_MAX && (*least == 0 || cores < *least))
    *least = (unsigned)cores;
}

unsigned gli_cpu_quota(const char *root) {
  unsigned least = 0;
  group_look_at_all(root, "cpu", group_look_at_cpu, &least);
  return least;
}

/* ---- memory -------------------------------------------------------------- */

static uint64_t group_minus(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

/* Returns a group's limit; UINT64_MAX if it has none. */
static uint64_t group_memory_limit(const char *directory, bool unified) {
  int64_t limit;
  const char *file = unified ? "memory.max" : "memory.limit_in_bytes";
  return group_read_numbers(directory, file, &limit, 1) == 1 && limit >= 0 &&
                 limit < INT64_MAX / 2
             ? (uint64_t)limit
             : UINT64_MAX;
}

static void group_look_at_memory(const char *directory, bool unified,
                                 void *to) {
  static const char *const cached[] = {"total_inactive_file",
                                       "total_active_file", "inactive_file",
                                       "active_file"};
  uint64_t *least = to, limit = group_memory_limit(directory, unified);
  const char *file = unified ? "memory.current" : "memory.usage_in_bytes";
  int64_t used;
  if (limit == UINT64_MAX ||
      group_read_numbers(directory, file, &used, 1) != 1 || used < 0)
    return;
  uint64_t left = (uint64_t)used;
  for (int i = 0; i < 2; i++)
    left = group_minus(left, group_read_field(directory, "memory.stat",
                                              cached[i + (unified ? 2 : 0)]));
  left = group_minus(limit, left);
  if (left < *least) *least = left;
}

uint64_t gli_memory_left(void) {
  uint64_t least = UINT64_MAX;
  uint64_t free_kib = group_read_field("/proc", "meminfo", "MemAvailable:");
  if (free_kib > 0 && free_kib < UINT64_MAX / 1024) least = free_kib * 1024;
  group_look_at_all("", "memory", group_look_at_memory, &least);
  return least;
}

/* The first group that exists is that of this process. */
static void group_look_at_kills(const char *directory, bool unified, void *to) {
  gli_memory_kills *found = to;
  const char *name = unified ? "memory.events" : "memory.oom_control";
  FILE *file = found->known ? NULL : group_open_in(directory, name);
  if (file != NULL) {
    fclose(file);
    found->known = true;
    found->kills = group_read_field(directory, name, "oom_kill");
  }
  uint64_t limit = group_memory_limit(directory, unified);
  if (limit >= found->limit) return;
  found->limit = limit;
  snprintf(found->group, sizeof found->group, "%.*s",
           (int)sizeof found->group - 1, directory);
}

gli_memory_kills gli_memory_kills_read(const char *root) {
  gli_memory_kills found = {.limit = UINT64_MAX};
  group_look_at_all(root, "memory", group_look_at_kills, &found);
  return found;
}

#else

unsigned gli_cpu_quota(const char *root) {
  (void)root;
  return 0;
}

uint64_t gli_memory_left(void) {
  return UINT64_MAX;
}

gli_memory_kills gli_memory_kills_read(const char *root) {
  (void)root;
  return (gli_memory_kills){.limit = UINT64_MAX};
}

#endif
