/* The plan builder: the one header that an algorithm includes.
 *
 * An algorithm is a pure function that says, for one rank, what to send,
 * receive, copy and reduce, in the order in which a lone reader would follow
 * it. It names byte ranges of three buffers and never an order: what must wait
 * for what follows from the ranges that overlap. It sends whole blocks: cutting
 * them into segments, and the pipelining that this gives, is a later pass.
 *
 * The k-th message that a rank sends to another must be the k-th that the
 * other receives from it. Ranges of no bytes vanish (on both sides alike).
 * Where no rank has a byte, no algorithm is asked: see plan/empty.c. */
#ifndef GLI_PLAN_BUILDER_H
#define GLI_PLAN_BUILDER_H

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
  GLI_WINDOW,  /* where memory of other ranks is, see below: a byte a place */
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

typedef struct gli_builder gli_builder;

/* An algorithm: see algorithms/registry.h for the list. */
typedef void (*gli_build_fn)(gli_builder *b, const gli_plan_params *p);

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

/* `bytes` of fresh scratch memory. */
gli_range gli_scratch(gli_builder *b, uint64_t bytes);

/* Where to put what is computed from `block` of IN and belongs into `out`: in
 * place the two may overlap in part, then it is scratch memory. */
static inline gli_range gli_apart(gli_builder *b, const gli_plan_params *p,
                                  gli_range block, gli_range out) {
  bool overlaps = p->in_place && block.offset > 0 && block.offset < out.bytes;
  return overlaps ? gli_scratch(b, out.bytes) : out;
}

/* Returns the range of a message, or token number `token` if it is empty and
 * only its two ranks know the length: otherwise a rank that expects bytes would
 * wait. */
static inline gli_range gli_told(const gli_plan_params *p, gli_range block,
                                 uint64_t token) {
  if (p->counts == NULL || block.bytes > 0) return block;
  return gli_bytes(GLI_TOKEN, token, 1);
}

/* ---- which ranks talk to each other ------------------------------------- */

/* Binomial trees number the ranks from the root on. A number without its lowest
 * bit is the number of the parent. */
static inline uint32_t gli_numbered(const gli_plan_params *p, uint64_t number) {
  return (uint32_t)((number + p->root) % p->size);
}

/* The lowest bit of `number`; for the root, the first above all numbers. */
static inline uint64_t gli_lowest_bit(uint64_t size, uint64_t number) {
  uint64_t bit = 1;
  while (bit < size && !(number & bit)) bit *= 2;
  return bit;
}

/* How many numbers its subtree has, from itself on. */
static inline uint64_t gli_subtree(uint64_t size, uint64_t number) {
  uint64_t bit = gli_lowest_bit(size, number);
  return bit < size - number ? bit : size - number;
}

/* Returns how many of `blocks` blocks from number `from` on lie before the end
 * of a buffer in rank order; the others are at its beginning. */
static inline uint64_t gli_before_end(const gli_plan_params *p, uint64_t from,
                                      uint64_t blocks) {
  uint64_t room = p->size - gli_numbered(p, from);
  return blocks < room ? blocks : room;
}

/* Parts that a rank has in hand after `rounds` halvings of `size` parts: the
 * quotient, rounded up. */
static inline uint64_t gli_in_hand(uint64_t size, uint32_t rounds) {
  return ((size - 1) >> rounds) + 1;
}

/* ---- steps -------------------------------------------------------------- */

/* Errors (out of memory, ranges of different lengths, IN written to) stick to
 * the builder and come out when the plan is finished. */

void gli_send(gli_builder *b, uint32_t to, gli_range src);
void gli_recv(gli_builder *b, uint32_t from, gli_range dst);

/* dst = local op incoming, or incoming op local when `incoming_first`. `local`
 * may be `dst`. Order of operands matters only to NaN payloads and
 * non-commutative operations; keep lower ranks on the left where you can. */
void gli_recv_reduce(gli_builder *b, uint32_t from, gli_range local,
                     gli_range dst, bool incoming_first);

/* From here on, messages are in lane `lane` (1 to 255; 0: in none). A send
 * waits for the messages before it in its lane, sent and received. For a rank
 * that could send to all at once and would rather take turns; what it computes
 * is the same without. */
void gli_lane(gli_builder *b, unsigned lane);

/* dst = src; vanishes when both are the same range. */
void gli_copy(gli_builder *b, gli_range src, gli_range dst);

/* dst = left op right. dst may be left or right. */
void gli_reduce(gli_builder *b, gli_range left, gli_range right, gli_range dst);

/* dst = s[0] op s[1] op ... op s[n], where s[own] is `local` and the others are
 * blocks of scratch memory: blocks, blocks + stride, ... in this order. All in
 * one step: floats narrower than float32 are rounded once. dst may be local. */
typedef struct gli_many {
  gli_range local, dst;
  uint32_t own, n;
  gli_range blocks; /* the first one; has dst's length */
  uint64_t stride;
} gli_many;
void gli_reduce_many(gli_builder *b, const gli_many *m);

/* ---- memory of other ranks ---------------------------------------------- */

/* Where two ranks can reach each other's memory (mapped shared memory), bytes
 * need not travel. The steps below say what may be left out then; where memory
 * is not mapped, and that is known for each buffer at run time only, they are
 * ordinary messages. So a plan works in either case, and with a mixture of
 * ranks. A rank exposes a range for a get or for a put; MPI calls such memory a
 * window. A get is a message whose receiver may read it where it lies. A put is
 * a range that the receiver may write its result to, instead of sending it. The
 * windows of a plan are numbered as they are made: `gli_windows`.
 *
 * The rank that exposes a range must not touch it (for a get: not write it)
 * until a message that says so comes back from the same rank: a put or a signal
 * whose range was written by a step that read the get. None of these steps is
 * cut into segments. */

/* Adds `n` windows, for gets or puts; returns the first. */
uint32_t gli_windows(gli_builder *b, uint32_t n);

/* Like gli_send and gli_recv, but the receiver may get to see src itself. dst
 * is SCRATCH; it holds the bytes only when they had to be sent, and only
 * gli_reduce_all and gli_copy_get read it, as `window`. */
void gli_expose_get(gli_builder *b, uint32_t to, gli_range src);
void gli_recv_get(gli_builder *b, uint32_t from, gli_range dst,
                  uint32_t window);

/* Exposes a range for a PUT of rank `to`; receives such an exposure. */
void gli_expose_put(gli_builder *b, uint32_t to, gli_range dst);
void gli_recv_window(gli_builder *b, uint32_t from, uint64_t bytes,
                     uint32_t window);

/* PUT src to a range that was exposed: as bytes, or without any when a step
 * that had `put` has written them there already; src is then what that step
 * wrote. gli_recv_put receives it: dst is what was exposed. */
void gli_put(gli_builder *b, uint32_t to, gli_range src, uint32_t put);
void gli_recv_put(gli_builder *b, uint32_t from, gli_range dst);

/* A message without bytes: what was done with the sender's range is done. What
 * the receiver does with its range comes after it; TOKEN where that is nothing.
 */
void gli_signal(gli_builder *b, uint32_t to, gli_range range);
void gli_await(gli_builder *b, uint32_t from, gli_range range);

/* dst = s[0] op s[1] op ... op s[n], where s[own] is `local` and the others are
 * the gets `get` .. `get + n - 1` in this order, received into scratch at
 * blocks, blocks + stride, ... The result also goes to the puts `put` ..
 * `put + n_puts - 1`, which all have dst's length, as far as they are mapped.
 * dst may be local. In SCRATCH it holds the result only where a put is not
 * mapped, and may be read by nothing but what fills these. */
typedef struct gli_reduction {
  gli_range local, dst;
  uint32_t own;
  uint32_t n;
  gli_range blocks; /* the first one; has dst's length */
  uint64_t stride;
  uint32_t get;
  uint32_t put, n_puts;
} gli_reduction;
void gli_reduce_all(gli_builder *b, const gli_reduction *r);

/* dst = src, or what was received as get `get` into `block`; and so are the
 * puts, as far as they are mapped. dst may be src. In SCRATCH it is as
 * that of gli_reduce_all. */
void gli_copy_all(gli_builder *b, gli_range src, gli_range dst, uint32_t put,
                  uint32_t n_puts);
void gli_copy_get(gli_builder *b, gli_range block, uint32_t get, gli_range dst,
                  uint32_t put, uint32_t n_puts);

/* gli_recv_reduce of something sent with gli_expose_get; the result also goes
 * to a put as above. Needs no scratch memory when the bytes are sent. */
void gli_recv_reduce_get(gli_builder *b, uint32_t from, gli_range local,
                         gli_range dst, bool incoming_first, uint32_t put,
                         uint32_t n_puts);

/* ---- common sequences --------------------------------------------------- */

/* dst = inputs of all ranks, added in their order: `own` is this rank's, the
 * others come as a message from each. Partial sums are kept in `sum`, which
 * must not be `own` but may be dst; low-precision elements have no partial
 * sums, but scratch memory for all inputs. */
void gli_recv_all_reduce(gli_builder *b, const gli_plan_params *p,
                         gli_range own, gli_range sum, gli_range dst);

/* Where the blocks of IN for other ranks are sent from: each is as far from the
 * start of this range as gli_block is in IN. In place they are copied first. */
gli_range gli_aside(gli_builder *b, const gli_plan_params *p);

/* ---- plans of plans ----------------------------------------------------- */

/* A plan of some of the ranks, within the plan of all. */
typedef struct gli_sub {
  gli_collective collective;
  const uint32_t *members; /* [size] those in it, as ranks of the plan */
  uint32_t size;
  uint32_t rank, root;    /* places in members; members[rank] is this rank */
  uint64_t count;         /* elements, of the size that all have */
  gli_range in, out;      /* where the buffers are; unused without any */
  const gli_hosts *hosts; /* of the members; NULL: they share one */
} gli_sub;

/* Adds the steps of `build` for the parameters, with the members as all ranks.
 * The plan is in place if `in` and `out` are the same memory; otherwise
 * overlapping parts are read before they are written only if `build` does so.
 * In an inner plan, token 0, the initial knowledge of a rank, is everything
 * that it has received so far. Plans within plans within plans are refused. */
void gli_sub_plan(gli_builder *b, gli_build_fn build, const gli_sub *sub);

/* All tokens that this rank has written: all that it has heard. */
gli_range gli_heard(const gli_builder *b);

#endif
