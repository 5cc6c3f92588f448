/* `gloo bench limits`: what this machine itself can do, without the library,
 * in the form of the other results, so that those can be read as ratios. */
#ifndef GLI_TOOLS_LIMITS_H
#define GLI_TOOLS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

int gli_bench_limits(int argc, char **argv);

/* How much to measure: repetitions go on until both are reached, or until
 * GLI_LIMIT_MAX_SAMPLES. The figure is the median of the repetitions. */
typedef struct gli_limit_effort {
  double seconds;
  size_t min_samples;
} gli_limit_effort;

#define GLI_LIMIT_MAX_SAMPLES ((size_t)20000)

typedef struct gli_samples {
  double *values;
  size_t count;
  uint64_t ends_ns;
  size_t min_samples;
} gli_samples;

bool gli_samples_begin(gli_samples *samples, const gli_limit_effort *effort);
/* True while more are wanted. */
bool gli_samples_wanted(const gli_samples *samples);
void gli_samples_add(gli_samples *samples, double value);
/* The median; releases them. */
double gli_samples_end(gli_samples *samples);

/* One measurement each. Values are GB/s (10^9 bytes) or microseconds. False,
 * with `error` filled in, when it could not be made. */
typedef bool (*gli_limit_fn)(uint64_t bytes, const gli_limit_effort *effort,
                             double *value, gloo_error *error);

/* Copying, the same to where it may take ten times as long, adding in place (a
 * += b, float32), and summing two vectors into two others, each of two threads
 * its half: the least that a 2-rank allreduce in shared memory has to do. GB/s
 * of one vector. */
bool gli_limit_memcpy(uint64_t bytes, const gli_limit_effort *effort,
                      double *value, gloo_error *error);
bool gli_limit_memcpy_behind(uint64_t bytes, const gli_limit_effort *effort,
                             double *value, gloo_error *error);
bool gli_limit_add(uint64_t bytes, const gli_limit_effort *effort,
                   double *value, gloo_error *error);
bool gli_limit_fused_add(uint64_t bytes, const gli_limit_effort *effort,
                         double *value, gloo_error *error);

/* The same in microseconds: the floor of an allreduce of two ranks. */
bool gli_limit_fused_allreduce(uint64_t bytes, const gli_limit_effort *effort,
                               double *value, gloo_error *error);

/* Two processes, a TCP connection over loopback, both spinning. Round trips,
 * and exchanges of memory that was written before and is read after them, in
 * microseconds; one way in GB/s. */
bool gli_limit_tcp_pingpong(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error);
bool gli_limit_tcp_exchange(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error);
bool gli_limit_tcp_stream(uint64_t bytes, const gli_limit_effort *effort,
                          double *value, gloo_error *error);

/* Two threads and one cache line: microseconds until the other sees it. */
bool gli_limit_flag(uint64_t bytes, const gli_limit_effort *effort,
                    double *value, gloo_error *error);

/* dst0[i] = dst1[i] = a[i] + b[i] with stores that bypass the caches, where the
 * processor has them; false, with nothing done, where it does not. All
 * addresses are multiples of 16 bytes, count is one of 4. */
bool gli_sum_bypassing(float *dst0, float *dst1, const float *a, const float *b,
                       size_t count);

/* Called in a loop that waits for another thread or process, with the number
 * of calls in a row: spins while that one surely runs, on a core of its own,
 * and gives way when there is only one core or it takes suspiciously long. */
void gli_spin(unsigned tries);

#endif
