/* What the parts of the selector share; see select.c for the model. */
#ifndef GLI_ALGORITHMS_SELECT_H
#define GLI_ALGORITHMS_SELECT_H

#include "algorithms/registry.h"

#define GLI_SELECT_LATENCY ((uint64_t)16 << 10)
#define GLI_SELECT_REDUCE_SPEED 4 /* reducing is faster than links by this */
#define GLI_SELECT_LONGEST                           \
  ((uint64_t)1 << 48) /* beyond it no choice changes \
                       */

#define GLI_SELECT_SEGMENT ((uint64_t)512 << 10)

typedef struct gli_candidate {
  const char *name;
  uint64_t cost;
} gli_candidate;

static inline uint64_t gli_select_cost(uint64_t rounds, uint64_t sent,
                                       uint64_t reduced) {
  return rounds * GLI_SELECT_LATENCY + sent + reduced / GLI_SELECT_REDUCE_SPEED;
}

static inline uint64_t gli_select_logarithm(uint64_t size) {
  uint64_t log = 0;
  while (((uint64_t)1 << log) < size) log++;
  return log;
}

/* Does it keep the order that they ask for? */
static inline bool gli_select_suits(const gli_plan_params *params,
                                    const char *name) {
  if (params->order == GLI_ORDER_ANY) return true;
  const gli_algorithm *a = gli_algorithm_find(params->collective, name);
  return a != NULL && gli_algorithm_order(a) >= params->order;
}

/* What those that do not suit cost: more than all others, and so that a little
 * more is no overflow. */
#define GLI_SELECT_NEVER (UINT64_MAX / 2)

/* The first of the cheapest. */
const gli_algorithm *gli_select_cheapest(gli_collective collective,
                                         const gli_candidate *list, size_t n);

/* The choice among ranks of one host that can share memory, for a vector of m
 * bytes; NULL where it is left to the others. */
const gli_algorithm *gli_algorithm_select_near(const gli_plan_params *params,
                                               uint64_t m);

/* The choice for the collectives that move blocks between pairs of ranks, and
 * for those with one root that collect or spread them. */
const gli_algorithm *gli_algorithm_select_blocks(const gli_plan_params *params);

#endif
