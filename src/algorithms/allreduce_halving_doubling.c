/* Allreduce, recursive halving and doubling.
 *
 * Wins: between hosts, long vectors on a power of two of ranks (from about 1
 * MiB on 16 to 256 hosts, by simulation; for shorter ones see
 * allreduce_bcube.c): as few bytes as the ring in a logarithmic number of
 * rounds, with one message in each. On one host it measured the same as
 * circulant.c, which is better for other numbers of ranks. Sums combine
 * neighbouring ranks in rank order.
 * Cost for P ranks and m bytes, Q the largest power of two up to P: 2 log2 Q
 * rounds, and two more if P is not Q. If P is Q, every rank sends 2 m (P-1)/P
 * bytes; otherwise some rank sends slightly over m bytes more, because the
 * parts then differ in length.
 * Source: Rabenseifner, "Optimization of Collective Reduction Operations",
 * 2004.
 *
 * Ranks that differ in bit 0, 1, 2, ... of their numbers hold the same parts
 * and cut them in two halves; each keeps one, sends the other, and adds the
 * half that it receives. Then the same rounds run backwards and copy. Ranks
 * beyond Q are folded as in recursive_doubling.c. P = 4, parts in hand:
 *
 *   rank       0         1         2         3
 *   halving    0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3   0 with 1, 2 with 3
 *              0 1       2 3       0 1       2 3       0 with 2, 1 with 3
 *   doubling   0         2         1         3
 *              0 1       2 3       0 1       2 3
 *              0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3
 */
#include "algorithms/radix.h"

uint32_t gli_allreduce_halving_doubling_rounds(uint32_t size) {
  uint32_t power = gli_power_below(size), rounds = power == size ? 0 : 2;
  for (; power > 1; power /= 2) rounds += 2;
  return rounds;
}

/* The vector is cut into P parts. Participant 0 keeps the first half each time,
 * rounded up, and sends that much in the doubling rounds. */
uint64_t gli_allreduce_halving_doubling_bytes(uint32_t size,
                                              uint64_t vector_bytes) {
  uint32_t power = gli_power_below(size);
  uint64_t parts = power == size ? size : 2 * (uint64_t)size, held = size;
  if (size == 1) return 0;
  for (; power > 2; power /= 2) {
    held = (held + 1) / 2;
    parts += held;
  }
  return vector_bytes / size * parts;
}

typedef struct half {
  uint32_t peer;
  gli_range kept, given;
} half;

void gli_allreduce_halving_doubling(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT);
  uint32_t power = gli_power_below(p->size), pairs = p->size - power;
  bool folded = p->rank < 2 * pairs;
  gli_buffer held = folded ? GLI_OUT : GLI_IN;
  if (p->size == 1) gli_copy(b, in, out);
  if (folded && p->rank % 2 == 0) {
    gli_send(b, p->rank + 1, in);
    gli_recv(b, p->rank + 1, out);
    return;
  }
  if (folded) gli_recv_reduce(b, p->rank - 1, in, out, true);

  uint32_t me = gli_fold_number(p->rank, pairs), n = 0;
  uint64_t first = 0, last = p->size;
  half halves[32];
  for (uint32_t bit = 1; bit < power; bit *= 2, held = GLI_OUT) {
    half *h = &halves[n++];
    uint64_t middle = first + (last - first + 1) / 2;
    bool upper = me & bit;
    h->peer = gli_fold_rank(me ^ bit, pairs);
    h->kept = gli_parts(p, held, p->size, upper ? middle : first,
                        upper ? last : middle);
    h->given = gli_parts(p, held, p->size, upper ? first : middle,
                         upper ? middle : last);
    gli_send(b, h->peer, h->given);
    gli_range sum = h->kept;
    sum.buffer = GLI_OUT;
    gli_recv_reduce(b, h->peer, h->kept, sum, upper);
    if (upper)
      first = middle;
    else
      last = middle;
  }
  while (n-- > 0) {
    halves[n].kept.buffer = halves[n].given.buffer = GLI_OUT;
    gli_send(b, halves[n].peer, halves[n].kept);
    gli_recv(b, halves[n].peer, halves[n].given);
  }
  if (folded) gli_send(b, p->rank - 1, out);
}
