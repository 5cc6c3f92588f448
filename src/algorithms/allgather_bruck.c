/* Allgather, Bruck's: doubling, and a rotation.
 *
 * Wins: hardly. It sends one message per round for any number of ranks, where
 * allgather_circulant.c has two in some; but circulant gathers blocks at their
 * final places, without a copy. By simulation it gains 6 % for blocks of 1 to
 * 16 KiB on 61 hosts; on one host it measured like the others for short vectors
 * and up to twice as long for long ones.
 * Cost for P ranks and m bytes of output: ceil(log2 P) rounds; every rank sends
 * m (P-1)/P bytes, needs scratch for m, and copies m at the end.
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems", 1997.
 *
 * Each rank gathers blocks from its own on, modulo P. With s blocks in hand, it
 * sends them to the rank s before it and gets as many from the rank s after it;
 * in the last round only what is missing. P = 5, blocks in hand:
 *
 *   rank   0           1           2           3           4
 *          0           1           2           3           4
 *          0 1         1 2         2 3         3 4         4 0
 *          0 1 2 3     1 2 3 4     2 3 4 0     3 4 0 1     4 0 1 2
 *          0 1 2 3 4   1 2 3 4 0   2 3 4 0 1   3 4 0 1 2   4 0 1 2 3
 */
#include "plan/builder.h"

/* The last round waits for the one before only when it sends something that
 * came then. */
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

/* Bytes of the `n` blocks from this rank's own on, modulo P. */
static uint64_t bruck_bytes_of(const gli_plan_params *p, uint64_t n) {
  uint64_t end = p->rank + n, size = p->size;
  uint64_t elements = gli_elems_before(p, GLI_OUT, end < size ? end : size) -
                      gli_elems_before(p, GLI_OUT, p->rank);
  if (end > size) elements += gli_elems_before(p, GLI_OUT, end - size);
  return elements * p->elem_bytes;
}

/* Blocks [from, to) of what is gathered. */
static gli_range bruck_blocks(const gli_plan_params *p, gli_range gathered,
                              uint64_t from, uint64_t to) {
  uint64_t at = bruck_bytes_of(p, from);
  return gli_bytes(gathered.buffer, gathered.offset + at,
                   bruck_bytes_of(p, to) - at);
}

/* All but its own block, one by one only where there are gaps between them. */
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
