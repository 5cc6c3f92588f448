/* Arriving messages: to their operation and step, or to memory until these are
 * known. */
#include "core/error.h"
#include "engine/match/match.h"
#include "engine/run/in_order.h"
#include "engine/run/message.h"
#include "engine/run/run.h"
#include "engine/state/deadline.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

gloo_status gli_receive_bind(gli_operation *op, gli_link *link,
                             gloo_error *error) {
  op->counter = gli_counter(&link->found, op->signature.tag);
  if (op->counter == NULL) return gli_receive_no_memory(link, error);
  op->peers[0] = (gli_op_peer){.link = link};
  op->signature.operation = (*op->counter)++;
  op->p2p.source = (int)link->local;
  op->about.peer = link->rank;
  op->in_order.prepared = false;
  return gli_operation_launch(op, error);
}

/* Binds a posted receive to the message that it takes. */
static gli_operation *claim_posted(gli_operation *op, gli_link *link,
                                   gloo_error *error) {
  gloo_context *context = link->context;
  gli_operation_list_remove(&context->family->posted, op);
  bool started = gli_deadline_is_started(op);
  if (gli_receive_bind(op, link, error) != GLOO_OK) return NULL;
  if (started) gli_deadline_start(op);
  /* The receive step must be ready before its message is looked at. */
  gli_device_run(context->device);
  return op;
}

gli_operation *gli_receive_operation(gli_link *link, const gli_header *h,
                                     gloo_error *error) {
  gli_operation *op = gli_match_operation(link, h);
  if (op == NULL || !gli_operation_is(op, GLI_OPERATION_POSTED)) return op;
  return claim_posted(op, link, error);
}

gloo_status gli_receive_no_memory(const gli_link *link, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a message from rank %u", link->rank);
}

/* Places the payload in `early`. */
static gloo_status sink_early(gli_link *link, gli_early *early, gli_sink *sink,
                              gloo_error *error) {
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) return gli_receive_no_memory(link, error);
  t->early = early;
  gli_transfer_list_add(&link->arriving, t);
  *sink = (gli_sink){.dst = early->data, .token = t};
  return GLOO_OK;
}

static gloo_status sink_step(gli_operation *op, gli_link *link, uint32_t step,
                             uint8_t form, gli_sink *sink, gloo_error *error) {
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) return gli_receive_no_memory(link, error);
  t->operation = op;
  t->step = step;
  gli_transfer_list_add(&link->arriving, t);
  op->recv_state[step] = GLI_RECV_ARRIVING;
  if (link->awaits == op) link->awaits = NULL;
  const gli_step *s = &op->plan->steps[step];
  t->form = form;
  *sink = (gli_sink){.token = t};
  if (gli_form_has_rkey(form) || s->role == GLI_ROLE_EXPOSE_PUT) {
    sink->dst = t->rkey;
    return GLOO_OK;
  }
  if (form == GLI_FORM_PUT_DONE || gli_step_wire_bytes(s) == 0) return GLOO_OK;
  sink->dst = gli_operation_at(op, s->dst_buffer, s->dst);
  sink->nontemporal = gli_operation_is_nontemporal(op, step);
  if (s->kind == GLI_STEP_RECV) return GLOO_OK;
  sink->local = gli_operation_at(op, s->a_buffer, s->a);
  sink->fn = op->reduce;
  sink->elem_bytes = (uint32_t)op->plan->params.elem_bytes;
  sink->incoming_first = s->incoming_first != 0;
  return GLOO_OK;
}

/* Returns true if the payload of a step must not go to a sink: custom
 * operations need whole elements, in this thread, and transports do not know
 * them. */
static bool passes_by(const gli_operation *op, uint32_t step,
                      const gli_header *h) {
  return op->custom.op != NULL && h->form == GLI_FORM_BYTES &&
         op->plan->steps[step].kind == GLI_STEP_RECV_REDUCE;
}

static gloo_status data_for(gli_operation *op, gli_link *link,
                            const gli_header *h, gli_sink *sink,
                            gloo_error *error) {
  uint32_t step;
  gloo_status status = gli_receive_step(op, link, h, &step, error);
  if (status != GLOO_OK) return status;
  if (h->eager) gli_wire_consumed(link, h->length);
  /* A receive sends CTS only now: before its message came, it could be
   * withdrawn. */
  if (op->cts_unasked && gli_operation_is_message(op) && !op->peers[0].told) {
    gli_operation_note(op, 0)->told = true;
    gli_wire_control(link, GLI_MESSAGE_CTS, &op->signature, 0);
  }
  bool ready = op->recv_state[step] == GLI_RECV_READY;
  if (ready && !passes_by(op, step, h)) {
    return sink_step(op, link, step, h->form, sink, error);
  }
  if ((!ready && op->recv_state[step] != GLI_RECV_UNREADY) ||
      gli_early_attached(op, step) != NULL) {
    return gli_early_repeated(link, h, error);
  }
  gli_early *early = gli_early_new(link, h, h->length);
  if (early == NULL) return gli_receive_no_memory(link, error);
  if (ready) {
    early->awaited = true;
    op->recv_state[step] = GLI_RECV_ARRIVING;
  }
  gli_early_attach(op, early, step);
  return sink_early(link, early, sink, error);
}

bool gli_receive_message(gli_link *link, const gli_header *h,
                         const uint8_t *payload, gloo_error *error) {
  gli_operation *op = gli_receive_operation(link, h, error);
  if (op == NULL || error->status != GLOO_OK) return false;
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
  if (!gli_wire_credit_now(link, h->credit)) return false;
  gli_receive_now(op, step, s, link, h->eager, h->length, payload,
                  gli_operation_elems(op, (size_t)h->length));
  gli_operation_heard(op, step);
  gli_operation_step_done(op, step);
  return true;
}

void gli_receive_keep(gli_link *link, gli_early *early) {
  const gli_header *h = &early->header;
  gli_key key = gli_key_incoming(link, h);
  if (h->collective == GLI_SENDRECV && h->slot == 0 &&
      !gli_early_has_envelope(link->context, key)) {
    gli_early_add_envelope(early);
  }
  gli_early_keep(early, key);
}

gloo_status gli_receive_data(gli_link *link, const gli_header *h,
                             gli_sink *sink, gloo_error *error) {
  gli_error_clear(error);
  link->leaving.came++;
  gli_operation *op = gli_receive_operation(link, h, error);
  if (error->status != GLOO_OK) return error->status;
  if (op != NULL) return data_for(op, link, h, sink, error);
  if (gli_match_is_over(link, h)) return gli_match_too_late(link, h, error);
  uint64_t cost = gli_wire_cost(h->length);
  uint32_t budget = link->context->budget;
  if (!h->eager || cost > budget - link->credit.early) {
    return gli_fail(
        error, GLOO_ERR_PROTOCOL, (int)link->rank,
        "rank %u sent more unexpected data than the %u bytes allowed",
        link->rank, budget);
  }
  gli_early *early = gli_early_new(link, h, h->length);
  if (early == NULL) return gli_receive_no_memory(link, error);
  link->credit.early += (uint32_t)cost;
  gli_receive_keep(link, early);
  return sink_early(link, early, sink, error);
}

void gli_received(gli_transfer *t) {
  gli_link *link = t->link;
  gli_early *early = t->early;
  gli_operation *op = t->operation;
  uint32_t step = t->step;
  gli_transfer_list_remove(&link->arriving, t);
  if (early == NULL) {
    if (gli_form_has_rkey(t->form)) gli_in_order_no_more(op);
    bool done = gli_get_is_plain(&op->plan->steps[step], t->form) ||
                gli_get_arrived(op, step, t->form, t->rkey) == GLI_DONE;
    gli_transfer_free(t);
    if (done) gli_receive_done(op, step);
    return;
  }
  gli_transfer_free(t);
  if (early->orphan) {
    gli_early_free(early);
    return;
  }
  early->complete = true;
  op = early->operation;
  step = early->step;
  if (early->awaited && gli_early_ready(op, step)) {
    gli_operation_step_done(op, step);
  }
}
