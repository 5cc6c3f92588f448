/* Checks every algorithm for a range of sizes. */
#ifndef GLI_TOOLS_PLAN_SWEEP_H
#define GLI_TOOLS_PLAN_SWEEP_H

#include "algorithms/registry.h"

/* Up to this number of ranks, every root is checked with every count. */
#define GLI_SWEEP_ALL_PAIRS 24
/* Up to this number of ranks, every root is checked with one of the counts;
 * beyond it, four roots with a count that the number of ranks divides, and one
 * with a remainder. */
#define GLI_SWEEP_ALL_RANKS 128

typedef struct gli_sweep_result {
  const gli_algorithm *algorithm;
  uint64_t plans, steps, failures;
  gli_order order;  /* the weakest found; GLI_ORDER_FOLD without reductions */
  gloo_error first; /* the failure with the fewest ranks */
} gli_sweep_result;

/* Checks the `n` algorithms for `from` to `to` ranks: roots with counts 0, 1,
 * P-1, P, P+1, 64 P and 64 P + 13, in place and not; once cut into segments;
 * for reductions the order that the algorithm is marked with, and, for
 * low-precision elements, that algorithms in rank order round once; and the
 * promised rounds and bytes. results[i] is about algorithms[i]. Uses `threads`
 * threads. */
gloo_status gli_sweep(const gli_algorithm *algorithms, size_t n, uint32_t from,
                      uint32_t to, unsigned threads, gli_sweep_result *results,
                      gloo_error *error);

#endif
