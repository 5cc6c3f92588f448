#if GLI_LINUX
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include "tools/overlap_cores.h"

#if GLI_LINUX
#include <sched.h>

#include "core/cpu.h"

static cpu_set_t halves[2];

bool gli_halves_find(void) {
  cpu_set_t all;
  /* A control group may allow less time than all of these cores have. */
  int cores = (int)gli_cpu_effective(), taken = 0;
  if (cores < 2 || sched_getaffinity(0, sizeof all, &all) != 0) return false;
  CPU_ZERO(&halves[GLI_HALF_COMPUTES]);
  CPU_ZERO(&halves[GLI_HALF_COMMUNICATES]);
  for (size_t i = 0; i < CPU_SETSIZE && taken < cores; i++) {
    if (!CPU_ISSET(i, &all)) continue;
    bool first = taken++ < (cores + 1) / 2;
    CPU_SET(i, &halves[first ? GLI_HALF_COMPUTES : GLI_HALF_COMMUNICATES]);
  }
  return taken == cores;
}

bool gli_halves_keep_to(gli_half half) {
  return sched_setaffinity(0, sizeof halves[half], &halves[half]) == 0;
}

#else

bool gli_halves_find(void) {
  return false;
}

bool gli_halves_keep_to(gli_half half) {
  (void)half;
  return false;
}
#endif
