/* Steps that several algorithms have in common. */
#include "plan/builder.h"

void gli_recv_all_reduce(gli_builder *b, const gli_plan_params *p,
                         gli_range own, gli_range sum, gli_range dst) {
  gli_range held = own;
  if (p->size == 1) gli_copy(b, own, dst);
  if (p->rank > 1) {
    gli_recv(b, 0, sum);
    held = sum;
  }
  for (uint32_t k = 1; k < p->size; k++) {
    gli_range to = k == p->size - 1 ? dst : sum;
    if (k != p->rank) {
      gli_recv_reduce(b, k, held, to, false);
    } else if (k == 1) {
      gli_recv_reduce(b, 0, own, to, true);
    } else {
      gli_reduce(b, held, own, to);
    }
    held = to;
  }
}
