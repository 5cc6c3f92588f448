/* Matching: which operation, and which of its receives, a message belongs to.
 */
#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "engine/context.h"
#include "engine/describe.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/match.h"
#include "engine/operation.h"
#include "engine/reach.h"
#include "engine/straight.h"

/* Among the peers of the operation's plan. */
uint32_t gli_match_peer(const gloo_operation *op, gli_link *link) {
  uint32_t hint = link->hint;
  if (hint < op->plan->n_peers && op->peers[hint].link == link) return hint;
  if (op->signature.collective == GLI_SENDRECV) return 0;
  uint32_t index = gli_plan_find_peer(op->plan, link->local);
  if (index != GLI_NO_PEER) link->hint = index;
  return index;
}

/* ---- what came early ----------------------------------------------------- */

gloo_status gli_match_agree(const gloo_operation *op, const gli_link *link,
                            const gli_header *h, gloo_error *error) {
  if (gli_signature_equal(&op->signature, h)) return GLOO_OK;
  gli_describe_mismatch(op->context, link->rank, &op->signature, h, error);
  return GLOO_ERR_MISMATCH;
}

/* Do both ends agree on how much goes from one to the other? */
static gloo_status check_pair(const gloo_operation *op, const gli_link *link,
                              uint32_t peer, const gli_header *h,
                              gloo_error *error) {
  if (!gli_collective_pairwise((gli_collective)h->collective)) return GLOO_OK;
  uint64_t expected = gli_plan_exchanged(op->plan, peer, false);
  if (h->count == expected) return GLOO_OK;
  char text[GLI_TEXT_BYTES];
  return gli_fail(error, GLOO_ERR_MISMATCH, (int)link->rank,
                  "in %s, rank %u sends %" PRIu64
                  " elements to rank %u, which expects %" PRIu64
                  " from it: their counts must agree",
                  gli_describe_call(&op->signature, text), link->rank, h->count,
                  op->context->root_rank, expected);
}

/* Check a message against an operation, and find its receive step. */
static gloo_status find_step(gloo_operation *op, gli_link *link,
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
  if (!gli_reach_fits(op, *step, h)) {
    uint64_t expected = gli_step_wire_bytes(&plan->steps[*step]);
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u sent %" PRIu64
                    " bytes in message %u where %" PRIu64 " belong",
                    link->rank, h->length, h->slot, expected);
  }
  return GLOO_OK;
}

static gloo_status repeated(gli_link *link, const gli_header *h,
                            gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent message %u of an operation twice", link->rank,
                  h->slot);
}

static void attach(gloo_operation *op, gli_parked *parked, uint32_t step) {
  parked->operation = op;
  parked->step = step;
  parked->next = op->parked;
  op->parked = parked;
}

static gli_parked *attached(const gloo_operation *op, uint32_t step) {
  gli_parked *parked = op->parked;
  while (parked && parked->step != step) parked = parked->next;
  return parked;
}

static void detach(gloo_operation *op, gli_parked *parked) {
  gli_parked **at = &op->parked;
  while (*at != parked) at = &(*at)->next;
  *at = parked->next;
}

/* Take in one thing that came before the operation was started. */
static gloo_status adopt_one(gloo_operation *op, gli_parked *parked,
                             gloo_error *error) {
  gli_link *link = parked->link;
  if (parked->envelope) gli_parked_remove_envelope(parked);
  gli_header header = parked->header;
  if (header.type == GLI_MESSAGE_WANT) {
    gli_parked_free(parked);
    link->wants_in--;
    return gli_match_wanted(op, link, &header, error);
  }
  uint32_t step = 0;
  gloo_status status = find_step(op, link, &header, &step, error);
  if (status == GLOO_OK && attached(op, step)) {
    status = repeated(link, &header, error);
  }
  attach(op, parked, step); /* also on failure: freed with the operation */
  link->parked_bytes -= (uint32_t)gli_flow_cost(header.length);
  gli_flow_consumed(link, header.length);
  return status;
}

static gloo_status adopt_parked(gloo_operation *op, gloo_error *error) {
  gli_key key = gli_match_key_of(op);
  gli_parked *parked;
  if (key.kind == GLI_KIND_SEND) return GLOO_OK;
  while ((parked = gli_parked_take(op->context, key)) != NULL) {
    gloo_status status = adopt_one(op, parked, error);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

gloo_status gli_match_adopt(gloo_operation *op, gloo_error *error) {
  return op->context->n_parked > 0 ? adopt_parked(op, error) : GLOO_OK;
}

bool gli_match_ready(gloo_operation *op, uint32_t step) {
  gli_parked *parked = op->parked ? attached(op, step) : NULL;
  if (!parked) {
    const gli_link *link = op->peers[op->plan->steps[step].peer].link;
    if (link->left) {
      gloo_error error;
      char text[GLI_TEXT_BYTES];
      gli_fail(&error, GLOO_ERR_PEER, (int)link->rank,
               "rank %u has left (destroyed its context), but %s needs it",
               link->rank, gli_describe_call(&op->signature, text));
      gli_context_poison(op->context, &error);
    }
    return false;
  }
  if (!parked->complete) {
    parked->awaited = true;
    op->recv_state[step] = GLI_RECV_ARRIVING;
    return false;
  }
  op->recv_state[step] = GLI_RECV_ARRIVING;
  bool done = gli_operation_deliver(op, step, parked);
  detach(op, parked);
  gli_parked_free(parked);
  if (done) op->recv_state[step] = GLI_RECV_DONE;
  return done;
}

/* ---- what arrives -------------------------------------------------------- */

gloo_status gli_match_no_memory(gli_link *link, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a message from rank %u", link->rank);
}

/* The payload goes to `parked`. */
static gloo_status sink_parked(gli_link *link, gli_parked *parked,
                               gli_sink *sink, gloo_error *error) {
  gli_transfer *t = gli_transfer_new(link);
  if (!t) return gli_match_no_memory(link, error);
  t->parked = parked;
  gli_transfer_list_add(&link->arriving, t);
  *sink = (gli_sink){.dst = parked->data, .token = t};
  return GLOO_OK;
}

static gloo_status sink_step(gloo_operation *op, gli_link *link, uint32_t step,
                             uint8_t form, gli_sink *sink, gloo_error *error) {
  gli_transfer *t = gli_transfer_new(link);
  if (!t) return gli_match_no_memory(link, error);
  t->operation = op;
  t->step = step;
  gli_transfer_list_add(&link->arriving, t);
  op->recv_state[step] = GLI_RECV_ARRIVING;
  if (link->awaits == op) link->awaits = NULL;
  const gli_step *s = &op->plan->steps[step];
  t->form = form;
  *sink = (gli_sink){.token = t};
  if (gli_form_refers(form) || s->role == GLI_ROLE_LEND) {
    sink->dst = t->reference;
    return GLOO_OK;
  }
  if (form == GLI_FORM_PLACED || gli_step_wire_bytes(s) == 0) return GLOO_OK;
  sink->dst = gli_operation_at(op, s->dst_buffer, s->dst);
  sink->stream = gli_operation_streams(op, step);
  if (s->kind == GLI_STEP_RECV) return GLOO_OK;
  sink->local = gli_operation_at(op, s->a_buffer, s->a);
  sink->fn = op->reduce;
  sink->elem_bytes = (uint32_t)op->plan->params.elem_bytes;
  sink->incoming_left = s->incoming_left != 0;
  return GLOO_OK;
}

/* Elements of a custom operation come whole, and to nobody's thread but ours:
 * transports know none. */
static bool passes_by(const gloo_operation *op, uint32_t step,
                      const gli_header *h) {
  return op->custom.op && h->form == GLI_FORM_BYTES &&
         op->plan->steps[step].kind == GLI_STEP_RECV_REDUCE;
}

static gloo_status data_for(gloo_operation *op, gli_link *link,
                            const gli_header *h, gli_sink *sink,
                            gloo_error *error) {
  uint32_t step;
  gloo_status status = find_step(op, link, h, &step, error);
  if (status != GLOO_OK) return status;
  if (h->charged) gli_flow_consumed(link, h->length);
  bool ready = op->recv_state[step] == GLI_RECV_READY;
  if (ready && !passes_by(op, step, h)) {
    return sink_step(op, link, step, h->form, sink, error);
  }
  if ((!ready && op->recv_state[step] != GLI_RECV_UNREADY) ||
      attached(op, step)) {
    return repeated(link, h, error);
  }
  gli_parked *parked = gli_parked_new(link, h, h->length);
  if (!parked) return gli_match_no_memory(link, error);
  if (ready) {
    parked->awaited = true;
    op->recv_state[step] = GLI_RECV_ARRIVING;
  }
  attach(op, parked, step);
  return sink_parked(link, parked, sink, error);
}

gloo_status gli_match_agree_late(const gli_link *link, const gli_header *h,
                                 gloo_error *error) {
  const gloo_context *context = link->context;
  for (uint32_t i = 0; i < GLI_FINISHED && i < context->n_finished; i++) {
    const gli_header *mine = &context->finished[i];
    if (mine->tag != h->tag || mine->operation != h->operation) continue;
    if (gli_signature_equal(mine, h)) break;
    gli_describe_mismatch(context, link->rank, mine, h, error);
    return GLOO_ERR_MISMATCH;
  }
  return GLOO_OK;
}

/* The operation is over here, or never had a message from this rank. */
static gloo_status too_late(const gli_link *link, const gli_header *h,
                            gloo_error *error) {
  const gloo_context *context = link->context;
  gloo_status status = gli_match_agree_late(link, h, error);
  if (status != GLOO_OK) return status;
  char text[GLI_TEXT_BYTES];
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent data for %s, which is over on rank %u",
                  link->rank, gli_describe_call(h, text), context->root_rank);
}

bool gli_match_is_over(const gloo_context *context, const gli_header *h) {
  return h->collective != GLI_SENDRECV &&
         h->operation < gli_context_started(context, h->tag);
}

gli_key gli_match_incoming(const gli_link *link, const gli_header *h) {
  gli_kind kind =
      h->collective == GLI_SENDRECV ? GLI_KIND_RECV : GLI_KIND_COLLECTIVE;
  return gli_match_key(kind, link->rank, h);
}

/* The operation a message is for; binds a posted receive to its first one. */
gloo_operation *gli_match_find_or_claim(gli_link *link, const gli_header *h,
                                        gloo_error *error) {
  gloo_operation *op = link->context->newest;
  if (op && op->signature.operation == h->operation &&
      op->signature.tag == h->tag && h->collective != GLI_SENDRECV &&
      op->signature.collective != GLI_SENDRECV) {
    return op;
  }
  gli_key key = gli_match_incoming(link, h);
  op = gli_match_find(link->context, key);
  if (op || key.kind != GLI_KIND_RECV || h->slot != 0) return op;
  if (gli_parked_has_envelope(link->context, key)) return NULL;
  return gli_p2p_claim(link, h, error);
}

bool gli_match_message(gli_link *link, const gli_header *h,
                       const uint8_t *payload, gloo_error *error) {
  gloo_operation *op = gli_match_find_or_claim(link, h, error);
  if (!op || error->status != GLOO_OK) return false;
  /* It has just claimed a receive, which goes straight. */
  if (link->awaits && gli_straight_message(link, h, payload)) return true;
  const gli_plan *plan = op->plan;
  uint32_t index = gli_match_peer(op, link);
  if (op->pairwise || index == GLI_NO_PEER) return false;
  if (!gli_signature_same(&op->signature, h)) return false;
  const gli_plan_peer *peer = &plan->peers[index];
  if (h->slot >= peer->recvs) return false;
  uint32_t step = plan->recv_steps[peer->first_recv + h->slot];
  const gli_step *s = &plan->steps[step];
  if (op->recv_state[step] != GLI_RECV_READY) return false;
  if (passes_by(op, step, h)) return false;
  if (s->role != GLI_ROLE_BYTES || h->length != gli_step_wire_bytes(s)) {
    return false;
  }
  if (!gli_flow_credit_now(link, h->credit)) return false;
  link->data_came++;
  if (h->charged) gli_flow_consumed(link, h->length);
  if (h->length > 0) gli_operation_store(op, s, payload, (size_t)h->length);
  op->recv_state[step] = GLI_RECV_DONE;
  gli_operation_step_done(op, step);
  return true;
}

void gli_match_keep(gli_link *link, gli_parked *parked) {
  const gli_header *h = &parked->header;
  gli_key key = gli_match_incoming(link, h);
  if (key.kind == GLI_KIND_RECV && h->slot == 0 &&
      !gli_parked_has_envelope(link->context, key)) {
    gli_parked_add_envelope(parked);
    link->p2p_came++;
  }
  gli_parked_keep(parked, key);
}

gloo_status gli_match_data(gli_link *link, const gli_header *h, gli_sink *sink,
                           gloo_error *error) {
  gli_error_clear(error);
  link->data_came++;
  gloo_operation *op = gli_match_find_or_claim(link, h, error);
  if (error->status != GLOO_OK) return error->status;
  if (op) return data_for(op, link, h, sink, error);
  if (gli_match_is_over(link->context, h)) return too_late(link, h, error);
  uint64_t cost = gli_flow_cost(h->length);
  uint32_t budget = link->context->budget;
  if (!h->charged || cost > budget - link->parked_bytes) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u sent more ahead than the %u bytes it may",
                    link->rank, budget);
  }
  gli_parked *parked = gli_parked_new(link, h, h->length);
  if (!parked) return gli_match_no_memory(link, error);
  link->parked_bytes += (uint32_t)cost;
  gli_match_keep(link, parked);
  return sink_parked(link, parked, sink, error);
}
