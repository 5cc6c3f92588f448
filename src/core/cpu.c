/* Cores on POSIX systems, with what Linux adds. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "core/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)

static unsigned affinity(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  return (unsigned)CPU_COUNT(&set);
}

/* cgroup v2 says "max 100000" or "QUOTA PERIOD" (microseconds). */
static unsigned read_quota(const char *path) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  long quota = 0, period = 0;
  int fields = fscanf(file, "%ld %ld", &quota, &period);
  fclose(file);
  if (fields != 2 || quota <= 0 || period <= 0) return 0;
  return (unsigned)((quota + period - 1) / period);
}

/* The tightest limit on the way from our control group to the root. */
static unsigned quota(void) {
  char line[512], path[640];
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return 0;
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    found = strncmp(line, "0::", 3) == 0;
  }
  fclose(file);
  if (!found) return 0;
  char *group = line + 3;
  group[strcspn(group, "\n")] = '\0';
  unsigned least = 0;
  for (;;) {
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max",
             strcmp(group, "/") == 0 ? "" : group);
    unsigned cores = read_quota(path);
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
    char *slash = strrchr(group, '/');
    if (!slash || slash == group) return least;
    *slash = '\0';
  }
}

#else

static unsigned affinity(void) {
  return 0;
}
static unsigned quota(void) {
  return 0;
}

#endif

unsigned gli_cpu_effective(void) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned cores = online > 0 ? (unsigned)online : 1;
  unsigned limits[] = {affinity(), quota()};
  for (int i = 0; i < 2; i++) {
    if (limits[i] > 0 && limits[i] < cores) cores = limits[i];
  }
  return cores;
}

void gli_cpu_yield(void) {
  sched_yield();
}
