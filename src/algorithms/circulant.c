/* Algorithms on a circulant graph, for any number of ranks. */
#include "plan/builder.h"

/* ---- allgather ----------------------------------------------------------- */

/* Allgather, doubling on a circulant graph.
 *
 * Wins: short and middle-sized vectors on more than two ranks: as few bytes as
 * the ring in a logarithmic number of rounds.
 * Cost for P ranks, any P, and m bytes of output: ceil(log2 P) rounds; every
 * rank sends m (P-1)/P bytes. Blocks that wrap around the end of the output
 * travel as two messages.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems", 1997; with
 * its rounds in the order of Träff, "Optimal, Non-pipelined Reduce-scatter and
 * Allreduce Algorithms", 2024, and without its rotation of the output.
 *
 * Each rank gathers blocks from its own on, modulo P. Holding s blocks, it
 * sends them to the rank s before it and receives the next ones from the rank s
 * after it. P = 4, blocks held:
 *
 *   rank   0         1         2         3         sends
 *          0         1         2         3         one to rank - 1
 *          0 1       1 2       2 3       3 0       two to rank - 2
 *          0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2
 */

/* Returns blocks [from, to) of the gathered blocks, counted from this rank's
 * own on modulo P. They are two ranges if they pass the end: `half` 0 lies
 * before it, `half` 1 after the wrap; either may be empty. */
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

/* The two rounds that go from one block to three do not wait for each other. */
uint32_t gli_allgather_circulant_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint64_t left = size; left > 1; left = (left + 1) / 2)
    rounds += left != 3;
  return rounds;
}

uint64_t gli_allgather_circulant_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

/* Blocks with gaps are gathered in scratch memory and then copied. */
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

/* ---- allreduce ----------------------------------------------------------- */

/* Allreduce, halving and doubling on a circulant graph.
 *
 * Wins: vectors of medium length, and long ones on many ranks: it sends as few
 * bytes as the ring, in a logarithmic number of rounds.
 * Cost for P ranks, any P, and m bytes: 2 ceil(log2 P) rounds; every rank sends
 * 2 m (P-1)/P bytes. Parts that wrap around the end of the vector travel as two
 * messages.
 * Source: Rabenseifner, "Optimization of Collective Reduction Operations", 2004
 * (the idea); Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce
 * Algorithms", 2024 (partners on a circulant graph, which needs no folding if P
 * is not a power of two).
 *
 * The vector is cut into P parts, which each rank counts from its own on,
 * modulo P. Holding s parts, a rank keeps the first h = ceil(s/2), sends the
 * rest to the rank h after it, and adds the parts it receives to those it
 * keeps. Then the same rounds run backwards and copy. P = 4, parts held:
 *
 *   rank      0         1         2         3         sends
 *             0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2   two to rank + 2
 *   halving   0 1       1 2       2 3       3 0       one to rank + 1
 *             0         1         2         3
 *   doubling  0 1       1 2       2 3       3 0       one to rank - 1
 *             0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2   two to rank - 2
 */

static uint32_t halvings(uint64_t size) {
  uint32_t rounds = 0;
  while (gli_in_hand(size, rounds) > 1) rounds++;
  return rounds;
}

/* Returns parts [from, to), counted from part `first` on modulo P. They are two
 * ranges if they pass the end of the vector: `half` 0 lies before it, `half` 1
 * after the wrap; either may be empty. */
static gli_range allreduce_arc(const gli_plan_params *p, gli_buffer buffer,
                               uint64_t first, uint64_t from, uint64_t to,
                               int half) {
  uint64_t size = p->size, begin = (first + from) % size;
  uint64_t end = begin + (to - from);
  if (half == 0)
    return gli_parts(p, buffer, size, begin, end < size ? end : size);
  return gli_parts(p, buffer, size, 0, end < size ? 0 : end - size);
}

/* The two rounds that go from three parts to one do not wait for each other. */
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

  /* With an odd number of parts, the first round neither sends the middle one
   * nor adds to it. */
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

/* ---- reduce scatter ------------------------------------------------------ */

/* Reduce-scatter, halving on a circulant graph.
 *
 * Wins: vectors of short and medium length on more than two ranks: as few bytes
 * as the ring in a logarithmic number of rounds. Needs scratch memory for half
 * the input.
 * Cost for P ranks, any P, and m bytes of input: ceil(log2 P) rounds; every
 * rank sends m (P-1)/P bytes. In the first round blocks that wrap around the
 * end of the input travel as two messages.
 * Source: Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce
 * Algorithms", 2024.
 *
 * Each rank counts blocks from its own on, modulo P. Holding s blocks, it keeps
 * the first h = ceil(s/2), sends the rest to the rank h after it, and adds the
 * blocks it receives to those it keeps. P = 4, blocks held:
 *
 *   rank   0         1         2         3         sends
 *          0 1 2 3   1 2 3 0   2 3 0 1   3 0 1 2   two to rank + 2
 *          0 1       1 2       2 3       3 0       one to rank + 1
 *          0         1         2         3
 */

/* Returns input blocks [from, to), counted from this rank's own on modulo P.
 * They are two ranges if they pass the end: `half` 0 lies before it, `half` 1
 * after the wrap; either may be empty. */
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

/* The two rounds from three blocks to one do not wait for each other. */
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

  /* The blocks that a rank keeps lie in scratch memory in its own order, so
   * that from the second round on they never wrap; the last sum goes to OUT. */
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
  if (size % 2) { /* the middle block was neither sent nor added to */
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
