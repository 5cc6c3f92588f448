/* Broadcast, binomial tree.
 *
 * Wins: short vectors, and any vector on two ranks.
 * Cost for P ranks and m bytes: a chain of floor(log2 P) messages; the root
 * sends m bytes ceil(log2 P) times, no rank more often.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root. A rank's number without its lowest bit is
 * the number of its parent; the largest subtree is served first. P = 8:
 *
 *   0 -> 4 -> 6 -> 7
 *   |     \-> 5
 *   |-> 2 -> 3
 *    \-> 1
 */
#include "plan/builder.h"

/* The chain to a rank is as long as its number has one bits; among numbers
 * below P, the number before the highest power of two up to P has the most. */
uint32_t gli_broadcast_binomial_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (; size > 1; size /= 2) rounds++;
  return rounds;
}

uint64_t gli_broadcast_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t bytes = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) bytes += vector_bytes;
  return bytes;
}

void gli_broadcast_binomial(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, number = (p->rank + size - p->root) % size;
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);

  uint64_t bit = 1; /* the lowest bit of `number`; the root is above them all */
  while (bit < size && !(number & bit)) bit *= 2;
  if (number != 0)
    gli_recv(b, (uint32_t)((number - bit + p->root) % size), out);
  for (bit /= 2; bit > 0; bit /= 2) {
    if (number + bit < size)
      gli_send(b, (uint32_t)((number + bit + p->root) % size),
               number == 0 ? in : out);
  }
  if (number == 0) gli_copy(b, in, out);
}
