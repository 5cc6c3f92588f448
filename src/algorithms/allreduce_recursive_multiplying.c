/* Allreduce, recursive multiplying: recursive doubling in larger groups.
 *
 * Wins: between hosts, vectors up to 4 KiB or so on 8 hosts and more, where the
 * number of rounds matters and a rank can have several messages in flight: 10
 * to 25 % less time than recursive doubling on 16 to 1,000 hosts, by
 * simulation, with groups of 8 if that saves a round or a fold. Not on one
 * host: there a message costs a rank as much as waiting for it, and up to k
 * ranks this is allreduce_one_shot.c.
 * Cost for P ranks and m bytes in groups of up to k: if P is a product of n
 * numbers up to k, one round for each; in a round with groups of r, every rank
 * sends m bytes r - 1 times. Otherwise, with Q equal to P with all but its
 * first digit in base k cleared, ceil(log_k Q) rounds and two more, in which
 * some rank sends m bytes once more.
 * Source: Ruefenacht, Bull, Booth, "Generalisation of Recursive Doubling for
 * AllReduce: Now with Simulation", 2017.
 *
 * In each round groups of k sums become one: each rank sends its sum to all of
 * its group, and adds the sums in rank order. Ranks beyond Q are folded as in
 * recursive_doubling.c. P = 9 in groups of 3, sums of ranks:
 *
 *   rank   0    1    2    3    4    5    6    7    8
 *          012  012  012  345  345  345  678  678  678
 *          0-8 everywhere                               0 with 3 and 6, ...
 */
#include "algorithms/radix.h"

static gli_radices multiplying_radices(uint32_t size, uint32_t k) {
  uint32_t left = size;
  gli_radices r = gli_radices_up_to(k, &left);
  if (left == 1) return r;
  r = (gli_radices){.product = 1};
  for (left = size; left >= k; left /= k) gli_radices_add(&r, k);
  if (left > 1) gli_radices_add(&r, left);
  return r;
}

/* The longest chain of messages has a fold, a message of each round and an
 * unfold if two folded participants differ in all digits, the last one
 * included. */
static uint32_t rounds(uint32_t size, uint32_t k) {
  gli_radices r = multiplying_radices(size, k);
  uint32_t pairs = size - r.product;
  if (pairs == 0) return r.n;
  return pairs <= r.product / r.of[r.n - 1] ? r.n + 1 : r.n + 2;
}

static uint64_t bytes(uint32_t size, uint64_t vector_bytes, uint32_t k) {
  gli_radices r = multiplying_radices(size, k);
  uint64_t others = gli_radices_others(&r);
  return (r.product == size ? others : others + 1) * vector_bytes;
}

/* Sets `sum` to the sums of a group, in the order of ranks; `held` is this
 * rank's sum. Participants of the group are `apart` from each other. */
static void multiplying_exchange(gli_builder *b, uint32_t me, uint32_t pairs,
                                 uint32_t radix, uint32_t apart, gli_range held,
                                 gli_range sum) {
  uint32_t digit = me / apart % radix, first = me - digit * apart;
  for (uint32_t j = 1; j < radix; j++) {
    uint32_t other = first + (digit + j) % radix * apart;
    gli_send(b, gli_fold_rank(other, pairs), held);
  }
  gli_range left = held;
  for (uint32_t j = 0; j < radix; j++) {
    uint32_t from = gli_fold_rank(first + j * apart, pairs);
    if (j == digit && j > 1) {
      gli_reduce(b, left, held, sum);
    } else if (j == 0 && digit > 1) {
      gli_recv(b, from, sum);
    } else if (j != digit) {
      gli_recv_reduce(b, from, left, sum, j == 0);
    }
    if (j > 0 || digit > 1) left = sum;
  }
}

static void multiplying_build(gli_builder *b, const gli_plan_params *p,
                              uint32_t k) {
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT);
  gli_radices r = multiplying_radices(p->size, k);
  uint32_t pairs = p->size - r.product;
  bool folded = p->rank < 2 * pairs;
  if (p->size == 1) gli_copy(b, in, out);
  if (p->size == 1) return;
  if (folded && p->rank % 2 == 0) {
    gli_send(b, p->rank + 1, in);
    gli_recv(b, p->rank + 1, out);
    return;
  }

  /* No sum goes to the buffer that is being sent: OUT and scratch alternate,
   * and the last is OUT. */
  gli_range scratch = gli_scratch(b, out.bytes), held = in;
  uint32_t sums = folded ? r.n + 1 : r.n;
  if (folded) {
    held = sums-- % 2 ? out : scratch;
    gli_recv_reduce(b, p->rank - 1, in, held, true);
  } else if (p->in_place && sums % 2) {
    gli_copy(b, in, scratch);
    held = scratch;
  }
  uint32_t me = gli_fold_number(p->rank, pairs), apart = 1;
  for (uint32_t i = 0; i < r.n; apart *= r.of[i++]) {
    gli_range sum = sums-- % 2 ? out : scratch;
    multiplying_exchange(b, me, pairs, r.of[i], apart, held, sum);
    held = sum;
  }
  if (folded) gli_send(b, p->rank - 1, out);
}

#define RECURSIVE_MULTIPLYING(k)                                              \
  uint32_t gli_allreduce_recursive_multiplying_##k##_rounds(uint32_t size) {  \
    return rounds(size, k);                                                   \
  }                                                                           \
  uint64_t gli_allreduce_recursive_multiplying_##k##_bytes(uint32_t size,     \
                                                           uint64_t vector) { \
    return bytes(size, vector, k);                                            \
  }                                                                           \
  void gli_allreduce_recursive_multiplying_##k(gli_builder *b,                \
                                               const gli_plan_params *p) {    \
    multiplying_build(b, p, k);                                               \
  }
RECURSIVE_MULTIPLYING(4)
RECURSIVE_MULTIPLYING(8)
