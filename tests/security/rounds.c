/* A program that joins its job repeatedly for a while, with new sockets and
 * connections each time, and checks the results.
 * usage: rounds MILLISECONDS */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

#include "gloo_c/gloo_c.h"

enum { RANKS_MAX = 16 };

static int fail(int rank, int round, const char *what) {
  fprintf(stderr, "rank %d fails in round %d: %s\n", rank, round, what);
  return 1;
}

static gloo_status work(gloo_context *context, int8_t *stop,
                        gloo_error *error) {
  int rank = gloo_context_rank(context), ranks = gloo_context_size(context);
  int32_t sum = rank + 1, to[RANKS_MAX], from[RANKS_MAX];
  for (int i = 0; i < ranks; i++) to[i] = 100 * rank + i;
  gloo_status status = gloo_allreduce(context, GLOO_IN_PLACE, &sum, 1,
                                      GLOO_INT32, GLOO_SUM, NULL, error);
  if (status == GLOO_OK)
    status = gloo_alltoall(context, to, from, 1, GLOO_INT32, NULL, error);
  if (status == GLOO_OK)
    status = gloo_broadcast(context, GLOO_IN_PLACE, stop, 1, GLOO_INT8, 0, NULL,
                            error);
  if (status != GLOO_OK) return status;
  bool right = sum == ranks * (ranks + 1) / 2;
  for (int i = 0; i < ranks; i++) right = right && from[i] == 100 * i + rank;
  if (!right) snprintf(error->message, sizeof error->message, "wrong results");
  return right ? GLOO_OK : GLOO_ERR_INTERNAL;
}

int main(int argc, char **argv) {
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_init_options i = GLOO_INIT_OPTIONS_INIT;
  uint64_t begun = uv_hrtime(), slowest = 0;
  int rank = -1, round = 0;
  int64_t ms = argc > 1 ? atoi(argv[1]) : 1000;
  o.timeout_ns = INT64_C(20000000000);
  o.measure = -1;
  i.context = &o;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int8_t stop = 0; stop == 0; round++) {
    gloo_error error;
    gloo_context *context;
    uint64_t before = uv_hrtime();
    stop = (int64_t)(before - begun) / 1000000 > ms;
    if (gloo_init(&i, &context, &error) != GLOO_OK)
      return fail(rank, round, error.message);
    rank = gloo_context_rank(context);
    if (gloo_context_size(context) > RANKS_MAX)
      return fail(rank, round, "too many ranks");
    gloo_status status = work(context, &stop, &error);
    if (status != GLOO_OK) return fail(rank, round, error.message);
    gloo_context_destroy(context);
    if (uv_hrtime() - before > slowest) slowest = uv_hrtime() - before;
  }
  printf("rank %d: well, in %d rounds, the slowest of %.1f ms\n", rank, round,
         (double)slowest / 1e6);
  return 0;
}
