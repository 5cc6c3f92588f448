/* Broadcast, fused.
 *
 * Wins: long vectors, on ranks of one host that reach each other's memory.
 * Every byte of the input is then read once, while `flat` reads it once for
 * each rank; every byte of the outputs is written once, by all ranks together,
 * and only rkeys travel.
 * Cost for P ranks and m bytes if all bytes must be sent: 2 rounds; the root
 * sends 2 m (P-1)/P bytes, any other rank m (P-2)/P, and 8 (P-1) bytes for each
 * piece.
 * Source: see allreduce_fused.c; bytes that are sent take the route of
 * broadcast_scatter_allgather.c.
 *
 * The vector is cut into P parts. Rank r reads part r of the root's input and
 * stores it in all outputs. P = 3, root 0; rank 1 reads and writes the parts in
 * brackets, the others likewise:
 *
 *   rank     0             1             2
 *   input    a0 [a1] a2                                 GET by rank 1
 *                \
 *   output                 .. [a1] ..    .. [a1] ..     PUT by rank 1
 *
 * Only the root writes its own output, if that is another buffer. */
#include "algorithms/fused.h"

uint32_t gli_broadcast_fused_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_broadcast_fused_bytes(uint32_t size, uint64_t vector_bytes) {
  if (size == 1) return 0;
  uint64_t part = vector_bytes / size, more = vector_bytes - part;
  uint64_t rkeys =
      8 * (uint64_t)(size - 1) * gli_fused_turns(size, vector_bytes);
  uint64_t passed = size > 2 ? more - part + rkeys : rkeys;
  return passed > 2 * more ? passed : 2 * more;
}

typedef struct layout {
  const gli_plan_params *p;
  bool root;
  uint64_t turns;
  gli_range block; /* the get's bytes if they were sent, for all turns */
} layout;

/* Returns the elements of part `part` that belong to turn t. */
static gli_range broadcast_piece(const layout *l, gli_buffer buffer,
                                 uint32_t part, uint64_t t) {
  return gli_fused_part(l->p, buffer, part, l->turns, t);
}

/* Exposes to each other rank the part that it stores, and its destination. */
static void broadcast_offer(gli_builder *b, const layout *l, uint64_t t) {
  const gli_plan_params *p = l->p;
  for (uint32_t k = 0; k + 1 < p->size; k++) {
    uint32_t rank = gli_fused_other(p, k);
    if (l->root) gli_expose_get(b, rank, broadcast_piece(l, GLI_IN, rank, t));
    if (!l->root) gli_expose_put(b, rank, broadcast_piece(l, GLI_OUT, rank, t));
  }
}

/* Stores a piece in the outputs of this rank and all others but the root. */
static void store(gli_builder *b, const layout *l, uint64_t t) {
  const gli_plan_params *p = l->p;
  gli_range out = broadcast_piece(l, GLI_OUT, p->rank, t);
  uint32_t n = l->root ? p->size - 1 : p->size - 2, k = 0;
  uint32_t get = gli_windows(b, 1), puts = gli_windows(b, n);
  for (uint32_t i = 0; i + 1 < p->size; i++) {
    uint32_t rank = gli_fused_other(p, i);
    if (rank != p->root) gli_recv_window(b, rank, out.bytes, puts + k++);
  }
  if (l->root) {
    gli_copy_all(b, broadcast_piece(l, GLI_IN, p->rank, t), out, puts, n);
  } else {
    uint64_t first = broadcast_piece(l, GLI_OUT, p->rank, 0).offset;
    gli_range block =
        gli_bytes(GLI_SCRATCH, l->block.offset + out.offset - first, out.bytes);
    gli_recv_get(b, p->root, block, get);
    gli_copy_get(b, block, get, out, puts, n);
  }
  k = 0;
  for (uint32_t i = 0; i + 1 < p->size; i++) {
    uint32_t rank = gli_fused_other(p, i);
    if (rank != p->root) gli_put(b, rank, out, puts + k++);
  }
}

/* Tells the root that its memory has been read; the root waits for all. */
static void broadcast_give_back(gli_builder *b, const layout *l) {
  const gli_plan_params *p = l->p;
  if (!l->root) {
    gli_signal(b, p->root,
               gli_parts(p, GLI_OUT, p->size, p->rank, (uint64_t)p->rank + 1));
    return;
  }
  for (uint32_t k = 0; k + 1 < p->size; k++) {
    uint32_t rank = gli_fused_other(p, k);
    gli_range part = gli_parts(p, GLI_IN, p->size, rank, (uint64_t)rank + 1);
    if (part.bytes > 0) gli_await(b, rank, gli_bytes(GLI_TOKEN, rank + 1, 1));
  }
}

/* Receives the pieces that the other ranks store in the output. */
static void broadcast_take_back(gli_builder *b, const layout *l, uint64_t t) {
  const gli_plan_params *p = l->p;
  for (uint32_t k = 0; k + 1 < p->size; k++) {
    uint32_t rank = gli_fused_other(p, k);
    gli_recv_put(b, rank, broadcast_piece(l, GLI_OUT, rank, t));
  }
}

/* Copies the other ranks' parts from the root's input to its output. */
static void copy_rest(gli_builder *b, const gli_plan_params *p) {
  for (uint32_t rank = 0; rank < p->size; rank++) {
    if (rank == p->root) continue;
    gli_copy(b, gli_parts(p, GLI_IN, p->size, rank, (uint64_t)rank + 1),
             gli_parts(p, GLI_OUT, p->size, rank, (uint64_t)rank + 1));
  }
}

void gli_broadcast_fused(gli_builder *b, const gli_plan_params *p) {
  layout l = {.p = p,
              .root = p->rank == p->root,
              .turns = gli_fused_turns(p->size, p->count * p->elem_bytes)};
  if (p->size == 1) {
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count),
             gli_elems(p, GLI_OUT, 0, p->count));
    return;
  }
  gli_range part =
      gli_parts(p, GLI_OUT, p->size, p->rank, (uint64_t)p->rank + 1);
  if (!l.root) l.block = gli_scratch(b, part.bytes);
  for (uint64_t t = 0; t < l.turns; t++) {
    broadcast_offer(b, &l, t);
    store(b, &l, t);
    if (!l.root) broadcast_take_back(b, &l, t);
  }
  broadcast_give_back(b, &l);
  if (l.root) copy_rest(b, p);
}
