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

#endif
