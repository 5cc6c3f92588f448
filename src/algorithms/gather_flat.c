/* Gather, flat: each rank sends to the root.
 *
 * Wins: long blocks, and few ranks: no byte travels twice. Of lengths that
 * differ between ranks (gatherv) too, which only the root knows all of.
 * Cost for P ranks and m bytes of output: one round; every rank but the root
 * sends m/P bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 *   1 -> 0,  2 -> 0,  3 -> 0   (P = 4, root 0)
 */
#include "plan/builder.h"

uint32_t gli_gather_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_gather_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes / size : 0;
}

void gli_gather_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range own = gli_own(p, GLI_IN);
  if (p->rank != p->root) {
    gli_send(b, p->root, gli_told(p, own, 1));
    return;
  }
  for (uint64_t k = 1; k < p->size; k++) {
    uint64_t from = (p->root + k) % p->size;
    gli_recv(b, (uint32_t)from, gli_told(p, gli_block(p, GLI_OUT, from), k));
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
}
