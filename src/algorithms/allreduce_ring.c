/* Allreduce, ring.
 *
 * Wins: long vectors on few ranks, and very long ones on many: it sends as few
 * bytes as possible, and only to the next rank, so that ranks that share a host
 * load its network card once.
 * Cost for P ranks and m bytes: 2 (P-1) rounds; every rank sends
 * 2 m (P-1)/P bytes.
 * Source: Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for
 * Clusters of Workstations", 2009.
 *
 * The vector is cut into P parts. Part i starts at rank i and goes round,
 * growing by one rank's share at each; when it is complete it goes round once
 * more, to be copied. P = 4, what arrives at each rank (ranks summed : part):
 *
 *   rank     0        1        2        3
 *   reduce   3:3      0:0      1:1      2:2
 *            23:2     30:3     01:0     12:1
 *            123:1    230:2    301:3    012:0     then with its own: complete
 *   copy     all:0    all:1    all:2    all:3
 *            all:3    all:0    all:1    all:2
 *            all:2    all:3    all:0    all:1
 */
#include "plan/builder.h"

uint32_t gli_allreduce_ring_rounds(uint32_t size) {
  return 2 * (size - 1);
}

uint64_t gli_allreduce_ring_bytes(uint32_t size, uint64_t vector_bytes) {
  return 2 * (vector_bytes - vector_bytes / size);
}

void gli_allreduce_ring(gli_builder *b, const gli_plan_params *p) {
  uint32_t size = p->size, next = (p->rank + 1) % size;
  uint32_t previous = (p->rank + size - 1) % size;
  if (size == 1)
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count),
             gli_elems(p, GLI_OUT, 0, p->count));

  for (uint32_t round = 1; round < size; round++) {
    uint32_t sent = (p->rank + size - round + 1) % size;
    uint32_t got = (p->rank + size - round) % size;
    gli_buffer held = round == 1 ? GLI_IN : GLI_OUT;
    gli_send(b, next, gli_parts(p, held, size, sent, sent + 1));
    gli_recv_reduce(b, previous, gli_parts(p, GLI_IN, size, got, got + 1),
                    gli_parts(p, GLI_OUT, size, got, got + 1), true);
  }
  for (uint32_t round = 1; round < size; round++) {
    uint32_t sent = (p->rank + size - round + 2) % size;
    uint32_t got = (p->rank + size - round + 1) % size;
    gli_send(b, next, gli_parts(p, GLI_OUT, size, sent, sent + 1));
    gli_recv(b, previous, gli_parts(p, GLI_OUT, size, got, got + 1));
  }
}
