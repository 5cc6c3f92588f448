/* Point-to-point messages: which receive a message goes to.
 *
 * Both ends number the messages with a tag between them. A receive from one
 * rank has the number of its message from its beginning, and runs like any
 * operation. One from any of several ranks has not: it takes the oldest message
 * that no receive has the number of, or is posted until one comes. What such a
 * receive looks for is the first thing to arrive of a message, its slot 0 or an
 * RTS, which is its envelope; envelopes of a rank arrive in order. While it is
 * posted, a receive from one rank whose message it might take is posted behind
 * it. */
#include "engine/match/match.h"
#include "engine/state/context.h"

bool gli_p2p_takes_from(const gli_operation *op, uint32_t rank) {
  if (op->p2p.peer >= 0) return (uint32_t)op->p2p.peer == rank;
  if (op->p2p.candidates == NULL) return true;
  for (size_t i = 0; i < op->p2p.n_candidates; i++) {
    if ((uint32_t)op->p2p.candidates[i] == rank) return true;
  }
  return false;
}

/* Returns true if the message is the next one with its tag from its rank, among
 * messages whose number no receive has. */
static bool is_next(const gli_early *early) {
  const gli_header *h = &early->header;
  return h->operation == gli_counted(&early->link->found, h->tag);
}

gli_early *gli_match_envelope(const gli_operation *op) {
  gli_early *p = op->context->envelopes_first;
  while (p != NULL && !(p->header.tag == op->signature.tag &&
                        gli_p2p_takes_from(op, p->link->local) && is_next(p))) {
    p = p->envelope_next;
  }
  return p;
}

gli_operation *gli_match_posted(const gloo_context *context, uint32_t rank,
                                uint32_t tag) {
  gli_operation *op = context->family->posted.first;
  while (op != NULL && !(op->context == context && op->signature.tag == tag &&
                         gli_p2p_takes_from(op, rank))) {
    op = op->active_next;
  }
  return op;
}
