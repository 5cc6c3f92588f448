/* Reduce, fused.
 *
 * Wins: ranks of one host that reach each other's memory. Every byte of the
 * inputs is then read once, every byte of the output written once, by all ranks
 * together, and what travels is references. Each element is added up in the
 * order of ranks.
 * Cost for P ranks and m bytes when all bytes have to be sent: 2 rounds; every
 * rank but the root sends m bytes, the root m (P-1)/P and 8 (P-1) bytes for
 * each piece. Source: as that of allreduce_fused.c.
 *
 * The vector is cut into P parts. Rank r adds up part r of all inputs, where
 * they are, and stores the sum in the root's output. P = 3, root 0; rank 1
 * reads and writes what is in brackets, the others likewise:
 *
 *   rank     0             1             2
 *   input    a0 [a1] a2    b0 [b1] b2    c0 [c1] c2     shown to rank 1
 *                 \           |           /
 *                        a1 + b1 + c1
 *                 /
 *   output   s0 [s1] s2                                 lent to rank 1
 *
 * In place the root's input is its output: what it lends is what it shows, and
 * one step reads and writes it. */
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
  gli_range sum;    /* where this rank's part of the sum is made */
  gli_range blocks; /* of the others, for one turn each, when bytes are sent */
  uint64_t stride;  /* from one to the next */
} layout;

/* Elements of part `part` that belong to turn t. */
static gli_range piece(const layout *l, gli_buffer buffer, uint32_t part,
                       uint64_t t) {
  return gli_fused_part(l->p, buffer, part, l->turns, t);
}

/* Of this rank's part of the sum. */
static gli_range sum_of(const layout *l, uint64_t t) {
  gli_range in = piece(l, GLI_IN, l->p->rank, t);
  if (l->root) return piece(l, GLI_OUT, l->p->rank, t);
  uint64_t first = piece(l, GLI_IN, l->p->rank, 0).offset;
  return gli_bytes(GLI_SCRATCH, l->sum.offset + in.offset - first, in.bytes);
}

static layout lay_out(gli_builder *b, const gli_plan_params *p) {
  layout l = {.p = p,
              .root = p->rank == p->root,
              .turns = gli_fused_turns(p->size, p->count * p->elem_bytes),
              .others = p->size - 1};
  l.sum = gli_parts(p, l.root ? GLI_OUT : GLI_IN, p->size, p->rank,
                    (uint64_t)p->rank + 1);
  if (!l.root) l.sum = gli_scratch(b, l.sum.bytes);
  if (l.others == 1 || l.turns == 0) return l;
  l.stride = (piece(&l, GLI_IN, p->rank, 0).bytes + 63) / 64 * 64;
  l.blocks = gli_scratch(b, l.turns * l.others * l.stride);
  return l;
}

/* Show the others what is theirs to add up; the root lends where it goes. */
static void offer(gli_builder *b, const layout *l, uint64_t t) {
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(l->p, k);
    if (l->root) gli_lend(b, rank, piece(l, GLI_OUT, rank, t));
    gli_send_view(b, rank, piece(l, GLI_IN, rank, t));
  }
}

/* Take what they show, and add it up into `sum` and the loan, if there is one.
 */
static void add_up(gli_builder *b, const layout *l, uint64_t t, uint32_t loan) {
  const gli_plan_params *p = l->p;
  gli_range in = piece(l, GLI_IN, p->rank, t), sum = sum_of(l, t);
  uint32_t n_loans = l->root ? 0 : 1;
  if (l->others == 1) {
    uint32_t peer = 1 - p->rank;
    gli_recv_reduce_view(b, peer, in, sum, peer < p->rank, loan, n_loans);
    return;
  }
  gli_reduction r = {.local = in,
                     .dst = sum,
                     .own = p->rank,
                     .n = l->others,
                     .blocks = l->blocks,
                     .stride = l->stride,
                     .view = gli_places(b, l->others),
                     .loan = loan,
                     .n_loans = n_loans};
  r.blocks.offset += t * l->others * l->stride;
  r.blocks.bytes = in.bytes;
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    uint32_t place = rank < p->rank ? rank : rank - 1;
    gli_range block = r.blocks;
    block.offset += place * l->stride;
    gli_recv_view(b, rank, block, r.view + place);
  }
  gli_reduce_all(b, &r);
}

/* What was shown to this rank has been read, and what was lent written. */
static void give_back(gli_builder *b, const layout *l, uint32_t loans) {
  const gli_plan_params *p = l->p;
  for (uint64_t t = 0; t < l->turns; t++) {
    if (!l->root) gli_fill(b, p->root, sum_of(l, t), loans + (uint32_t)t);
  }
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    if (rank != p->root) gli_signal(b, rank, l->sum);
  }
}

/* The end: the others have done so, as far as there was anything. */
static void take_back(gli_builder *b, const layout *l) {
  const gli_plan_params *p = l->p;
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    gli_range part = gli_parts(p, GLI_IN, p->size, rank, (uint64_t)rank + 1);
    if (part.bytes == 0) continue;
    for (uint64_t t = 0; l->root && t < l->turns; t++) {
      gli_recv_filled(b, rank, piece(l, GLI_OUT, rank, t));
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
  layout l = lay_out(b, p);
  uint32_t loans = l.root ? 0 : gli_places(b, (uint32_t)l.turns);
  for (uint64_t t = 0; t < l.turns; t++) {
    offer(b, &l, t);
    uint32_t loan = l.root ? 0 : loans + (uint32_t)t;
    uint64_t bytes = piece(&l, GLI_IN, p->rank, t).bytes;
    if (!l.root) gli_borrow(b, p->root, bytes, loan);
    add_up(b, &l, t, loan);
  }
  give_back(b, &l, loans);
  take_back(b, &l);
}
