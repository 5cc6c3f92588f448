/* Shared parts of the fused algorithms. */
#ifndef GLI_ALGORITHMS_FUSED_H
#define GLI_ALGORITHMS_FUSED_H

#include "plan/builder.h"

/* Ranks work on a part in pieces, because a rank is busy during a step and
 * forwards the results only after it. GLI_FUSED_TURN_BYTES is the part of the
 * vector that the P pieces of one turn cover: a few milliseconds of work. Turns
 * are larger if pieces would get too short, or the plan too long. */
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

/* Returns the part of a range for turn t. */
static inline gli_range gli_fused_piece(const gli_plan_params *p,
                                        gli_range whole, uint64_t turns,
                                        uint64_t t) {
  uint64_t elem = p->elem_bytes, count = whole.bytes / elem;
  uint64_t from = gli_part_first(count, turns, t);
  uint64_t to = gli_part_first(count, turns, t + 1);
  return gli_bytes(whole.buffer, whole.offset + from * elem,
                   (to - from) * elem);
}

/* Returns the piece of part `part` for turn t; there is a part per rank. */
static inline gli_range gli_fused_part(const gli_plan_params *p,
                                       gli_buffer buffer, uint32_t part,
                                       uint64_t turns, uint64_t t) {
  gli_range whole = gli_parts(p, buffer, p->size, part, (uint64_t)part + 1);
  return gli_fused_piece(p, whole, turns, t);
}

/* Returns the k-th rank after this one, so that ranks begin differently. */
static inline uint32_t gli_fused_other(const gli_plan_params *p, uint32_t k) {
  return (uint32_t)(((uint64_t)p->rank + 1 + k) % p->size);
}

#endif
