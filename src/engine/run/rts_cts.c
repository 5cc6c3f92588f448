/* RTS ("may I send?") and CTS ("I have started it") of operations. Those that
 * arrive before their operation are kept here. */
#include "core/error.h"
#include "engine/match/match.h"
#include "engine/run/run.h"
#include "engine/wire/wire.h"

gloo_status gli_receive_rts(gli_link *link, const gli_header *h,
                            gloo_error *error) {
  gli_error_clear(error);
  gli_operation *op = gli_receive_operation(link, h, error);
  if (error->status != GLOO_OK) return error->status;
  if (op != NULL) return gli_early_answer_rts(op, link, h, error);
  /* Data that was sent on credit may overtake an RTS on another stream, and end
   * the operation before the RTS arrives. */
  if (gli_match_is_over(link, h)) {
    return gli_wire_answer(link, GLI_MESSAGE_CTS, h, error);
  }
  if (link->rts_in >= GLI_RTS_MAX) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u announced more than %u operations in advance",
                    link->rank, GLI_RTS_MAX);
  }
  gli_early *early = gli_early_new(link, h, 0);
  if (early == NULL) return gli_receive_no_memory(link, error);
  link->rts_in++;
  gli_receive_keep(link, early);
  return GLOO_OK;
}

gloo_status gli_receive_cts(gli_link *link, const gli_header *h,
                            gloo_error *error) {
  bool message = h->collective == GLI_SENDRECV;
  if (h->slot != 0) {
    if (link->rts_out == 0) {
      return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                      "rank %u answered a request that was never sent",
                      link->rank);
    }
    gli_wire_answered(link);
  }
  uint32_t peer;
  gli_operation *op =
      message ? gli_wire_blocked(link, h, &peer) : gli_match_operation(link, h);
  if (op != NULL) {
    gloo_status status = gli_match_agree(op, link, h, error);
    if (status != GLOO_OK) return status;
    if (!message) peer = gli_match_peer(op, link);
    if (peer != GLI_NO_PEER) gli_wire_granted(op, peer);
    return GLOO_OK;
  }
  if (message || gli_match_is_over(link, h)) return GLOO_OK;
  gli_early_keep_cts(link, h);
  return GLOO_OK;
}
