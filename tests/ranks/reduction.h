/* A reduction described by its parts, for tests that iterate over all of
 * them. */
#ifndef TESTS_RANKS_REDUCTION_H
#define TESTS_RANKS_REDUCTION_H

#include <stdbool.h>

#include "algorithms/registry.h"
#include "ranks.h"

enum { REDUCTION_FORMS = 3, REDUCTION_RANKS = 8 };

typedef struct reduction {
  gli_collective collective;
  size_t count; /* elements of each rank's block, or of the whole vector */
  size_t element_bytes;
  gloo_dtype dtype;
  gloo_op op;
  int root, form; /* form: 0 blocking, 1 start, 2 persistent (run twice) */
  bool in_place;
  gloo_options options;
} reduction;

/* Returns the elements of a rank's input. */
size_t reduction_elements(const reduction *r, int size);

/* Returns the number of ranks, from 0 on, whose inputs a rank's result
 * combines, or 0 if the rank has no result. The result covers `n` elements of
 * the inputs, from `first` on. */
int reduction_result(const reduction *r, int size, int rank, size_t *first,
                     size_t *n);

/* Runs the reduction. `out` must have room for the elements of the input. In
 * place, the input is copied there before each run. */
gloo_status reduction_run(rank_env *env, const reduction *r, const void *in,
                          void *out);

#endif
