/* The parameters of a collective on one rank, and where its blocks lie in the
 * buffers that they describe. */
#ifndef GLI_PLAN_PARAMS_H
#define GLI_PLAN_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/collective.h"
#include "plan/hosts.h"

typedef enum gli_buffer {
  GLI_IN,      /* the caller's input; in place, the builder maps it to OUT */
  GLI_INS,     /* all inputs, where the caller has several; see plan/lists.h */
  GLI_OUT,     /* the caller's output, the first one where it has several */
  GLI_SCRATCH, /* memory of the operation, undefined at the start */
  GLI_TOKEN,   /* no memory at all: orders steps like bytes do, but a message
                  from it carries none. For synchronisation. */
  GLI_WINDOW,  /* where memory of other ranks is, see builder.h: a byte a place
                */
  GLI_OUTS,    /* the outputs behind the first, all at the same offset */
  GLI_BUFFERS
} gli_buffer;

typedef struct gli_range {
  gli_buffer buffer;
  uint64_t offset; /* bytes */
  uint64_t bytes;
} gli_range;

/* How the buffers of one rank are cut into blocks, where these differ from rank
 * to rank (allgatherv and the like): block k is for, or from, rank k. Arrays of
 * `size`, in elements; NULL for a buffer that is one block or that the rank
 * does not have. A plan keeps a copy. */
typedef struct gli_counts {
  const uint64_t *in, *in_first;   /* lengths; where each begins */
  const uint64_t *out, *out_first; /* the same of the output */
  uint64_t own;  /* length of a buffer that is one block: this rank's own */
  bool packed;   /* blocks lie one behind the other, in order, in all buffers */
  uint32_t hash; /* of the lengths, where all ranks know them and must agree */
} gli_counts;

/* In which order a result combines the inputs of ranks a to b, b > a:
 * GLI_ORDER_FOLD: ((a op a+1) op a+2) op ... op b, element by element;
 * GLI_ORDER_RANKS: in this order, with brackets anywhere, which is enough for
 * operations that are associative but not commutative. */
typedef enum gli_order {
  GLI_ORDER_ANY,
  GLI_ORDER_RANKS,
  GLI_ORDER_FOLD,
  GLI_ORDERS
} gli_order;

/* Do ranks outnumber their cores somewhere? */
typedef enum gli_subscription {
  GLI_CORE_EACH,
  GLI_OVERSUBSCRIBED,
  GLI_PINNED /* they do; each keeps to one core, neighbours to the same */
} gli_subscription;

/* Memory of ranks that share a host. */
typedef enum gli_locality {
  GLI_INTER_NODE, /* messages */
  GLI_INTRA_NODE, /* shared memory; which buffers are in it no rank knows */
  GLI_MAPPED      /* all buffers, as far as they were promised to be in it */
} gli_locality;

/* Flags. */
enum {
  GLI_STAGED_IN = 1, /* inputs, all of them */
  GLI_STAGED_OUT = 2,
  GLI_STAGED_CHANGES = 4, /* the last thing that is done to the outputs is done
                             as they are copied out */
  GLI_STAGED_MOVES = 8 /* in place, of a reduction: what the output has at first
                          is not what the caller's output has, and is copied out
                          even where no step writes it */
};

/* Parameters that an algorithm may use. */
typedef struct gli_plan_params {
  gli_collective collective;
  uint32_t rank, size, root;
  uint64_t count;      /* elements, as in the public call; of all blocks
                          together, or 0, where there are `counts` */
  uint64_t elem_bytes; /* 1 when the collective has no elements */
  bool in_place;
  uint32_t n_in, n_out; /* inputs and outputs of the caller: plan/lists.h. Not
                           for builders. 0: one */
  const gli_counts *counts; /* NULL: all blocks have `count` elements */
  uint64_t segment_bytes;   /* for the segmenting pass; 0: do not cut */
  const gli_hosts *hosts;   /* NULL: all ranks share one. Known by its address,
                               it outlives the plans made with it. */
  gli_subscription oversubscribed;
  gli_locality locality;
  bool low_precision; /* sums of elements are rounded when they are stored, and
                  one of many not before its end: a rank with all inputs at hand
                  combines them in one step */
  bool average; /* of low-precision elements, for the selector alone: a rank
                   without all inputs at hand works on float32 */
  gli_order
      order;      /* what the algorithm has to keep; not for builders, either */
  uint8_t staged; /* GLI_STAGED_...: which buffers are images of memory that the
                     host does not touch, see plan/staged.h. Of this rank alone,
                     and not for builders */
  const struct gli_tuning *tuning; /* NULL: the selector chooses alone, by
                                      estimates. Outlives the plans, too;
                                      builders hand it on. */
} gli_plan_params;

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

/* Block k of a buffer that has one for each rank. */
static inline gli_range gli_block(const gli_plan_params *p, gli_buffer buffer,
                                  uint64_t k) {
  const gli_counts *c = p->counts;
  if (c == NULL) return gli_elems(p, buffer, k * p->count, p->count);
  const uint64_t *lengths = buffer == GLI_IN ? c->in : c->out;
  const uint64_t *first = buffer == GLI_IN ? c->in_first : c->out_first;
  if (lengths[k] == 0) return gli_bytes(buffer, 0, 0); /* wherever it is */
  return gli_elems(p, buffer, first[k], lengths[k]);
}

/* Elements in the blocks before block k, k up to `size`, wherever they lie. */
static inline uint64_t gli_elems_before(const gli_plan_params *p,
                                        gli_buffer buffer, uint64_t k) {
  if (p->counts == NULL) return k * p->count;
  const uint64_t *lengths = buffer == GLI_IN ? p->counts->in : p->counts->out;
  uint64_t elements = 0;
  for (uint64_t i = 0; i < k; i++) elements += lengths[i];
  return elements;
}

/* All blocks of a buffer as extents: one, unless there may be gaps between
 * them. */
static inline uint64_t gli_extents(const gli_plan_params *p) {
  return p->counts == NULL || p->counts->packed ? 1 : p->size;
}
static inline gli_range gli_extent(const gli_plan_params *p, gli_buffer buffer,
                                   uint64_t k) {
  if (gli_extents(p) > 1) return gli_block(p, buffer, k);
  return gli_elems(p, buffer, 0, gli_elems_before(p, buffer, p->size));
}

/* A buffer that is one block. */
static inline gli_range gli_own(const gli_plan_params *p, gli_buffer buffer) {
  return gli_elems(p, buffer, 0, p->counts == NULL ? p->count : p->counts->own);
}

/* ---- counts ------------------------------------------------------------- */

/* Lengths as values: compared, hashed and copied, for plans that keep them and
 * for finding those plans again. Either may be NULL. */
bool gli_counts_equal(const gli_counts *a, const gli_counts *b, uint32_t size);
uint64_t gli_counts_hash(const gli_counts *counts, uint32_t size);

/* How many numbers the arrays of `counts` (may be NULL) hold. */
size_t gli_counts_numbers(const gli_counts *counts, uint32_t size);

/* A copy whose arrays are in `numbers`, which has room for them. */
void gli_counts_copy(const gli_counts *counts, uint32_t size, gli_counts *copy,
                     uint64_t *numbers);

#endif
