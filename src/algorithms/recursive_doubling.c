/* Algorithms in which groups of ranks double in each round. */
#include "algorithms/radix.h"

/* ---- allgather ----------------------------------------------------------- */

/* Allgather, recursive doubling.
 *
 * Wins: between hosts, on a power of two of ranks, vectors too long for a
 * single round but shorter than those for the ring: as few bytes with one
 * message per round, by simulation 5 to 15 % less time than circulant.c for
 * blocks from 1 KiB on 16 to 256 hosts. On one host both measured the same. For
 * other numbers of ranks it is much worse.
 * Cost for P ranks and m bytes of output, Q the largest power of two up to P:
 * log2 Q rounds in which every rank sends m (P-1)/P bytes, and if P is not Q
 * two more, in which some rank sends up to twice as much again.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Neighbouring groups of 1, 2, 4, ... ranks swap the blocks of all their ranks.
 * The odd one of two folded ranks (see allreduce, below) begins with the blocks
 * of both. P = 4, blocks held:
 *
 *   rank   0         1         2         3
 *          0         1         2         3         0 with 1, 2 with 3
 *          0 1       0 1       2 3       2 3       0 with 2, 1 with 3
 *          0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3
 */

/* The number of rounds is that of allreduce, below. */
uint32_t gli_allgather_recursive_doubling_rounds(uint32_t size) {
  uint32_t power = gli_power_below(size), pairs = size - power;
  uint32_t rounds = gli_log2_below(size);
  if (pairs == 0) return rounds;
  return pairs <= power / 2 ? rounds + 1 : rounds + 2;
}

/* Participant 0 sends the most bytes, because its groups are the largest. */
uint64_t gli_allgather_recursive_doubling_bytes(uint32_t size,
                                                uint64_t vector_bytes) {
  uint32_t power = gli_power_below(size), pairs = size - power;
  uint64_t blocks = pairs > 0 ? size - 1 : 0;
  for (uint32_t n = 1; n < power; n *= 2) blocks += gli_fold_first(n, pairs);
  return vector_bytes / size * blocks;
}

/* Returns the blocks of ranks [from, to). */
static gli_range doubling_blocks(const gli_plan_params *p, gli_range gathered,
                                 uint32_t from, uint32_t to) {
  uint64_t a = gli_elems_before(p, GLI_OUT, from);
  uint64_t z = gli_elems_before(p, GLI_OUT, to);
  return gli_bytes(gathered.buffer, gathered.offset + a * p->elem_bytes,
                   (z - a) * p->elem_bytes);
}

static void fold(gli_builder *b, const gli_plan_params *p, gli_range all) {
  uint32_t rank = p->rank;
  gli_send(b, rank + 1, gli_own(p, GLI_IN));
  gli_recv(b, rank + 1, doubling_blocks(p, all, 0, rank));
  gli_recv(b, rank + 1, doubling_blocks(p, all, rank + 1, p->size));
}

static void unfold(gli_builder *b, const gli_plan_params *p, gli_range all) {
  uint32_t other = p->rank - 1;
  gli_send(b, other, doubling_blocks(p, all, 0, other));
  gli_send(b, other, doubling_blocks(p, all, p->rank, p->size));
}

/* Blocks with gaps are gathered in scratch memory and then copied. */
void gli_allgather_recursive_doubling(gli_builder *b,
                                      const gli_plan_params *p) {
  uint32_t power = gli_power_below(p->size), pairs = p->size - power;
  bool aside = p->counts != NULL && !p->counts->packed;
  bool folded = p->rank < 2 * pairs;
  gli_range all = gli_bytes(GLI_OUT, 0, 0);
  if (aside)
    all = gli_scratch(b, gli_elems_before(p, GLI_OUT, p->size) * p->elem_bytes);
  gli_copy(b, gli_own(p, GLI_IN),
           doubling_blocks(p, all, p->rank, p->rank + 1));
  if (folded && p->rank % 2 == 0) {
    fold(b, p, all);
  } else {
    if (folded)
      gli_recv(b, p->rank - 1, doubling_blocks(p, all, p->rank - 1, p->rank));
    uint32_t me = gli_fold_number(p->rank, pairs);
    for (uint32_t bit = 1; bit < power; bit *= 2) {
      uint32_t mine = me & ~(bit - 1), theirs = mine ^ bit;
      uint32_t peer = gli_fold_rank(me ^ bit, pairs);
      gli_send(b, peer,
               doubling_blocks(p, all, gli_fold_first(mine, pairs),
                               gli_fold_first(mine + bit, pairs)));
      gli_recv(b, peer,
               doubling_blocks(p, all, gli_fold_first(theirs, pairs),
                               gli_fold_first(theirs + bit, pairs)));
    }
    if (folded) unfold(b, p, all);
  }
  for (uint32_t k = 0; k < p->size && aside; k++)
    gli_copy(b, doubling_blocks(p, all, k, k + 1), gli_block(p, GLI_OUT, k));
}

/* ---- allreduce ----------------------------------------------------------- */

/* Allreduce, recursive doubling.
 *
 * Wins: short vectors, where only the number of rounds matters.
 * Cost for P ranks and m bytes, Q the largest power of two up to P: log2 Q
 * rounds in which every rank sends m bytes, and two more if P is not Q, in
 * which case some rank sends m bytes log2 Q + 1 times.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Neighbouring groups of 1, 2, 4, ... ranks swap their sums. The first 2 (P-Q)
 * ranks are folded: the even rank of a pair sends its vector to the odd one,
 * which takes part for both and returns the result. P = 5, sums of ranks:
 *
 *   rank     0       1       2       3       4
 *   fold     0 ----> 01      2       3       4
 *   swap             012     012     34      34       01 with 2, 3 with 4
 *   swap             01234   01234   01234   01234    012 with 34
 *   unfold   01234 <-
 *
 * The lower group is the left operand on both sides, so all ranks compute the
 * same tree over the ranks in order. */

/* While all pairs are in the lower half, no chain of messages contains a fold,
 * all swaps and an unfold, because the last swap carries only the upper half's
 * data. */
uint32_t gli_allreduce_recursive_doubling_rounds(uint32_t size) {
  uint32_t power = gli_power_below(size), pairs = size - power;
  uint32_t rounds = gli_log2_below(size);
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

  /* No sum goes to the buffer that is being sent, so that it need not wait for
   * that send: OUT and scratch alternate, and the last is OUT. */
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

/* ---- exscan -------------------------------------------------------------- */

/* Exclusive scan, recursive doubling.
 *
 * Wins: short vectors on more than a few ranks.
 * Cost for P ranks and m bytes: ceil(log2 P) rounds, of which at most
 * floor(log2 P) wait for each other; rank 0 sends m bytes in each, and no rank
 * sends more.
 * Source: Hillis, Steele, "Data Parallel Algorithms", 1986.
 *
 * Like the scan below, but every rank also keeps a result that excludes its own
 * input. P = 4, inputs in result | sum of each rank:
 *
 *   rank       0     1       2        3
 *   round 0    |0    0|01    1|12     2|23
 *         1    |0    0|01    01|012   012|0123
 */

uint32_t gli_exscan_recursive_doubling_rounds(uint32_t size) {
  return gli_log2_below(size);
}

uint64_t gli_exscan_recursive_doubling_bytes(uint32_t size,
                                             uint64_t vector_bytes) {
  uint64_t bytes = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) bytes += vector_bytes;
  return bytes;
}

/* An incoming sum is used twice, so it needs a buffer. No sum is added to in
 * the buffer it is sent from, because the addition would wait until the message
 * has left. In the last round in which a rank receives, and in later ones, it
 * sends no further sum, so only the result is needed. */
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

/* ---- scan ---------------------------------------------------------------- */

/* Scan, recursive doubling.
 *
 * Wins: short vectors on more than a few ranks.
 * Cost for P ranks and m bytes: ceil(log2 P) rounds, of which at most
 * floor(log2 P) wait for each other; rank 0 sends m bytes in each, and no rank
 * sends more.
 * Source: Hillis, Steele, "Data Parallel Algorithms", 1986.
 *
 * In round k a rank sends its sum to the rank 2^k after it; the sum from the
 * rank 2^k before it becomes the left operand of its own. P = 4, inputs in the
 * sum of each rank:
 *
 *   rank       0   1     2       3
 *   round 0    0   01    12      23
 *         1    0   01    012     0123
 */

/* A rank receives in round k if its number is at least 2^k; the longest chain
 * goes through ranks 1, 3, 7, ... */
uint32_t gli_scan_recursive_doubling_rounds(uint32_t size) {
  return gli_log2_below(size);
}

uint64_t gli_scan_recursive_doubling_bytes(uint32_t size,
                                           uint64_t vector_bytes) {
  return gli_exscan_recursive_doubling_bytes(size, vector_bytes);
}

/* No sum is added to in the buffer it is sent from, because the addition would
 * wait until the message has left: two buffers and OUT alternate. */
void gli_scan_recursive_doubling(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT), sum = in;
  gli_range turn[2] = {out, out};
  for (uint64_t i = 0; i < 2 && ((uint64_t)2 << i) <= p->rank; i++)
    turn[i] = gli_scratch(b, in.bytes);
  uint64_t taken = 0;
  for (uint64_t reach = 1; reach < p->size; reach *= 2) {
    if (p->rank + reach < p->size)
      gli_send(b, (uint32_t)(p->rank + reach), sum);
    if (p->rank < reach) continue;
    gli_range into = p->rank < 2 * reach ? out : turn[taken++ % 2];
    gli_recv_reduce(b, (uint32_t)(p->rank - reach), sum, into, true);
    sum = into;
  }
  if (p->rank == 0) gli_copy(b, in, out);
}
