/* Broadcast, scatter and allgather.
 *
 * Wins: long vectors on more than two ranks: no rank sends more than twice the
 * vector, for any number of ranks.
 * Cost for P ranks and m bytes: ceil(log2 P) rounds each for scattering and for
 * gathering, in which the root sends 2 m (P-1)/P bytes, and no other rank sends
 * more.
 * Source: Barnett, Gupta, Payne, Shuler, van de Geijn, Watts, "Interprocessor
 * Collective Communication Library (InterCom)", 1994. The gather is the one of
 * circulant.c.
 *
 * Ranks are numbered from the root, and the vector is cut into P parts. Down a
 * binomial tree every rank receives the parts of its whole subtree; then in
 * round k = ceil(log2 P), ..., 1 it receives more from the rank ceil(P / 2^k)
 * after it, but no part that it already has (so the root receives nothing).
 * P = 4, parts held after each round:
 *
 *   number     0         1         2         3
 *   scatter    0 1 2 3             2 3
 *              0 1 2 3   1         2 3       3
 *   gather     0 1 2 3   1 2       2 3       3 0
 *              0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2
 */
#include "plan/builder.h"

static uint64_t broadcast_least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* Returns `parts` parts from part `first` on, modulo P. They are two ranges if
 * they pass the end: `half` 0 lies before it, `half` 1 after the wrap; either
 * may be empty. */
static gli_range broadcast_arc(const gli_plan_params *p, gli_buffer buffer,
                               uint64_t first, uint64_t parts, int half) {
  uint64_t size = p->size, end = first % size + parts;
  if (half == 0)
    return gli_parts(p, buffer, size, first % size, broadcast_least(end, size));
  return gli_parts(p, buffer, size, 0, end > size ? end - size : 0);
}

/* Scattering and gathering overlap a little: the longest chain has one to three
 * messages fewer than the total number of rounds. With Q = 2^k the largest
 * power of two up to P + 1, it has 2 k - 1, and one more if P > 5/4 Q (by
 * counting). */
uint32_t gli_broadcast_scatter_allgather_rounds(uint32_t size) {
  uint64_t power = 2;
  uint32_t rounds = 1;
  if (size == 1 || size == 3) return size - 1;
  for (; 2 * power <= (uint64_t)size + 1; power *= 2) rounds += 2;
  return rounds + ((uint64_t)4 * size > 5 * power);
}

uint64_t gli_broadcast_scatter_allgather_bytes(uint32_t size,
                                               uint64_t vector_bytes) {
  return 2 * (vector_bytes - vector_bytes / size);
}

void gli_broadcast_scatter_allgather(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, me = (p->rank + size - p->root) % size;
  uint64_t mine = gli_subtree(size, me), bit = gli_lowest_bit(size, me);
  gli_buffer from = me == 0 ? GLI_IN : GLI_OUT;

  if (me != 0)
    gli_recv(b, gli_numbered(p, me - bit),
             gli_parts(p, GLI_OUT, size, me, me + mine));
  for (bit /= 2; bit > 0; bit /= 2) {
    if (me + bit < size)
      gli_send(b, gli_numbered(p, me + bit),
               gli_parts(p, from, size, me + bit,
                         broadcast_least(me + 2 * bit, size)));
  }

  /* With `have` parts on both sides of a gathering round, and `want` after it,
   * a rank lacks parts have ... want - 1, counted from its own. */
  uint64_t have = 1;
  uint32_t rounds = 0;
  while (((size - 1) >> rounds) > 0) rounds++;
  for (; rounds > 0; rounds--) {
    uint64_t want = gli_in_hand(size, rounds - 1);
    uint64_t to = (me + size - have) % size, after = (me + have) % size;
    uint64_t to_has = gli_subtree(size, to);
    uint64_t send_first = have > to_has ? have : to_has;
    uint64_t recv_first = have > mine ? have : mine;
    for (int half = 0; half < 2; half++) {
      if (send_first < want)
        gli_send(
            b, gli_numbered(p, to),
            broadcast_arc(p, from, to + send_first, want - send_first, half));
      if (recv_first < want)
        gli_recv(b, gli_numbered(p, after),
                 broadcast_arc(p, GLI_OUT, me + recv_first, want - recv_first,
                               half));
    }
    have = want;
  }
  if (me == 0)
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count),
             gli_elems(p, GLI_OUT, 0, p->count));
}
