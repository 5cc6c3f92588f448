/* Exclusive scan, recursive doubling.
 *
 * Wins: short vectors on more than a few ranks.
 * Cost for P ranks and m bytes: ceil(log2 P) rounds, of which no more than
 * floor(log2 P) wait for each other; rank 0 sends m bytes in each, no rank
 * more.
 * Source: Hillis, Steele, "Data Parallel Algorithms", 1986.
 *
 * As scan_recursive_doubling.c, but every rank also keeps a result into which
 * only what it receives goes. P = 4, inputs in result | sum of each rank:
 *
 *   rank       0     1       2        3
 *   round 0    |0    0|01    1|12     2|23
 *         1    |0    0|01    01|012   012|0123
 */
#include "plan/builder.h"

uint32_t gli_exscan_recursive_doubling_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (; size > 1; size /= 2) rounds++;
  return rounds;
}

uint64_t gli_exscan_recursive_doubling_bytes(uint32_t size,
                                             uint64_t vector_bytes) {
  uint64_t bytes = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) bytes += vector_bytes;
  return bytes;
}

/* An incoming sum is used twice, so it needs a buffer; and a sum is never added
 * to where it is sent from, because it would wait until the message has left.
 * In the last round that a rank hears in there is no rank to send a sum to, or
 * the sum is sent no more; then only the result is needed. */
void gli_exscan_recursive_doubling(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT), sum = in;
  bool first = true;
  for (uint64_t reach = 1; reach < p->size; reach *= 2) {
    if (p->rank + reach < p->size)
      gli_send(b, (uint32_t)(p->rank + reach), sum);
    if (p->rank < reach) continue;
    uint32_t from = (uint32_t)(p->rank - reach);
    bool sends_on = p->rank + 2 * reach < p->size;
    if (!sends_on) {
      if (first) {
        gli_recv(b, from, out);
      } else {
        gli_recv_reduce(b, from, out, out, true);
      }
      first = false;
      continue;
    }
    gli_range got = gli_scratch(b, in.bytes), next = gli_scratch(b, in.bytes);
    gli_recv(b, from, got);
    gli_reduce(b, got, sum, next);
    sum = next;
    if (first) {
      gli_copy(b, got, out);
    } else {
      gli_reduce(b, got, out, out);
    }
    first = false;
  }
}
