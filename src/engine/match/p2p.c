/* Point-to-point messages: which receive a message goes to.
 *
 * The sender numbers its messages to each rank. The first thing to arrive of a
 * message, its slot 0 or a WANT, is its envelope; envelopes of a rank arrive in
 * order. A receive takes the oldest envelope with its tag from one of its
 * ranks, or is posted until one comes; from then on it runs like any operation.
 */
#include "engine/match/match.h"
#include "engine/state/context.h"

bool gli_p2p_takes_from(const gloo_operation *op, uint32_t rank) {
  if (op->p2p_peer >= 0) return (uint32_t)op->p2p_peer == rank;
  if (!op->candidates) return true;
  for (size_t i = 0; i < op->n_candidates; i++) {
    if ((uint32_t)op->candidates[i] == rank) return true;
  }
  return false;
}

gli_parked *gli_match_envelope(const gloo_operation *op) {
  gli_parked *p = op->context->envelopes_first;
  while (p && !(p->header.tag == op->signature.tag &&
                gli_p2p_takes_from(op, p->link->local))) {
    p = p->envelope_next;
  }
  return p;
}

gloo_operation *gli_match_posted(const gli_link *link, uint32_t tag) {
  const gloo_context *context = link->context;
  gloo_operation *op = context->family->posted.first;
  while (op && !(op->context == context && op->signature.tag == tag &&
                 gli_p2p_takes_from(op, link->local))) {
    op = op->active_next;
  }
  return op;
}
