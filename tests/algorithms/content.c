#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include "content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *copy_of(const void *from, uint64_t bytes) {
  void *copy = malloc(bytes == 0 ? 1 : (size_t)bytes);
  assert_non_null(copy);
  if (bytes > 0) memcpy(copy, from, (size_t)bytes);
  return copy;
}

static const gli_plan_params *params_of(const world *w, uint32_t rank) {
  return &w->ranks[rank].plan->params;
}

static bool in_place(const world *w, uint32_t rank) {
  const gli_plan_params *p = params_of(w, rank);
  if (!p->in_place) return false;
  switch (p->collective) {
    case GLI_BROADCAST:
    case GLI_SCATTER:
    case GLI_SCATTERV:
      return rank == p->root;
    default:
      return true;
  }
}

/* A block in bytes: the i-th of a rank's input, or of the output. */
typedef struct block {
  uint64_t at, bytes;
} block;

static block in_block(const world *w, uint32_t rank, uint32_t i) {
  const gli_plan_params *p = params_of(w, rank);
  const gli_counts *c = p->counts;
  uint64_t e = p->elem_bytes;
  if (c == NULL) return (block){i * p->count * e, p->count * e};
  return (block){c->in_first[i] * e, c->in[i] * e};
}

static block out_block(const world *w, uint32_t rank, uint32_t i) {
  const gli_plan_params *p = params_of(w, rank);
  const gli_counts *c = p->counts;
  uint64_t e = p->elem_bytes;
  if (c == NULL) return (block){i * p->count * e, p->count * e};
  return (block){c->out_first[i] * e, c->out[i] * e};
}

/* Returns the size of a buffer that is one block. */
static uint64_t own_bytes(const world *w, uint32_t rank) {
  const gli_plan_params *p = params_of(w, rank);
  return (p->counts == NULL ? p->count : p->counts->own) * p->elem_bytes;
}

static uint8_t *input_of(const world *w, uint32_t rank) {
  if (!in_place(w, rank)) return w->ranks[rank].in;
  gli_collective c = params_of(w, rank)->collective;
  bool block_of_out = c == GLI_ALLGATHER || c == GLI_ALLGATHERV ||
                      c == GLI_GATHER || c == GLI_GATHERV;
  uint64_t at = block_of_out ? out_block(w, rank, rank).at : 0;
  return w->ranks[rank].out + at;
}

inputs inputs_copy(const world *w) {
  inputs all = {.elem_bytes = params_of(w, 0)->elem_bytes};
  all.of = malloc(w->size * sizeof(*all.of));
  all.before = malloc(w->size * sizeof(*all.before));
  all.sums = calloc(w->size, sizeof(*all.sums));
  assert_true(all.of != NULL && all.before != NULL && all.sums != NULL);
  for (uint32_t i = 0; i < w->size; i++) {
    const gli_plan *plan = w->ranks[i].plan;
    all.of[i] = copy_of(input_of(w, i), plan->in_bytes);
    all.before[i] = copy_of(w->ranks[i].out, plan->out_bytes);
  }
  return all;
}

void inputs_free(inputs *all, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    free(all->of[i]);
    free(all->before[i]);
    free(all->sums[i]);
  }
  free(all->sums);
  free(all->of);
  free(all->before);
}

/* Reduces the inputs in rank order, as one reader of all inputs does. */
static void reduce_all(const world *w, const inputs *all,
                       gli_reduce_fn reduce) {
  gli_collective c = params_of(w, 0)->collective;
  bool scans = c == GLI_SCAN || c == GLI_EXSCAN;
  uint64_t bytes = w->ranks[0].plan->in_bytes;
  uint8_t *sum = copy_of(all->of[0], bytes);
  for (uint32_t i = 1; i < w->size; i++) {
    if (scans) all->sums[i - 1] = copy_of(sum, bytes);
    reduce(sum, sum, all->of[i], (size_t)(bytes / all->elem_bytes));
  }
  all->sums[w->size - 1] = sum;
}

static void put(uint8_t *out, uint64_t at, const uint8_t *from,
                uint64_t bytes) {
  if (bytes > 0) memcpy(out + at, from, (size_t)bytes);
}

/* Returns the expected output of a rank, and the number of bytes of it that are
 * defined. */
static uint8_t *wanted(const world *w, const inputs *all, uint32_t rank,
                       uint64_t *bytes) {
  const gli_plan_params *p = params_of(w, rank);
  uint64_t own = own_bytes(w, rank);
  uint8_t *out = copy_of(all->before[rank], w->ranks[rank].plan->out_bytes);
  const uint8_t *sum = all->sums[w->size - 1];
  bool root = rank == p->root;
  *bytes = w->ranks[rank].plan->out_bytes;
  switch (p->collective) {
    case GLI_BROADCAST:
      put(out, 0, all->of[p->root], own);
      break;
    case GLI_ALLREDUCE:
    case GLI_REDUCE:
      if (p->collective == GLI_ALLREDUCE || root) put(out, 0, sum, own);
      break;
    case GLI_SCAN:
      put(out, 0, all->sums[rank], own);
      break;
    case GLI_EXSCAN:
      if (rank > 0) put(out, 0, all->sums[rank - 1], own);
      break;
    case GLI_REDUCE_SCATTER:
    case GLI_REDUCE_SCATTERV:
      put(out, 0, sum + in_block(w, rank, rank).at, own);
      *bytes = own;
      break;
    case GLI_GATHER:
    case GLI_GATHERV:
    case GLI_ALLGATHER:
    case GLI_ALLGATHERV:
      if (gli_collective_rooted(p->collective) && !root) break;
      for (uint32_t k = 0; k < w->size; k++)
        put(out, out_block(w, rank, k).at, all->of[k],
            out_block(w, rank, k).bytes);
      break;
    case GLI_SCATTER:
    case GLI_SCATTERV:
      if (root && p->in_place) break;
      put(out, 0, all->of[p->root] + in_block(w, p->root, rank).at, own);
      break;
    case GLI_ALLTOALL:
    case GLI_ALLTOALLV:
      for (uint32_t k = 0; k < w->size; k++)
        put(out, out_block(w, rank, k).at, all->of[k] + in_block(w, k, rank).at,
            out_block(w, rank, k).bytes);
      break;
    default:
      break;
  }
  return out;
}

bool content_is_right(const world *w, const inputs *all, gli_reduce_fn reduce) {
  bool right = true;
  if (gli_collective_reduces(params_of(w, 0)->collective))
    reduce_all(w, all, reduce);
  for (uint32_t i = 0; i < w->size && right; i++) {
    uint64_t bytes;
    uint8_t *want = wanted(w, all, i, &bytes);
    right = memcmp(w->ranks[i].out, want, (size_t)bytes) == 0;
    free(want);
    if (right && !in_place(w, i))
      right = memcmp(w->ranks[i].in, all->of[i],
                     (size_t)w->ranks[i].plan->in_bytes) == 0;
    if (!right) printf("# rank %u has the wrong bytes\n", i);
  }
  return right;
}

bool all_outputs_equal(const world *w) {
  for (uint32_t i = 1; i < w->size; i++) {
    if (memcmp(w->ranks[0].out, w->ranks[i].out,
               (size_t)w->ranks[0].plan->out_bytes) == 0)
      continue;
    printf("# ranks 0 and %u have different bits\n", i);
    return false;
  }
  return true;
}
