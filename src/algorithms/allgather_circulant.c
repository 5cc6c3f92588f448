/* Allgather, doubling on a circulant graph.
 *
 * Wins: short and middle-sized vectors on more than two ranks: as few bytes as
 * the ring in a logarithmic number of rounds.
 * Cost for P ranks, P not only a power of two, and m bytes of output:
 * ceil(log2 P) rounds; every rank sends m (P-1)/P bytes. Blocks that pass the
 * end of the output travel as two messages.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems", 1997; with
 * its rounds in the order of Träff, "Optimal, Non-pipelined Reduce-scatter and
 * Allreduce Algorithms", 2024, and without its rotation of the output.
 *
 * Each rank gathers blocks from its own on, modulo P. With s blocks in hand, it
 * sends them to the rank s before it and gets the next ones from the rank s
 * after it. P = 4, blocks in hand:
 *
 *   rank   0         1         2         3         sends
 *          0         1         2         3         one to rank - 1
 *          0 1       1 2       2 3       3 0       two to rank - 2
 *          0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2
 */
#include "plan/builder.h"

/* Blocks [from, to) of what is gathered, counted from this rank's own on modulo
 * P, are two ranges where they pass the end: `half` 0 lies before it, `half` 1
 * behind; either may be empty. */
static gli_range allgather_arc(const gli_plan_params *p, gli_range gathered,
                               uint64_t from, uint64_t to, int half) {
  uint64_t begin = (p->rank + from) % p->size, end = begin + (to - from);
  uint64_t before = end < p->size ? end : p->size;
  uint64_t first = half == 0 ? begin : 0,
           last = half == 0 ? before : end - before;
  uint64_t at = gli_elems_before(p, GLI_OUT, first);
  gli_range blocks = gli_elems(p, gathered.buffer, at,
                               gli_elems_before(p, GLI_OUT, last) - at);
  blocks.offset += gathered.offset;
  return blocks;
}

/* The two rounds that take one block to three need not wait for each other. */
uint32_t gli_allgather_circulant_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint64_t left = size; left > 1; left = (left + 1) / 2)
    rounds += left != 3;
  return rounds;
}

uint64_t gli_allgather_circulant_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

/* Blocks with gaps between them are gathered elsewhere and then put in place.
 */
void gli_allgather_circulant(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  uint32_t rounds = 0;
  bool aside = p->counts != NULL && !p->counts->packed;
  gli_range own = gli_own(p, GLI_IN), all = gli_bytes(GLI_OUT, 0, 0);
  if (aside)
    all = gli_scratch(b, gli_elems_before(p, GLI_OUT, size) * p->elem_bytes);
  while (gli_in_hand(size, rounds) > 1) rounds++;
  gli_copy(b, own, allgather_arc(p, all, 0, 1, 0));
  for (; rounds > 0; rounds--) {
    uint64_t want = gli_in_hand(size, rounds - 1),
             have = gli_in_hand(size, rounds);
    uint32_t ahead = (uint32_t)((p->rank + have) % size);
    uint32_t behind = (uint32_t)((p->rank + size - have) % size);
    for (int half = 0; half < 2; half++) {
      gli_send(b, behind, allgather_arc(p, all, 0, want - have, half));
      gli_recv(b, ahead, allgather_arc(p, all, have, want, half));
    }
  }
  for (uint64_t k = 0; k < size && aside; k++)
    gli_copy(b, allgather_arc(p, all, k, k + 1, 0),
             gli_block(p, GLI_OUT, (p->rank + k) % size));
}
