/* Messages that arrive before their operation is started, or before their
 * receive is ready. */
#include <inttypes.h>

#include "core/error.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/run/in_order.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

gloo_status gli_receive_step(const gli_operation *op, gli_link *link,
                             const gli_header *h, uint32_t *step,
                             gloo_error *error) {
  gloo_status status = gli_match_step(op, link, h, step, error);
  if (status != GLOO_OK || gli_get_fits(op, *step, h)) return status;
  uint64_t expected = gli_step_wire_bytes(&op->plan->steps[*step]);
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent %" PRIu64
                  " bytes in message %u, expected %" PRIu64,
                  link->rank, h->length, h->slot, expected);
}

gloo_status gli_early_repeated(const gli_link *link, const gli_header *h,
                               gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent message %u of an operation twice", link->rank,
                  h->slot);
}

void gli_early_attach(gli_operation *op, gli_early *early, uint32_t step) {
  early->operation = op;
  early->step = step;
  early->next = op->early;
  op->early = early;
}

gli_early *gli_early_attached(const gli_operation *op, uint32_t step) {
  gli_early *early = op->early;
  while (early != NULL && early->step != step) early = early->next;
  return early;
}

static void detach_early(gli_operation *op, gli_early *early) {
  gli_early **at = &op->early;
  while (*at != early) at = &(*at)->next;
  *at = early->next;
}

gloo_status gli_early_answer_rts(gli_operation *op, gli_link *link,
                                 const gli_header *h, gloo_error *error) {
  gloo_status status = gli_match_agree(op, link, h, error);
  if (status != GLOO_OK) return status;
  uint32_t peer = gli_match_peer(op, link);
  if (peer != GLI_NO_PEER) gli_operation_note(op, peer)->told = true;
  return gli_wire_answer(link, GLI_MESSAGE_CTS, &op->signature, error);
}

void gli_early_keep_cts(gli_link *link, const gli_header *h) {
  if (link->early_cts_count == GLI_EARLY_CTS_MAX) return;
  link->context->n_early++;
  link->early_cts[link->early_cts_count++] =
      (gli_early_cts){h->tag, h->operation};
}

static void read_cts(gli_operation *op, uint32_t peer) {
  gli_link *link = op->peers[peer].link;
  for (uint32_t n = 0; n < link->early_cts_count; n++) {
    if (link->early_cts[n].tag != op->signature.tag) continue;
    if (link->early_cts[n].operation != op->signature.operation) continue;
    link->context->n_early--;
    link->early_cts[n] = link->early_cts[--link->early_cts_count];
    gli_operation_note(op, peer)->granted = true;
    return;
  }
}

void gli_early_read_cts(gli_operation *op) {
  if (op->context->n_early == 0) return;
  for (uint32_t i = 0; i < op->plan->n_peers; i++) read_cts(op, i);
}

/* Ends an early message that belongs to no step of this operation. */
static void early_end_apart(gli_early *early) {
  if (early->complete)
    gli_early_free(early);
  else
    early->orphan = true;
}

/* Takes in one message that arrived before the operation was started. */
static gloo_status adopt_one(gli_operation *op, gli_early *early,
                             gloo_error *error) {
  gli_link *link = early->link;
  if (early->envelope) gli_early_remove_envelope(early);
  gli_header header = early->header;
  if (header.type == GLI_MESSAGE_RTS) {
    gli_early_free(early);
    link->rts_in--;
    return gli_early_answer_rts(op, link, &header, error);
  }
  uint32_t step = 0;
  gloo_status status = gli_receive_step(op, link, &header, &step, error);
  if (status == GLOO_ERR_MISMATCH) {
    early_end_apart(early);
    return status;
  }
  if (status == GLOO_OK && gli_early_attached(op, step) != NULL) {
    status = gli_early_repeated(link, &header, error);
  }
  gli_early_attach(op, early,
                   step); /* also on failure: freed with the operation */
  link->credit.early -= (uint32_t)gli_wire_cost(header.length);
  gli_wire_consumed(link, header.length);
  return status;
}

static gloo_status adopt_all(gli_operation *op, gloo_error *error) {
  gli_key key = gli_match_key_of(op);
  gli_early *early;
  if (op->side == GLI_SEND_SIDE) return GLOO_OK;
  while ((early = gli_early_take(op->context, key)) != NULL) {
    gli_link *link = early->link;
    gli_header header = early->header;
    gloo_status status = adopt_one(op, early, error);
    if (status == GLOO_ERR_MISMATCH &&
        gli_link_disputes(link, &op->signature, &header, error))
      continue;
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

gloo_status gli_early_adopt(gli_operation *op, gloo_error *error) {
  return op->context->n_early > 0 ? adopt_all(op, error) : GLOO_OK;
}

static gli_outcome deliver_early(gli_operation *op, uint32_t index,
                                 const gli_early *early) {
  const gli_step *s = &op->plan->steps[index];
  uint64_t bytes = gli_step_wire_bytes(s);
  uint8_t form = early->header.form;
  if (form == GLI_FORM_BYTES && s->role != GLI_ROLE_EXPOSE_PUT && bytes > 0) {
    gli_operation_store(op, s, early->data, (size_t)bytes,
                        gli_operation_elems(op, (size_t)bytes));
  }
  if (gli_get_is_plain(s, form)) return GLI_DONE;
  return gli_get_arrived(op, index, form, early->data);
}

bool gli_early_ready(gli_operation *op, uint32_t step) {
  gli_early *early = op->early != NULL ? gli_early_attached(op, step) : NULL;
  if (early == NULL) {
    gli_link *link = op->peers[op->plan->steps[step].peer].link;
    if (link->leaving.departed) {
      gloo_error error;
      char text[GLI_TEXT_BYTES];
      gli_fail(&error, GLOO_ERR_PEER, (int)link->rank,
               "rank %u has left (destroyed its context), but %s needs it",
               link->rank, gli_describe_call(&op->signature, text));
      gli_link_missed(link, &op->signature, &error);
    }
    return false;
  }
  if (!early->complete) {
    early->awaited = true;
    op->recv_state[step] = GLI_RECV_ARRIVING;
    return false;
  }
  op->recv_state[step] = GLI_RECV_ARRIVING;
  bool refers = gli_form_has_rkey(early->header.form);
  if (refers) gli_in_order_no_more(op); /* no thread polls for its bytes */
  bool done = deliver_early(op, step, early) == GLI_DONE;
  detach_early(op, early);
  gli_early_free(early);
  if (done) op->recv_state[step] = GLI_RECV_DONE;
  return done;
}
