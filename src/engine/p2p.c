/* Point-to-point messages: which receive a message goes to.
 *
 * The sender numbers its messages to each rank. The first thing to arrive of a
 * message, its slot 0 or a WANT, is its envelope; envelopes of a rank arrive in
 * order. A receive takes the oldest envelope with its tag from one of its
 * ranks, or is posted until one comes; from then on it runs like any operation.
 */
#include "core/error.h"
#include "engine/context.h"
#include "engine/device.h"
#include "engine/link.h"
#include "engine/match.h"
#include "engine/operation.h"

bool gli_p2p_takes_from(const gloo_operation *op, uint32_t rank) {
  if (op->p2p_peer >= 0) return (uint32_t)op->p2p_peer == rank;
  if (!op->candidates) return true;
  for (size_t i = 0; i < op->n_candidates; i++) {
    if ((uint32_t)op->candidates[i] == rank) return true;
  }
  return false;
}

static gloo_status bind_to(gloo_operation *op, gli_link *link,
                           const gli_header *h, gloo_error *error) {
  op->peers[0] = (gli_op_peer){.link = link};
  op->signature.operation = h->operation;
  op->source = (int)link->local;
  return gli_operation_launch(op, error);
}

/* Who waits for one rank opens a link to it, so that its failure is seen. Of
 * several ranks, some may have left in order, and would refuse; those who send
 * open a link themselves, and failures are heard of through the tree. */
static gloo_status open_candidates(gloo_operation *op, bool *all_left,
                                   gloo_error *error) {
  *all_left = true;
  for (uint32_t rank = 0; rank < op->context->size; rank++) {
    if (!gli_p2p_takes_from(op, rank)) continue;
    const gli_link *link = op->context->peers[rank].link;
    if (!link && op->p2p_peer >= 0) {
      link = gli_context_link(op->context, rank, error);
      if (!link) return error->status;
    }
    *all_left = *all_left && link && link->left;
  }
  return GLOO_OK;
}

gloo_status gli_p2p_post(gloo_operation *op, gloo_error *error) {
  gloo_context *context = op->context;
  op->peers[0] = (gli_op_peer){.link = NULL};
  bool all_left;
  gloo_status status = open_candidates(op, &all_left, error);
  if (status != GLOO_OK) return status;
  if (op->p2p_peer >= 0) {
    op->counter = &context->peers[op->p2p_peer].link->p2p_came;
  }
  for (gli_parked *p = context->envelopes_first; p; p = p->envelope_next) {
    if (p->header.tag != op->signature.tag) continue;
    if (!gli_p2p_takes_from(op, p->link->local)) continue;
    gli_header header = p->header;
    return bind_to(op, p->link, &header, error);
  }
  if (all_left) {
    int rank = -1;
    if (op->p2p_peer >= 0) rank = (int)context->peers[op->p2p_peer].rank;
    return gli_fail(error, GLOO_ERR_PEER, rank,
                    "nobody is left to receive from: %s %d has destroyed its "
                    "context",
                    rank >= 0 ? "rank" : "every rank, like", rank);
  }
  op->state = GLI_OPERATION_POSTED;
  gli_operation_list_add(&context->family->posted, op);
  return GLOO_OK;
}

gloo_operation *gli_p2p_claim(gli_link *link, const gli_header *h,
                              gloo_error *error) {
  gloo_context *context = link->context;
  gloo_operation *op = context->family->posted.first;
  while (op && !(op->context == context && op->signature.tag == h->tag &&
                 gli_p2p_takes_from(op, link->local))) {
    op = op->active_next;
  }
  if (!op) return NULL;
  link->p2p_came++;
  gli_operation_list_remove(&context->family->posted, op);
  if (bind_to(op, link, h, error) != GLOO_OK) return NULL;
  /* Its receives must be ready before the message that it was claimed for. */
  gli_device_run(context->device);
  return op;
}
