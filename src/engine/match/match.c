/* Matching: the operation, and the receive of it, that a message belongs to. */
#include "engine/match/match.h"

#include <inttypes.h>

#include "core/error.h"
#include "engine/state/context.h"
#include "engine/state/signature.h"

/* Returns the index of a link among the peers of the operation's plan. */
uint32_t gli_match_peer(const gli_operation *op, gli_link *link) {
  uint32_t hint = link->hint;
  if (hint < op->plan->n_peers && op->peers[hint].link == link) return hint;
  if (op->signature.collective == GLI_SENDRECV) return 0;
  uint32_t index = gli_plan_find_peer(op->plan, link->local);
  if (index != GLI_NO_PEER) link->hint = index;
  return index;
}

static gloo_status match_message_differs(const gli_operation *op,
                                         const gli_link *link,
                                         const gli_header *h,
                                         gloo_error *error) {
  char mine[GLI_TEXT_BYTES], theirs[GLI_TEXT_BYTES];
  bool sends = op->side == GLI_SEND_SIDE;
  gli_describe_call(&op->signature, mine);
  gli_describe_call(h, theirs);
  return gli_fail(
      error, GLOO_ERR_MISMATCH, (int)link->rank,
      "rank %u receives %s from rank %u, which sends %s: they must match",
      sends ? link->rank : op->context->root_rank, sends ? theirs : mine,
      sends ? op->context->root_rank : link->rank, sends ? mine : theirs);
}

gloo_status gli_match_agree(const gli_operation *op, const gli_link *link,
                            const gli_header *h, gloo_error *error) {
  if (gli_signature_equal(&op->signature, h)) return GLOO_OK;
  if (op->signature.collective == GLI_SENDRECV)
    return match_message_differs(op, link, h, error);
  gli_describe_mismatch(op->context, link->rank, &op->signature, h, error);
  return GLOO_ERR_MISMATCH;
}

/* Checks that both ends agree on the number of elements from one to the
 * other. */
static gloo_status check_pair(const gli_operation *op, const gli_link *link,
                              uint32_t peer, const gli_header *h,
                              gloo_error *error) {
  if (!gli_collective_pairwise((gli_collective)h->collective)) return GLOO_OK;
  uint64_t expected = gli_plan_exchanged(op->plan, peer, false);
  if (h->count == expected) return GLOO_OK;
  char text[GLI_TEXT_BYTES];
  return gli_fail(error, GLOO_ERR_MISMATCH, (int)link->rank,
                  "in %s, rank %u sends %" PRIu64
                  " elements to rank %u, which expects %" PRIu64
                  ": both counts must match",
                  gli_describe_call(&op->signature, text), link->rank, h->count,
                  op->context->root_rank, expected);
}

gloo_status gli_match_step(const gli_operation *op, gli_link *link,
                           const gli_header *h, uint32_t *step,
                           gloo_error *error) {
  gloo_status status = gli_match_agree(op, link, h, error);
  if (status != GLOO_OK) return status;
  const gli_plan *plan = op->plan;
  uint32_t index = gli_match_peer(op, link);
  if (index != GLI_NO_PEER) {
    status = check_pair(op, link, index, h, error);
    if (status != GLOO_OK) return status;
  }
  if (index == GLI_NO_PEER || h->slot >= plan->peers[index].recvs) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u sent message %u of an operation that has no such "
                    "message; are all ranks running the same version?",
                    link->rank, h->slot);
  }
  *step = plan->recv_steps[plan->peers[index].first_recv + h->slot];
  return GLOO_OK;
}

/* Returns false if the operation is forgotten, or has not been here. */
static bool match_finished(const gloo_context *context, const gli_header *h,
                           gli_header *mine) {
  const gli_trace_record *r;
  if (context->size == 0) return false; /* a group being made has no name */
  for (uint64_t i = 0;
       i < GLI_TRACE_USUAL && (r = gli_trace_last(context->trace, i)) != NULL;
       i++) {
    const gli_trace_about *a = &r->about;
    if (r->operation != h->operation || a->tag != h->tag) continue;
    if (a->status != GLOO_OK || a->collective == GLI_SENDRECV) continue;
    if (a->group != context->group_number || a->first != context->group_first)
      continue;
    gli_trace_signature(r, mine);
    return true;
  }
  return false;
}

bool gli_match_own(const gli_link *link, const gli_header *h, gli_header *own) {
  if (h->collective == GLI_SENDRECV) return false;
  const gli_operation *op =
      gli_match_find(link->context, gli_key_incoming(link, h));
  if (op == NULL) return match_finished(link->context, h, own);
  *own = op->signature;
  return true;
}

gloo_status gli_match_agree_late(const gli_link *link, const gli_header *h,
                                 gloo_error *error) {
  gli_header mine;
  if (!match_finished(link->context, h, &mine)) return GLOO_OK;
  if (gli_signature_equal(&mine, h)) return GLOO_OK;
  gli_describe_mismatch(link->context, link->rank, &mine, h, error);
  return GLOO_ERR_MISMATCH;
}

gloo_status gli_match_too_late(const gli_link *link, const gli_header *h,
                               gloo_error *error) {
  const gloo_context *context = link->context;
  gloo_status status = gli_match_agree_late(link, h, error);
  if (status != GLOO_OK) return status;
  char text[GLI_TEXT_BYTES];
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent data for %s, which has completed on rank %u",
                  link->rank, gli_describe_call(h, text), context->root_rank);
}

bool gli_match_is_over(const gli_link *link, const gli_header *h) {
  if (gli_number_is_of_init(h->operation)) {
    const gli_counters *runs = &link->context->init_runs;
    return h->operation < gli_counted(runs, gli_number_init(h->operation));
  }
  const gli_counters *started =
      h->collective == GLI_SENDRECV ? &link->found : &link->context->counters;
  return h->operation < gli_counted(started, h->tag);
}

gli_operation *gli_match_operation(const gli_link *link, const gli_header *h) {
  const gloo_context *context = link->context;
  gli_key key = gli_key_incoming(link, h);
  gli_operation *op = gli_match_find(context, key);
  if (op != NULL || key.rank == GLI_NO_RANK || h->slot != 0) return op;
  if (context->family->posted.first == NULL) return NULL;
  if (h->operation != gli_counted(&link->found, h->tag)) return NULL;
  return gli_match_posted(context, link->local, h->tag);
}

/* ---- operations by key --------------------------------------------------- */

gli_key gli_match_key_of(const gli_operation *op) {
  uint32_t rank = GLI_NO_RANK;
  if (gli_operation_is_message(op)) rank = op->peers[0].link->rank;
  return (gli_key){rank, op->signature.tag, op->signature.operation};
}

static gli_operation *match_operation_of(gli_keyed *entry) {
  if (entry == NULL) return NULL;
  return (gli_operation *)(void *)((char *)entry -
                                   offsetof(gli_operation, keyed));
}

gli_operation *gli_match_find(const gloo_context *context, gli_key key) {
  gli_operation *op = context->newest;
  if (op != NULL && gli_keys_equal(gli_match_key_of(op), key)) return op;
  if (context->operations.n == 0) return NULL;
  return match_operation_of(gli_key_table_find(&context->operations, key));
}

void gli_match_file(gli_operation *op) {
  gli_key_table_add(&op->context->operations, &op->keyed, gli_match_key_of(op));
}

void gli_match_unfile(gli_operation *op) {
  if (op->keyed.at == NULL) return; /* never inserted */
  gli_key_table_remove(&op->context->operations, &op->keyed);
}

/* ---- messages between two ranks ------------------------------------------ */

/* Both ends number the messages with a tag between them. A receive from one
 * rank has the number of its message from its beginning, and runs like any
 * operation. One from any of several ranks has not: it takes the oldest message
 * that no receive has the number of, or is posted until one comes. What such a
 * receive looks for is the first thing to arrive of a message, its slot 0 or an
 * RTS, which is its envelope; envelopes of a rank arrive in order. While it is
 * posted, a receive from one rank whose message it might take is posted behind
 * it. */

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
static bool match_is_next(const gli_early *early) {
  const gli_header *h = &early->header;
  return h->operation == gli_counted(&early->link->found, h->tag);
}

gli_early *gli_match_envelope(const gli_operation *op) {
  gli_early *p = op->context->envelopes_first;
  while (p != NULL &&
         !(p->header.tag == op->signature.tag &&
           gli_p2p_takes_from(op, p->link->local) && match_is_next(p))) {
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
