/* A clock as cheap as the processor's counter, for records of every operation
 * that decide nothing. The length of a tick is measured by comparing two
 * readings of both clocks. */
#ifndef GLI_CORE_TICKS_H
#define GLI_CORE_TICKS_H

#include <stdint.h>

/* Where there is no counter to be read: nanoseconds. */
uint64_t gli_ticks_of_system(void);

/* Not serialised: what stands before and behind it may overlap with it. */
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

/* How many they are in so many nanoseconds, give or take a half. */
uint64_t gli_ticks_about(uint64_t ns);

/* All clocks at one moment. */
typedef struct gli_moment {
  uint64_t ticks;
  uint64_t monotonic_ns; /* the system's: the same for all of a host */
  uint64_t wall_ns;      /* since 1970 */
} gli_moment;

gli_moment gli_moment_now(void);
/* How long so many ticks are; and when, by the monotonic clock, they were so
 * many. `first` was before `now`. */
uint64_t gli_ticks_span_ns(const gli_moment *first, const gli_moment *now,
                           uint64_t ticks);
uint64_t gli_ticks_to_ns(const gli_moment *first, const gli_moment *now,
                         uint64_t ticks);

#endif
