/* The plan builder: the one header that an algorithm includes.
 *
 * An algorithm is a pure function that lists, for one rank, what to send,
 * receive, copy and reduce, in program order. It names byte ranges of three
 * buffers and no dependencies: those follow from ranges that overlap. It sends
 * whole blocks: a later pass cuts them into segments, which gives pipelining.
 *
 * plan/params.h defines ranges and the parameters that an algorithm may use.
 *
 * The k-th message that a rank sends to another must be the k-th that the other
 * receives from it. Empty ranges are dropped, on both sides alike. If no rank
 * has a byte, no algorithm runs: see plan/empty.c. */
#ifndef GLI_PLAN_BUILDER_H
#define GLI_PLAN_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/params.h"

typedef struct gli_builder gli_builder;

/* An algorithm; algorithms/registry.h has the list. */
typedef void (*gli_build_fn)(gli_builder *b, const gli_plan_params *p);

/* ---- memory of the operation --------------------------------------------- */

/* Returns `bytes` bytes of new scratch memory. */
gli_range gli_scratch(gli_builder *b, uint64_t bytes);

/* Returns the destination of data that is computed from `block` of IN and
 * belongs in `out`: scratch memory if, in place, the two overlap in part, else
 * `out`. */
static inline gli_range gli_apart(gli_builder *b, const gli_plan_params *p,
                                  gli_range block, gli_range out) {
  bool overlaps = p->in_place && block.offset > 0 && block.offset < out.bytes;
  return overlaps ? gli_scratch(b, out.bytes) : out;
}

/* Returns the range of a message. If it is empty and only its two ranks know
 * the length, returns token number `token` instead: a receiver that expects
 * bytes would otherwise wait. */
static inline gli_range gli_told(const gli_plan_params *p, gli_range block,
                                 uint64_t token) {
  if (p->counts == NULL || block.bytes > 0) return block;
  return gli_bytes(GLI_TOKEN, token, 1);
}

/* ---- which ranks talk to each other -------------------------------------- */

/* Binomial trees number the ranks starting from the root. A number with its
 * lowest set bit cleared is the number of the parent. */
static inline uint32_t gli_numbered(const gli_plan_params *p, uint64_t number) {
  return (uint32_t)((number + p->root) % p->size);
}

/* Returns the lowest set bit of `number`; for the root, a power of two above
 * all. */
static inline uint64_t gli_lowest_bit(uint64_t size, uint64_t number) {
  uint64_t bit = 1;
  while (bit < size && !(number & bit)) bit *= 2;
  return bit;
}

/* Returns the number of nodes in the subtree of `number`, itself included. */
static inline uint64_t gli_subtree(uint64_t size, uint64_t number) {
  uint64_t bit = gli_lowest_bit(size, number);
  return bit < size - number ? bit : size - number;
}

/* Returns how many blocks of a sequence, `blocks` blocks from number `from` on,
 * lie before the end of a buffer in rank order; the rest wrap around. */
static inline uint64_t gli_before_end(const gli_plan_params *p, uint64_t from,
                                      uint64_t blocks) {
  uint64_t room = p->size - gli_numbered(p, from);
  return blocks < room ? blocks : room;
}

/* Returns the number of parts that a rank still holds after `rounds` halvings
 * of `size` parts: the quotient, rounded up. */
static inline uint64_t gli_in_hand(uint64_t size, uint32_t rounds) {
  return ((size - 1) >> rounds) + 1;
}

/* ---- steps --------------------------------------------------------------- */

/* Errors (out of memory, ranges of different lengths, writes to IN) stick to
 * the builder and are reported when the plan is finished. */

void gli_send(gli_builder *b, uint32_t to, gli_range src);
void gli_recv(gli_builder *b, uint32_t from, gli_range dst);

/* dst = local op incoming, or incoming op local when `incoming_first`. `local`
 * may be `dst`. Order of operands matters only to NaN payloads and
 * non-commutative operations; keep lower ranks on the left where you can. */
void gli_recv_reduce(gli_builder *b, uint32_t from, gli_range local,
                     gli_range dst, bool incoming_first);

/* Puts the following messages into lane `lane` (1 to 255; 0: none). A send
 * waits for all earlier messages of its lane, sent and received. A rank uses
 * lanes to avoid sending to all peers at once; they do not affect results. */
void gli_lane(gli_builder *b, unsigned lane);

/* dst = src; dropped if both are the same range. */
void gli_copy(gli_builder *b, gli_range src, gli_range dst);

/* dst = left op right. dst may be left or right. */
void gli_reduce(gli_builder *b, gli_range left, gli_range right, gli_range dst);

/* dst = s[0] op s[1] op ... op s[n], where s[own] is `local` and the others are
 * blocks of scratch memory: blocks, blocks + stride, ... in this order. In one
 * step, so narrow floats are rounded once. dst may be local. */
typedef struct gli_many {
  gli_range local, dst;
  uint32_t own, n;
  gli_range blocks; /* the first one; has dst's length */
  uint64_t stride;
} gli_many;
void gli_reduce_many(gli_builder *b, const gli_many *m);

/* ---- memory of other ranks ----------------------------------------------- */

/* Ranks that can reach each other's memory (mapped shared memory) need not move
 * bytes. The steps below say which transfers can then be omitted; where memory
 * is not mapped, which is known for each buffer at run time only, they are
 * ordinary messages. So a plan works in either case, and with a mixture of
 * ranks. A rank exposes a range for a get or for a put; MPI calls such memory a
 * window. A get is a message whose receiver may read it in the sender's memory.
 * A put is a range that the receiver may write its result to, instead of
 * sending it. `gli_windows` numbers the windows of a plan.
 *
 * The rank that exposes a range must not touch it (for a get: not write it)
 * until the same rank sends a message that releases it: a put, or a signal
 * whose range was written by a step that read the get. None of these steps is
 * cut into segments. */

/* Adds `n` windows, for gets or puts; returns the number of the first. */
uint32_t gli_windows(gli_builder *b, uint32_t n);

/* Like gli_send and gli_recv, but the receiver may read src in place. dst is
 * SCRATCH; it holds the bytes only if they had to be sent, and only
 * gli_reduce_all and gli_copy_get read it, as `window`. */
void gli_expose_get(gli_builder *b, uint32_t to, gli_range src);
void gli_recv_get(gli_builder *b, uint32_t from, gli_range dst,
                  uint32_t window);

/* Exposes a range for a put by rank `to`, and receives such an exposure. */
void gli_expose_put(gli_builder *b, uint32_t to, gli_range dst);
void gli_recv_window(gli_builder *b, uint32_t from, uint64_t bytes,
                     uint32_t window);

/* Puts src into an exposed range: as bytes, or as an empty message if a step
 * with `put` has already written them there; src is then what that step wrote.
 * gli_recv_put receives it: dst is the exposed range. */
void gli_put(gli_builder *b, uint32_t to, gli_range src, uint32_t put);
void gli_recv_put(gli_builder *b, uint32_t from, gli_range dst);

/* A message without bytes: the sender of the message has finished with the
 * receiver's range. The receiver's steps on `range` wait for it (TOKEN: none).
 */
void gli_signal(gli_builder *b, uint32_t to, gli_range range);
void gli_await(gli_builder *b, uint32_t from, gli_range range);

/* dst = s[0] op s[1] op ... op s[n], where s[own] is `local` and the others are
 * the gets `get` .. `get + n - 1` in this order, received into scratch at
 * blocks, blocks + stride, ... The result is also written to those of the puts
 * `put` .. `put + n_puts - 1` that are mapped; all have dst's length. dst may
 * be local. A dst in SCRATCH holds the result only if some put is not mapped;
 * only the steps that send to such puts may read it. */
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

/* dst = src, or what was received as get `get` into `block`; mapped puts get a
 * copy too. dst may be src. A dst in SCRATCH follows the rule of
 * gli_reduce_all. */
void gli_copy_all(gli_builder *b, gli_range src, gli_range dst, uint32_t put,
                  uint32_t n_puts);
void gli_copy_get(gli_builder *b, gli_range block, uint32_t get, gli_range dst,
                  uint32_t put, uint32_t n_puts);

/* gli_recv_reduce of a message sent with gli_expose_get; the result is also
 * written to puts, as above. Needs no scratch memory if the bytes are sent. */
void gli_recv_reduce_get(gli_builder *b, uint32_t from, gli_range local,
                         gli_range dst, bool incoming_first, uint32_t put,
                         uint32_t n_puts);

/* ---- common sequences ---------------------------------------------------- */

/* dst = the inputs of all ranks, combined in rank order: `own` is this rank's,
 * the others arrive as one message each. `sum` holds partial sums; it must not
 * be `own` but may be dst. Low-precision elements have no partial sums but
 * scratch memory for all inputs. */
void gli_recv_all_reduce(gli_builder *b, const gli_plan_params *p,
                         gli_range own, gli_range sum, gli_range dst);

/* Returns the range from which blocks of IN are sent to other ranks, at their
 * offsets in IN. In place, it is a copy. */
gli_range gli_aside(gli_builder *b, const gli_plan_params *p);

/* ---- plans of plans ------------------------------------------------------ */

/* A plan for some of the ranks, within the plan for all. */
typedef struct gli_sub {
  gli_collective collective;
  const uint32_t *members; /* [size] members, as ranks of the plan */
  uint32_t size;
  uint32_t rank, root;    /* places in members; members[rank] is this rank */
  uint64_t count;         /* elements, in the element size of the plan */
  gli_range in, out;      /* the buffers; unused if the member has none */
  const gli_hosts *hosts; /* hosts of the members; NULL: all share one */
} gli_sub;

/* Adds the steps of `build` for these parameters, with the members as all
 * ranks. The plan is in place if `in` and `out` are the same memory; otherwise
 * overlapping parts are read before they are written only if `build` does so.
 * In an inner plan, token 0, the initial knowledge of a rank, is everything
 * that it has received so far. Inner plans do not nest. */
void gli_sub_plan(gli_builder *b, gli_build_fn build, const gli_sub *sub);

/* Returns all tokens that this rank has written or received. */
gli_range gli_heard(const gli_builder *b);

#endif
