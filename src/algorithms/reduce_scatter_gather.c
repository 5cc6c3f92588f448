/* Reduce, reduce-scatter and gather.
 *
 * Wins: long vectors on more than two ranks: no rank sends more than 1.5 times
 * the vector, and each adds only its share.
 * Cost for P ranks and m bytes: ceil(log2 P) rounds for halving and
 * floor(log2 P) for gathering; every rank sends m (P-1)/P bytes in the first
 * part and up to m/2 in the second.
 * Source: Rabenseifner, "Optimization of Collective Reduction Operations",
 * 2004; the halving is the one of circulant.c.
 *
 * Ranks are numbered from the root, and the vector is cut into P parts. Holding
 * s parts, from its own on and modulo P, a rank keeps the first h = ceil(s/2)
 * and sends the rest to the rank h after it. Finally every rank holds its own
 * part, which goes up a binomial tree. P = 4, parts held:
 *
 *   number   0         1         2         3
 *            0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2   two to number + 2
 *            0 1       1 2       2 3       3 0       one to number + 1
 *            0         1         2         3         1 to 0, 3 to 2
 *            0 1                 2 3                 2 3 to 0
 *            0 1 2 3
 */
#include "plan/builder.h"

/* Two rounds of halving, from three parts to one, do not wait for each other;
 * then the chain to the root has one message per one bit of a number. */
uint32_t gli_reduce_scatter_gather_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint64_t left = size; left > 1; left = (left + 1) / 2)
    rounds += left != 3;
  for (; size > 1; size /= 2) rounds++;
  return rounds;
}

uint64_t gli_reduce_scatter_gather_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t most = 0;
  for (uint64_t bit = 1; bit < size; bit *= 2) {
    if (gli_subtree(size, bit) > most) most = gli_subtree(size, bit);
  }
  return vector_bytes / size * (size - 1 + most);
}

/* Returns parts [from, to) of the input, counted from part `me` on modulo P. If
 * they pass the end, `half` 0 lies before it, `half` 1 after the wrap. */
static gli_range reduce_gather_arc(const gli_plan_params *p, uint64_t me,
                                   uint64_t from, uint64_t to, int half) {
  uint64_t size = p->size, begin = (me + from) % size, end = begin + to - from;
  if (half == 0)
    return gli_parts(p, GLI_IN, size, begin, end < size ? end : size);
  return gli_parts(p, GLI_IN, size, 0, end > size ? end - size : 0);
}

static uint64_t reduce_gather_arc_bytes(const gli_plan_params *p, uint64_t me,
                                        uint64_t from, uint64_t to) {
  return reduce_gather_arc(p, me, from, to, 0).bytes +
         reduce_gather_arc(p, me, from, to, 1).bytes;
}

/* Leaves part `me` of the sum in `result`. */
static void halve(gli_builder *b, const gli_plan_params *p, uint64_t me,
                  gli_range result) {
  uint64_t size = p->size, had = size, keep = gli_in_hand(size, 1);
  gli_range kept = result;
  if (keep > 1) kept = gli_scratch(b, reduce_gather_arc_bytes(p, me, 0, keep));
  uint32_t ahead = gli_numbered(p, me + keep),
           behind = gli_numbered(p, me + size - keep);
  uint64_t filled = kept.offset;
  for (int half = 0; half < 2; half++) {
    gli_range mine = reduce_gather_arc(p, me, 0, had - keep, half);
    gli_send(b, ahead, reduce_gather_arc(p, me, keep, had, half));
    gli_recv_reduce(b, behind, mine, gli_bytes(kept.buffer, filled, mine.bytes),
                    true);
    filled += mine.bytes;
  }
  if (size % 2) { /* the middle part was neither sent nor added to */
    gli_range middle = reduce_gather_arc(p, me, size / 2, size / 2 + 1, 0);
    gli_copy(b, middle, gli_bytes(kept.buffer, filled, middle.bytes));
  }
  for (uint32_t round = 2; keep > 1; round++) {
    had = keep, keep = gli_in_hand(size, round);
    gli_range rest = gli_bytes(
        kept.buffer, kept.offset + reduce_gather_arc_bytes(p, me, 0, keep),
        reduce_gather_arc_bytes(p, me, keep, had));
    gli_range mine = gli_bytes(kept.buffer, kept.offset,
                               reduce_gather_arc_bytes(p, me, 0, had - keep));
    gli_send(b, gli_numbered(p, me + keep), rest);
    gli_recv_reduce(b, gli_numbered(p, me + size - keep), mine,
                    keep == 1 ? result : mine, true);
  }
}

void gli_reduce_scatter_gather(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, me = (p->rank + size - p->root) % size;
  uint64_t bit = gli_lowest_bit(size, me), mine = gli_subtree(size, me);
  gli_range all = gli_parts(p, GLI_OUT, size, me, me + mine);
  if (size == 1) {
    gli_copy(b, gli_own(p, GLI_IN), all);
    return;
  }
  if (me != 0) all = gli_scratch(b, all.bytes);
  uint64_t base = gli_parts(p, GLI_OUT, size, 0, me).bytes;
  halve(b, p, me,
        gli_bytes(all.buffer, all.offset,
                  gli_parts(p, GLI_OUT, size, me, me + 1).bytes));
  for (uint64_t child = 1; child < bit && me + child < size; child *= 2) {
    uint64_t end = me + 2 * child < size ? me + 2 * child : size;
    gli_range theirs = gli_parts(p, GLI_OUT, size, me + child, end);
    gli_recv(
        b, gli_numbered(p, me + child),
        gli_bytes(all.buffer, all.offset + theirs.offset - base, theirs.bytes));
  }
  if (me != 0) gli_send(b, gli_numbered(p, me - bit), all);
}
