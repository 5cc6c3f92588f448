#include "reduction.h"

#include <string.h>

/* Returns the length of a rank's block. In reduce_scatterv, the first block is
 * twice as long and the last is empty. */
static size_t block(const reduction *r, int size, int rank) {
  if (r->collective != GLI_REDUCE_SCATTERV || size == 1) return r->count;
  if (rank == 0) return 2 * r->count;
  return rank == size - 1 ? 0 : r->count;
}

static bool scatters(const reduction *r) {
  return r->collective == GLI_REDUCE_SCATTER ||
         r->collective == GLI_REDUCE_SCATTERV;
}

size_t reduction_elements(const reduction *r, int size) {
  return scatters(r) ? r->count * (size_t)size : r->count;
}

int reduction_result(const reduction *r, int size, int rank, size_t *first,
                     size_t *n) {
  *first = 0;
  *n = block(r, size, rank);
  for (int i = 0; i < rank && scatters(r); i++) *first += block(r, size, i);
  if (r->collective == GLI_REDUCE && rank != r->root) return 0;
  if (r->collective == GLI_SCAN) return rank + 1;
  if (r->collective == GLI_EXSCAN) return rank;
  return size;
}

/* Makes the call in one of its three forms. */
#define CALL(name, ...)                                                \
  (r->form == 0   ? name(c, in, out, __VA_ARGS__, o, NULL)             \
   : r->form == 1 ? name##_start(c, in, out, __VA_ARGS__, o, op, NULL) \
                  : name##_init(c, in, out, __VA_ARGS__, o, op, NULL))

static gloo_status call(rank_env *env, const reduction *r, const void *in,
                        void *out, gloo_request **op) {
  gloo_context *c = env->context;
  const gloo_options *o = &r->options;
  size_t counts[REDUCTION_RANKS];
  for (int i = 0; i < env->size; i++) counts[i] = block(r, env->size, i);
  switch (r->collective) {
    case GLI_ALLREDUCE:
      return CALL(gloo_allreduce, r->count, r->dtype, r->op);
    case GLI_REDUCE:
      return CALL(gloo_reduce, r->count, r->dtype, r->op, r->root);
    case GLI_REDUCE_SCATTER:
      return CALL(gloo_reduce_scatter, r->count, r->dtype, r->op);
    case GLI_REDUCE_SCATTERV:
      return CALL(gloo_reduce_scatterv, counts, r->dtype, r->op);
    case GLI_SCAN:
      return CALL(gloo_scan, r->count, r->dtype, r->op);
    default:
      return CALL(gloo_exscan, r->count, r->dtype, r->op);
  }
}

gloo_status reduction_run(rank_env *env, const reduction *r, const void *in,
                          void *out) {
  size_t bytes = reduction_elements(r, env->size) * r->element_bytes;
  gloo_request *op = NULL;
  const void *from = r->in_place ? GLOO_IN_PLACE : in;
  if (r->in_place && bytes > 0) memcpy(out, in, bytes);
  gloo_status status = call(env, r, from, out, &op);
  if (r->form == 0 || status != GLOO_OK) return status;
  for (int run = 0; run < r->form && status == GLOO_OK; run++) {
    if (run > 0 && r->in_place && bytes > 0) memcpy(out, in, bytes);
    if (r->form == 2) status = gloo_request_start(op, NULL);
    if (status == GLOO_OK)
      status = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL);
  }
  gloo_request_destroy(op);
  return status;
}
