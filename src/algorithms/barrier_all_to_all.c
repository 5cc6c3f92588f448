/* Barrier, all to all.
 *
 * Wins: a few ranks that share a host: one round, and no rank passes on what
 * others said.
 * Cost for P ranks: one round of messages without bytes; every rank sends and
 * receives P-1.
 * Source: folklore; see Mellor-Crummey, Scott, "Algorithms for Scalable
 * Synchronization on Shared-Memory Multiprocessors", 1991, for flags that every
 * participant writes and reads by itself.
 *
 * Every rank tells every other. P = 4, the ranks that tell each rank:
 *
 *   rank     0       1       2       3
 *            3 2 1   0 3 2   1 0 3   2 1 0
 */
#include "plan/builder.h"

uint32_t gli_barrier_all_to_all_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_barrier_all_to_all_bytes(uint32_t size, uint64_t vector_bytes) {
  (void)size, (void)vector_bytes;
  return 0;
}

/* Token 0 is this rank's own arrival, token k that of the k-th before it. */
void gli_barrier_all_to_all(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  for (uint64_t k = 1; k < size; k++) {
    gli_send(b, (uint32_t)((p->rank + k) % size), gli_bytes(GLI_TOKEN, 0, 1));
    gli_recv(b, (uint32_t)((p->rank + size - k) % size),
             gli_bytes(GLI_TOKEN, k, 1));
  }
}
