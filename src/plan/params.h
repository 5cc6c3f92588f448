/* The parameters of a collective on one rank, and the layout of its blocks. */
#ifndef GLI_PLAN_PARAMS_H
#define GLI_PLAN_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/collective.h"
#include "plan/hosts.h"

typedef enum gli_buffer {
  GLI_IN,      /* the caller's input; in place, the builder maps it to OUT */
  GLI_INS,     /* all inputs, if the caller has several; see plan/lists.h */
  GLI_OUT,     /* the caller's output, or the first of several */
  GLI_SCRATCH, /* memory of the operation, undefined at the start */
  GLI_TOKEN,   /* no memory: orders steps as bytes do, but its messages carry
                  none. For synchronization. */
  GLI_WINDOW,  /* other ranks' memory, see builder.h: one byte per window */
  GLI_OUTS,    /* the outputs after the first, all at the same offset */
  GLI_BUFFERS
} gli_buffer;

typedef struct gli_range {
  gli_buffer buffer;
  uint64_t offset; /* bytes */
  uint64_t bytes;
} gli_range;

/* The division of one rank's buffers into blocks, if lengths differ from rank
 * to rank (allgatherv and the like): block k is for, or from, rank k. Each
 * array has `size` numbers, in elements; it is NULL for a buffer that is one
 * block or that the rank does not have. A plan keeps a copy. */
typedef struct gli_counts {
  const uint64_t *in, *in_first;   /* lengths; offset of each block */
  const uint64_t *out, *out_first; /* the same for the output */
  uint64_t own;  /* length of a buffer that is one block, this rank's */
  bool packed;   /* all buffers have adjacent blocks, in order */
  uint32_t hash; /* hash of lengths that all ranks know and must agree on */
} gli_counts;

/* The order in which a result combines the inputs of ranks a to b, b > a:
 * GLI_ORDER_FOLD: ((a op a+1) op a+2) op ... op b, element by element;
 * GLI_ORDER_RANKS: in this order, with any parentheses, which is enough for
 * operations that are associative but not commutative. */
typedef enum gli_order {
  GLI_ORDER_ANY,
  GLI_ORDER_RANKS,
  GLI_ORDER_FOLD,
  GLI_ORDERS
} gli_order;

/* GLI_OVERSUBSCRIBED if the ranks of some host outnumber its cores. */
typedef enum gli_subscription {
  GLI_CORE_EACH,
  GLI_OVERSUBSCRIBED,
  GLI_PINNED /* oversubscribed, and neighbours are pinned to one core */
} gli_subscription;

/* The reach of ranks that share a host into each other's memory. */
typedef enum gli_locality {
  GLI_INTER_NODE, /* messages */
  GLI_INTRA_NODE, /* shared memory; no rank knows which buffers are in it */
  GLI_MAPPED      /* shared memory, with all buffers promised to be in it */
} gli_locality;

/* Flags. */
enum {
  GLI_STAGED_IN = 1, /* all inputs */
  GLI_STAGED_OUT = 2,
  GLI_STAGED_CHANGES = 4, /* outputs get their final operation when copied
                             out */
  GLI_STAGED_MOVES = 8    /* in-place reductions: the output's image begins with
                             other content than the caller's output, and is
                             copied out even if no step writes it */
};

/* Parameters that an algorithm may use. */
typedef struct gli_plan_params {
  gli_collective collective;
  uint32_t rank, size, root;
  uint64_t count;      /* elements, as in the public call; with `counts`, those
                          of all blocks together, or 0 */
  uint64_t elem_bytes; /* 1 if the collective has no elements */
  bool in_place;
  uint32_t n_in, n_out;     /* the caller's inputs and outputs (plan/lists.h); 0
                               means one. Not for builders */
  const gli_counts *counts; /* NULL: all blocks have `count` elements */
  uint64_t segment_bytes;   /* for the segmenting pass; 0: no segments */
  const gli_hosts *hosts;   /* NULL: all ranks share one. Compared by address;
                               must outlive the plans made with it. */
  gli_subscription oversubscribed;
  gli_locality locality;
  bool low_precision; /* sums of elements are rounded when stored, but a sum of
                         many only once, at the end: a rank that has all inputs
                         combines them in one step */
  bool average; /* average of low-precision elements, used by the selector only:
                   a rank that does not have all inputs works on float32 */
  gli_order order; /* that the algorithm must keep; not for builders */
  uint8_t staged;  /* GLI_STAGED_...: buffers that are images of accelerator
                      memory, see plan/staged.h. This rank's; not for
                      builders */
  const struct gli_tuning *tuning; /* NULL: the selector chooses alone, by
                                      estimates. Must outlive the plans, too;
                                      builders pass it on. */
} gli_plan_params;

/* ---- ranges -------------------------------------------------------------- */

static inline gli_range gli_bytes(gli_buffer buffer, uint64_t offset,
                                  uint64_t bytes) {
  return (gli_range){buffer, offset, bytes};
}

/* Returns elements [first, first + count) of a buffer. */
static inline gli_range gli_elems(const gli_plan_params *p, gli_buffer buffer,
                                  uint64_t first, uint64_t count) {
  return (gli_range){buffer, first * p->elem_bytes, count * p->elem_bytes};
}

/* Returns the first element of part i when `count` elements are cut into
 * `parts` nearly equal parts; part i is [first(i), first(i + 1)). */
static inline uint64_t gli_part_first(uint64_t count, uint64_t parts,
                                      uint64_t i) {
  uint64_t each = count / parts, rest = count % parts;
  return each * i + (i < rest ? i : rest);
}

/* Returns parts [from, to) of `parts` parts of `count` elements, as a range. */
static inline gli_range gli_parts(const gli_plan_params *p, gli_buffer buffer,
                                  uint64_t parts, uint64_t from, uint64_t to) {
  uint64_t a = gli_part_first(p->count, parts, from);
  return gli_elems(p, buffer, a, gli_part_first(p->count, parts, to) - a);
}

/* Returns block k of a buffer that has one for each rank. */
static inline gli_range gli_block(const gli_plan_params *p, gli_buffer buffer,
                                  uint64_t k) {
  const gli_counts *c = p->counts;
  if (c == NULL) return gli_elems(p, buffer, k * p->count, p->count);
  const uint64_t *lengths = buffer == GLI_IN ? c->in : c->out;
  const uint64_t *first = buffer == GLI_IN ? c->in_first : c->out_first;
  if (lengths[k] == 0) return gli_bytes(buffer, 0, 0); /* any offset */
  return gli_elems(p, buffer, first[k], lengths[k]);
}

/* Returns the number of elements in the blocks before block k (at most `size`),
 * at whatever offsets they lie. */
static inline uint64_t gli_elems_before(const gli_plan_params *p,
                                        gli_buffer buffer, uint64_t k) {
  if (p->counts == NULL) return k * p->count;
  const uint64_t *lengths = buffer == GLI_IN ? p->counts->in : p->counts->out;
  uint64_t elements = 0;
  for (uint64_t i = 0; i < k; i++) elements += lengths[i];
  return elements;
}

/* The blocks of a buffer as extents: one, unless blocks may have gaps. */
static inline uint64_t gli_extents(const gli_plan_params *p) {
  return p->counts == NULL || p->counts->packed ? 1 : p->size;
}
static inline gli_range gli_extent(const gli_plan_params *p, gli_buffer buffer,
                                   uint64_t k) {
  if (gli_extents(p) > 1) return gli_block(p, buffer, k);
  return gli_elems(p, buffer, 0, gli_elems_before(p, buffer, p->size));
}

/* Returns the range of a buffer that is one block. */
static inline gli_range gli_own(const gli_plan_params *p, gli_buffer buffer) {
  return gli_elems(p, buffer, 0, p->counts == NULL ? p->count : p->counts->own);
}

/* ---- counts -------------------------------------------------------------- */

/* Compare, hash and copy counts by value, to keep them in plans and to find
 * plans by them. Either may be NULL. */
bool gli_counts_equal(const gli_counts *a, const gli_counts *b, uint32_t size);
uint64_t gli_counts_hash(const gli_counts *counts, uint32_t size);

/* Returns how many numbers the arrays of `counts` (may be NULL) hold. */
size_t gli_counts_numbers(const gli_counts *counts, uint32_t size);

/* Copies `counts`, with its arrays in `numbers`, which has room for them. */
void gli_counts_copy(const gli_counts *counts, uint32_t size, gli_counts *copy,
                     uint64_t *numbers);

#endif
