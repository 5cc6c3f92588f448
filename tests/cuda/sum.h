/* An allreduce of buffers in GPU memory, as the tests of one rank use it. */
#ifndef TESTS_CUDA_SUM_H
#define TESTS_CUDA_SUM_H

#include "cuda/gpu.h"
#include "ranks/ranks.h"

enum { SUM_COUNT = 300000 };

typedef struct sum {
  float *host;
  void *in, *out; /* in device memory */
  int device;
  gpu_stream stream;
} sum;

void sum_open(sum *s, int rank);
void sum_close(sum *s);
/* Runs the allreduce in the order of the stream; `start` begins it. */
gloo_status sum_run(rank_env *env, sum *s, gloo_error *error);
gloo_request *sum_start(rank_env *env, const sum *s, unsigned tag,
                        int64_t timeout_ns);
/* Fetches the result in the order of the stream, and checks it. */
bool sum_is_right(sum *s, int size);

#endif
