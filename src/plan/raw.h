/* Internals of a builder: steps as they are collected.
 *
 * For gli_plan_make, the checker, and tests that corrupt a plan on purpose.
 * Algorithms include plan/builder.h only. */
#ifndef GLI_PLAN_RAW_H
#define GLI_PLAN_RAW_H

#include "plan/plan.h"

#define GLI_RAW_INLINE_STEPS 48
#define GLI_RAW_INLINE_PEERS 16

struct gli_builder {
  gli_plan_params params;
  uint64_t in_bytes, out_bytes, scratch_bytes;
  uint32_t n_windows;
  bool one_sided;            /* the plan has gets or puts */
  uint64_t in_shift;         /* offset of IN in in_buffer */
  uint64_t segment;          /* longest step in bytes; UINT64_MAX: uncut */
  bool in_moved;             /* IN is in in_buffer: in place, or joined */
  gli_buffer in_buffer;      /* buffer that then contains IN */
  bool reads_in, writes_out; /* false if the caller has no such buffer */
  bool reduces;

  /* Set while an inner plan is built. */
  const gli_sub *sub;
  bool inner_reads, inner_writes; /* it has such a buffer on this rank */
  uint64_t inner_tokens;          /* its token 1 is 1 + this in the plan */
  uint64_t tokens;                /* end of the tokens used so far */

  /* Steps are numbered from 0 in the order of calls; steps in [window_first,
   * window_end) are kept. */
  uint8_t lane; /* lane of the next message */
  uint64_t n_seen, window_first, window_end;
  gli_step *steps;
  size_t n_steps, capacity;

  /* Peers in the order of their first use, which step.peer indexes. `table`
   * maps a rank to index + 1. */
  gli_plan_peer *peers;
  uint32_t n_peers, peer_capacity;
  uint32_t *table;
  uint32_t table_mask;
  uint32_t recent[2]; /* the last two peers: nearly always a hit */

  gloo_error error; /* first error; collecting stops there */

  gli_step inline_steps[GLI_RAW_INLINE_STEPS];
  gli_plan_peer inline_peers[GLI_RAW_INLINE_PEERS];
};

/* Makes an empty builder; gli_raw_free frees its memory. */
void gli_raw_init(gli_builder *b);

/* Prepares to collect every step of a plan. Returns GLOO_ERR_INVALID if the
 * parameters are inconsistent or sizes overflow. */
gloo_status gli_raw_begin(gli_builder *b, const gli_plan_params *params,
                          gloo_error *error);

/* Collects the steps of an algorithm, and the steps before and after it. */
void gli_raw_build(gli_builder *b, gli_build_fn build);

/* Collects from the start again, but keeps steps [first, first + count) only.
 */
void gli_raw_restart(gli_builder *b, uint64_t first, uint64_t count);
void gli_raw_free(gli_builder *b);

/* Maps a range of an inner plan's buffer to the outer plan. Returns false, and
 * notes the error, if the buffer has no such range. */
bool gli_sub_place(gli_builder *b, gli_range *r, bool writes);

/* ---- shared by the sources of the builder -------------------------------- */

/* Errors stick to the builder; a failed check notes one. */
bool gli_build_failed(const gli_builder *b);
void gli_build_fail(gli_builder *b, gloo_status status, const char *what);

/* Returns true if the range lies within its buffer. */
bool gli_build_range(gli_builder *b, gli_range r);

/* Return true if the range may be read or written; map it to its location. */
bool gli_build_reads(gli_builder *b, gli_range *r);
bool gli_build_writes(gli_builder *b, gli_range *r);

/* Returns true if an operand does not overlap the result in part. */
bool gli_build_apart(gli_builder *b, gli_range r, gli_range dst);
bool gli_build_memory(gli_builder *b, gli_range r);
bool gli_build_same(gli_builder *b, uint64_t x, uint64_t y);
bool gli_build_reduces(gli_builder *b, gli_range dst);

/* Returns true if `n` blocks, `stride` apart, are within SCRATCH and disjoint
 * from each other and from the result. */
bool gli_build_blocks(gli_builder *b, gli_range first, uint32_t n,
                      uint64_t stride, gli_range dst);

/* Makes, but does not add, a step that reduces many operands; the caller checks
 * windows. Returns false if it is wrong, or has no bytes. */
bool gli_build_many(gli_builder *b, gli_step_kind kind, const gli_many *m,
                    gli_step *s);

/* Returns the index of a peer; GLI_NO_PEER on failure. */
uint32_t gli_build_peer(gli_builder *b, uint32_t rank);

/* Adds a step, cut into segments. The cuts depend on its length only, so both
 * ends of a message cut it alike. */
void gli_build_push(gli_builder *b, gli_step *s);

/* gli_build_is_empty returns true if no rank has an element but the ranks still
 * have to check each other's calls. gli_build_empty then adds the steps, in
 * place of the algorithm (empty.c). */
bool gli_build_is_empty(const gli_plan_params *p);
void gli_build_empty(gli_builder *b, const gli_plan_params *p);

/* Adds a step on memory of other ranks, uncut. */
void gli_build_whole(gli_builder *b, gli_step *s);
/* Fills a RECV_REDUCE. Returns false if it is invalid, or empty. */
bool gli_build_recv_reduce(gli_builder *b, uint32_t from, gli_range local,
                           gli_range dst, bool incoming_first, gli_step *s);

#endif
