/* Reduce-scatter, recursive halving.
 *
 * Wins: nowhere by much: on a power of two of ranks it takes as long as
 * circulant.c, measured on one host and simulated on 16 to 256; with other
 * numbers of ranks it takes up to twice as long. In each round a rank exchanges
 * one message with one other rank.
 * Cost for P ranks and m bytes of input, Q the largest power of two up to P:
 * log2 Q rounds in which every rank sends m (P-1)/P bytes, and if P is not Q
 * two more, in which case some rank sends m bytes. Needs scratch memory for
 * half the input, or all of it on ranks that take part for two.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Holding the blocks of a group of ranks, a rank of the group's lower half
 * sends the blocks of the upper half to the corresponding rank there, and
 * receives its own half in return. The odd one of two folded ranks (see
 * recursive_doubling.c) ends with the blocks of both. P = 4, blocks held:
 *
 *   rank   0         1         2         3
 *          0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3   0 with 2, 1 with 3
 *          0 1       0 1       2 3       2 3       0 with 1, 2 with 3
 *          0         1         2         3
 */
#include "algorithms/radix.h"

uint32_t gli_reduce_scatter_recursive_halving_rounds(uint32_t size) {
  uint32_t power = gli_power_below(size), pairs = size - power;
  uint32_t rounds = gli_log2_below(size);
  if (pairs == 0) return rounds;
  return pairs <= power / 2 ? rounds + 1 : rounds + 2;
}

uint64_t gli_reduce_scatter_recursive_halving_bytes(uint32_t size,
                                                    uint64_t vector_bytes) {
  if (gli_power_below(size) != size) return vector_bytes;
  return vector_bytes - vector_bytes / size;
}

/* Returns the input blocks of ranks [from, to) in `held`, which begins with the
 * block of rank `first`. */
static gli_range halving_blocks(const gli_plan_params *p, gli_range held,
                                uint32_t first, uint32_t from, uint32_t to) {
  uint64_t base = gli_elems_before(p, GLI_IN, first);
  uint64_t a = gli_elems_before(p, GLI_IN, from) - base;
  uint64_t z = gli_elems_before(p, GLI_IN, to) - base;
  return gli_bytes(held.buffer, held.offset + a * p->elem_bytes,
                   (z - a) * p->elem_bytes);
}

void gli_reduce_scatter_recursive_halving(gli_builder *b,
                                          const gli_plan_params *p) {
  uint32_t power = gli_power_below(p->size), pairs = p->size - power;
  uint32_t me = gli_fold_number(p->rank, pairs), lower = 0, first = 0;
  bool folded = p->rank < 2 * pairs;
  gli_range out = gli_own(p, GLI_OUT), held = gli_bytes(GLI_IN, 0, 0);
  gli_range result = gli_apart(b, p, gli_block(p, GLI_IN, p->rank), out);
  gli_range all = halving_blocks(p, held, 0, 0, p->size);
  if (folded && p->rank % 2 == 0) {
    gli_send(b, p->rank + 1, all);
    gli_recv(b, p->rank + 1, out);
    return;
  }
  if (folded) {
    held = gli_scratch(b, all.bytes);
    gli_recv_reduce(b, p->rank - 1, all, held, true);
  }

  /* From the first sum on, `held` is scratch memory. */
  for (uint32_t bit = power / 2; bit > 0; bit /= 2) {
    uint32_t from = gli_fold_first(lower, pairs);
    uint32_t middle = gli_fold_first(lower + bit, pairs);
    uint32_t to = gli_fold_first(lower + 2 * bit, pairs);
    uint32_t peer = gli_fold_rank(me ^ bit, pairs);
    bool upper = me & bit;
    gli_send(b, peer,
             upper ? halving_blocks(p, held, first, from, middle)
                   : halving_blocks(p, held, first, middle, to));
    gli_range mine = upper ? halving_blocks(p, held, first, middle, to)
                           : halving_blocks(p, held, first, from, middle);
    gli_range sum = mine;
    if (bit == 1 && !folded) {
      sum = result;
    } else if (mine.buffer == GLI_IN) {
      sum = gli_scratch(b, mine.bytes);
    }
    gli_recv_reduce(b, peer, mine, sum, upper);
    held = sum;
    first = upper ? middle : from;
    if (upper) lower += bit;
  }
  if (folded) {
    gli_send(b, p->rank - 1,
             halving_blocks(p, held, first, p->rank - 1, p->rank));
    gli_copy(b, halving_blocks(p, held, first, p->rank, p->rank + 1), out);
  } else {
    gli_copy(b, p->size == 1 ? all : result, out);
  }
}
