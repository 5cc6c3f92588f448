/* Reduce, binomial tree.
 *
 * Wins: short vectors on more than a few ranks.
 * Cost for P ranks and m bytes: a chain of floor(log2 P) messages; every rank
 * but the root sends m bytes, and none receives more than ceil(log2 P) times.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root. A rank's number without its lowest bit is
 * the number of its parent; children are added in ascending order, so that
 * from root 0 on the operands stay in rank order. P = 8:
 *
 *   0 <- 4 <- 6 <- 7
 *   ^     ^- 5
 *   |<- 2 <- 3
 *    ^- 1
 */
#include "plan/builder.h"

/* The chain from a rank is as long as its number has ones. */
uint32_t gli_reduce_binomial_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (; size > 1; size /= 2) rounds++;
  return rounds;
}

uint64_t gli_reduce_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_reduce_binomial(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, number = (p->rank + size - p->root) % size;
  gli_range in = gli_own(p, GLI_IN), sum = in, into = in;
  bool has_child = number % 2 == 0 && number + 1 < size;
  if (number == 0) {
    into = gli_own(p, GLI_OUT);
  } else if (has_child) {
    into = gli_scratch(b, in.bytes);
  }
  uint64_t bit = 1;
  for (; bit < size && !(number & bit); bit *= 2) {
    if (number + bit >= size) continue;
    gli_recv_reduce(b, (uint32_t)((number + bit + p->root) % size), sum, into,
                    false);
    sum = into;
  }
  if (number != 0) {
    gli_send(b, (uint32_t)((number - bit + p->root) % size), sum);
  } else if (size == 1) {
    gli_copy(b, in, into);
  }
}
