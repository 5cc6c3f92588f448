/* The departure of a rank that an operation may still need. */
#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/rma/rma.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"

static bool departed_is_needed(const gli_operation *op, const gli_link *link) {
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    if (op->peers[i].link != link) continue;
    const gli_plan_peer *p = &op->plan->peers[i];
    for (uint32_t slot = 0; slot < p->recvs; slot++) {
      uint32_t step = op->plan->recv_steps[p->first_recv + slot];
      uint8_t state = op->recv_state[step];
      if (state == GLI_RECV_READY || state == GLI_RECV_SHARED) return true;
    }
    if (op->peers[i].blocked_first != NULL) return true;
  }
  return false;
}

static bool departed_leaves_some(const gli_operation *posted) {
  const gloo_context *context = posted->context;
  for (uint32_t rank = 0; rank < context->size; rank++) {
    if (!gli_p2p_takes_from(posted, rank)) continue;
    const gli_link *link = context->peers[rank].link;
    if (link == NULL || !link->leaving.departed) return true;
  }
  return false;
}

void gli_link_departed(gli_link *link) {
  gloo_context *context = link->context;
  link->leaving.departed = true;
  gli_expose_departed(link);
  if (gli_rma_needs(link)) {
    gloo_error error;
    gli_fail(&error, GLOO_ERR_PEER, (int)link->rank,
             "rank %u left (destroyed its context) while a window needed it",
             link->rank);
    gli_context_poison(context, &error); /* windows take part in no dispute */
    return;
  }
  const gli_operation *victim = context->family->active.first;
  while (victim != NULL && !departed_is_needed(victim, link))
    victim = victim->active_next;
  if (victim == NULL) {
    victim = context->family->posted.first;
    while (victim != NULL &&
           (victim->context != context || departed_leaves_some(victim))) {
      victim = victim->active_next;
    }
  }
  if (victim == NULL) return;
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  gli_fail(&error, GLOO_ERR_PEER, (int)link->rank,
           "rank %u left (destroyed its context) while %s needed it",
           link->rank, gli_describe_call(&victim->signature, text));
  gli_link_missed(link, &victim->signature, &error);
}
