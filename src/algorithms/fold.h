/* Numbers of ranks that do not suit an algorithm: some ranks let a neighbour
 * take part for them, so that the participants are as many as it wants. */
#ifndef GLI_ALGORITHMS_FOLD_H
#define GLI_ALGORITHMS_FOLD_H

#include "plan/builder.h"

/* The largest power of two up to `size`. */
static inline uint32_t gli_power_below(uint32_t size) {
  uint32_t power = 1;
  while (power <= size / 2) power *= 2;
  return power;
}

/* The first 2 `pairs` ranks are folded: the odd one of two takes part for both.
 * This is the rank of participant v, and the first one that it takes part for.
 */
static inline uint32_t gli_fold_rank(uint32_t v, uint32_t pairs) {
  return v < pairs ? 2 * v + 1 : v + pairs;
}
static inline uint32_t gli_fold_first(uint32_t v, uint32_t pairs) {
  return v < pairs ? 2 * v : v + pairs;
}

/* Returns the participant number of a rank that takes part. */
static inline uint32_t gli_fold_number(uint32_t rank, uint32_t pairs) {
  return rank < 2 * pairs ? rank / 2 : rank - pairs;
}

#endif
