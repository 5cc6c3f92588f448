/* Factors and folds numbers of ranks to suit an algorithm. */
#ifndef GLI_ALGORITHMS_RADIX_H
#define GLI_ALGORITHMS_RADIX_H

#include "plan/builder.h"

/* ---- folded ranks -------------------------------------------------------- */

/* Some ranks let a neighbour take part for them, so that the number of
 * participants suits the algorithm. */

/* Returns the largest power of two up to `size`. */
static inline uint32_t gli_power_below(uint32_t size) {
  uint32_t power = 1;
  while (power <= size / 2) power *= 2;
  return power;
}

/* Returns its exponent. */
static inline uint32_t gli_log2_below(uint32_t size) {
  uint32_t exponent = 0;
  for (; size > 1; size /= 2) exponent++;
  return exponent;
}

/* The first 2 `pairs` ranks are folded: the odd rank of each pair takes part
 * for both. gli_fold_rank returns the rank of participant v, gli_fold_first the
 * first rank that it takes part for. */
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

/* ---- groups -------------------------------------------------------------- */

/* A number of ranks as a product, and a rank as a number with one digit per
 * factor. */

/* Ranks whose numbers differ in digit i only form a group in stage i;
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

/* Factors `left` by `most` and smaller numbers as far as possible; the rest has
 * only prime factors above `most`. */
static inline gli_radices gli_radices_up_to(uint32_t most, uint32_t *left) {
  gli_radices r = {.product = 1};
  for (uint32_t radix = most; radix > 1; radix--) {
    for (; *left % radix == 0; *left /= radix) gli_radices_add(&r, radix);
  }
  return r;
}

/* Returns the number of messages that a rank sends to its groups. */
static inline uint64_t gli_radices_others(const gli_radices *r) {
  uint64_t others = 0;
  for (uint32_t i = 0; i < r->n; i++) others += r->of[i] - 1;
  return others;
}

#endif
