/* `gloo bench limits`: measures the speed of this machine without the library,
 * in the format of the other results, so that results can be read as ratios. */
#ifndef GLI_TOOLS_LIMITS_H
#define GLI_TOOLS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

int gli_bench_limits(int argc, char **argv);

/* The effort: repetitions continue until both minima are reached, or
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
/* Returns true while more samples are wanted. */
bool gli_samples_wanted(const gli_samples *samples);
void gli_samples_add(gli_samples *samples, double value);
/* Returns the median, and releases the samples. */
double gli_samples_end(gli_samples *samples);

/* One measurement. Values are GB/s (10^9 bytes) or microseconds. Returns false,
 * with `error` set, if it failed. */
typedef bool (*gli_limit_fn)(uint64_t bytes, const gli_limit_effort *effort,
                             double *value, gloo_error *error);

/* Copying; copying at an offset where it may take ten times as long; adding in
 * place (a += b, float32); and summing two vectors into two others with two
 * threads, each for one half: the minimum work of a 2-rank allreduce in shared
 * memory. GB/s of one vector. */
bool gli_limit_memcpy(uint64_t bytes, const gli_limit_effort *effort,
                      double *value, gloo_error *error);
bool gli_limit_memcpy_behind(uint64_t bytes, const gli_limit_effort *effort,
                             double *value, gloo_error *error);
bool gli_limit_add(uint64_t bytes, const gli_limit_effort *effort,
                   double *value, gloo_error *error);
bool gli_limit_fused_add(uint64_t bytes, const gli_limit_effort *effort,
                         double *value, gloo_error *error);

/* Fused addition in microseconds: the lower bound for an allreduce of two
 * ranks. */
bool gli_limit_fused_allreduce(uint64_t bytes, const gli_limit_effort *effort,
                               double *value, gloo_error *error);

/* Two processes with shared memory. Round trips through a ring, of memory that
 * each has for itself, in microseconds. Copies out of the other process's
 * memory, in GB/s; GLOO_ERR_UNSUPPORTED where there are none, or none that the
 * system permits. */
bool gli_limit_shm_pingpong(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error);
bool gli_limit_read_process(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error);

/* Two processes with a TCP connection over loopback, both spinning. Round
 * trips, and exchanges of memory that is written before and read afterwards, in
 * microseconds; one way in GB/s. */
bool gli_limit_tcp_pingpong(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error);
bool gli_limit_tcp_exchange(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error);
bool gli_limit_tcp_stream(uint64_t bytes, const gli_limit_effort *effort,
                          double *value, gloo_error *error);

/* Two threads and one cache line: microseconds until the other thread sees a
 * change. */
bool gli_limit_flag(uint64_t bytes, const gli_limit_effort *effort,
                    double *value, gloo_error *error);

/* dst0[i] = dst1[i] = a[i] + b[i] with non-temporal stores. Returns false, and
 * does nothing, if the processor has none. All addresses must be multiples of
 * 16, count a multiple of 4. */
bool gli_sum_bypassing(float *dst0, float *dst1, const float *a, const float *b,
                       size_t count);

/* Waits in a loop for another thread or process; `tries` is the number of calls
 * in a row. Spins while the other surely runs on its own core, and yields if
 * there is only one core or the wait is unusually long. */
void gli_spin(unsigned tries);

#endif
