/* Plans: the steps of one rank in one collective, as data.
 *
 * A finished plan holds no pointers to user memory, no connections and no time.
 * It never changes, and any number of operations may run it concurrently. */
#ifndef GLI_PLAN_PLAN_H
#define GLI_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"
#include "plan/builder.h"
#include "plan/shape.h"
#include "plan/step.h"

/* Everything that a plan exchanges with one other rank. */
typedef struct gli_plan_peer {
  uint32_t rank;
  uint32_t sends, recvs;           /* messages */
  uint32_t first_recv;             /* recv_steps[first_recv + slot] is a step */
  uint64_t send_bytes, recv_bytes; /* on the wire, without headers */
} gli_plan_peer;

typedef struct gli_plan {
  gli_plan_params params;
  uint32_t n_steps;
  gli_step *steps;      /* in program order */
  uint32_t *n_deps;     /* [n_steps] number of steps that each waits for */
  uint32_t *next_first; /* [n_steps + 1] */
  uint32_t *next;       /* steps that wait for step i: next[next_first[i] ..
                           next_first[i + 1] - 1] */
  uint32_t n_peers;
  gli_plan_peer *peers; /* ascending by rank */
  uint32_t *recv_steps;
  uint64_t in_bytes, out_bytes; /* required sizes of the caller's buffers */
  uint64_t scratch_bytes;
  uint32_t n_windows;  /* gets and puts */
  uint32_t n_operands; /* most sources, or destinations, of a step; 0 if all
                          steps are simple */
  size_t bytes;        /* size of the plan with its arrays */
} gli_plan;

/* Returns the elements sent to a peer (by index), or received from it. */
static inline uint64_t gli_plan_exchanged(const gli_plan *plan, uint32_t peer,
                                          bool sends) {
  const gli_plan_peer *p = &plan->peers[peer];
  return (sends ? p->send_bytes : p->recv_bytes) / plan->params.elem_bytes;
}

/* Runs `build`, then the passes: segment, number slots, derive dependencies.
 * Creates nothing on failure. Errors: GLOO_ERR_NO_MEMORY, GLOO_ERR_INVALID
 * (sizes that overflow), GLOO_ERR_INTERNAL (the algorithm broke a rule; the
 * message names rank and step). */
gloo_status gli_plan_make(gli_build_fn build, const gli_plan_params *params,
                          gli_plan **plan, gloo_error *error);
void gli_plan_free(gli_plan *plan);

/* Returns the index of `rank` in plan->peers, or GLI_NO_PEER. */
uint32_t gli_plan_find_peer(const gli_plan *plan, uint32_t rank);

#endif
