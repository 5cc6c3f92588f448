/* The messages of send steps. */
#include "core/error.h"
#include "engine/run/message.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

/* `at_fault` is -1 where it is not the receiver. */
static void fail_send(gli_operation *op, gli_link *link, gloo_status status,
                      int at_fault, const char *why) {
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  gli_fail(&error, status, at_fault, "%s: cannot send to rank %u: %s",
           gli_describe_call(&op->signature, text), link->rank, why);
  gli_context_poison(op->context, &error);
}

/* Returns true if a message must wait, so that it does not overtake a message
 * that is unknown to the receiver. */
static bool is_stuck(const gli_operation *op, const gli_link *link) {
  return gli_operation_is_message(op) && link->unannounced != NULL;
}

static void fill_header(const gli_operation *op, const gli_step *step,
                        gli_header *header) {
  *header = op->signature;
  header->type = GLI_MESSAGE_DATA;
  header->context = op->peers[step->peer].link->group.peers;
  header->slot = step->slot;
  header->length = gli_step_wire_bytes(step);
  if (op->pairwise) {
    header->count = gli_plan_exchanged(op->plan, step->peer, true);
  }
}

/* Returns true if a message is short enough for a copy in the transport. */
static bool is_short(const gli_step *step, const gli_header *header) {
  return step->role == GLI_ROLE_BYTES && header->length <= GLI_TAKE_BYTES;
}

void gli_send_step(gli_operation *op, uint32_t index) {
  const gli_step *step = &op->plan->steps[index];
  const gli_op_peer *peer = &op->peers[step->peer];
  gli_link *link = peer->link;
  gli_pair *pair = link->pair;
  if (link->leaving.departed) {
    fail_send(op, link, GLOO_ERR_PEER, (int)link->rank, "it has left");
    return;
  }
  gli_header header;
  fill_header(op, step, &header);
  if (pair != NULL && pair->ops->send_now != NULL && is_short(step, &header) &&
      gli_send_now(op, index, step, peer, pair, &header)) {
    gli_operation_step_done(op, index);
    return;
  }
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) {
    fail_send(op, link, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return;
  }
  t->operation = op;
  t->step = index;
  t->peer = step->peer;
  t->request.header = header;
  t->request.header.eager = 0;
  gli_expose_message(t);
  gli_wire_send(t, is_stuck(op, link));
}
