/* A rank that calls allreduce until it is stopped, or a number of times.
 * usage: loop [CALLS] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "gloo_c/gloo_c.h"

enum { PAUSE_MS = 5 };

static int fail(int rank, const char *why) {
  fprintf(stderr, "rank %d: %s\n", rank, why);
  return 1;
}

int main(int argc, char **argv) {
  gloo_context *context;
  gloo_error error;
  long calls = argc > 1 ? atol(argv[1]) : 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (gloo_init(NULL, &context, &error) != GLOO_OK)
    return fail(-1, error.message);
  int rank = gloo_context_rank(context), ranks = gloo_context_size(context);
  for (long call = 0; calls == 0 || call < calls; call++) {
    int64_t sum = rank + 1;
    if (gloo_allreduce(context, GLOO_IN_PLACE, &sum, 1, GLOO_INT64, GLOO_SUM,
                       NULL, &error) != GLOO_OK)
      return fail(rank, error.message);
    if (sum != (int64_t)ranks * (ranks + 1) / 2)
      return fail(rank, "the sum is wrong");
    if (call == 0) printf("rank %d runs\n", rank);
    uv_sleep(PAUSE_MS); /* leaves the cores to the other ranks */
  }
  gloo_context_destroy(context);
  return 0;
}
