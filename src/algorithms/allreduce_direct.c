/* Allreduce, direct.
 *
 * Wins: vectors of middle size on ranks that share a host, where every pair has
 * a link of its own: as few bytes as the ring in two rounds. The inputs are
 * added in rank order.
 * Cost for P ranks and m bytes: 2 rounds; every rank sends 2 m (P-1)/P bytes in
 * 2 (P-1) messages.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005 (its pairwise exchange,
 * without turns).
 *
 * The vector is cut into P parts. Part j of all ranks goes straight to rank j,
 * which adds them and sends the sum to all ranks. P = 4, what arrives at each
 * rank (rank : part):
 *
 *   rank       0                1                2                3
 *   reduce     1:0 2:0 3:0      0:1 2:1 3:1      0:2 1:2 3:2      0:3 1:3 2:3
 *   copy       all:1 :2 :3      all:0 :2 :3      all:0 :1 :3      all:0 :1 :2
 */
#include "plan/builder.h"

uint32_t gli_allreduce_direct_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_allreduce_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return 2 * (vector_bytes - vector_bytes / size);
}

void gli_allreduce_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, me = p->rank;
  gli_range out = gli_parts(p, GLI_OUT, size, me, me + 1), sum = out;
  if (p->in_place && size > 2) sum = gli_scratch(b, out.bytes);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t to = (me + k) % size;
    gli_send(b, (uint32_t)to, gli_parts(p, GLI_IN, size, to, to + 1));
  }
  gli_recv_all_reduce(b, p, gli_parts(p, GLI_IN, size, me, me + 1), sum, out);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t from = (me + size - k) % size;
    gli_send(b, (uint32_t)((me + k) % size), out);
    gli_recv(b, (uint32_t)from, gli_parts(p, GLI_OUT, size, from, from + 1));
  }
}
