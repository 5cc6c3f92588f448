/* The plan builder: the one header that an algorithm includes.
 *
 * An algorithm is a pure function that says, for one rank, what to send,
 * receive, copy and reduce, in the order in which a lone reader would follow
 * it. It names byte ranges of three buffers and never an order: what must wait
 * for what follows from the ranges that overlap. It sends whole blocks: cutting
 * them into segments, and the pipelining that this gives, is a later pass.
 *
 * Ranges, and the parameters that it may use, are in plan/params.h.
 *
 * The k-th message that a rank sends to another must be the k-th that the
 * other receives from it. Ranges of no bytes vanish (on both sides alike).
 * Where no rank has a byte, no algorithm is asked: see plan/empty.c. */
#ifndef GLI_PLAN_BUILDER_H
#define GLI_PLAN_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/params.h"

typedef struct gli_builder gli_builder;

/* An algorithm: see algorithms/registry.h for the list. */
typedef void (*gli_build_fn)(gli_builder *b, const gli_plan_params *p);

/* ---- memory of the operation -------------------------------------------- */

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
