#if defined(__linux__)
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include "tools/run.h"

#if defined(__linux__)
#include <sched.h>

#include "core/cpu.h"

static int common_divisor(int a, int b) {
  while (b != 0) {
    int rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

bool gli_run_bind(int rank, int ranks) {
  cpu_set_t all, own;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return false;
  int cores = CPU_COUNT(&all);
  /* With a control group that allows for less time than these cores have, it is
   * not they that are short. */
  if (ranks <= cores || (unsigned)cores != gli_cpu_effective()) return false;
  int groups = common_divisor(ranks, cores);
  if (groups < 2) return false;
  int group = rank / (ranks / groups), each = cores / groups, seen = 0;
  CPU_ZERO(&own);
  for (size_t i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &all)) continue;
    if (seen++ / each == group) CPU_SET(i, &own);
  }
  return sched_setaffinity(0, sizeof own, &own) == 0;
}

#else

bool gli_run_bind(int rank, int ranks) {
  (void)rank;
  (void)ranks;
  return false;
}
#endif
