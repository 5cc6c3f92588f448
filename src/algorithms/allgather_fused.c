/* Allgather, fused.
 *
 * Wins: long blocks, on ranks of one host that reach each other's memory. Every
 * byte of the inputs is then read once, while `direct` reads it once for each
 * rank; every byte of the outputs is written once, and only rkeys travel.
 * Cost for P ranks and m bytes of output if all bytes must be sent: 2 rounds;
 * every rank sends m (P-1)/P bytes, and 8 (P-1) bytes for each piece.
 * Source: see allreduce_fused.c.
 *
 * Rank r stores its block in all outputs, which are exposed to it. P = 3:
 *
 *   rank     0             1             2
 *   input       a             b             c
 *                           / | \
 *   output   .. [b] ..     .. [b] ..     .. [b] ..      PUT by rank 1
 *
 * The work is cut into pieces, because a rank is busy during a whole step. */
#include "algorithms/fused.h"

uint32_t gli_allgather_fused_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_allgather_fused_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t rkeys =
      8 * (uint64_t)(size - 1) * gli_fused_turns(size, vector_bytes);
  return vector_bytes - vector_bytes / size + rkeys;
}

typedef struct layout {
  const gli_plan_params *p;
  uint64_t turns;
  uint32_t others;
} layout;

/* Returns the part of a rank's block for turn t. */
static gli_range piece_of(const layout *l, uint32_t rank, uint64_t t) {
  return gli_fused_piece(l->p, gli_block(l->p, GLI_OUT, rank), l->turns, t);
}

static void take_turn(gli_builder *b, const layout *l, uint64_t t) {
  const gli_plan_params *p = l->p;
  gli_range in = gli_fused_piece(p, gli_own(p, GLI_IN), l->turns, t);
  gli_range out = piece_of(l, p->rank, t);
  uint32_t puts = gli_windows(b, l->others);
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    gli_expose_put(b, rank, piece_of(l, rank, t));
    gli_recv_window(b, rank, in.bytes, puts + k);
  }
  gli_copy_all(b, in, out, puts, l->others);
  for (uint32_t k = 0; k < l->others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    gli_put(b, rank, out, puts + k);
    gli_recv_put(b, rank, piece_of(l, rank, t));
  }
}

void gli_allgather_fused(gli_builder *b, const gli_plan_params *p) {
  uint64_t bytes = gli_elems_before(p, GLI_OUT, p->size) * p->elem_bytes;
  layout l = {
      .p = p, .turns = gli_fused_turns(p->size, bytes), .others = p->size - 1};
  if (l.others == 0) {
    gli_copy(b, gli_own(p, GLI_IN), gli_block(p, GLI_OUT, p->rank));
    return;
  }
  for (uint64_t t = 0; t < l.turns; t++) take_turn(b, &l, t);
}
