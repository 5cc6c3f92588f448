/* Reduce, fused.
 *
 * Wins: ranks of one host that reach each other's memory. Every byte of the
 * inputs is then read once, every byte of the output written once, by all ranks
 * together, and only rkeys travel. Each element is added up in the order of
 * ranks.
 * Cost for P ranks and m bytes if all bytes must be sent: 2 rounds; every rank
 * but the root sends m bytes, the root m (P-1)/P and 8 (P-1) bytes for each
 * piece.
 * Source: see allreduce_fused.c.
 *
 * The vector is cut into P parts. Rank r adds up part r of all inputs in their
 * owners' memory, and stores the sum in the root's output. P = 3, root 0; rank
 * 1 reads and writes the parts in brackets, the others likewise:
 *
 *   rank     0             1             2
 *   input    a0 [a1] a2    b0 [b1] b2    c0 [c1] c2     GET by rank 1
 *                 \           |           /
 *                        a1 + b1 + c1
 *                 /
 *   output   s0 [s1] s2                                 PUT by rank 1
 *
 * In place, the root's input is its output: it exposes the same range for GET
 * and for PUT, and one step reads and writes it. */
#include "algorithms/fused.h"

uint32_t gli_reduce_fused_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_reduce_fused_bytes(uint32_t size, uint64_t vector_bytes) {
  if (size == 1) return 0;
  uint64_t root =
      vector_bytes - vector_bytes / size +
      8 * (uint64_t)(size - 1) * gli_fused_turns(size, vector_bytes);
  return root > vector_bytes ? root : vector_bytes;
}

typedef struct layout {
  const gli_plan_params *p;
  bool root;
  uint64_t turns;
  uint32_t others;
  gli_range sum;    /* buffer for this rank's part of the sum */
  gli_range blocks; /* the others' parts in each turn, if bytes are sent */
  uint64_t stride;  /* distance between consecutive blocks */
} layout;

/* Returns the elements of part `part` that belong to turn t. */
static gli_range reduce_piece(const layout *l, gli_buffer buffer, uint32_t part,
                              uint64_t t) {
  return gli_fused_part(l->p, buffer, part, l->turns, t);
}

/* Returns the range for turn t of this rank's part of the sum. */
static gli_range reduce_sum_of(const layout *l, uint64_t t) {
  gli_range in = reduce_piece(l, GLI_IN, l->p->rank, t);
  if (l->root) return reduce_piece(l, GLI_OUT, l->p->rank, t);
  uint64_t first = reduce_piece(l, GLI_IN, l->p->rank, 0).offset;
  return gli_bytes(GLI_SCRATCH, l->sum.offset + in.offset - first, in.bytes);
}

static layout reduce_lay_out(gli_builder *b, const gli_plan_params *p) {
  layout l = {.p = p,
              .root = p->rank == p->root,
              .turns = gli_fused_turns(p->size, p->count * p->elem_bytes),
              .others = p->size - 1};
  l.sum = gli_parts(p, l.root ? GLI_OUT : GLI_IN, p->size, p->rank,
                    (uint64_t)p->rank + 1);
  if (!l.root) l.sum = gli_scratch(b, l.sum.bytes);
  if (l.others == 1 || l.turns == 0) return l;
  l.stride = (reduce_piece(&l, GLI_IN, p->rank, 0).bytes + 63) / 64 * 64;
  l.blocks = gli_scratch(b, l.turns * l.others * l.stride);
  return l;
}

/* Exposes to each other rank the part that it adds up; the root also exposes
 * the part of its output. */
static void reduce_offer(gli_builder *b, const layout *l, uint64_t t) {
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(l->p, k);
    if (l->root) gli_expose_put(b, rank, reduce_piece(l, GLI_OUT, rank, t));
    gli_expose_get(b, rank, reduce_piece(l, GLI_IN, rank, t));
  }
}

/* Receives the exposed ranges, and adds them into `sum` and the put, if any. */
static void reduce_add_up(gli_builder *b, const layout *l, uint64_t t,
                          uint32_t put) {
  const gli_plan_params *p = l->p;
  gli_range in = reduce_piece(l, GLI_IN, p->rank, t), sum = reduce_sum_of(l, t);
  uint32_t n_puts = l->root ? 0 : 1;
  if (l->others == 1) {
    uint32_t peer = 1 - p->rank;
    gli_recv_reduce_get(b, peer, in, sum, peer < p->rank, put, n_puts);
    return;
  }
  gli_reduction r = {.local = in,
                     .dst = sum,
                     .own = p->rank,
                     .n = l->others,
                     .blocks = l->blocks,
                     .stride = l->stride,
                     .get = gli_windows(b, l->others),
                     .put = put,
                     .n_puts = n_puts};
  r.blocks.offset += t * l->others * l->stride;
  r.blocks.bytes = in.bytes;
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    uint32_t window = rank < p->rank ? rank : rank - 1;
    gli_range block = r.blocks;
    block.offset += window * l->stride;
    gli_recv_get(b, rank, block, r.get + window);
  }
  gli_reduce_all(b, &r);
}

/* Gives back the memory exposed to this rank: the puts to the root, once
 * written, and the gets of the others, once read. */
static void reduce_give_back(gli_builder *b, const layout *l, uint32_t puts) {
  const gli_plan_params *p = l->p;
  for (uint64_t t = 0; t < l->turns; t++) {
    if (!l->root) gli_put(b, p->root, reduce_sum_of(l, t), puts + (uint32_t)t);
  }
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    if (rank != p->root) gli_signal(b, rank, l->sum);
  }
}

/* Waits until the others have given back this rank's exposed memory. */
static void reduce_take_back(gli_builder *b, const layout *l) {
  const gli_plan_params *p = l->p;
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    gli_range part = gli_parts(p, GLI_IN, p->size, rank, (uint64_t)rank + 1);
    if (part.bytes == 0) continue;
    for (uint64_t t = 0; l->root && t < l->turns; t++) {
      gli_recv_put(b, rank, reduce_piece(l, GLI_OUT, rank, t));
    }
    if (!l->root) gli_await(b, rank, gli_bytes(GLI_TOKEN, rank + 1, 1));
  }
}

void gli_reduce_fused(gli_builder *b, const gli_plan_params *p) {
  if (p->size == 1) {
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count),
             gli_elems(p, GLI_OUT, 0, p->count));
    return;
  }
  layout l = reduce_lay_out(b, p);
  uint32_t puts = l.root ? 0 : gli_windows(b, (uint32_t)l.turns);
  for (uint64_t t = 0; t < l.turns; t++) {
    reduce_offer(b, &l, t);
    uint32_t put = l.root ? 0 : puts + (uint32_t)t;
    uint64_t bytes = reduce_piece(&l, GLI_IN, p->rank, t).bytes;
    if (!l.root) gli_recv_window(b, p->root, bytes, put);
    reduce_add_up(b, &l, t, put);
  }
  reduce_give_back(b, &l, puts);
  reduce_take_back(b, &l);
}
