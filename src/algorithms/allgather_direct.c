/* Allgather, direct.
 *
 * Wins: on ranks that share a host, where every pair has a link of its own: as
 * few bytes as the ring in one round.
 * Cost for P ranks and m bytes of output: one round; every rank sends
 * m (P-1)/P bytes in P-1 messages.
 * Source: folklore; the linear algorithm in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * Each rank sends its block to all others, to the next rank first, so that the
 * ranks begin with different receivers. P = 4, block that arrives at each rank:
 *
 *   rank     0       1       2       3
 *            3 2 1   0 3 2   1 0 3   2 1 0
 */
#include "plan/builder.h"

uint32_t gli_allgather_direct_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_allgather_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_allgather_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range own = gli_own(p, GLI_IN);
  for (uint64_t k = 1; k < size; k++)
    gli_send(b, (uint32_t)((p->rank + k) % size), own);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t from = (p->rank + size - k) % size;
    gli_recv(b, (uint32_t)from, gli_block(p, GLI_OUT, from));
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
}
