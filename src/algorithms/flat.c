/* Algorithms in which one rank exchanges messages with all others. */
#include "plan/builder.h"

/* ---- allgather ----------------------------------------------------------- */

/* Allgather, flat: rank 0 gathers all blocks and sends them to all ranks.
 *
 * Wins: short vectors with more ranks than cores: fewest messages, and every
 * rank but the first is woken up once. Also for lengths that differ between
 * ranks (allgatherv).
 * Cost for P ranks and m bytes of output: 2 rounds; rank 0 sends m (P-1) bytes.
 * Source: folklore; the linear algorithms in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * P = 4:
 *
 *   1 --\              /-> 1
 *   2 ---> 0: 0 1 2 3 ---> 2
 *   3 --/              \-> 3
 */

uint32_t gli_allgather_flat_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_allgather_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return (size - 1) * vector_bytes;
}

void gli_allgather_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range own = gli_own(p, GLI_IN);
  if (p->rank != 0) {
    gli_send(b, 0, own);
    for (uint64_t i = 0; i < gli_extents(p); i++)
      gli_recv(b, 0, gli_extent(p, GLI_OUT, i));
    return;
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, 0));
  for (uint32_t k = 1; k < p->size; k++)
    gli_recv(b, k, gli_block(p, GLI_OUT, k));
  for (uint32_t k = 1; k < p->size; k++)
    for (uint64_t i = 0; i < gli_extents(p); i++)
      gli_send(b, k, gli_extent(p, GLI_OUT, i));
}

/* ---- allreduce ----------------------------------------------------------- */

/* Allreduce, flat: rank 0 adds all inputs and sends the sum to all ranks.
 *
 * Wins: short vectors with more ranks than cores: fewest messages, and every
 * rank but the first is woken up once. The inputs are added in rank order.
 * Cost for P ranks and m bytes: 2 rounds; rank 0 sends m (P-1) bytes, and
 * receives and adds the same number.
 * Source: folklore; the linear algorithms in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * P = 4:
 *
 *   1 --\                    /-> 1
 *   2 ---> 0: 0 + 1 + 2 + 3 ---> 2
 *   3 --/                    \-> 3
 */

uint32_t gli_allreduce_flat_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_allreduce_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return (size - 1) * vector_bytes;
}

void gli_allreduce_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  if (p->rank != 0) {
    gli_send(b, 0, in);
    gli_recv(b, 0, out);
    return;
  }
  gli_recv_all_reduce(b, p, in, out, out);
  for (uint32_t k = 1; k < p->size; k++) gli_send(b, k, out);
}

/* ---- broadcast ----------------------------------------------------------- */

/* Broadcast, flat.
 *
 * Wins: few ranks that share a host: every rank receives from the root itself,
 * and no rank waits for another one to wake up and forward.
 * Cost for P ranks and m bytes: one round; the root sends m bytes P-1 times.
 * Source: folklore (the linear algorithm of any library).
 *
 * P = 4, root 0:
 *
 *   0 -> 1
 *   |--> 2
 *    \-> 3
 */

uint32_t gli_broadcast_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_broadcast_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return (size - 1) * vector_bytes;
}

void gli_broadcast_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  if (p->rank != p->root) {
    gli_recv(b, p->root, out);
    return;
  }
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, (uint32_t)(((uint64_t)p->root + k) % p->size), in);
  gli_copy(b, in, out);
}

/* ---- gather -------------------------------------------------------------- */

/* Gather, flat: each rank sends to the root.
 *
 * Wins: long blocks, and few ranks: no byte travels twice. Also for lengths
 * that differ between ranks (gatherv), all of which only the root knows.
 * Cost for P ranks and m bytes of output: one round; every rank but the root
 * sends m/P bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 *   1 -> 0,  2 -> 0,  3 -> 0   (P = 4, root 0)
 */

uint32_t gli_gather_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_gather_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes / size : 0;
}

void gli_gather_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range own = gli_own(p, GLI_IN);
  if (p->rank != p->root) {
    gli_send(b, p->root, gli_told(p, own, 1));
    return;
  }
  for (uint64_t k = 1; k < p->size; k++) {
    uint64_t from = (p->root + k) % p->size;
    gli_recv(b, (uint32_t)from, gli_told(p, gli_block(p, GLI_OUT, from), k));
  }
  gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
}

/* ---- reduce -------------------------------------------------------------- */

/* Reduce, flat: each rank sends to the root.
 *
 * Wins: few ranks, and any number if the order of the operands matters: the
 * root adds the inputs in rank order, one after the other.
 * Cost for P ranks and m bytes: one round; every rank but the root sends m
 * bytes, and the root receives and adds m (P-1).
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * P = 4, root 2, steps of the root:
 *
 *   sum = 0;  sum = sum + 1;  out = sum + own;  out = out + 3
 *
 * Inputs of narrow floats are all received first, and added in one step. */

uint32_t gli_reduce_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_reduce_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_reduce_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN);
  if (p->rank != p->root) {
    gli_send(b, p->root, in);
    return;
  }
  gli_range out = gli_own(p, GLI_OUT), sum = in;
  if (p->low_precision && p->size > 2) {
    gli_recv_all_reduce(b, p, in, out, out);
    return;
  }
  if (p->root == 1) {
    gli_recv_reduce(b, 0, in, out, true);
    sum = out;
  } else if (p->root >
             0) { /* in place, OUT holds the root's input until it is added */
    sum = p->in_place ? gli_scratch(b, in.bytes) : out;
    gli_recv(b, 0, sum);
    for (uint32_t from = 1; from < p->root; from++)
      gli_recv_reduce(b, from, sum, sum, false);
    gli_reduce(b, sum, in, out);
    sum = out;
  }
  for (uint32_t from = p->root + 1; from < p->size; from++) {
    gli_recv_reduce(b, from, sum, out, false);
    sum = out;
  }
  if (p->size == 1) gli_copy(b, in, out);
}

/* ---- reduce scatter ------------------------------------------------------ */

/* Reduce-scatter, flat: rank 0 adds everything, and sends each rank its block.
 *
 * Wins: short vectors with more ranks than cores: fewest messages, and every
 * rank but the first is woken up once. The inputs are added in rank order. Also
 * for lengths that differ between ranks (reduce_scatterv).
 * Cost for P ranks and m bytes of input: 2 rounds; rank 0 receives and adds
 * m (P-1) bytes, and sends m (P-1)/P; the others send m bytes.
 * Source: folklore; the linear algorithms in Thakur, Rabenseifner, Gropp,
 * "Optimization of Collective Communication Operations in MPICH", 2005.
 *
 * P = 4, with the blocks of the sum that are sent:
 *
 *   1 --\                    /-> 1: block 1
 *   2 ---> 0: 0 + 1 + 2 + 3 ---> 2: block 2
 *   3 --/                    \-> 3: block 3
 */

uint32_t gli_reduce_scatter_flat_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_reduce_scatter_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

/* Returns block k of the sum; blocks of the sum are adjacent. */
static gli_range reduce_scatter_block_of(const gli_plan_params *p,
                                         gli_range sum, uint64_t k) {
  uint64_t before = gli_elems_before(p, GLI_IN, k) * p->elem_bytes;
  return gli_bytes(sum.buffer, sum.offset + before,
                   gli_block(p, GLI_IN, k).bytes);
}

static void add_all(gli_builder *b, const gli_plan_params *p, gli_range sum) {
  for (uint64_t i = 0; i < gli_extents(p); i++) {
    gli_range part =
        gli_extents(p) > 1 ? reduce_scatter_block_of(p, sum, i) : sum;
    gli_recv_all_reduce(b, p, gli_extent(p, GLI_IN, i), part, part);
  }
}

void gli_reduce_scatter_flat(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_own(p, GLI_OUT);
  if (p->size == 1) {
    gli_copy(b, gli_block(p, GLI_IN, 0), out);
    return;
  }
  if (p->rank != 0) {
    for (uint64_t i = 0; i < gli_extents(p); i++)
      gli_send(b, 0, gli_extent(p, GLI_IN, i));
    gli_recv(b, 0, out);
    return;
  }
  uint64_t all = gli_elems_before(p, GLI_IN, p->size);
  gli_range sum = gli_scratch(b, all * p->elem_bytes);
  add_all(b, p, sum);
  for (uint32_t k = 1; k < p->size; k++)
    gli_send(b, k, reduce_scatter_block_of(p, sum, k));
  gli_copy(b, reduce_scatter_block_of(p, sum, 0), out);
}

/* ---- scatter ------------------------------------------------------------- */

/* Scatter, flat: the root sends to each rank.
 *
 * Wins: long blocks, and few ranks: no byte travels twice. Also for lengths
 * that differ between ranks (scatterv), all of which only the root knows.
 * Cost for P ranks and m bytes of input: one round; the root sends m (P-1)/P
 * bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 *   0 -> 1,  0 -> 2,  0 -> 3   (P = 4, root 0)
 */

uint32_t gli_scatter_flat_rounds(uint32_t size) {
  return size > 1;
}

uint64_t gli_scatter_flat_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

/* In place, the root's own block is not copied. */
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
