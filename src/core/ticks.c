#include "core/ticks.h"

#include <time.h>

static uint64_t ticks_read(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t gli_ticks_of_system(void) {
  return ticks_read(CLOCK_MONOTONIC);
}

uint64_t gli_ticks_about(uint64_t ns) {
#if defined(__x86_64__) && defined(__GNUC__)
  return ns * 5 / 2;
#elif defined(__aarch64__) && defined(__GNUC__)
  uint64_t a_second;
  __asm__("mrs %0, cntfrq_el0" : "=r"(a_second));
  return (uint64_t)((double)ns * (double)a_second / 1e9);
#else
  return ns;
#endif
}

/* Uses the quickest of three readings, because one may be interrupted. */
gli_moment gli_moment_now(void) {
  gli_moment best = {0, 0, 0};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 3; i++) {
    uint64_t before = gli_ticks();
    uint64_t ns = ticks_read(CLOCK_MONOTONIC);
    uint64_t took = gli_ticks() - before;
    if (took >= least && i > 0) continue;
    least = took;
    best.ticks = before + took / 2;
    best.monotonic_ns = ns;
  }
  best.wall_ns = ticks_read(CLOCK_REALTIME);
  return best;
}

/* Returns the length of a tick in nanoseconds, or 0 if no time passed between
 * the two readings. */
static double ticks_length(const gli_moment *first, const gli_moment *now) {
  if (now->ticks <= first->ticks || now->monotonic_ns <= first->monotonic_ns)
    return 0;
  return (double)(now->monotonic_ns - first->monotonic_ns) /
         (double)(now->ticks - first->ticks);
}

uint64_t gli_ticks_span_ns(const gli_moment *first, const gli_moment *now,
                           uint64_t ticks) {
  double ns = (double)ticks * ticks_length(first, now);
  return ns < 9e18 ? (uint64_t)ns : 0;
}

uint64_t gli_ticks_to_ns(const gli_moment *first, const gli_moment *now,
                         uint64_t ticks) {
  double length = ticks_length(first, now);
  /* Counted from `now`, the nearer end, because a double has only 53 bits. */
  double ago = ((double)now->ticks - (double)ticks) * length;
  if (ticks <= now->ticks) ago = (double)(now->ticks - ticks) * length;
  if (ago >= (double)now->monotonic_ns) return 0;
  if (ago >= 0) return now->monotonic_ns - (uint64_t)ago;
  return now->monotonic_ns + (uint64_t)-ago;
}
