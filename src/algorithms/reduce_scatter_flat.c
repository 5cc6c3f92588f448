/* Reduce-scatter, flat: rank 0 adds everything, and sends each rank its block.
 *
 * Wins: short vectors with more ranks than cores: fewest messages, and every
 * rank but the first is woken once. The result is that of adding the inputs in
 * the order of ranks. Of lengths that differ between ranks (reduce_scatterv)
 * too.
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

/* Block k of the sum, where blocks follow one another. */
static gli_range reduce_scatter_block_of(const gli_plan_params *p,
                                         gli_range sum, uint64_t k) {
  uint64_t before = gli_elems_before(p, GLI_IN, k) * p->elem_bytes;
  return gli_bytes(sum.buffer, sum.offset + before,
                   gli_block(p, GLI_IN, k).bytes);
}

static void add_all(gli_builder *b, const gli_plan_params *p, gli_range sum) {
  for (uint64_t i = 0; i < gli_extents(p); i++) {
    gli_range part =
        gli_extents(p) > 1 ? reduce_scatter_block_of(p, sum, i) : sum;
    gli_recv_all_reduce(b, p, gli_extent(p, GLI_IN, i), part, part);
  }
}

void gli_reduce_scatter_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_own(p, GLI_OUT);
  if (p->size == 1) {
    gli_copy(b, gli_block(p, GLI_IN, 0), out);
    return;
  }
  if (p->rank != 0) {
    for (uint64_t i = 0; i < gli_extents(p); i++)
      gli_send(b, 0, gli_extent(p, GLI_IN, i));
    gli_recv(b, 0, out);
    return;
  }
  uint64_t all = gli_elems_before(p, GLI_IN, p->size);
  gli_range sum = gli_scratch(b, all * p->elem_bytes);
  add_all(b, p, sum);
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, k, reduce_scatter_block_of(p, sum, k));
  gli_copy(b, reduce_scatter_block_of(p, sum, 0), out);
}
