/* Scatter, flat: the root sends to each rank.
 *
 * Wins: long blocks, and few ranks: no byte travels twice. Of lengths that
 * differ between ranks (scatterv) too, which only the root knows all of.
 * Cost for P ranks and m bytes of input: one round; the root sends m (P-1)/P
 * bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 *   0 -> 1,  0 -> 2,  0 -> 3   (P = 4, root 0)
 */
#include "plan/builder.h"

uint32_t gli_scatter_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_scatter_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

/* In place, the root's own block stays where it is. */
void gli_scatter_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range own = gli_own(p, GLI_OUT);
  if (p->rank != p->root) {
    gli_recv(b, p->root, gli_told(p, own, 1));
    return;
  }
  for (uint64_t k = 1; k < p->size; k++) {
    uint64_t to = (p->root + k) % p->size;
    gli_send(b, (uint32_t)to, gli_told(p, gli_block(p, GLI_IN, to), k));
  }
  if (!p->in_place) gli_copy(b, gli_block(p, GLI_IN, p->rank), own);
}
