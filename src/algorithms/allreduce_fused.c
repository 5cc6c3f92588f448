/* Allreduce, fused.
 *
 * Wins: ranks of one host that reach each other's memory. Every byte of the
 * inputs is then read once, every byte of the outputs written once, and only
 * rkeys travel. Each element is added up in the order of ranks.
 * Cost for P ranks and m bytes if all bytes must be sent: 2 rounds; every rank
 * sends 2 m (P-1)/P bytes, and 8 (P-1) bytes for each piece. If memory is
 * mapped: the same rounds without the bytes, and m bytes of memory traffic for
 * each rank's input and each rank's output.
 * Source: for the idea that each rank reduces its share of all inputs in place,
 * Hashmi, "Designing Shared Address Space MPI Libraries in Many-Core Era",
 * 2018; Jain, Kaleem, Gamell Balmana, Langer, Durnov, Sannikov, Garzaran,
 * "Framework for Scalable Intra-Node Collective Operations Using Shared
 * Memory", 2018. New here: sums are stored directly in the outputs, and one
 * plan serves mapped and unmapped memory.
 *
 * The vector is cut into P parts. Rank r adds up part r of all inputs in their
 * owners' memory, and stores the sum as part r of all outputs. P = 3; rank 1
 * reads and writes the parts in brackets, the others likewise:
 *
 *   rank     0             1             2
 *   input    a0 [a1] a2    b0 [b1] b2    c0 [c1] c2     GET by rank 1
 *                 \           |           /
 *                        a1 + b1 + c1
 *                 /           |           \
 *   output   .. [s1] ..    .. [s1] ..    .. [s1] ..     PUT by rank 1
 *
 * With two ranks the sum needs no scratch memory if bytes are sent: they are
 * added as they arrive. */
#include "algorithms/fused.h"

uint32_t gli_allreduce_fused_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_allreduce_fused_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t rkeys =
      8 * (uint64_t)(size - 1) * gli_fused_turns(size, vector_bytes);
  return 2 * (vector_bytes - vector_bytes / size) + rkeys;
}

typedef struct layout {
  const gli_plan_params *p;
  uint64_t turns;
  uint32_t others;
  uint32_t gets, puts; /* the windows of turn t begin at `others` * t */
  gli_range blocks;
  uint64_t stride; /* distance between consecutive gets */
} layout;

/* Returns the elements of part `part` that belong to turn t. */
static gli_range allreduce_piece(const layout *l, gli_buffer buffer,
                                 uint32_t part, uint64_t t) {
  return gli_fused_part(l->p, buffer, part, l->turns, t);
}

/* With two ranks, the reduction itself takes the get. */
static layout allreduce_lay_out(gli_builder *b, const gli_plan_params *p) {
  layout l = {.p = p,
              .turns = gli_fused_turns(p->size, p->count * p->elem_bytes),
              .others = p->size - 1};
  l.puts = gli_windows(b, (uint32_t)(l.turns * l.others));
  if (l.others == 1 || l.turns == 0) return l;
  l.gets = gli_windows(b, (uint32_t)(l.turns * l.others));
  l.stride = (allreduce_piece(&l, GLI_IN, p->rank, 0).bytes + 63) / 64 * 64;
  l.blocks = gli_scratch(b, l.turns * l.others * l.stride);
  return l;
}

/* Returns the window of the k-th other rank in turn t, in rank order. */
static uint32_t window(const layout *l, uint64_t t, uint32_t k) {
  uint32_t rank = gli_fused_other(l->p, k);
  return (uint32_t)(t * l->others) + (rank < l->p->rank ? rank : rank - 1);
}

/* Exposes to each other rank the part that it works on. */
static void allreduce_offer(gli_builder *b, const layout *l, uint64_t t) {
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(l->p, k);
    gli_expose_put(b, rank, allreduce_piece(l, GLI_OUT, rank, t));
    gli_expose_get(b, rank, allreduce_piece(l, GLI_IN, rank, t));
  }
}

/* Receives the exposed ranges, and adds them up. */
static void allreduce_add_up(gli_builder *b, const layout *l, uint64_t t) {
  const gli_plan_params *p = l->p;
  gli_range in = allreduce_piece(l, GLI_IN, p->rank, t);
  gli_range out = allreduce_piece(l, GLI_OUT, p->rank, t);
  uint32_t first = (uint32_t)(t * l->others);
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t at = window(l, t, k);
    gli_recv_window(b, gli_fused_other(l->p, k), in.bytes, l->puts + at);
    if (l->others == 1) continue;
    gli_range block = l->blocks;
    block.offset += at * l->stride;
    block.bytes = in.bytes;
    gli_recv_get(b, gli_fused_other(l->p, k), block, l->gets + at);
  }
  if (l->others == 1) {
    uint32_t peer = 1 - p->rank;
    gli_recv_reduce_get(b, peer, in, out, peer < p->rank, l->puts + first, 1);
    return;
  }
  gli_reduction r = {.local = in,
                     .dst = out,
                     .own = p->rank,
                     .n = l->others,
                     .blocks = l->blocks,
                     .stride = l->stride,
                     .get = l->gets + first,
                     .put = l->puts + first,
                     .n_puts = l->others};
  r.blocks.offset += first * l->stride;
  r.blocks.bytes = in.bytes;
  gli_reduce_all(b, &r);
}

/* Tells the others that their puts are written, and hears the same. */
static void allreduce_give_back(gli_builder *b, const layout *l, uint64_t t) {
  gli_range sum = allreduce_piece(l, GLI_OUT, l->p->rank, t);
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(l->p, k);
    gli_put(b, rank, sum, l->puts + window(l, t, k));
    gli_recv_put(b, rank, allreduce_piece(l, GLI_OUT, rank, t));
  }
}

void gli_allreduce_fused(gli_builder *b, const gli_plan_params *p) {
  if (p->size == 1) {
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count),
             gli_elems(p, GLI_OUT, 0, p->count));
    return;
  }
  layout l = allreduce_lay_out(b, p);
  for (uint64_t t = 0; t < l.turns; t++) {
    allreduce_offer(b, &l, t);
    allreduce_add_up(b, &l, t);
    allreduce_give_back(b, &l, t);
  }
}
