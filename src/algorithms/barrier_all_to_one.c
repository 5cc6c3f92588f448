/* Barrier, all to one.
 *
 * Wins: more ranks than cores on one host: fewest messages, and every rank but
 * the first is woken once.
 * Cost for P ranks: 2 rounds of messages without bytes; rank 0 sends and
 * receives P-1, the others one each.
 * Source: folklore; the central counter in Mellor-Crummey, Scott, "Algorithms
 * for Scalable Synchronization on Shared-Memory Multiprocessors", 1991.
 *
 * Each rank signals rank 0, which then signals all others. P = 4:
 *
 *   1 --\          /-> 1
 *   2 ---> 0 == 0 ---> 2
 *   3 --/          \-> 3
 */
#include "plan/builder.h"

uint32_t gli_barrier_all_to_one_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_barrier_all_to_one_bytes(uint32_t size, uint64_t vector_bytes) {
  (void)size, (void)vector_bytes;
  return 0;
}

/* Token 0 is this rank's own arrival; at rank 0, token k is that of rank k. */
void gli_barrier_all_to_one(gli_builder *b, const gli_plan_params *p) {
  if (p->rank != 0) {
    gli_send(b, 0, gli_bytes(GLI_TOKEN, 0, 1));
    gli_recv(b, 0, gli_bytes(GLI_TOKEN, 1, 1));
    return;
  }
  for (uint32_t k = 1; k < p->size; k++)
    gli_recv(b, k, gli_bytes(GLI_TOKEN, k, 1));
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, k, gli_bytes(GLI_TOKEN, 0, p->size));
}
