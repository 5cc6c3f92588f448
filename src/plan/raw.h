/* The inside of a builder: steps as they are collected.
 *
 * For gli_plan_make, the checker, and tests that spoil a plan on purpose.
 * Algorithms include plan/builder.h alone. */
#ifndef GLI_PLAN_RAW_H
#define GLI_PLAN_RAW_H

#include "plan/plan.h"

#define GLI_RAW_INLINE_STEPS 48
#define GLI_RAW_INLINE_PEERS 16

struct gli_builder {
  gli_plan_params params;
  uint64_t in_bytes, out_bytes, scratch_bytes;
  uint32_t n_windows;
  bool one_sided;            /* it has gets or puts */
  uint64_t in_shift;         /* where IN begins in in_buffer */
  uint64_t segment;          /* longest step in bytes; UINT64_MAX: do not cut */
  bool in_moved;             /* in place, or several inputs that were joined */
  gli_buffer in_buffer;      /* what IN is a part of then */
  bool reads_in, writes_out; /* false where the caller has no such buffer */
  bool reduces;

  /* While a plan within this one is built. */
  const gli_sub *sub;
  bool inner_reads, inner_writes; /* it has such a buffer here */
  uint64_t inner_tokens;          /* its token 1 is this one plus 1 */
  uint64_t tokens;                /* those used so far end here */

  /* Steps are numbered from 0 in the order they come; those in
   * [window_first, window_end) are kept. */
  uint8_t lane; /* of the next message */
  uint64_t n_seen, window_first, window_end;
  gli_step *steps;
  size_t n_steps, capacity;

  /* Peers in the order in which they were first named; step.peer indexes
   * them. `table` maps a rank to index + 1. */
  gli_plan_peer *peers;
  uint32_t n_peers, peer_capacity;
  uint32_t *table;
  uint32_t table_mask;
  uint32_t recent[2]; /* the last two peers: nearly always the right one */

  gloo_error error; /* the first; nothing is collected after it */

  gli_step inline_steps[GLI_RAW_INLINE_STEPS];
  gli_plan_peer inline_peers[GLI_RAW_INLINE_PEERS];
};

/* An empty builder; its memory is kept until gli_raw_free. */
void gli_raw_init(gli_builder *b);

/* Make ready to collect every step of a plan. GLOO_ERR_INVALID when the
 * parameters make no sense or sizes overflow. */
gloo_status gli_raw_begin(gli_builder *b, const gli_plan_params *params,
                          gloo_error *error);

/* Collect the steps of an algorithm, and of what comes before and after it. */
void gli_raw_build(gli_builder *b, gli_build_fn build);

/* Collect again from the start, but keep only steps [first, first + count). */
void gli_raw_restart(gli_builder *b, uint64_t first, uint64_t count);
void gli_raw_free(gli_builder *b);

/* In a plan within: where a range of its buffers is in the plan's. False, with
 * the error noted, when there is no such range. */
bool gli_sub_place(gli_builder *b, gli_range *r, bool writes);

/* ---- shared by the sources of the builder -------------------------------- */

/* Errors stick to the builder; a check that fails notes one. */
bool gli_build_failed(const gli_builder *b);
void gli_build_fail(gli_builder *b, gloo_status status, const char *what);

/* Is it a range of its buffer? */
bool gli_build_range(gli_builder *b, gli_range r);

/* May it be read or written? Maps it to where it is in the end. */
bool gli_build_reads(gli_builder *b, gli_range *r);
bool gli_build_writes(gli_builder *b, gli_range *r);

/* Is an operand where the result goes, or elsewhere, but not half of each? */
bool gli_build_apart(gli_builder *b, gli_range r, gli_range dst);
bool gli_build_memory(gli_builder *b, gli_range r);
bool gli_build_same(gli_builder *b, uint64_t x, uint64_t y);
bool gli_build_reduces(gli_builder *b, gli_range dst);

/* Are `n` blocks, `stride` apart, within SCRATCH, apart from each other and
 * from the result? */
bool gli_build_blocks(gli_builder *b, gli_range first, uint32_t n,
                      uint64_t stride, gli_range dst);

/* The step that reduces many, checked but for places and not yet added. False:
 * it is wrong, or has no bytes. */
bool gli_build_many(gli_builder *b, gli_step_kind kind, const gli_many *m,
                    gli_step *s);

/* The index of a peer; GLI_NO_PEER on failure. */
uint32_t gli_build_peer(gli_builder *b, uint32_t rank);

/* Take a step, cut into segments. How it is cut follows from its length alone,
 * so the two ends of a message cut it alike. */
void gli_build_push(gli_builder *b, gli_step *s);

/* Does no rank have an element, though all must say so all the same? What the
 * ranks tell each other then, instead of what the algorithm does. (empty.c) */
bool gli_build_is_empty(const gli_plan_params *p);
void gli_build_empty(gli_builder *b, const gli_plan_params *p);

/* Take a step for memory of other ranks, as it is. */
void gli_build_whole(gli_builder *b, gli_step *s);

#endif
