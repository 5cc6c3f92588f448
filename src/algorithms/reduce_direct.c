/* Reduce, direct.
 *
 * Wins: long vectors that have to be added in the order of ranks: every rank
 * adds its part of all inputs, one after the other, and no rank sends more than
 * the vector once.
 * Cost for P ranks and m bytes: 2 rounds; every rank but the root sends m bytes
 * in P messages, the root m (P-1)/P.
 * Source: folklore; the first half is that of reduce_scatter_direct.c.
 *
 * The vector is cut into P parts. Part j of all ranks goes straight to rank j,
 * which adds them and sends the sum to the root. P = 3, root 1, what arrives at
 * each rank (rank : part):
 *
 *   rank       0          1              2
 *   reduce     1:0 2:0    0:1 2:1        0:2 1:2
 *   collect               all:0 all:2
 */
#include "plan/builder.h"

uint32_t gli_reduce_direct_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_reduce_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_reduce_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, me = p->rank;
  bool root = p->rank == p->root;
  gli_range own = gli_parts(p, GLI_IN, size, me, me + 1);
  gli_range out = gli_parts(p, GLI_OUT, size, me, me + 1);
  if (!root) out = gli_scratch(b, own.bytes);
  gli_range sum = out; /* in place, `out` is this rank's input until its turn */
  if (root && p->in_place && size > 2) sum = gli_scratch(b, own.bytes);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t to = (me + k) % size;
    gli_send(b, (uint32_t)to, gli_parts(p, GLI_IN, size, to, to + 1));
  }
  gli_recv_all_reduce(b, p, own, sum, out);
  if (!root) gli_send(b, p->root, out);
  for (uint64_t k = 1; root && k < size; k++) {
    uint64_t from = (me + size - k) % size;
    gli_recv(b, (uint32_t)from, gli_parts(p, GLI_OUT, size, from, from + 1));
  }
}
