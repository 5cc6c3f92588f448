/* Reduce-scatter, flat: rank 0 adds everything, and sends each rank its block.
 *
 * Wins: short vectors with more ranks than cores: fewest messages, and every
 * rank but the first is woken once. The result is that of adding the inputs in
 * the order of ranks.
 * Cost for P ranks and m bytes of input: 2 rounds; rank 0 receives and adds
 * m (P-1) bytes, and sends m (P-1)/P; the others send m bytes.
 * Source: folklore; the linear algorithms in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * P = 4, and what is sent of the sum:
 *
 *   1 --\                    /-> 1: block 1
 *   2 ---> 0: 0 + 1 + 2 + 3 ---> 2: block 2
 *   3 --/                    \-> 3: block 3
 */
#include "plan/builder.h"

uint32_t gli_reduce_scatter_flat_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_reduce_scatter_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_reduce_scatter_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->size * p->count);
  gli_range out = gli_own(p, GLI_OUT);
  if (p->size == 1) {
    gli_copy(b, in, out);
    return;
  }
  if (p->rank != 0) {
    gli_send(b, 0, in);
    gli_recv(b, 0, out);
    return;
  }
  gli_range sum = gli_scratch(b, in.bytes);
  gli_recv_all_reduce(b, p, in, sum, sum);
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, k,
             gli_bytes(GLI_SCRATCH, sum.offset + k * out.bytes, out.bytes));
  gli_copy(b, gli_bytes(GLI_SCRATCH, sum.offset, out.bytes), out);
}
