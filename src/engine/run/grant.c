/* What ranks tell each other about operations: "may I send it?" (WANT), "I have
 * started it" (STARTED). What comes before its operation waits here for it. */
#include "core/error.h"
#include "engine/match/match.h"
#include "engine/run/run.h"
#include "engine/wire/wire.h"

/* Data that credit let through may overtake a WANT on another stream, and end
 * the operation before it comes. Slot 0 of a message never overtakes. */
static bool is_answered(const gli_link *link, const gli_header *h) {
  if (h->collective != GLI_SENDRECV) return gli_match_is_over(link->context, h);
  return h->slot != 0 &&
         !gli_parked_has_envelope(link->context, gli_key_incoming(link, h));
}

gloo_status gli_receive_want(gli_link *link, const gli_header *h,
                             gloo_error *error) {
  gli_error_clear(error);
  gloo_operation *op = gli_receive_operation(link, h, error);
  if (error->status != GLOO_OK) return error->status;
  if (op) return gli_early_wanted(op, link, h, error);
  if (is_answered(link, h)) {
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
  gli_key key =
      gli_key_of(message ? GLI_KIND_SEND : GLI_KIND_COLLECTIVE, link->rank, h);
  gloo_operation *op = gli_match_find(link->context, key);
  if (op) {
    gloo_status status = gli_match_agree(op, link, h, error);
    if (status != GLOO_OK) return status;
    uint32_t index = gli_match_peer(op, link);
    if (index != GLI_NO_PEER) gli_flow_granted(op, index);
    return GLOO_OK;
  }
  if (message || gli_match_is_over(link->context, h)) return GLOO_OK;
  if (link->notes_count < GLI_EARLY_NOTES) {
    link->notes[link->notes_count++] = (gli_note){h->tag, h->operation};
  }
  return GLOO_OK;
}
