/* Allreduce, halving and doubling on a circulant graph.
 *
 * Wins: vectors of middle size, and long ones on many ranks: it sends as few
 * bytes as the ring does, in a logarithmic number of rounds.
 * Cost for P ranks, P not only a power of two, and m bytes: 2 ceil(log2 P)
 * rounds; every rank sends 2 m (P-1)/P bytes. Where a round's parts pass the
 * end of the vector, they travel as two messages.
 * Source: Rabenseifner, "Optimization of Collective Reduction Operations",
 * 2004, for the idea; for partners on a circulant graph, which needs no folding
 * when P is no power of two, Träff, "Optimal, Non-pipelined Reduce-scatter and
 * Allreduce Algorithms", 2024.
 *
 * The vector is cut into P parts, which each rank counts from its own on,
 * modulo P. With s parts in hand, a rank keeps the first half, rounded up,
 * sends the rest as far ahead as half is, and adds what comes in to what it
 * keeps. Then the same rounds run backwards and copy. P = 4, parts in hand:
 *
 *   rank      0         1         2         3         sends
 *             0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2   two to rank + 2
 *   halving   0 1       1 2       2 3       3 0       one to rank + 1
 *             0         1         2         3
 *   doubling  0 1       1 2       2 3       3 0       one to rank - 1
 *             0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2   two to rank - 2
 */
#include "plan/builder.h"

static uint32_t halvings(uint64_t size) {
  uint32_t rounds = 0;
  while (gli_in_hand(size, rounds) > 1) rounds++;
  return rounds;
}

/* Parts [from, to), counted from part `first` on modulo P, are two ranges where
 * they pass the end of the vector: `half` 0 lies before it, `half` 1 behind;
 * either may be empty. */
static gli_range allreduce_arc(const gli_plan_params *p, gli_buffer buffer,
                               uint64_t first, uint64_t from, uint64_t to,
                               int half) {
  uint64_t size = p->size, begin = (first + from) % size;
  uint64_t end = begin + (to - from);
  if (half == 0)
    return gli_parts(p, buffer, size, begin, end < size ? end : size);
  return gli_parts(p, buffer, size, 0, end < size ? 0 : end - size);
}

/* The two rounds that take three parts to one need not wait for each other. */
uint32_t gli_allreduce_circulant_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint64_t left = size; left > 1; left = (left + 1) / 2)
    rounds += left != 3;
  return 2 * rounds;
}

uint64_t gli_allreduce_circulant_bytes(uint32_t size, uint64_t vector_bytes) {
  return 2 * (vector_bytes - vector_bytes / size);
}

void gli_allreduce_circulant(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, me = p->rank;
  uint32_t rounds = halvings(size);

  /* An odd number of parts leaves one in the middle that the first round
   * neither sends nor adds to. */
  if (size % 2)
    gli_copy(b, allreduce_arc(p, GLI_IN, me, size / 2, size / 2 + 1, 0),
             allreduce_arc(p, GLI_OUT, me, size / 2, size / 2 + 1, 0));
  for (uint32_t round = 1; round <= rounds; round++) {
    uint64_t had = gli_in_hand(size, round - 1),
             keep = gli_in_hand(size, round);
    uint32_t ahead = (uint32_t)((me + keep) % size);
    uint32_t behind = (uint32_t)((me + size - keep) % size);
    gli_buffer held = round == 1 ? GLI_IN : GLI_OUT;
    for (int half = 0; half < 2; half++) {
      gli_send(b, ahead, allreduce_arc(p, held, me, keep, had, half));
      gli_recv_reduce(b, behind,
                      allreduce_arc(p, held, me, 0, had - keep, half),
                      allreduce_arc(p, GLI_OUT, me, 0, had - keep, half), true);
    }
  }
  for (uint32_t round = rounds; round > 0; round--) {
    uint64_t want = gli_in_hand(size, round - 1),
             have = gli_in_hand(size, round);
    uint32_t ahead = (uint32_t)((me + have) % size);
    uint32_t behind = (uint32_t)((me + size - have) % size);
    for (int half = 0; half < 2; half++) {
      gli_send(b, behind, allreduce_arc(p, GLI_OUT, me, 0, want - have, half));
      gli_recv(b, ahead, allreduce_arc(p, GLI_OUT, me, have, want, half));
    }
  }
}
