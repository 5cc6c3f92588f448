/* Allreduce, flat: rank 0 adds all inputs and sends the sum to all ranks.
 *
 * Wins: short vectors with more ranks than cores: fewest messages, and every
 * rank but the first is woken once. The inputs are added in rank order.
 * Cost for P ranks and m bytes: 2 rounds; rank 0 sends m (P-1) bytes, and
 * receives and adds as many.
 * Source: folklore; the linear algorithms in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * P = 4:
 *
 *   1 --\                    /-> 1
 *   2 ---> 0: 0 + 1 + 2 + 3 ---> 2
 *   3 --/                    \-> 3
 */
#include "plan/builder.h"

uint32_t gli_allreduce_flat_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_allreduce_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return (size - 1) * vector_bytes;
}

void gli_allreduce_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  if (p->rank != 0) {
    gli_send(b, 0, in);
    gli_recv(b, 0, out);
    return;
  }
  gli_recv_all_reduce(b, p, in, out, out);
  for (uint32_t k = 1; k < p->size; k++) gli_send(b, k, out);
}
