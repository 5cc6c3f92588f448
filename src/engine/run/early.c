/* What came before its operation was started, or before its receive was ready.
 */
#include <inttypes.h>

#include "core/error.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/run/in_order.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

gloo_status gli_receive_step(const gloo_operation *op, gli_link *link,
                             const gli_header *h, uint32_t *step,
                             gloo_error *error) {
  gloo_status status = gli_match_step(op, link, h, step, error);
  if (status != GLOO_OK || gli_reach_fits(op, *step, h)) return status;
  uint64_t expected = gli_step_wire_bytes(&op->plan->steps[*step]);
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent %" PRIu64 " bytes in message %u where %" PRIu64
                  " belong",
                  link->rank, h->length, h->slot, expected);
}

gloo_status gli_early_repeated(const gli_link *link, const gli_header *h,
                               gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent message %u of an operation twice", link->rank,
                  h->slot);
}

void gli_early_attach(gloo_operation *op, gli_parked *parked, uint32_t step) {
  parked->operation = op;
  parked->step = step;
  parked->next = op->parked;
  op->parked = parked;
}

gli_parked *gli_early_attached(const gloo_operation *op, uint32_t step) {
  gli_parked *parked = op->parked;
  while (parked && parked->step != step) parked = parked->next;
  return parked;
}

static void detach(gloo_operation *op, gli_parked *parked) {
  gli_parked **at = &op->parked;
  while (*at != parked) at = &(*at)->next;
  *at = parked->next;
}

gloo_status gli_early_wanted(gloo_operation *op, gli_link *link,
                             const gli_header *h, gloo_error *error) {
  gloo_status status = gli_match_agree(op, link, h, error);
  if (status != GLOO_OK) return status;
  uint32_t peer = gli_match_peer(op, link);
  if (peer != GLI_NO_PEER) op->peers[peer].told = true;
  return gli_flow_answer(link, GLI_MESSAGE_STARTED, &op->signature, error);
}

void gli_early_read_notes(gloo_operation *op, uint32_t peer) {
  gli_link *link = op->peers[peer].link;
  for (uint32_t n = 0; n < link->notes_count; n++) {
    if (link->notes[n].tag != op->signature.tag) continue;
    if (link->notes[n].operation != op->signature.operation) continue;
    link->notes[n] = link->notes[--link->notes_count];
    op->peers[peer].granted = true;
    return;
  }
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
    return gli_early_wanted(op, link, &header, error);
  }
  uint32_t step = 0;
  gloo_status status = gli_receive_step(op, link, &header, &step, error);
  if (status == GLOO_OK && gli_early_attached(op, step)) {
    status = gli_early_repeated(link, &header, error);
  }
  gli_early_attach(op, parked,
                   step); /* also on failure: freed with the operation */
  link->parked_bytes -= (uint32_t)gli_flow_cost(header.length);
  gli_flow_consumed(link, header.length);
  return status;
}

static gloo_status adopt_parked(gloo_operation *op, gloo_error *error) {
  gli_key key = gli_match_key_of(op);
  gli_parked *parked;
  if (op->side == GLI_SEND_SIDE) return GLOO_OK;
  while ((parked = gli_parked_take(op->context, key)) != NULL) {
    gloo_status status = adopt_one(op, parked, error);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

gloo_status gli_early_adopt(gloo_operation *op, gloo_error *error) {
  return op->context->n_parked > 0 ? adopt_parked(op, error) : GLOO_OK;
}

static gli_outcome deliver(gloo_operation *op, uint32_t index,
                           const gli_parked *parked) {
  const gli_step *s = &op->plan->steps[index];
  uint64_t bytes = gli_step_wire_bytes(s);
  uint8_t form = parked->header.form;
  if (form == GLI_FORM_BYTES && s->role != GLI_ROLE_LEND && bytes > 0) {
    gli_operation_store(op, s, parked->data, (size_t)bytes,
                        gli_operation_elems(op, (size_t)bytes));
  }
  if (gli_reach_is_plain(s, form)) return GLI_DONE;
  return gli_reach_arrived(op, index, form, parked->data);
}

bool gli_early_ready(gloo_operation *op, uint32_t step) {
  gli_parked *parked = op->parked ? gli_early_attached(op, step) : NULL;
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
  bool refers = gli_form_refers(parked->header.form);
  if (refers) gli_in_order_no_more(op); /* nobody looks for bytes in vain */
  bool done = deliver(op, step, parked) == GLI_DONE;
  detach(op, parked);
  gli_parked_free(parked);
  if (done) op->recv_state[step] = GLI_RECV_DONE;
  return done;
}
