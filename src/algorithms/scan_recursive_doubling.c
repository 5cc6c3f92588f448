/* Scan, recursive doubling.
 *
 * Wins: short vectors on more than a few ranks.
 * Cost for P ranks and m bytes: ceil(log2 P) rounds, of which no more than
 * floor(log2 P) wait for each other; rank 0 sends m bytes in each, no rank
 * more.
 * Source: Hillis, Steele, "Data Parallel Algorithms", 1986.
 *
 * In round k a rank sends the sum that it has to the rank 2^k after it; what it
 * gets from the rank 2^k before goes to the left of its own. P = 4, inputs in
 * the sum of each rank:
 *
 *   rank       0   1     2       3
 *   round 0    0   01    12      23
 *         1    0   01    012     0123
 */
#include "plan/builder.h"

/* A rank hears in round k when it is at least 2^k; the longest chain goes
 * through ranks 1, 3, 7, ... */
uint32_t gli_scan_recursive_doubling_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (; size > 1; size /= 2) rounds++;
  return rounds;
}

uint64_t gli_scan_recursive_doubling_bytes(uint32_t size,
                                           uint64_t vector_bytes) {
  uint64_t bytes = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) bytes += vector_bytes;
  return bytes;
}

/* A sum is never added to where it is sent from, for then it would wait until
 * the message has left: two buffers and OUT take turns. */
void gli_scan_recursive_doubling(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT), sum = in;
  gli_range turn[2] = {out, out};
  for (uint64_t i = 0; i < 2 && ((uint64_t)2 << i) <= p->rank; i++)
    turn[i] = gli_scratch(b, in.bytes);
  uint64_t taken = 0;
  for (uint64_t reach = 1; reach < p->size; reach *= 2) {
    if (p->rank + reach < p->size)
      gli_send(b, (uint32_t)(p->rank + reach), sum);
    if (p->rank < reach) continue;
    gli_range into = p->rank < 2 * reach ? out : turn[taken++ % 2];
    gli_recv_reduce(b, (uint32_t)(p->rank - reach), sum, into, true);
    sum = into;
  }
  if (p->rank == 0) gli_copy(b, in, out);
}
