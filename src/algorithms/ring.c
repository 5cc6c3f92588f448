/* Algorithms on a ring, in which every rank sends to the next one only. */
#include "plan/builder.h"

/* ---- allgather ----------------------------------------------------------- */

/* Allgather, ring.
 *
 * Wins: long vectors, and few ranks: ranks send to the next rank only.
 * Cost for P ranks and m bytes of output: P-1 rounds; every rank sends
 * m (P-1)/P bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Every block goes round once. P = 4, block that arrives at each rank:
 *
 *   rank     0   1   2   3
 *            3   0   1   2
 *            2   3   0   1
 *            1   2   3   0
 */

uint32_t gli_allgather_ring_rounds(uint32_t size) {
  return size - 1;
}

uint64_t gli_allgather_ring_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_allgather_ring(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  uint32_t next = (uint32_t)((p->rank + 1) % size);
  uint32_t previous = (uint32_t)((p->rank + size - 1) % size);
  gli_range own = gli_own(p, GLI_IN), held = own;
  for (uint64_t round = 1; round < size; round++) {
    uint64_t got = (p->rank + size - round) % size;
    gli_send(b, next, held);
    held = gli_block(p, GLI_OUT, got);
    gli_recv(b, previous, held);
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
}

/* ---- allreduce ----------------------------------------------------------- */

/* Allreduce, ring.
 *
 * Wins: long vectors on few ranks, and very long ones on many: it sends as few
 * bytes as possible, and only to the next rank, so that the ranks of a host
 * together load its network link once.
 * Cost for P ranks and m bytes: 2 (P-1) rounds; every rank sends 2 m (P-1)/P
 * bytes.
 * Source: Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for
 * Clusters of Workstations", 2009.
 *
 * The vector is cut into P parts. Part i starts at rank i and goes round, with
 * each rank adding its share; the complete part goes round once more, to be
 * copied. P = 4, sums that arrive at each rank (ranks summed : part):
 *
 *   rank     0        1        2        3
 *   reduce   3:3      0:0      1:1      2:2
 *            23:2     30:3     01:0     12:1
 *            123:1    230:2    301:3    012:0     own share completes it
 *   copy     all:0    all:1    all:2    all:3
 *            all:3    all:0    all:1    all:2
 *            all:2    all:3    all:0    all:1
 */

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

/* ---- reduce scatter ------------------------------------------------------ */

/* Reduce-scatter, ring.
 *
 * Wins: long vectors, and few ranks: ranks send to the next rank only, and two
 * blocks of scratch memory suffice.
 * Cost for P ranks and m bytes of input: P-1 rounds; every rank sends m (P-1)/P
 * bytes.
 * Source: Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for
 * Clusters of Workstations", 2009 (its first half).
 *
 * Block i starts at rank i + 1 and goes round, with each rank adding its share,
 * until it is complete at rank i. P = 4, sums that arrive at each rank (ranks
 * summed : block):
 *
 *   rank     0        1        2        3
 *            3:2      0:3      1:0      2:1
 *            23:1     30:2     01:3     12:0
 *            123:0    230:1    301:2    012:3     own share completes it
 */

uint32_t gli_reduce_scatter_ring_rounds(uint32_t size) {
  return size - 1;
}

uint64_t gli_reduce_scatter_ring_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

static uint64_t longest_block(const gli_plan_params *p) {
  uint64_t longest = gli_block(p, GLI_IN, 0).bytes;
  for (uint64_t k = 1; k < p->size && p->counts != NULL; k++) {
    uint64_t bytes = gli_block(p, GLI_IN, k).bytes;
    if (bytes > longest) longest = bytes;
  }
  return longest;
}

void gli_reduce_scatter_ring(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  uint32_t next = (uint32_t)((p->rank + 1) % size);
  uint32_t previous = (uint32_t)((p->rank + size - 1) % size);
  gli_range out = gli_own(p, GLI_OUT);
  if (size == 1) {
    gli_copy(b, gli_block(p, GLI_IN, 0), out);
    return;
  }

  /* Sums pass through scratch, because in place OUT still holds input. Two
   * buffers alternate: one is sent while the other fills. */
  gli_range result = gli_apart(b, p, gli_block(p, GLI_IN, p->rank), out);
  gli_range turn[2] = {result, result};
  for (uint64_t i = 0; i < 2 && i + 2 < size; i++)
    turn[i] = gli_scratch(b, longest_block(p));
  gli_range held = gli_block(p, GLI_IN, (p->rank + size - 1) % size);
  for (uint64_t round = 1; round < size; round++) {
    uint64_t got = (p->rank + size - round - 1) % size;
    gli_range block = gli_block(p, GLI_IN, got), sum = result;
    if (round < size - 1) {
      sum = turn[(round - 1) % 2];
      sum.bytes = block.bytes;
    }
    gli_send(b, next, held);
    gli_recv_reduce(b, previous, block, sum, true);
    held = sum;
  }
  gli_copy(b, result, out);
}
