/* Shared parts of the algorithms in groups of several ranks: a number of ranks
 * as a product, and a rank as a number with a digit for each factor. */
#ifndef GLI_ALGORITHMS_RADIX_H
#define GLI_ALGORITHMS_RADIX_H

#include "plan/builder.h"

/* In stage i, ranks whose numbers differ in digit i only are a group;
 * neighbours differ in the first digit. */
typedef struct gli_radices {
  uint32_t n;
  uint32_t of[32];
  uint32_t product;
} gli_radices;

static inline void gli_radices_add(gli_radices *r, uint32_t radix) {
  r->of[r->n++] = radix;
  r->product *= radix;
}

/* Divide `left` by `most` and smaller numbers as often as they go into it; what
 * is left has prime factors above `most` only. */
static inline gli_radices gli_radices_up_to(uint32_t most, uint32_t *left) {
  gli_radices r = {.product = 1};
  for (uint32_t radix = most; radix > 1; radix--) {
    for (; *left % radix == 0; *left /= radix) gli_radices_add(&r, radix);
  }
  return r;
}

/* How many messages a rank sends to its groups. */
static inline uint64_t gli_radices_others(const gli_radices *r) {
  uint64_t others = 0;
  for (uint32_t i = 0; i < r->n; i++) others += r->of[i] - 1;
  return others;
}

#endif
