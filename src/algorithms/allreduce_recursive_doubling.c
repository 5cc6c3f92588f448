/* Allreduce, recursive doubling.
 *
 * Wins: short vectors, where only the number of rounds matters.
 * Cost for P ranks and m bytes, Q the largest power of two up to P: log2 Q
 * rounds in which every rank sends m bytes, and two more when P is not Q, where
 * some rank sends m bytes log2 Q + 1 times.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Neighbouring groups of 1, 2, 4, ... ranks swap their sums. The first 2 (P-Q)
 * ranks are folded: the even one of a pair gives its vector to the odd one,
 * which takes part for both and hands back the result. P = 5, sums of ranks:
 *
 *   rank     0       1       2       3       4
 *   fold     0 ----> 01      2       3       4
 *   swap             012     012     34      34       01 with 2, 3 with 4
 *   swap             01234   01234   01234   01234    012 with 34
 *   unfold   01234 <-
 *
 * The lower group is the left operand on both sides, so all ranks compute the
 * very same tree over the ranks in order. */
#include "algorithms/fold.h"

/* While all pairs are in the lower half, no chain of messages holds a fold, all
 * swaps and an unfold: the last swap brings news from the upper half alone. */
uint32_t gli_allreduce_recursive_doubling_rounds(uint32_t size) {
  uint32_t power = gli_power_below(size), pairs = size - power, rounds = 0;
  for (uint32_t bit = 1; bit < power; bit *= 2) rounds++;
  if (pairs == 0) return rounds;
  return pairs <= power / 2 ? rounds + 1 : rounds + 2;
}

uint64_t gli_allreduce_recursive_doubling_bytes(uint32_t size,
                                                uint64_t vector_bytes) {
  uint64_t bytes = gli_power_below(size) == size ? 0 : vector_bytes;
  for (; size > 1; size /= 2) bytes += vector_bytes;
  return bytes;
}

void gli_allreduce_recursive_doubling(gli_builder *b,
                                      const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  uint32_t power = gli_power_below(p->size), pairs = p->size - power;
  bool folded = p->rank < 2 * pairs;
  if (p->size == 1) {
    gli_copy(b, in, out);
    return;
  }
  if (folded && p->rank % 2 == 0) {
    gli_send(b, p->rank + 1, in);
    gli_recv(b, p->rank + 1, out);
    return;
  }

  /* Every sum goes to another buffer than the one being sent, so that it need
   * not wait for that send: OUT and scratch take turns, and the last is OUT. */
  gli_range scratch = gli_scratch(b, out.bytes);
  uint32_t sums = folded ? 1 : 0;
  for (uint32_t bit = 1; bit < power; bit *= 2) sums++;
  gli_range held = in;
  if (folded) {
    gli_range sum = sums-- % 2 ? out : scratch;
    gli_recv_reduce(b, p->rank - 1, held, sum, true);
    held = sum;
  } else if (p->in_place && sums % 2) {
    gli_copy(b, in, scratch);
    held = scratch;
  }
  uint32_t me = gli_fold_number(p->rank, pairs);
  for (uint32_t bit = 1; bit < power; bit *= 2) {
    uint32_t other = me ^ bit, peer = gli_fold_rank(other, pairs);
    gli_range sum = sums-- % 2 ? out : scratch;
    gli_send(b, peer, held);
    gli_recv_reduce(b, peer, held, sum, other < me);
    held = sum;
  }
  if (folded) gli_send(b, p->rank - 1, out);
}
