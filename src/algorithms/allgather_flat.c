/* Allgather, flat: rank 0 gathers all blocks and sends them to all ranks.
 *
 * Wins: short vectors with more ranks than cores: fewest messages, and every
 * rank but the first is woken once. Of lengths that differ between ranks
 * (allgatherv) too.
 * Cost for P ranks and m bytes of output: 2 rounds; rank 0 sends m (P-1) bytes.
 * Source: folklore; the linear algorithms in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * P = 4:
 *
 *   1 --\              /-> 1
 *   2 ---> 0: 0 1 2 3 ---> 2
 *   3 --/              \-> 3
 */
#include "plan/builder.h"

uint32_t gli_allgather_flat_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_allgather_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return (size - 1) * vector_bytes;
}

void gli_allgather_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range own = gli_own(p, GLI_IN);
  if (p->rank != 0) {
    gli_send(b, 0, own);
    for (uint64_t i = 0; i < gli_extents(p); i++)
      gli_recv(b, 0, gli_extent(p, GLI_OUT, i));
    return;
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, 0));
  for (uint32_t k = 1; k < p->size; k++)
    gli_recv(b, k, gli_block(p, GLI_OUT, k));
  for (uint32_t k = 1; k < p->size; k++)
    for (uint64_t i = 0; i < gli_extents(p); i++)
      gli_send(b, k, gli_extent(p, GLI_OUT, i));
}
