/* Clock as cheap as the processor's cycle counter, for records of every
 * operation; no decision depends on it. The length of a tick is measured by
 * comparing two readings of both clocks. */
#ifndef GLI_CORE_TICKS_H
#define GLI_CORE_TICKS_H

#include <stdint.h>

/* Returns nanoseconds, for processors without a readable counter. */
uint64_t gli_ticks_of_system(void);

/* Reads the counter, without serialising: adjacent instructions may overlap. */
static inline uint64_t gli_ticks(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__) && defined(__GNUC__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return gli_ticks_of_system();
#endif
}

/* Converts nanoseconds to ticks, with an error of up to a half. */
uint64_t gli_ticks_about(uint64_t ns);

/* Reading of all clocks at one moment. */
typedef struct gli_moment {
  uint64_t ticks;
  uint64_t monotonic_ns; /* CLOCK_MONOTONIC: same for all of a host */
  uint64_t wall_ns;      /* since 1970 */
} gli_moment;

gli_moment gli_moment_now(void);
/* Convert ticks to a length in nanoseconds, and to a time of the monotonic
 * clock. `first` and `now` are two readings, `first` the earlier one. */
uint64_t gli_ticks_span_ns(const gli_moment *first, const gli_moment *now,
                           uint64_t ticks);
uint64_t gli_ticks_to_ns(const gli_moment *first, const gli_moment *now,
                         uint64_t ticks);

#endif
