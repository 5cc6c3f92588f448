/* Shared parts of the fused algorithms. */
#ifndef GLI_ALGORITHMS_FUSED_H
#define GLI_ALGORITHMS_FUSED_H

#include "plan/builder.h"

/* A part is worked on in pieces, for a step keeps the rank that does it busy
 * and its results are passed on when it is done. So much of the vector goes
 * into the P pieces of one turn: a few milliseconds of work. More where pieces
 * would get so short that messages count, or the plan too long. */
#define GLI_FUSED_TURN_BYTES ((uint64_t)8 << 20)
#define GLI_FUSED_PIECE_BYTES ((uint64_t)64 << 10)
#define GLI_FUSED_MESSAGES 1024

static inline uint64_t gli_fused_turns(uint32_t size, uint64_t vector_bytes) {
  uint64_t each = GLI_FUSED_PIECE_BYTES * size;
  if (each < GLI_FUSED_TURN_BYTES) each = GLI_FUSED_TURN_BYTES;
  uint64_t n = vector_bytes / each + (vector_bytes % each != 0);
  uint64_t most = size > 1 ? GLI_FUSED_MESSAGES / (size - 1) : 1;
  if (most == 0) most = 1;
  return n < most ? n : most;
}

/* The part of a range for turn t. */
static inline gli_range gli_fused_piece(const gli_plan_params *p,
                                        gli_range whole, uint64_t turns,
                                        uint64_t t) {
  uint64_t elem = p->elem_bytes, count = whole.bytes / elem;
  uint64_t from = gli_part_first(count, turns, t);
  uint64_t to = gli_part_first(count, turns, t + 1);
  return gli_bytes(whole.buffer, whole.offset + from * elem,
                   (to - from) * elem);
}

/* For a vector that is cut into one part per rank. */
static inline gli_range gli_fused_part(const gli_plan_params *p,
                                       gli_buffer buffer, uint32_t part,
                                       uint64_t turns, uint64_t t) {
  gli_range whole = gli_parts(p, buffer, p->size, part, (uint64_t)part + 1);
  return gli_fused_piece(p, whole, turns, t);
}

/* The k-th other rank from here on, so that not all turn to rank 0 first. */
static inline uint32_t gli_fused_other(const gli_plan_params *p, uint32_t k) {
  return (uint32_t)(((uint64_t)p->rank + 1 + k) % p->size);
}

#endif
