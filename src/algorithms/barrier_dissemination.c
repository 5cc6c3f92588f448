/* Barrier, dissemination.
 *
 * Wins: always; nothing with fewer rounds exists.
 * Cost for P ranks: ceil(log2 P) rounds of messages without bytes; every rank
 * sends and receives one in each.
 * Source: Hensgen, Finkel, Manber, "Two Algorithms for Barrier
 * Synchronization", 1988.
 *
 * In round k a rank tells the one 2^k after it all that it knows, and hears
 * the same from the one 2^k before it. P = 4, the ranks that each knows to have
 * come:
 *
 *   rank       0         1         2         3
 *   round 0    3 0       0 1       1 2       2 3
 *   round 1    1 2 3 0   2 3 0 1   3 0 1 2   0 1 2 3
 */
#include "plan/builder.h"

uint32_t gli_barrier_dissemination_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) rounds++;
  return rounds;
}

uint64_t gli_barrier_dissemination_bytes(uint32_t size, uint64_t vector_bytes) {
  (void)size, (void)vector_bytes;
  return 0;
}

/* Token 0 is this rank's own arrival, token k + 1 the message of round k. A
 * message stands for all earlier ones, so its send waits for them. */
void gli_barrier_dissemination(gli_builder *b, const gli_plan_params *p) {
  uint64_t known = 1;
  for (uint64_t reach = 1; reach < p->size; reach *= 2) {
    uint32_t after = (uint32_t)((p->rank + reach) % p->size);
    uint32_t before = (uint32_t)((p->rank + p->size - reach) % p->size);
    gli_send(b, after, gli_bytes(GLI_TOKEN, 0, known));
    gli_recv(b, before, gli_bytes(GLI_TOKEN, known, 1));
    known++;
  }
}
