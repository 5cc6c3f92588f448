/* Reduce, flat: each rank sends to the root.
 *
 * Wins: few ranks, and wherever the order of the operands matters: the root
 * adds the inputs in rank order, one after the other.
 * Cost for P ranks and m bytes: one round; every rank but the root sends m
 * bytes, and the root receives and adds m (P-1).
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * P = 4, root 2, what the root does:
 *
 *   sum = 0;  sum = sum + 1;  out = sum + own;  out = out + 3
 *
 * Narrow floats are all received first, and added in one step. */
#include "plan/builder.h"

uint32_t gli_reduce_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_reduce_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_reduce_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN);
  if (p->rank != p->root) {
    gli_send(b, p->root, in);
    return;
  }
  gli_range out = gli_own(p, GLI_OUT), sum = in;
  if (p->low_precision && p->size > 2) {
    gli_recv_all_reduce(b, p, in, out, out);
    return;
  }
  if (p->root == 1) {
    gli_recv_reduce(b, 0, in, out, true);
    sum = out;
  } else if (p->root >
             0) { /* in place, OUT holds the root's input until its turn */
    sum = p->in_place ? gli_scratch(b, in.bytes) : out;
    gli_recv(b, 0, sum);
    for (uint32_t from = 1; from < p->root; from++)
      gli_recv_reduce(b, from, sum, sum, false);
    gli_reduce(b, sum, in, out);
    sum = out;
  }
  for (uint32_t from = p->root + 1; from < p->size; from++) {
    gli_recv_reduce(b, from, sum, out, false);
    sum = out;
  }
  if (p->size == 1) gli_copy(b, in, out);
}
