/* Broadcast, two levels.
 *
 * Wins: several hosts with several ranks each: the vector reaches each host
 * once.
 * Cost for H hosts of L ranks and m bytes: the rounds of the best broadcast of
 * L ranks, of the best one of H ranks and m/L bytes, and one round within the
 * other hosts. Across hosts, the ranks of the root's host together send as much
 * as a single root with the whole vector.
 * Source: for several leaders, Bayatpour, Chakraborty, Subramoni, Lu, Panda,
 * "Scalable Reduction Collectives with Data Partitioning-based Multi-Leader
 * Design", 2017.
 *
 * The root's host receives the vector first. The ranks with place i on all
 * hosts forward part i of the vector as it arrives, then each rank forwards its
 * part to the other ranks of its host. Two hosts of two ranks, root 1, parts at
 * each rank after each level:
 *
 *   rank             0     1     2     3
 *   root's host      0 1   0 1
 *   across           0 1   0 1   0     1         0 to 2, 1 to 3
 *   other hosts      0 1   0 1   0 1   0 1
 */
#include "algorithms/two_level.h"

void gli_broadcast_two_level(gli_builder *b, const gli_plan_params *p,
                             gli_build_fn best) {
  if (!gli_two_levels(p)) {
    best(b, p);
    return;
  }
  const gli_hosts *h = p->hosts;
  uint64_t parts = gli_leaders(p, p->count * p->elem_bytes);
  uint64_t place = h->place[p->rank];
  bool with_root = h->of[p->rank] == h->of[p->root];
  if (with_root) {
    gli_sub sub = gli_sub_host(p, GLI_BROADCAST, p->count);
    sub.root = h->place[p->root];
    sub.in = gli_elems(p, GLI_IN, 0, p->count);
    sub.out = gli_elems(p, GLI_OUT, 0, p->count);
    gli_sub_plan(b, best, &sub);
  }
  if (place < parts) {
    gli_range part = gli_parts(p, GLI_OUT, parts, place, place + 1);
    gli_sub sub = gli_sub_across(p, GLI_BROADCAST, part.bytes / p->elem_bytes);
    sub.root = h->of[p->root];
    sub.in = sub.out = part;
    gli_sub_plan(b, best, &sub);
  }
  for (uint64_t i = 0; i < parts && !with_root; i++) {
    gli_range part = gli_parts(p, GLI_OUT, parts, i, i + 1);
    gli_sub sub = gli_sub_host(p, GLI_BROADCAST, part.bytes / p->elem_bytes);
    sub.root = (uint32_t)i;
    sub.in = sub.out = part;
    gli_sub_plan(b, parts == 1 ? best : gli_broadcast_flat, &sub);
  }
}
