#if GLI_LINUX
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include "tools/run.h"

static int common_divisor(int a, int b) {
  while (b != 0) {
    int rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

gli_run_share gli_run_share_of(int rank, int ranks, int cores) {
  int shares = ranks > cores ? common_divisor(ranks, cores) : 1;
  int each = cores / shares;
  return (gli_run_share){rank / (ranks / shares) * each, each};
}

#if GLI_LINUX
#include <sched.h>

#include "core/cpu.h"

/* Gets the cores that this process may run on, and returns their number; 0: not
 * known, or a control group limits the time, in which case cores are not the
 * scarce resource. */
static int cores_to_share(cpu_set_t *all) {
  if (sched_getaffinity(0, sizeof *all, all) != 0) return 0;
  int cores = CPU_COUNT(all);
  return (unsigned)cores == gli_cpu_effective() ? cores : 0;
}

bool gli_run_pins(int ranks) {
  cpu_set_t all;
  int cores = cores_to_share(&all);
  return ranks > cores && cores > 0 &&
         gli_run_share_of(0, ranks, cores).cores == 1;
}

bool gli_run_bind(int rank, int ranks) {
  cpu_set_t all, own;
  int cores = cores_to_share(&all), seen = 0;
  if (cores == 0) return false;
  gli_run_share share = gli_run_share_of(rank, ranks, cores);
  if (share.cores == cores) return false;
  CPU_ZERO(&own);
  for (size_t i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &all)) continue;
    if (seen >= share.first && seen < share.first + share.cores)
      CPU_SET(i, &own);
    seen++;
  }
  return sched_setaffinity(0, sizeof own, &own) == 0;
}

#else

bool gli_run_pins(int ranks) {
  (void)ranks;
  return false;
}

bool gli_run_bind(int rank, int ranks) {
  (void)rank;
  (void)ranks;
  return false;
}
#endif
