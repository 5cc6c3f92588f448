/* The checker runs the plans of all ranks together, without network or bytes.
 *
 * A check that passes proves, for its parameters:
 *  - Matching: every message that a rank sends is received by the rank it is
 *    sent to, as the same slot and with the same length, and vice versa.
 *  - No deadlock without any buffering: a message moves only when neither its
 *    send nor its receive has dependencies left. A ready step stays ready and
 *    no step ever disables another, so if all steps complete in one order,
 *    they do in every order.
 *  - Content: the checker tracks each byte as (set of ranks that contributed
 *    to it, byte of their inputs). No undefined byte is read, no rank's
 *    contribution is added twice, only bytes at the same offset are combined,
 *    and at the end every output byte holds what the collective defines. For
 *    the sendrecv of point-to-point messages: each byte of the output comes
 *    from one rank's input, at the same offset. For the barrier: every rank
 *    has heard of every rank, through messages that waited for each other.
 *  - Order: report->order is the weakest of the orders in which an output
 *    byte combines its inputs.
 *  - Several inputs and outputs: all inputs of a rank go into its contribution,
 *    once, and all its outputs hold the same result.
 *  - Memory of other ranks: the above holds if all bytes are sent, and also if
 *    any of them stay in place, because both ends of a message treat it
 *    alike; one REDUCE_ALL or RECV_REDUCE reads a get, and nothing else reads
 *    its scratch memory; no step writes exposed memory, or touches memory
 *    exposed for PUT, before the message that gives it back, which comes
 *    after all reads and writes of it by the peer; and every get and every put
 *    is given back, a put with the bytes that were written to it.
 *
 * Plans that do not fit in memory together are streamed: each rank's plan is
 * packed, and a window of its steps is unpacked and held, in program order,
 * which moves on as steps complete. Completed steps impose no order any more,
 * so the run is one of the orders of the whole plan, and proves the same; only
 * `rounds` is not counted then. Windows grow if they are full and nothing
 * moves; if they have their maximum size, a deadlock is reported, with a note
 * that not all steps were visible. */
#ifndef GLI_PROOF_CHECK_H
#define GLI_PROOF_CHECK_H

#include "plan/plan.h"

typedef struct gli_checker gli_checker;

typedef struct gli_check_report {
  uint64_t steps, messages; /* sums over all ranks */
  uint32_t rounds;          /* longest chain of messages; 0 if streamed */
  bool streamed;
  uint64_t max_sent_bytes;    /* the most that any rank sends */
  uint64_t max_scratch_bytes; /* the most that any rank needs */
  uint64_t failed_step;       /* on failure: number of error.rank's step */
  /* Rounding of the worst element of any output. Its inputs went through up to
   * `adds` additions. In float32 and wider types each of them rounds; in
   * narrower types only the `roundings` steps that store a sum do. */
  gli_order order;
  uint32_t adds, roundings;
} gli_check_report;

/* Creates a checker, which keeps its memory between checks, for one thread at a
 * time. It holds about `max_steps` steps at once (0: 8 million, below 1 GB; up
 * to four times as many if windows must grow). Returns NULL if out of memory.
 */
gli_checker *gli_checker_create(uint64_t max_steps);
void gli_checker_destroy(gli_checker *checker);

/* Checks `build` for all ranks (ignores params->rank; params->counts, if any,
 * is an array with the counts of all ranks). Returns GLOO_ERR_INTERNAL if a
 * plan is wrong: the error names rank and step. GLOO_ERR_INVALID and
 * GLOO_ERR_NO_MEMORY as for gli_plan_make. `report` covers the completed part.
 */
gloo_status gli_checker_run(gli_checker *checker, gli_build_fn build,
                            const gli_plan_params *params,
                            gli_check_report *report, gloo_error *error);

#endif
