/* Allreduce, one shot.
 *
 * Wins: very short vectors on few ranks that share a host: no algorithm has
 * fewer rounds. The inputs are added in rank order.
 * Cost for P ranks and m bytes: one round; every rank sends m (P-1) bytes.
 * Source: folklore; the smallest case of Bala, Bruck, Cypher, Elustondo, Ho,
 * Ho, Kipnis, Snir, "CCL: A Portable and Tunable Collective Communication
 * Library for Scalable Parallel Computers", 1995.
 *
 * Each rank sends its input to all others, and adds the inputs of all. P = 4,
 * inputs that arrive at each rank (in any order), and the order in which they
 * are added:
 *
 *   rank     0         1         2         3
 *            1 2 3     0 2 3     0 1 3     0 1 2
 *            0+1+2+3   0+1+2+3   0+1+2+3   0+1+2+3
 */
#include "plan/builder.h"

uint32_t gli_allreduce_one_shot_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_allreduce_one_shot_bytes(uint32_t size, uint64_t vector_bytes) {
  return (size - 1) * vector_bytes;
}

void gli_allreduce_one_shot(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_range own = in;
  if (p->in_place && p->size > 1) { /* sums must not wait for sends of the
                                       input */
    own = gli_scratch(b, in.bytes);
    gli_copy(b, in, own);
  }
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, (uint32_t)(((uint64_t)p->rank + k) % p->size), own);
  gli_recv_all_reduce(b, p, own, out, out);
}
