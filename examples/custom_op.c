/* A custom operation: count, mean and squared deviations of all ranks'
 * measurements, in one allreduce and without cancellation (Chan, Golub and
 * LeVeque 1979).
 * usage: gloo run -n 3 -- custom_op */
#include <gloo_c/gloo_c.h>
#include <stdio.h>

enum { MEASUREMENTS = 12 }; /* on all ranks together */

typedef struct moments {
  double n, mean, squares; /* squares: sum of squared deviations */
} moments;

/* Gives the same bits in either order, so the operation commutes. */
static moments join(const moments *a, const moments *b) {
  moments both = {.n = a->n + b->n};
  if (both.n == 0) return both;
  double apart = a->mean - b->mean;
  both.mean = (a->n * a->mean + b->n * b->mean) / both.n;
  both.squares =
      (a->squares + b->squares) + apart * apart * (a->n * b->n / both.n);
  return both;
}

static void join_all(const gloo_custom_args *args) {
  const void *left = args->left;
  const void *right = args->right;
  size_t count = args->count;
  void *result = args->result;
  const moments *a = left, *b = right;
  moments *to = result;
  for (size_t i = 0; i < count; i++) to[i] = join(&a[i], &b[i]);
}

/* Distributes the measurements to the ranks in turn; some may have none. */
static moments measure(int rank, int ranks) {
  moments own = {.n = 0};
  for (int i = rank; i < MEASUREMENTS; i += ranks) {
    moments one = {.n = 1, .mean = 1e9 + i % 4};
    own = join(&own, &one);
  }
  return own;
}

int main(void) {
  gloo_error error;
  gloo_context *context;
  if (gloo_init(NULL, &context, &error) != GLOO_OK) {
    fprintf(stderr, "custom_op: %s\n", error.message);
    return 1;
  }
  gloo_custom_op_options about = GLOO_CUSTOM_OP_OPTIONS_INIT;
  about.name = "moments";
  about.commutative = 1;
  about.element_bytes = sizeof(moments);
  gloo_options options = GLOO_OPTIONS_INIT;
  int rank = gloo_context_rank(context);
  moments all = measure(rank, gloo_context_size(context));
  gloo_status status =
      gloo_custom_op_create(join_all, &about, &options.custom, &error);
  if (status == GLOO_OK) {
    status = gloo_allreduce(context, GLOO_IN_PLACE, &all, 1, GLOO_OPAQUE,
                            GLOO_CUSTOM, &options, &error);
  }
  if (status == GLOO_OK) {
    printf("rank %d: %g values, mean 1e9 + %g, variance %g\n", rank, all.n,
           all.mean - 1e9, all.squares / all.n);
  } else {
    fprintf(stderr, "custom_op: %s\n", error.message);
  }
  gloo_custom_op_destroy(options.custom);
  gloo_context_destroy(context);
  return status != GLOO_OK;
}
