/* Broadcast, chain: from rank to rank.
 *
 * Wins: between hosts, very long vectors: cut into segments they flow along the
 * chain, and every rank sends each byte once. By simulation, from 1 MiB on 8
 * hosts and 16 MiB on 64, where it takes little more than half the time of
 * scatter_allgather. Not on one host with fewer cores than ranks, where the
 * copies of all ranks add up: on 4 and 8 ranks it measured between 0.8 and 2.1
 * times scatter_allgather's time.
 * Cost for P ranks and m bytes: P-1 rounds; every rank but the last sends m
 * bytes. With n segments it takes as long as P - 2 + n messages of m/n bytes.
 * Source: folklore; see Barnett, Gupta, Payne, Shuler, van de Geijn, Watts,
 * "Interprocessor Collective Communication Library (InterCom)", 1994.
 *
 * Ranks are numbered from the root. P = 4, three segments, arriving segment:
 *
 *   number   1   2   3
 *            a
 *            b   a
 *            c   b   a
 *                c   b
 *                    c
 */
#include "plan/builder.h"

uint32_t gli_broadcast_chain_rounds(uint32_t size) {
  return size - 1;
}

uint64_t gli_broadcast_chain_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_broadcast_chain(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, number = (p->rank + size - p->root) % size;
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT);
  if (number > 0) gli_recv(b, gli_numbered(p, number - 1), out);
  if (number + 1 < size)
    gli_send(b, gli_numbered(p, number + 1), number == 0 ? in : out);
  if (number == 0) gli_copy(b, in, out);
}
