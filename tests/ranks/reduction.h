/* Any reduction by its parts, for tests that go through all of them. */
#ifndef TESTS_RANKS_REDUCTION_H
#define TESTS_RANKS_REDUCTION_H

#include <stdbool.h>

#include "algorithms/registry.h"
#include "ranks.h"

enum { REDUCTION_FORMS = 3, REDUCTION_RANKS = 8 };

typedef struct reduction {
  gli_collective collective;
  size_t count; /* elements of each rank's block, or all where it is one */
  size_t element_bytes;
  gloo_dtype dtype;
  gloo_op op;
  int root, form; /* 0 blocking, 1 start, 2 persistent (run twice) */
  bool in_place;
  gloo_options options;
} reduction;

/* Elements of a rank's input. */
size_t reduction_elements(const reduction *r, int size);

/* What a rank gets: elements from `first` on, `n` of them, of the inputs of so
 * many ranks, from 0 on, combined. 0: nothing. */
int reduction_result(const reduction *r, int size, int rank, size_t *first,
                     size_t *n);

/* Run it. `out` has room for as many elements as the input has. In place, the
 * input is copied there before each run. */
gloo_status reduction_run(rank_env *env, const reduction *r, const void *in,
                          void *out);

#endif
