/* Reduce-scatter, halving on a circulant graph.
 *
 * Wins: short and middle-sized vectors on more than two ranks: as few bytes as
 * the ring in a logarithmic number of rounds. Needs scratch for half the input.
 * Cost for P ranks, P not only a power of two, and m bytes of input:
 * ceil(log2 P) rounds; every rank sends m (P-1)/P bytes. In the first round
 * blocks that pass the end of the input travel as two messages.
 * Source: Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce
 * Algorithms", 2024.
 *
 * Each rank counts blocks from its own on, modulo P. With s blocks in hand it
 * keeps the first half, rounded up, sends the rest as far ahead as half is, and
 * adds what comes in to what it keeps. P = 4, blocks in hand:
 *
 *   rank   0         1         2         3         sends
 *          0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2   two to rank + 2
 *          0 1       1 2       2 3       3 0       one to rank + 1
 *          0         1         2         3
 */
#include "plan/builder.h"

/* Input blocks [from, to), counted from this rank's own on modulo P, are two
 * ranges where they pass the end: `half` 0 lies before it, `half` 1 behind;
 * either may be empty. */
static gli_range reduce_scatter_arc(const gli_plan_params *p, uint64_t from,
                                    uint64_t to, int half) {
  uint64_t begin = (p->rank + from) % p->size, end = begin + (to - from);
  uint64_t before = end < p->size ? end : p->size;
  uint64_t first = half == 0 ? begin : 0,
           last = half == 0 ? before : end - before;
  uint64_t at = gli_elems_before(p, GLI_IN, first);
  return gli_elems(p, GLI_IN, at, gli_elems_before(p, GLI_IN, last) - at);
}

static uint64_t reduce_scatter_arc_bytes(const gli_plan_params *p,
                                         uint64_t from, uint64_t to) {
  return reduce_scatter_arc(p, from, to, 0).bytes +
         reduce_scatter_arc(p, from, to, 1).bytes;
}

/* The two rounds that take three blocks to one need not wait for each other. */
uint32_t gli_reduce_scatter_circulant_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint64_t left = size; left > 1; left = (left + 1) / 2)
    rounds += left != 3;
  return rounds;
}

uint64_t gli_reduce_scatter_circulant_bytes(uint32_t size,
                                            uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_reduce_scatter_circulant(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range out = gli_own(p, GLI_OUT);
  if (size == 1) {
    gli_copy(b, reduce_scatter_arc(p, 0, 1, 0), out);
    return;
  }

  /* The blocks that a rank keeps lie in scratch in its order, so that from the
   * second round on its blocks never wrap; the last sum goes to OUT. */
  uint64_t had = size, keep = gli_in_hand(size, 1);
  uint32_t ahead = (uint32_t)((p->rank + keep) % size);
  uint32_t behind = (uint32_t)((p->rank + size - keep) % size);
  gli_range result = gli_apart(b, p, gli_block(p, GLI_IN, p->rank), out);
  gli_range kept =
      keep == 1 ? result : gli_scratch(b, reduce_scatter_arc_bytes(p, 0, keep));
  uint64_t filled = kept.offset;
  for (int half = 0; half < 2; half++) {
    gli_range mine = reduce_scatter_arc(p, 0, had - keep, half);
    gli_send(b, ahead, reduce_scatter_arc(p, keep, had, half));
    gli_recv_reduce(b, behind, mine, gli_bytes(kept.buffer, filled, mine.bytes),
                    true);
    filled += mine.bytes;
  }
  if (size % 2) { /* the block in the middle was neither sent nor added to */
    gli_range middle = reduce_scatter_arc(p, size / 2, size / 2 + 1, 0);
    gli_copy(b, middle, gli_bytes(kept.buffer, filled, middle.bytes));
  }

  for (uint32_t round = 2; keep > 1; round++) {
    had = keep, keep = gli_in_hand(size, round);
    ahead = (uint32_t)((p->rank + keep) % size);
    behind = (uint32_t)((p->rank + size - keep) % size);
    gli_range rest = gli_bytes(
        kept.buffer, kept.offset + reduce_scatter_arc_bytes(p, 0, keep),
        reduce_scatter_arc_bytes(p, keep, had));
    gli_range mine = gli_bytes(kept.buffer, kept.offset,
                               reduce_scatter_arc_bytes(p, 0, had - keep));
    gli_send(b, ahead, rest);
    gli_recv_reduce(b, behind, mine, keep == 1 ? result : mine, true);
  }
  gli_copy(b, result, out);
}
