/* Shared parts of the checker. */
#ifndef GLI_PROOF_CHECK_INTERNAL_H
#define GLI_PROOF_CHECK_INTERNAL_H

#include "core/error.h"
#include "plan/content.h"
#include "plan/depend.h"
#include "plan/pack.h"
#include "plan/ranks.h"
#include "plan/raw.h"
#include "proof/check.h"

typedef enum check_state {
  CHECK_WAITING,
  CHECK_POSTED, /* ready, but its other end is not */
  CHECK_DONE
} check_state;

/* A step that is held in memory. */
typedef struct check_step {
  gli_step step;   /* with the peer's rank in `peer` */
  uint32_t number; /* number in the rank's whole plan */
  uint32_t waits;  /* number of earlier steps that it waits for */
  uint32_t depth;  /* length of the longest chain of messages to it */
  uint32_t state;
} check_step;

/* A get or a put that a rank has received. */
typedef struct check_tie {
  uint32_t peer, slot; /* sender and number of the message */
  uint32_t step;       /* reader of the get, writer of the put, or UINT32_MAX */
  uint32_t back;       /* slot of the message that returns it, or UINT32_MAX */
  bool put;            /* true for a put, false for a get */
} check_tie;

typedef struct check_rank {
  check_step *steps;
  uint32_t n, capacity, done;
  uint32_t *next_first, *next; /* as in gli_plan */
  size_t next_capacity;
  uint64_t loaded, total; /* steps held so far, steps of the whole plan */
  gli_pack rest;          /* steps after the first window, if any */
  uint64_t scratch_bytes;
  gli_plan_peer *peers; /* ascending by rank */
  uint32_t n_peers, peer_capacity;
  gli_content out, scratch, token;
  gli_content outs; /* content of each output after the first: all are alike */
  check_tie *ties;  /* ascending by peer and slot */
  size_t n_ties, tie_capacity;
  gli_ranks heard; /* ranks that it has heard of, through tokens or bytes */
} check_rank;

/* One end of a message, waiting for the other. */
typedef struct check_post {
  uint32_t from, to, slot;
  uint32_t index; /* index of the waiting step in steps[] of its rank */
  bool is_send;
  uint32_t chain; /* next in its bucket, or in the free list */
} check_post;

typedef struct check_ready {
  uint32_t rank, index;
} check_ready;

struct gli_checker {
  uint64_t max_steps;
  gli_build_fn build;
  gli_plan_params params;
  gli_check_report *report;
  gloo_error *error;

  check_rank *ranks;
  uint32_t rank_capacity;
  gli_builder builder;
  gli_step *fresh; /* a window of unpacked steps */
  size_t fresh_capacity;
  gli_step *gather; /* one rank's steps in a row, read by the dependency pass */
  size_t gather_capacity;
  gli_depend depend;
  bool one_sided; /* true if some plan has gets or puts */
  gli_ranks_pool *pool;
  gli_content a, b, result; /* operands */

  check_ready *ready;
  size_t n_ready, ready_capacity;
  check_post *posts;
  uint32_t n_posts, post_capacity, free_post, posted;
  uint32_t *buckets;
  uint32_t bucket_mask;
};

/* ---- check.c: errors ----------------------------------------------------- */

/* Reports that a rank's step is wrong; returns GLOO_ERR_INTERNAL. */
gloo_status gli_check_fail(gli_checker *c, uint32_t rank, uint64_t number,
                           const gli_step *step, const char *format, ...)
    GLI_PRINTF(5, 6);
gloo_status gli_check_no_memory(gli_checker *c);

/* ---- check_load.c: plans into windows ------------------------------------ */

/* Collects the steps of a rank's whole plan in c->builder. */
gloo_status gli_check_collect(gli_checker *c, uint32_t rank);

/* Returns the parameters of one rank. */
gli_plan_params gli_check_params(const gli_checker *c, uint32_t rank);

/* Returns the number of steps of one rank to hold at a time. */
uint32_t gli_check_window(const gli_checker *c);

/* Builds the rank's plan, sets its totals and peers, holds its first `window`
 * steps and packs the others. */
gloo_status gli_check_build(gli_checker *c, uint32_t rank, uint32_t window);

/* Holds the next `window` steps, after those not yet completed. */
gloo_status gli_check_load_more(gli_checker *c, uint32_t rank, uint32_t window);

/* Returns GLOO_OK if all ranks agree about the numbers of messages. */
gloo_status gli_check_totals(gli_checker *c);

/* ---- check_match.c: ends of messages that wait --------------------------- */

/* Removes a message's other end from the table; returns false if absent. */
bool gli_check_take_post(gli_checker *c, const check_post *other,
                         uint32_t *index);
bool gli_check_add_post(gli_checker *c, check_post post);

/* Updates the index of a step that has moved in steps[]. */
void gli_check_move_post(gli_checker *c, const check_post *moved);
bool gli_check_push_ready(gli_checker *c, uint32_t rank, uint32_t index);

/* ---- check_content.c: what steps do to bytes ----------------------------- */

bool gli_check_fill_inputs(gli_checker *c, uint32_t rank);
gloo_status gli_check_local(gli_checker *c, uint32_t rank, const check_step *s);
gloo_status gli_check_message(gli_checker *c, uint32_t from,
                              const check_step *send, uint32_t to,
                              const check_step *recv);

/* ---- check_gets.c, check_puts.c, check_spans.c: memory of other ranks ---- */

/* A range of a rank's own memory that a step reads or writes. */
typedef struct check_touch {
  uint64_t at, bytes;
  uint8_t buffer;
  bool writes;
} check_touch;

#define CHECK_TOUCHES 3

/* Lists all ranges except for the gets that the step reads. */
int gli_check_touches(const gli_step *step, check_touch out[CHECK_TOUCHES]);

/* OUT and SCRATCH of a rank, cut into spans that no step covers in part. */
typedef struct check_spans {
  uint64_t *ends[2]; /* ascending */
  size_t n[2], capacity[2];
} check_spans;

bool gli_check_spans_make(check_spans *s, const gli_step *steps, uint32_t n);
void gli_check_spans_free(check_spans *s);

/* Returns the spans of a range as [from, to), numbered over both buffers; an
 * empty interval for other buffers. */
void gli_check_spans_of(const check_spans *s, const check_touch *range,
                        size_t *from, size_t *to);

/* Checks that gets are read, puts written, and both given back, by the rules.
 * Records the rank's ties. Leaves the rank's steps in c->builder. */
gloo_status gli_check_gets(gli_checker *c, uint32_t rank);

/* Returns the get or put that `rank` received from `peer` as message `slot`, or
 * NULL. */
const check_tie *gli_check_find_tie(const gli_checker *c, uint32_t rank,
                                    uint32_t peer, uint32_t slot);

/* Checks that no rank touches memory that another may be reading or writing.
 * Needs the ties of all ranks. */
gloo_status gli_check_puts(gli_checker *c, uint32_t rank);

/* ---- check_lists.c: several inputs and outputs --------------------------- */

/* Checks a LOCAL_REDUCE or LOCAL_BCAST against the parameters. Converts *from,
 * an offset in one input, to an offset in IN. Accepts other steps. */
gloo_status gli_check_lists(gli_checker *c, uint32_t rank,
                            const check_step *step, uint64_t *from);

/* Checks that all outputs of the rank hold the same as the first. */
gloo_status gli_check_outputs(gli_checker *c, uint32_t rank);

/* ---- check_final.c ------------------------------------------------------- */

/* Checks that the rank's output holds what the collective defines. */
gloo_status gli_check_output(gli_checker *c, uint32_t rank);

#endif
