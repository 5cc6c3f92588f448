/* Barrier, two levels.
 *
 * Wins: several hosts with several ranks each: one rank of each host waits for
 * other hosts, and the ranks of its host wait for it.
 * Cost for H hosts: the rounds of the best barrier of H ranks, and one round
 * before and one behind it. A leader with L ranks on its host exchanges L-1
 * messages there.
 * Source: Mellor-Crummey, Scott, "Algorithms for Scalable Synchronization on
 * Shared-Memory Multiprocessors", 1991, for the idea of fitting the tree to the
 * machine.
 *
 * Two hosts of three ranks:
 *
 *   1 \            / 1
 *   2 -- 0 == 3 --   2   0 and 3 have a barrier of two
 *   4 --      3 -- 4
 *   5 /            \ 5
 */
#include "algorithms/two_level.h"

void gli_barrier_two_level(gli_builder *b, const gli_plan_params *p,
                           gli_build_fn best) {
  if (!gli_two_levels(p)) {
    best(b, p);
    return;
  }
  gli_sub within = gli_sub_host(p, GLI_BARRIER, 0);
  if (within.rank > 0) {
    gli_send(b, within.members[0], gli_heard(b));
    gli_recv(b, within.members[0], gli_bytes(GLI_TOKEN, 1, 1));
    return;
  }
  for (uint32_t i = 1; i < within.size; i++)
    gli_recv(b, within.members[i], gli_bytes(GLI_TOKEN, i, 1));
  gli_sub across = gli_sub_across(p, GLI_BARRIER, 0);
  gli_sub_plan(b, best, &across);
  for (uint32_t i = 1; i < within.size; i++)
    gli_send(b, within.members[i], gli_heard(b));
}
