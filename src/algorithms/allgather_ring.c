/* Allgather, ring.
 *
 * Wins: long vectors, and few ranks: every byte goes to the next rank only.
 * Cost for P ranks and m bytes of output: P-1 rounds; every rank sends
 * m (P-1)/P bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Every block goes once round. P = 4, block that arrives at each rank:
 *
 *   rank     0   1   2   3
 *            3   0   1   2
 *            2   3   0   1
 *            1   2   3   0
 */
#include "plan/builder.h"

uint32_t gli_allgather_ring_rounds(uint32_t size) {
  return size - 1;
}

uint64_t gli_allgather_ring_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_allgather_ring(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  uint32_t next = (uint32_t)((p->rank + 1) % size);
  uint32_t previous = (uint32_t)((p->rank + size - 1) % size);
  gli_range own = gli_own(p, GLI_IN), held = own;
  for (uint64_t round = 1; round < size; round++) {
    uint64_t got = (p->rank + size - round) % size;
    gli_send(b, next, held);
    held = gli_block(p, GLI_OUT, got);
    gli_recv(b, previous, held);
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
}
