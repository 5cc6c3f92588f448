/* The ranks that an operation waits for. */
#include "engine/match/match.h"
#include "engine/run/run.h"

bool gli_operation_waits_for(const gli_operation *op, uint32_t peer) {
  const gli_plan_peer *p = &op->plan->peers[peer];
  const gli_link *link = op->peers[peer].link;
  if (link == NULL) return false; /* it could not be opened */
  for (uint32_t slot = 0; slot < p->recvs; slot++) {
    uint8_t state = op->recv_state[op->plan->recv_steps[p->first_recv + slot]];
    if (state != GLI_RECV_UNREADY && state != GLI_RECV_DONE) return true;
  }
  if (op->peers[peer].blocked_first != NULL) return true;
  const gli_transfer_list *lists[] = {&link->pending, &link->in_flight,
                                      &link->exposed};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    for (const gli_transfer *t = lists[i]->first; t != NULL; t = t->next) {
      if (t->operation == op) return true;
    }
  }
  return false;
}

bool gli_operation_needs(const gli_operation *op, uint32_t peer) {
  const gli_plan_peer *p = &op->plan->peers[peer];
  if (op->peers[peer].link == NULL) return false;
  for (uint32_t slot = 0; slot < p->recvs; slot++) {
    uint32_t step = op->plan->recv_steps[p->first_recv + slot];
    bool came = op->early != NULL && gli_early_attached(op, step) != NULL;
    if (op->recv_state[step] != GLI_RECV_DONE && !came) return true;
  }
  return gli_operation_waits_for(op, peer);
}

size_t gli_operation_waits(const gli_operation *op, gli_cleared least,
                           gli_cleared most, uint32_t *ranks, size_t room) {
  size_t n = 0;
  if (gli_operation_is(op, GLI_OPERATION_POSTED)) {
    const gli_peer *peers = op->context->peers;
    uint8_t cleared = op->peers[0].cleared;
    if (op->p2p.peer >= 0 && cleared >= least && cleared <= most)
      ranks[n++] = peers[op->p2p.peer].rank;
    for (size_t i = 0;
         least == GLI_SILENT && i < op->p2p.n_candidates && n < room; i++) {
      ranks[n++] = peers[op->p2p.candidates[i]].rank;
    }
    return n;
  }
  for (uint32_t i = 0; i < op->plan->n_peers && n < room; i++) {
    if (op->peers[i].cleared < least || op->peers[i].cleared > most) continue;
    bool counts = most == GLI_CROSSED ? gli_operation_needs(op, i)
                                      : gli_operation_waits_for(op, i);
    if (counts) ranks[n++] = op->peers[i].link->rank;
  }
  return n;
}

size_t gli_operation_waits_most(const gli_operation *op) {
  return op->plan->n_peers + op->p2p.n_candidates + 1;
}
