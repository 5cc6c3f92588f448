/* CPU cores on POSIX systems, with additions for Linux. */
#if GLI_LINUX
#define _GNU_SOURCE
#endif
#include "core/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if GLI_LINUX

static unsigned cpu_affinity(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  return (unsigned)CPU_COUNT(&set);
}

void gli_cpu_mask(uint8_t mask[GLI_CPU_MASK_BYTES]) {
  cpu_set_t set;
  _Static_assert(sizeof set <= GLI_CPU_MASK_BYTES, "all of it");
  memset(mask, 0, GLI_CPU_MASK_BYTES);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    memcpy(mask, &set, sizeof set);
  }
}

bool gli_cpu_yield_is_ineffective(void) {
  if (getsid(0) != getpid()) return false;
  FILE *file = fopen("/proc/sys/kernel/sched_autogroup_enabled", "re");
  if (file == NULL) return false;
  bool enabled = fgetc(file) == '1';
  fclose(file);
  return enabled;
}

#else

bool gli_cpu_yield_is_ineffective(void) {
  return false;
}

static unsigned cpu_affinity(void) {
  return 0;
}

void gli_cpu_mask(uint8_t mask[GLI_CPU_MASK_BYTES]) {
  memset(mask, 0, GLI_CPU_MASK_BYTES);
}
#endif

unsigned gli_cpu_effective(void) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned cores = online > 0 ? (unsigned)online : 1;
  unsigned limits[] = {cpu_affinity(), gli_cpu_quota("")};
  for (int i = 0; i < 2; i++) {
    if (limits[i] > 0 && limits[i] < cores) cores = limits[i];
  }
  return cores;
}

void gli_cpu_yield(void) {
  sched_yield();
}

void gli_cpu_nap(void) {
  struct timespec moment = {.tv_nsec = 1};
  (void)nanosleep(&moment, NULL);
}
