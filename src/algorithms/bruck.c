/* Algorithms after Bruck and others, which send several blocks per message. */
#include "plan/builder.h"

/* ---- allgather ----------------------------------------------------------- */

/* Allgather, Bruck's: doubling, and a rotation.
 *
 * Wins: hardly. It sends one message per round for any number of ranks, while
 * circulant.c sends two in some; but circulant gathers blocks at their final
 * offsets, without a copy. By simulation it gains 6 % for blocks of 1 to 16 KiB
 * on 61 hosts; on one host it measured the same as the others for short vectors
 * and took up to twice as long for long ones.
 * Cost for P ranks and m bytes of output: ceil(log2 P) rounds; every rank sends
 * m (P-1)/P bytes, needs m bytes of scratch memory, and copies m bytes at the
 * end.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems", 1997.
 *
 * Each rank gathers blocks from its own on, modulo P. Holding s blocks, it
 * sends them to the rank s before it and receives as many from the rank s after
 * it; in the last round only the missing blocks. P = 5, blocks held:
 *
 *   rank   0           1           2           3           4
 *          0           1           2           3           4
 *          0 1         1 2         2 3         3 4         4 0
 *          0 1 2 3     1 2 3 4     2 3 4 0     3 4 0 1     4 0 1 2
 *          0 1 2 3 4   1 2 3 4 0   2 3 4 0 1   3 4 0 1 2   4 0 1 2 3
 */

/* The last round waits for the one before only if it sends blocks from it. */
uint32_t gli_allgather_bruck_rounds(uint32_t size) {
  uint32_t rounds = 0;
  uint64_t held = 1;
  for (; held < size; held *= 2) rounds++;
  if (rounds < 2) return rounds;
  return size > held / 2 + held / 4 ? rounds : rounds - 1;
}

uint64_t gli_allgather_bruck_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

/* Returns the bytes of the `n` blocks from this rank's own on, modulo P. */
static uint64_t bruck_bytes_of(const gli_plan_params *p, uint64_t n) {
  uint64_t end = p->rank + n, size = p->size;
  uint64_t elements = gli_elems_before(p, GLI_OUT, end < size ? end : size) -
                      gli_elems_before(p, GLI_OUT, p->rank);
  if (end > size) elements += gli_elems_before(p, GLI_OUT, end - size);
  return elements * p->elem_bytes;
}

/* Returns blocks [from, to) of the gathered blocks. */
static gli_range bruck_blocks(const gli_plan_params *p, gli_range gathered,
                              uint64_t from, uint64_t to) {
  uint64_t at = bruck_bytes_of(p, from);
  return gli_bytes(gathered.buffer, gathered.offset + at,
                   bruck_bytes_of(p, to) - at);
}

/* Copies all blocks but the own one, one by one only if there are gaps. */
static void put_in_place(gli_builder *b, const gli_plan_params *p,
                         gli_range all) {
  uint64_t size = p->size, to_end = size - p->rank;
  if (p->counts == NULL || p->counts->packed) {
    gli_range after = bruck_blocks(p, all, 1, to_end);
    gli_range before = bruck_blocks(p, all, to_end, size);
    uint64_t at = gli_elems_before(p, GLI_OUT, (uint64_t)p->rank + 1);
    gli_copy(b, after, gli_bytes(GLI_OUT, at * p->elem_bytes, after.bytes));
    gli_copy(b, before, gli_bytes(GLI_OUT, 0, before.bytes));
    return;
  }
  for (uint64_t k = 1; k < size; k++)
    gli_copy(b, bruck_blocks(p, all, k, k + 1),
             gli_block(p, GLI_OUT, (p->rank + k) % size));
}

void gli_allgather_bruck(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range own = gli_own(p, GLI_IN),
            all = gli_scratch(b, bruck_bytes_of(p, size));
  gli_copy(b, own, bruck_blocks(p, all, 0, 1));
  for (uint64_t held = 1; held < size; held *= 2) {
    uint64_t missing = size - held, n = held < missing ? held : missing;
    gli_send(b, (uint32_t)((p->rank + size - held) % size),
             bruck_blocks(p, all, 0, n));
    gli_recv(b, (uint32_t)((p->rank + held) % size),
             bruck_blocks(p, all, held, held + n));
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
  put_in_place(b, p, all);
}

/* ---- alltoall ------------------------------------------------------------ */

/* All-to-all, Bruck's: several blocks per message.
 *
 * Wins: short blocks on many ranks: a logarithmic number of messages, but each
 * byte is sent, and copied, about log2(P) / 2 times.
 * Cost for P ranks and m bytes of input: ceil(log2 P) rounds; in round k every
 * rank sends its blocks 1 ... P-1 whose number has bit k.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems", 1997.
 *
 * Block d of a rank is for the rank d after it, modulo P. It moves once for
 * every bit that is set in d: in round k all blocks that have bit k go 2^k
 * ranks ahead in one message. P = 4, blocks at each rank as from:to (in
 * brackets: sent next):
 *
 *   rank  0                      1                      ...
 *         [0:1]  0:2  [0:3]      [1:2]  1:3  [1:0]      bit 0, to rank + 1
 *          3:0  [0:2] [3:2]       0:1  [1:3] [0:3]      bit 1, to rank + 2
 *          3:0   2:0   1:0        0:1   3:1   2:1
 *
 * Each round has its own receive buffer, where the blocks stay in order of d;
 * so the blocks of the next message form runs, and are copied run by run. */

/* Returns the number of blocks below `end` that have a bit. */
static uint64_t with_bit(uint64_t end, uint64_t bit) {
  uint64_t rest = end % (2 * bit);
  return end / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
}

/* A round waits for an earlier one if a block takes part in both. All rounds
 * before the last one do; the last one, of bit b, waits for the one before if
 * block b + b/2 exists. */
uint32_t gli_alltoall_bruck_rounds(uint32_t size) {
  uint32_t rounds = 0;
  uint64_t bit = 1;
  for (; bit < size; bit *= 2) rounds++;
  if (rounds < 2) return rounds;
  bit /= 2;
  return bit + bit / 2 < size ? rounds : rounds - 1;
}

uint64_t gli_alltoall_bruck_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t blocks = 0;
  for (uint64_t bit = 1; bit < size; bit *= 2) blocks += with_bit(size, bit);
  return vector_bytes / size * blocks;
}

#define ROUNDS 32

typedef struct rounds {
  gli_range got[ROUNDS]; /* received blocks, in order of d */
} rounds;

static gli_range nth(gli_range blocks, uint64_t block, uint64_t n,
                     uint64_t count) {
  return gli_bytes(blocks.buffer, blocks.offset + n * block, count * block);
}

/* Copies blocks [from, to) to `at`. They have the same bits above `bit`, and no
 * block of round `bit` or a later round has moved yet: the highest lower bit of
 * a block is the round in which it last arrived. */
static void pack_run(gli_builder *b, const gli_plan_params *p, const rounds *r,
                     uint64_t from, uint64_t to, gli_range at) {
  uint64_t block = p->count * p->elem_bytes, base = from;
  gli_copy(b, gli_block(p, GLI_IN, (p->rank + base) % p->size),
           nth(at, block, 0, 1));
  uint32_t round = 0;
  for (uint64_t step = 1; base + step < to; step *= 2, round++) {
    uint64_t first = base + step, last = base + 2 * step;
    uint64_t count = (last < to ? last : to) - first;
    gli_copy(b, nth(r->got[round], block, with_bit(first, step), count),
             nth(at, block, first - base, count));
  }
}

void gli_alltoall_bruck(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, block = p->count * p->elem_bytes;
  rounds r;
  uint32_t round = 0;
  for (uint64_t bit = 1; bit < size; bit *= 2, round++) {
    uint64_t blocks = with_bit(size, bit), packed = 0;
    gli_range sent = gli_scratch(b, blocks * block);
    r.got[round] = gli_scratch(b, blocks * block);
    for (uint64_t from = bit; from < size; from += 2 * bit) {
      uint64_t to = from + bit < size ? from + bit : size;
      pack_run(b, p, &r, from, to, nth(sent, block, packed, to - from));
      packed += to - from;
    }
    gli_send(b, (uint32_t)((p->rank + bit) % size), sent);
    gli_recv(b, (uint32_t)((p->rank + size - bit) % size), r.got[round]);
  }
  gli_copy(b, gli_block(p, GLI_IN, p->rank), gli_block(p, GLI_OUT, p->rank));
  round = 0;
  for (uint64_t bit = 1; bit < size; bit *= 2, round++) {
    for (uint64_t d = bit; d < 2 * bit && d < size; d++)
      gli_copy(b, nth(r.got[round], block, with_bit(d, bit), 1),
               gli_block(p, GLI_OUT, (p->rank + size - d) % size));
  }
}
