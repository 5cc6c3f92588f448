/* Barriers. */
#include "algorithms/two_level.h"

/* ---- all to all ---------------------------------------------------------- */

/* Barrier, all to all.
 *
 * Wins: a few ranks that share a host: one round, and no rank forwards
 * messages.
 * Cost for P ranks: one round of messages without bytes; every rank sends and
 * receives P-1.
 * Source: folklore; see Mellor-Crummey, Scott, "Algorithms for Scalable
 * Synchronization on Shared-Memory Multiprocessors", 1991, for flags that each
 * participant writes and reads.
 *
 * Every rank signals every other. P = 4, the ranks that signal each rank:
 *
 *   rank     0       1       2       3
 *            3 2 1   0 3 2   1 0 3   2 1 0
 */

uint32_t gli_barrier_all_to_all_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_barrier_all_to_all_bytes(uint32_t size, uint64_t vector_bytes) {
  (void)size, (void)vector_bytes;
  return 0;
}

/* Token 0 is this rank's own arrival, token k that of the k-th before it. */
void gli_barrier_all_to_all(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  for (uint64_t k = 1; k < size; k++) {
    gli_send(b, (uint32_t)((p->rank + k) % size), gli_bytes(GLI_TOKEN, 0, 1));
    gli_recv(b, (uint32_t)((p->rank + size - k) % size),
             gli_bytes(GLI_TOKEN, k, 1));
  }
}

/* ---- all to one ---------------------------------------------------------- */

/* Barrier, all to one.
 *
 * Wins: more ranks than cores on one host: fewest messages, and every rank but
 * the first is woken up once.
 * Cost for P ranks: 2 rounds of messages without bytes; rank 0 sends and
 * receives P-1, the others one each.
 * Source: folklore; the central counter in Mellor-Crummey, Scott, "Algorithms
 * for Scalable Synchronization on Shared-Memory Multiprocessors", 1991.
 *
 * Each rank signals rank 0, which then signals all others. P = 4:
 *
 *   1 --\          /-> 1
 *   2 ---> 0 == 0 ---> 2
 *   3 --/          \-> 3
 */

uint32_t gli_barrier_all_to_one_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_barrier_all_to_one_bytes(uint32_t size, uint64_t vector_bytes) {
  (void)size, (void)vector_bytes;
  return 0;
}

/* Token 0 is this rank's own arrival; at rank 0, token k is that of rank k. */
void gli_barrier_all_to_one(gli_builder *b, const gli_plan_params *p) {
  if (p->rank != 0) {
    gli_send(b, 0, gli_bytes(GLI_TOKEN, 0, 1));
    gli_recv(b, 0, gli_bytes(GLI_TOKEN, 1, 1));
    return;
  }
  for (uint32_t k = 1; k < p->size; k++)
    gli_recv(b, k, gli_bytes(GLI_TOKEN, k, 1));
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, k, gli_bytes(GLI_TOKEN, 0, p->size));
}

/* ---- dissemination ------------------------------------------------------- */

/* Barrier, dissemination.
 *
 * Wins: always; no algorithm with one message per rank and round has fewer
 * rounds.
 * Cost for P ranks: ceil(log2 P) rounds of messages without bytes; every rank
 * sends and receives one message in each.
 * Source: Hensgen, Finkel, Manber, "Two Algorithms for Barrier
 * Synchronization", 1988.
 *
 * In round k a rank tells the rank 2^k after it which ranks it has heard of,
 * and hears the same from the rank 2^k before it. P = 4, the ranks that each
 * has heard of:
 *
 *   rank       0         1         2         3
 *   round 0    3 0       0 1       1 2       2 3
 *   round 1    1 2 3 0   2 3 0 1   3 0 1 2   0 1 2 3
 */

uint32_t gli_barrier_dissemination_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) rounds++;
  return rounds;
}

uint64_t gli_barrier_dissemination_bytes(uint32_t size, uint64_t vector_bytes) {
  (void)size, (void)vector_bytes;
  return 0;
}

/* Token 0 is this rank's own arrival, token k + 1 the message of round k. A
 * message stands for all earlier ones, so its send waits for them. */
void gli_barrier_dissemination(gli_builder *b, const gli_plan_params *p) {
  uint64_t known = 1;
  for (uint64_t reach = 1; reach < p->size; reach *= 2) {
    uint32_t after = (uint32_t)((p->rank + reach) % p->size);
    uint32_t before = (uint32_t)((p->rank + p->size - reach) % p->size);
    gli_send(b, after, gli_bytes(GLI_TOKEN, 0, known));
    gli_recv(b, before, gli_bytes(GLI_TOKEN, known, 1));
    known++;
  }
}

/* ---- two level ----------------------------------------------------------- */

/* Barrier, two levels.
 *
 * Wins: several hosts with several ranks each: one rank of each host waits for
 * other hosts, and the ranks of its host wait for it.
 * Cost for H hosts: the rounds of the best barrier of H ranks, and one round
 * before it and one after it. A leader with L ranks on its host exchanges L-1
 * messages there.
 * Source: Mellor-Crummey, Scott, "Algorithms for Scalable Synchronization on
 * Shared-Memory Multiprocessors", 1991 (the idea of fitting the tree to the
 * machine).
 *
 * Two hosts of three ranks:
 *
 *   1 \            / 1
 *   2 -- 0 == 3 --   2   0 and 3 have a barrier of two
 *   4 --      3 -- 4
 *   5 /            \ 5
 */

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
