/* Algorithms in which every rank sends directly to every other. */
#include "plan/builder.h"

/* ---- allgather ----------------------------------------------------------- */

/* Allgather, direct.
 *
 * Wins: ranks that share a host, where every pair has its own link: as few
 * bytes as the ring in one round.
 * Cost for P ranks and m bytes of output: one round; every rank sends m (P-1)/P
 * bytes in P-1 messages.
 * Source: folklore; the linear algorithm in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * Each rank sends its block to all others, to the next rank first, so that the
 * ranks begin with different receivers. P = 4, block that arrives at each rank:
 *
 *   rank     0       1       2       3
 *            3 2 1   0 3 2   1 0 3   2 1 0
 */

uint32_t gli_allgather_direct_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_allgather_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_allgather_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range own = gli_own(p, GLI_IN);
  for (uint64_t k = 1; k < size; k++)
    gli_send(b, (uint32_t)((p->rank + k) % size), own);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t from = (p->rank + size - k) % size;
    gli_recv(b, (uint32_t)from, gli_block(p, GLI_OUT, from));
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
}

/* ---- allreduce ----------------------------------------------------------- */

/* Allreduce, direct.
 *
 * Wins: vectors of medium length on ranks that share a host, where every pair
 * has its own link: as few bytes as the ring in two rounds. The inputs are
 * added in rank order.
 * Cost for P ranks and m bytes: 2 rounds; every rank sends 2 m (P-1)/P bytes in
 * 2 (P-1) messages.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005 (its pairwise exchange,
 * without turns).
 *
 * The vector is cut into P parts. Every rank sends part j directly to rank j,
 * which adds the parts and sends the sum to all ranks. P = 4, parts that arrive
 * at each rank (rank : part):
 *
 *   rank       0                1                2                3
 *   reduce     1:0 2:0 3:0      0:1 2:1 3:1      0:2 1:2 3:2      0:3 1:3 2:3
 *   copy       all:1 :2 :3      all:0 :2 :3      all:0 :1 :3      all:0 :1 :2
 */

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

/* ---- alltoall ------------------------------------------------------------ */

/* All-to-all, direct: each block goes directly to its receiver.
 *
 * Wins: nearly always: no byte travels twice, and no rank waits for a turn.
 * Also for lengths that differ between ranks (alltoallv).
 * Cost for P ranks and m bytes of input: ceil((P-1) / 16) rounds, with 16
 * exchanges at a time; every rank sends m (P-1)/P bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * In exchange k, rank r sends to r + k and receives from r - k, modulo P. It
 * sends once exchange k - 16 has completed in both directions, so that a large
 * number of ranks does not send to one rank at the same time. P = 4, rank whose
 * block arrives:
 *
 *   rank          0   1   2   3
 *   exchange 1    3   0   1   2
 *            2    2   3   0   1
 *            3    1   2   3   0
 *
 * In place, the input is copied first, because arriving blocks overwrite it. */

#define WINDOW 16

uint32_t gli_alltoall_direct_rounds(uint32_t size) {
  return (size - 1 + WINDOW - 1) / WINDOW;
}

uint64_t gli_alltoall_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_alltoall_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range from = gli_aside(b, p);
  for (uint64_t k = 1; k < size; k += WINDOW) {
    uint64_t end = size - k < WINDOW ? size : k + WINDOW;
    for (uint64_t i = k; i < end; i++) {
      uint32_t to = (uint32_t)((p->rank + i) % size);
      gli_range block = gli_block(p, GLI_IN, to);
      block = gli_bytes(from.buffer, from.offset + block.offset, block.bytes);
      gli_lane(b, 1 + (unsigned)(i % WINDOW));
      gli_send(b, to, gli_told(p, block, 2 * i));
    }
    for (uint64_t i = k; i < end; i++) {
      uint32_t source = (uint32_t)((p->rank + size - i) % size);
      gli_lane(b, 1 + (unsigned)(i % WINDOW));
      gli_recv(b, source,
               gli_told(p, gli_block(p, GLI_OUT, source), 2 * i + 1));
    }
  }
  gli_copy(b, gli_block(p, GLI_IN, p->rank), gli_block(p, GLI_OUT, p->rank));
}

/* ---- reduce -------------------------------------------------------------- */

/* Reduce, direct.
 *
 * Wins: long vectors that must be added in the order of ranks: every rank adds
 * its part of all inputs, one after the other, and no rank sends more than m
 * bytes.
 * Cost for P ranks and m bytes: 2 rounds; every rank but the root sends m bytes
 * in P messages, the root m (P-1)/P bytes.
 * Source: folklore; the first half is the reduce-scatter below.
 *
 * The vector is cut into P parts. Every rank sends part j directly to rank j,
 * which adds the parts and sends the sum to the root. P = 3, root 1, parts that
 * arrive at each rank (rank : part):
 *
 *   rank       0          1              2
 *   reduce     1:0 2:0    0:1 2:1        0:2 1:2
 *   collect               all:0 all:2
 */

uint32_t gli_reduce_direct_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_reduce_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_reduce_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, me = p->rank;
  bool root = p->rank == p->root;
  gli_range own = gli_parts(p, GLI_IN, size, me, me + 1);
  gli_range out = gli_parts(p, GLI_OUT, size, me, me + 1);
  if (!root) out = gli_scratch(b, own.bytes);
  gli_range sum = out; /* in place, `out` holds input until it is added */
  if (root && p->in_place && size > 2) sum = gli_scratch(b, own.bytes);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t to = (me + k) % size;
    gli_send(b, (uint32_t)to, gli_parts(p, GLI_IN, size, to, to + 1));
  }
  gli_recv_all_reduce(b, p, own, sum, out);
  if (!root) gli_send(b, p->root, out);
  for (uint64_t k = 1; root && k < size; k++) {
    uint64_t from = (me + size - k) % size;
    gli_recv(b, (uint32_t)from, gli_parts(p, GLI_OUT, size, from, from + 1));
  }
}

/* ---- reduce scatter ------------------------------------------------------ */

/* Reduce-scatter, direct.
 *
 * Wins: ranks that share a host, where every pair has its own link: as few
 * bytes as the ring in one round. The inputs are added in rank order.
 * Cost for P ranks and m bytes of input: one round; every rank sends m (P-1)/P
 * bytes in P-1 messages.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005 (its pairwise exchange,
 * without turns).
 *
 * Every rank sends block j directly to rank j, which adds the blocks in order.
 * P = 4, blocks that arrive at each rank (rank : block):
 *
 *   rank     0             1             2             3
 *            1:0 2:0 3:0   0:1 2:1 3:1   0:2 1:2 3:2   0:3 1:3 2:3
 */

uint32_t gli_reduce_scatter_direct_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_reduce_scatter_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_reduce_scatter_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range out = gli_own(p, GLI_OUT), own = gli_block(p, GLI_IN, p->rank);
  gli_range result = gli_apart(b, p, own, out), sum = result;
  if (p->in_place && size > 2) sum = gli_scratch(b, out.bytes);
  for (uint64_t k = 1; k < size; k++) {
    uint64_t to = (p->rank + k) % size;
    gli_send(b, (uint32_t)to, gli_block(p, GLI_IN, to));
  }
  gli_recv_all_reduce(b, p, own, sum, result);
  gli_copy(b, result, out);
}
