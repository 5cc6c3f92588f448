/* Public groups: split and subset. */
#include <limits.h>
#include <stdlib.h>

#include "api/call.h"
#include "api/group_making.h"
#include "core/error.h"
#include "core/options.h"
#include "kernels/custom_op.h"

/* ---- split and subset ---------------------------------------------------- */

static gloo_status making_options(gli_making *k,
                                  const gloo_group_options *options) {
  gloo_group_options ours;
  gloo_status status = gli_options_load(&ours, sizeof ours, options,
                                        "gloo_group_options", &k->error);
  if (status != GLOO_OK) return status;
  k->timeout_ns = ours.timeout_ns;
  k->options = (gloo_options){.struct_size = sizeof k->options,
                              .timeout_ns = ours.timeout_ns,
                              .tag = ours.tag};
  return GLOO_OK;
}

static gloo_status group_check(const char *function,
                               const gloo_context *context,
                               gloo_context *const *group, gloo_error *error) {
  if (context == NULL || group == NULL) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    function, context != NULL ? "group" : "context");
  }
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  return gli_context_usable(context, error);
}

static int group_ascending(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_ranks(const uint32_t *ranks, uint32_t n) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (uint32_t i = 0; i < n; i++) {
    for (int byte = 0; byte < 4; byte++) {
      hash = (hash ^ (ranks[i] >> 8 * byte & 0xff)) * UINT64_C(0x100000001b3);
    }
  }
  return hash;
}

/* Reads the list of a subset into k->ranks, and checks it. */
static gloo_status making_read_list(gli_making *k, const int *ranks) {
  int size = gloo_context_size(k->context);
  int rank = gloo_context_rank(k->context);
  uint32_t *sorted = k->ranks;
  bool in = false;
  for (uint32_t i = 0; i < k->n; i++) {
    if (ranks[i] < 0 || ranks[i] >= size) {
      return gli_fail(&k->error, GLOO_ERR_RANK, -1,
                      "%s: %d is not a rank; ranks are 0 to %d", k->function,
                      ranks[i], size - 1);
    }
    sorted[i] = (uint32_t)ranks[i];
    if (ranks[i] != rank) continue;
    in = true;
    k->mine.key = (int32_t)i;
  }
  k->mine.order = hash_ranks(sorted, k->n);
  qsort(sorted, k->n, sizeof *sorted, group_ascending);
  k->mine.set = hash_ranks(sorted, k->n);
  for (uint32_t i = 0; i < k->n; i++) {
    if (sorted[i] == (uint32_t)rank) k->own = i;
    if (i == 0 || sorted[i] != sorted[i - 1]) continue;
    return gli_fail(&k->error, GLOO_ERR_RANK, -1, "%s: rank %u is listed twice",
                    k->function, sorted[i]);
  }
  if (in) return GLOO_OK;
  return gli_fail(&k->error, GLOO_ERR_RANK, -1,
                  "%s: rank %d is not in its own list; only members make a "
                  "group",
                  k->function, rank);
}

/* A split or a subset, in either form. */
typedef struct group_call {
  const char *function;
  bool splits; /* by color and key; otherwise a list of `n` ranks */
  int color, key;
  const int *ranks;
  size_t n;
  bool starts; /* true for the form with `request` */
  gloo_request **request;
} group_call;

static gloo_status making_describe(gli_making *k, const group_call *call) {
  gloo_context *context = k->context;
  int size = gloo_context_size(context);
  if (call->splits) {
    k->n = (uint32_t)size;
    k->own = (uint32_t)gloo_context_rank(context);
    k->mine = (gli_group_record){.kind = GLI_GROUP_SPLIT,
                                 .n = k->n,
                                 .color = call->color,
                                 .key = call->key};
    return GLOO_OK;
  }
  size_t n = call->ranks != NULL ? call->n : 0;
  if (n == 0)
    return gli_fail(&k->error, GLOO_ERR_RANK, -1,
                    "%s: the list of ranks is empty", k->function);
  if (n > (size_t)size)
    return gli_fail(&k->error, GLOO_ERR_RANK, -1,
                    "%s: the list has %zu ranks, but the context has only %d",
                    k->function, n, size);
  k->n = (uint32_t)call->n;
  k->ranks = calloc(call->n, sizeof *k->ranks);
  if (k->ranks == NULL)
    return gli_fail(&k->error, GLOO_ERR_NO_MEMORY, -1,
                    "%s: out of memory for %zu ranks", k->function, call->n);
  k->mine = (gli_group_record){.kind = GLI_GROUP_SUBSET, .n = k->n};
  return making_read_list(k, call->ranks);
}

static gloo_status group_run(gloo_context *context, const group_call *call,
                             const gloo_group_options *options,
                             gloo_context **group, gloo_error *error) {
  gloo_status status = group_check(call->function, context, group, error);
  if (status != GLOO_OK) return status;
  if (call->starts && call->request == NULL)
    return gli_call_null_request(call->function, error);
  gli_making *k = gli_making_new(context, call->function, error);
  if (k == NULL) return GLOO_ERR_NO_MEMORY;
  status = making_options(k, options);
  if (status == GLOO_OK) status = making_describe(k, call);
  if (status == GLOO_OK)
    status = gli_making_begin(k, !call->splits || call->color >= 0);
  if (status == GLOO_OK && call->starts) {
    status = gli_making_start(k, group, call->request);
    if (status == GLOO_OK) return GLOO_OK; /* it frees itself */
    gli_making_fail(k, status);
  } else if (status == GLOO_OK) {
    status = gli_making_block(k, group);
  } else if (k->group != NULL) {
    gloo_context_destroy(k->group);
  }
  if (status != GLOO_OK && error != NULL) {
    *error = k->error;
    gli_context_localize(context, error);
  }
  gli_making_free(k);
  return status;
}

gloo_status gloo_context_split(gloo_context *context, int color, int key,
                               const gloo_group_options *options,
                               gloo_context **group, gloo_error *error) {
  const group_call call = {.function = "gloo_context_split",
                           .splits = true,
                           .color = color,
                           .key = key};
  return group_run(context, &call, options, group, error);
}

gloo_status gloo_context_split_start(gloo_context *context, int color, int key,
                                     const gloo_group_options *options,
                                     gloo_context **group,
                                     gloo_request **request,
                                     gloo_error *error) {
  const group_call call = {.function = "gloo_context_split_start",
                           .splits = true,
                           .color = color,
                           .key = key,
                           .starts = true,
                           .request = request};
  return group_run(context, &call, options, group, error);
}

gloo_status gloo_context_subset(gloo_context *context, const int *ranks,
                                size_t n, const gloo_group_options *options,
                                gloo_context **group, gloo_error *error) {
  const group_call call = {.function = "gloo_context_subset",
                           .ranks = ranks,
                           .n = ranks != NULL ? n : 0};
  return group_run(context, &call, options, group, error);
}

gloo_status gloo_context_subset_start(gloo_context *context, const int *ranks,
                                      size_t n,
                                      const gloo_group_options *options,
                                      gloo_context **group,
                                      gloo_request **request,
                                      gloo_error *error) {
  const group_call call = {.function = "gloo_context_subset_start",
                           .ranks = ranks,
                           .n = ranks != NULL ? n : 0,
                           .starts = true,
                           .request = request};
  return group_run(context, &call, options, group, error);
}

/* ---- ranks --------------------------------------------------------------- */

int gloo_context_world_rank(const gloo_context *context, int rank) {
  if (context == NULL || rank < 0 || rank >= gloo_context_size(context))
    return -1;
  return (int)gli_context_root_rank(context, (uint32_t)rank);
}

int gloo_context_translate(const gloo_context *from, int rank,
                           const gloo_context *to) {
  int world = gloo_context_world_rank(from, rank);
  if (world < 0 || to == NULL) return -1;
  uint32_t there = (uint32_t)world;
  if (!gli_context_related(from, to))
    there = gli_context_rank_since(from, there, to);
  if (there != UINT32_MAX) there = gli_context_rank_of(to, there);
  return there > INT_MAX ? -1 : (int)there;
}
