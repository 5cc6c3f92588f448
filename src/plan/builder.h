/* The plan builder: the one header that an algorithm includes.
 *
 * An algorithm is a pure function that says, for one rank, what to send,
 * receive, copy and reduce, in the order in which a lone reader would follow
 * it. It names byte ranges of three buffers and never an order: what must wait
 * for what follows from the ranges that overlap. It sends whole blocks: cutting
 * them into segments, and the pipelining that this gives, is a later pass.
 *
 * The k-th message that a rank sends to another must be the k-th that the
 * other receives from it. Ranges of no bytes vanish (on both sides alike). */
#ifndef GLI_PLAN_BUILDER_H
#define GLI_PLAN_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/collective.h"

typedef enum gli_buffer {
  GLI_IN,      /* the caller's input; in place, the builder maps it to OUT */
  GLI_OUT,     /* the caller's output */
  GLI_SCRATCH, /* memory of the operation, undefined at the start */
  GLI_TOKEN,   /* no memory at all: orders steps like bytes do, but a message
                  from it carries none. For synchronisation. */
  GLI_BUFFERS
} gli_buffer;

typedef struct gli_range {
  gli_buffer buffer;
  uint64_t offset; /* bytes */
  uint64_t bytes;
} gli_range;

/* What an algorithm may look at. */
typedef struct gli_plan_params {
  gli_collective collective;
  uint32_t rank, size, root;
  uint64_t count;      /* elements, as in the public call */
  uint64_t elem_bytes; /* 1 when the collective has no elements */
  bool in_place;
  uint64_t segment_bytes; /* for the segmenting pass; 0: do not cut */
} gli_plan_params;

typedef struct gli_builder gli_builder;

/* ---- ranges ------------------------------------------------------------- */

static inline gli_range gli_bytes(gli_buffer buffer, uint64_t offset,
                                  uint64_t bytes) {
  return (gli_range){buffer, offset, bytes};
}

/* Elements [first, first + count) of a buffer. */
static inline gli_range gli_elems(const gli_plan_params *p, gli_buffer buffer,
                                  uint64_t first, uint64_t count) {
  return (gli_range){buffer, first * p->elem_bytes, count * p->elem_bytes};
}

/* First element of part i when `count` elements are cut into `parts` nearly
 * equal parts; part i is [first(i), first(i + 1)). */
static inline uint64_t gli_part_first(uint64_t count, uint64_t parts,
                                      uint64_t i) {
  uint64_t each = count / parts, rest = count % parts;
  return each * i + (i < rest ? i : rest);
}

/* Parts [from, to) of `count` elements in `parts` parts, as one range. */
static inline gli_range gli_parts(const gli_plan_params *p, gli_buffer buffer,
                                  uint64_t parts, uint64_t from, uint64_t to) {
  uint64_t a = gli_part_first(p->count, parts, from);
  return gli_elems(p, buffer, a, gli_part_first(p->count, parts, to) - a);
}

/* `bytes` of fresh scratch memory. */
gli_range gli_scratch(gli_builder *b, uint64_t bytes);

/* ---- steps -------------------------------------------------------------- */

/* Errors (out of memory, ranges of different lengths, IN written to) stick to
 * the builder and come out when the plan is finished. */

void gli_send(gli_builder *b, uint32_t to, gli_range src);
void gli_recv(gli_builder *b, uint32_t from, gli_range dst);

/* dst = local op incoming, or incoming op local when `incoming_left`. `local`
 * may be `dst`. Order of operands matters to nobody but NaN payloads and
 * non-commutative operations; keep lower ranks on the left where you can. */
void gli_recv_reduce(gli_builder *b, uint32_t from, gli_range local,
                     gli_range dst, bool incoming_left);

/* dst = src; vanishes when both are the same range. */
void gli_copy(gli_builder *b, gli_range src, gli_range dst);

/* dst = left op right. dst may be left or right. */
void gli_reduce(gli_builder *b, gli_range left, gli_range right, gli_range dst);

#endif
