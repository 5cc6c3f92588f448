/* What ranks tell each other about operations: "may I send it?" (WANT), "I have
 * started it" (STARTED). What comes before its operation waits here for it. */
#include "core/error.h"
#include "engine/match/match.h"
#include "engine/run/run.h"
#include "engine/wire/wire.h"

gloo_status gli_receive_want(gli_link *link, const gli_header *h,
                             gloo_error *error) {
  gli_error_clear(error);
  gloo_operation *op = gli_receive_operation(link, h, error);
  if (error->status != GLOO_OK) return error->status;
  if (op) return gli_early_wanted(op, link, h, error);
  /* Data that credit let through may overtake a WANT on another stream, and end
   * the operation before it comes. */
  if (gli_match_is_over(link, h)) {
    return gli_flow_answer(link, GLI_MESSAGE_STARTED, h, error);
  }
  if (link->wants_in >= GLI_WANTS_MAX) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u announced more than %u operations ahead",
                    link->rank, GLI_WANTS_MAX);
  }
  gli_parked *parked = gli_parked_new(link, h, 0);
  if (!parked) return gli_receive_no_memory(link, error);
  link->wants_in++;
  gli_receive_keep(link, parked);
  return GLOO_OK;
}

gloo_status gli_receive_started(gli_link *link, const gli_header *h,
                                gloo_error *error) {
  bool message = h->collective == GLI_SENDRECV;
  if (h->slot != 0) {
    if (link->wants_out == 0) {
      return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                      "rank %u answered a question that was not asked",
                      link->rank);
    }
    gli_flow_answered(link);
  }
  uint32_t peer;
  gloo_operation *op =
      message ? gli_wire_blocked(link, h, &peer) : gli_match_operation(link, h);
  if (op) {
    gloo_status status = gli_match_agree(op, link, h, error);
    if (status != GLOO_OK) return status;
    if (!message) peer = gli_match_peer(op, link);
    if (peer != GLI_NO_PEER) gli_flow_granted(op, peer);
    return GLOO_OK;
  }
  if (message || gli_match_is_over(link, h)) return GLOO_OK;
  if (link->notes_count < GLI_EARLY_NOTES) {
    link->notes[link->notes_count++] = (gli_note){h->tag, h->operation};
  }
  return GLOO_OK;
}
