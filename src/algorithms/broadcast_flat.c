/* Broadcast, flat.
 *
 * Wins: few ranks that share a host: every rank hears from the root itself, and
 * none waits for another to be awake and pass it on.
 * Cost for P ranks and m bytes: one round; the root sends m bytes P-1 times.
 * Source: folklore (the linear algorithm of any library).
 *
 * P = 4, root 0:
 *
 *   0 -> 1
 *   |--> 2
 *    \-> 3
 */
#include "plan/builder.h"

uint32_t gli_broadcast_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_broadcast_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return (size - 1) * vector_bytes;
}

void gli_broadcast_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  if (p->rank != p->root) {
    gli_recv(b, p->root, out);
    return;
  }
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, (uint32_t)(((uint64_t)p->root + k) % p->size), in);
  gli_copy(b, in, out);
}
