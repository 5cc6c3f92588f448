#include <gloo_c/gloo_c.h>
#include <stdio.h>

int main(void) {
  gloo_context *context;
  gloo_error error;
  if (gloo_init(NULL, &context, &error) != GLOO_OK) {
    return puts(error.message), 1;
  }
  int rank = gloo_context_rank(context), ranks = gloo_context_size(context);
  float sum = (float)rank + 1;
  if (gloo_allreduce(context, GLOO_IN_PLACE, &sum, 1, GLOO_FLOAT32, GLOO_SUM,
                     NULL, &error) != GLOO_OK) {
    return puts(error.message), 1;
  }
  printf("rank %d of %d: 1 + ... + %d = %g\n", rank, ranks, ranks, (double)sum);
  gloo_context_destroy(context);
  return 0;
}
