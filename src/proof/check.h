/* The checker: all ranks' plans, run together, with no network and no bytes.
 *
 * A check that passes proves, for its parameters:
 *  - Matching: every message that a rank sends is received by the rank it is
 *    sent to, as the same slot and with the same length, and the other way
 *    round.
 *  - No deadlock without any buffering: a message moves only when both its send
 *    and its receive have all that they wait for. What is ready stays ready and
 *    no step ever disables another, so one order in which all steps complete
 *    shows that every order does.
 *  - Content: each byte is followed as (set of ranks that went into it, which
 *    byte of their inputs). Nothing undefined is read, no rank's contribution
 *    is added twice, only bytes of the same place are combined, and at the end
 *    every output byte holds what the collective defines. For the sendrecv of
 *    point-to-point messages: each byte of the output comes from one rank's
 *    input, from the same place. For the barrier: every rank has heard, through
 *    messages that waited for each other, of every rank.
 *  - Order: report->order is the weakest of the orders in which an output
 *    byte combines its inputs.
 *  - Several inputs and outputs: all inputs of a rank go into its contribution,
 *    once, and all its outputs hold the same result.
 *  - Memory of other ranks: the above holds with all bytes sent. It holds with
 *    any of them left where they are, too, for both ends of a message say the
 *    same of it; a get is read by one REDUCE_ALL or RECV_REDUCE, and nothing
 *    else reads what stands for it; no step writes what is exposed, or touches
 *    what is exposed for PUT, before the message that gives it back, which
 * comes after whatever looked at it or wrote to it; and every get and every put
 * is given back, a put with what was written to it.
 *
 * Plans that do not fit in memory together are streamed: each rank's plan is
 * packed, and a window of its steps is unpacked and held, in program order,
 * which moves on as steps are done. Steps that are done order nothing any more,
 * so this is one of the orders of the whole plan, and proves the same; only
 * `rounds` is then not counted. Windows grow when they are full and nothing
 * moves; when they are as large as they may be, that is reported as a deadlock,
 * with a note that not all could be seen. */
#ifndef GLI_PROOF_CHECK_H
#define GLI_PROOF_CHECK_H

#include "plan/plan.h"

typedef struct gli_checker gli_checker;

typedef struct gli_check_report {
  uint64_t steps, messages; /* of all ranks */
  uint32_t rounds;          /* longest chain of messages; 0 when streamed */
  bool streamed;
  uint64_t max_sent_bytes;    /* the most that one rank sends */
  uint64_t max_scratch_bytes; /* the most that one rank needs */
  uint64_t failed_step;       /* with a failure: at which step of error.rank */
  /* Rounding of the worst element of any output. Inputs that went through
   * `adds` additions were rounded as often in float32 and wider types, and
   * `roundings` times, at each step that stored a sum, in narrower ones. */
  gli_order order;
  uint32_t adds, roundings;
} gli_check_report;

/* A checker keeps its memory from one check to the next; one thread at a time.
 * It holds about `max_steps` steps at once (0: 8 million, below 1 GB; up to
 * four times as many when windows have to grow). NULL when out of memory. */
gli_checker *gli_checker_create(uint64_t max_steps);
void gli_checker_destroy(gli_checker *checker);

/* Check `build` for params (params->rank is ignored: all ranks are checked;
 * params->counts is an array of all ranks' then).
 * GLOO_ERR_INTERNAL when a plan is wrong: the error names rank and step.
 * GLOO_ERR_INVALID and GLOO_ERR_NO_MEMORY as for gli_plan_make. `report` is
 * filled in as far as the check went. */
gloo_status gli_checker_run(gli_checker *checker, gli_build_fn build,
                            const gli_plan_params *params,
                            gli_check_report *report, gloo_error *error);

#endif
