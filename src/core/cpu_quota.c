#include "core/cpu.h"

#if GLI_LINUX

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 512 };

static FILE *cpu_quota_open_in(const char *directory, const char *name) {
  char path[PATH_BYTES];
  int bytes = snprintf(path, sizeof path, "%s/%s", directory, name);
  return bytes < PATH_BYTES ? fopen(path, "re") : NULL;
}

/* Reads up to `n` numbers from the start of a file. Returns their count. */
static int read_numbers(const char *directory, const char *name, long *numbers,
                        int n) {
  FILE *file = cpu_quota_open_in(directory, name);
  if (file == NULL) return 0;
  int found = 0;
  while (found < n && fscanf(file, "%ld", &numbers[found]) == 1) found++;
  fclose(file);
  return found;
}

/* Returns quota / period, rounded up; 0 if unlimited. */
static unsigned cores_of(long quota, long period) {
  if (quota <= 0 || period <= 0) return 0;
  long cores = quota / period + (quota % period > 0);
  return cores < INT_MAX ? (unsigned)cores : 0;
}

/* Returns the limit of a version 2 group: "QUOTA PERIOD" or "max PERIOD". */
static unsigned cores_2(const char *directory) {
  long numbers[2];
  if (read_numbers(directory, "cpu.max", numbers, 2) != 2) return 0;
  return cores_of(numbers[0], numbers[1]);
}

/* Returns the limit of a version 1 group. A quota of -1 means no limit. */
static unsigned cores_1(const char *directory) {
  long quota, period;
  if (read_numbers(directory, "cpu.cfs_quota_us", &quota, 1) != 1) return 0;
  if (read_numbers(directory, "cpu.cfs_period_us", &period, 1) != 1) return 0;
  return cores_of(quota, period);
}

static unsigned cpu_quota_tighter(unsigned a, unsigned b) {
  if (a == 0 || b == 0) return a + b;
  return a < b ? a : b;
}

/* Returns the tightest limit from a group up to the root of its hierarchy. In a
 * container the first paths may not exist; the container's limit is then that
 * of the mounted root. */
static unsigned cores_up_from(const char *root, const char *mount,
                              const char *group,
                              unsigned (*cores_in)(const char *directory)) {
  char path[PATH_BYTES];
  unsigned least = 0;
  for (size_t length = strlen(group);;) {
    int bytes = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%.*s", root,
                         mount, (int)length, group);
    if (bytes < PATH_BYTES) least = cpu_quota_tighter(least, cores_in(path));
    if (length == 0) return least;
    do length--;
    while (length > 0 && group[length] != '/');
  }
}

/* Returns true if a list such as "cpu,cpuacct" contains "cpu". */
static bool lists_cpu(const char *controllers) {
  for (const char *at = controllers; *at != 0;) {
    size_t length = strcspn(at, ",");
    if (length == 3 && strncmp(at, "cpu", 3) == 0) return true;
    at += length;
    if (*at == ',') at++;
  }
  return false;
}

/* Returns the limit for "HIERARCHY:CONTROLLERS:GROUP", a line of the file. */
static unsigned cores_of_line(const char *root, char *line) {
  char *controllers = strchr(line, ':');
  if (controllers == NULL) return 0;
  char *group = strchr(++controllers, ':');
  if (group == NULL) return 0;
  *group++ = 0;
  group[strcspn(group, "\n")] = 0;
  if (group[0] != '/') return 0;
  if (strcmp(group, "/") == 0) group[0] = 0;
  if (controllers[0] == 0) return cores_up_from(root, "", group, cores_2);
  if (!lists_cpu(controllers)) return 0;
  /* The hierarchy may be mounted under all its controllers' names, or one. */
  char mount[LINE_BYTES + 1];
  snprintf(mount, sizeof mount, "/%s", controllers);
  return cpu_quota_tighter(cores_up_from(root, mount, group, cores_1),
                           cores_up_from(root, "/cpu", group, cores_1));
}

unsigned gli_cpu_quota(const char *root) {
  char line[LINE_BYTES], path[PATH_BYTES];
  unsigned least = 0;
  if (snprintf(path, sizeof path, "%s/proc/self", root) >= PATH_BYTES) return 0;
  FILE *file = cpu_quota_open_in(path, "cgroup");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    least = cpu_quota_tighter(least, cores_of_line(root, line));
  }
  fclose(file);
  return least;
}

#else

unsigned gli_cpu_quota(const char *root) {
  (void)root;
  return 0;
}

#endif
