/* Reduce-scatter, direct.
 *
 * Wins: on ranks that share a host, where every pair has a link of its own: as
 * few bytes as the ring in one round. The result is that of adding the inputs
 * in the order of ranks.
 * Cost for P ranks and m bytes of input: one round; every rank sends
 * m (P-1)/P bytes in P-1 messages.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005 (its pairwise exchange,
 * without turns).
 *
 * Block j of all ranks goes straight to rank j, which adds them in order. P =
 * 4, what arrives at each rank (rank : block):
 *
 *   rank     0             1             2             3
 *            1:0 2:0 3:0   0:1 2:1 3:1   0:2 1:2 3:2   0:3 1:3 2:3
 */
#include "plan/builder.h"

uint32_t gli_reduce_scatter_direct_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_reduce_scatter_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_reduce_scatter_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range out = gli_own(p, GLI_OUT), own = gli_block(p, GLI_IN, p->rank);
  gli_range result = gli_apart(b, p, own, out), sum = result;
  if (p->in_place && size > 2) sum = gli_scratch(b, out.bytes);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t to = (p->rank + k) % size;
    gli_send(b, (uint32_t)to, gli_block(p, GLI_IN, to));
  }
  gli_recv_all_reduce(b, p, own, sum, result);
  gli_copy(b, result, out);
}
