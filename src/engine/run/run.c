/* Runs the steps of operations that are ready. */
#include "engine/run/run.h"

#include "core/error.h"
#include "core/hints.h"
#include "engine/memory/memory.h"
#include "engine/memory/staged_copies.h"
#include "engine/run/in_order.h"
#include "engine/run/message.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

/* Completes a step, which makes the steps ready that wait for it. */
static void run_push_ready(gli_operation *op, uint32_t step) {
  op->ready[op->ready_tail++] = step;
}

void gli_operation_step_done(gli_operation *op, uint32_t step) {
  const gli_plan *plan = op->plan;
  if (op->in_order.active) gli_in_order_leave(op);
  op->steps_todo--;
  for (uint32_t i = plan->next_first[step]; i < plan->next_first[step + 1];
       i++) {
    uint32_t next = plan->next[i];
    if (--op->pending[next] == 0) run_push_ready(op, next);
  }
  gli_operation_make_runnable(op);
}

/* ---- messages of send steps ---------------------------------------------- */

/* Fails the context. `at_fault` is -1 if the receiver is not at fault. */
static void run_fail_send(gli_operation *op, gli_link *link, gloo_status status,
                          int at_fault, const char *why) {
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  gli_fail(&error, status, at_fault, "%s: cannot send to rank %u: %s",
           gli_describe_call(&op->signature, text), link->rank, why);
  gli_context_poison(op->context, &error);
}

/* Returns true if a message must wait, so that it does not overtake a message
 * that is unknown to the receiver. */
static bool run_send_is_stuck(const gli_operation *op, const gli_link *link) {
  return gli_operation_is_message(op) && link->unannounced != NULL;
}

static void run_fill_header(const gli_operation *op, const gli_step *step,
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
static bool run_send_is_short(const gli_step *step, const gli_header *header) {
  return step->role == GLI_ROLE_BYTES && header->length <= GLI_TAKE_BYTES;
}

static void run_send_step(gli_operation *op, uint32_t index) {
  const gli_step *step = &op->plan->steps[index];
  const gli_op_peer *peer = &op->peers[step->peer];
  gli_link *link = peer->link;
  gli_pair *pair = link->pair;
  if (link->leaving.departed) {
    run_fail_send(op, link, GLOO_ERR_PEER, (int)link->rank, "it has left");
    return;
  }
  gli_header header;
  run_fill_header(op, step, &header);
  if (pair != NULL && pair->ops->send_now != NULL &&
      run_send_is_short(step, &header) &&
      gli_send_now(op, index, step, peer, pair, &header)) {
    gli_operation_step_done(op, index);
    return;
  }
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) {
    run_fail_send(op, link, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return;
  }
  t->operation = op;
  t->step = index;
  t->peer = step->peer;
  t->request.header = header;
  t->request.header.eager = 0;
  gli_expose_message(t);
  gli_wire_send(t, run_send_is_stuck(op, link));
}

/* ---- running steps ------------------------------------------------------- */

static void run_step(gli_operation *op, uint32_t index) {
  const gli_step *s = &op->plan->steps[index];
  switch ((gli_step_kind)s->kind) {
    case GLI_STEP_SEND:
      run_send_step(op, index);
      return;
    case GLI_STEP_RECV:
    case GLI_STEP_RECV_REDUCE:
      op->recv_state[index] = GLI_RECV_READY;
      if (op->early == NULL && !op->peers[s->peer].link->leaving.departed)
        return;
      if (gli_early_ready(op, index)) gli_operation_step_done(op, index);
      return;
    case GLI_STEP_COPY:
    case GLI_STEP_REDUCE:
      if (s->n_puts > 0) break;
      gli_operation_run_local(op, index);
      gli_operation_step_done(op, index);
      return;
    case GLI_STEP_LOCAL_REDUCE:
    case GLI_STEP_LOCAL_BCAST:
      gli_lists_run(op, s);
      gli_operation_step_done(op, index);
      return;
    case GLI_STEP_COPY_IN:
    case GLI_STEP_COPY_OUT:
      if (gli_staged_copy(op, index) == GLI_DONE)
        gli_operation_step_done(op, index);
      return; /* or a poll completes it */
    case GLI_STEP_COPY_GET:
    case GLI_STEP_REDUCE_ALL:
    case GLI_STEP_REDUCE_MANY:
    case GLI_STEP_KINDS:
      break;
  }
  if (gli_get_combine(op, index) == GLI_DONE) {
    gli_operation_step_done(op, index);
  }
}

/* Completes the steps whose messages were sent. */
static void take_finished(gloo_device *device) {
  while (device->finished.first != NULL) {
    gli_transfer *t = device->finished.first;
    gli_transfer_list_remove(&device->finished, t);
    gli_operation *op = t->operation;
    uint32_t step = t->step;
    gli_transfer_free(t);
    gli_operation_step_done(op, step);
  }
}

/* Runs the ready steps. A step that completes at once adds to op->ready. */
static void run_ready_steps(gli_operation *op) {
  do {
    if (gli_context_poisoned(op->context)) return;
    take_finished(op->device);
    if (op->ready_head == op->ready_tail) return;
    run_step(op, op->ready[op->ready_head++]);
  } while (true);
}

void gli_device_run_all(gloo_device *device) {
  do {
    gli_operation *op = device->runnable;
    device->runnable = op->runnable_next;
    if (op->in_order.active && !gli_context_poisoned(op->context)) {
      gli_in_order_run(op);
    }
    if (!op->in_order.active) run_ready_steps(op);
    op->runnable = false; /* only now, so that it is not queued meanwhile */
    if (op->steps_todo == 0 && gli_operation_is(op, GLI_OPERATION_RUNNING) &&
        !gli_context_poisoned(op->context)) {
      gli_operation_finish(op, NULL);
    }
  } while (device->runnable != NULL);
}

/* ---- deferred starts ----------------------------------------------------- */

/* The steps of deferred operations are left to later polls, which start one
 * operation each. */

void gli_device_defer(gloo_device *device) {
  if (device->runnable == NULL) return;
  device->leftovers = true;
  gli_operation *before = NULL;
  if (device->deferred != NULL) {
    before = device->deferred_last;
    device->deferred_last->runnable_next = device->runnable;
  } else {
    device->deferred = device->runnable;
  }
  device->deferred_last = device->runnable_last;
  for (gli_operation *op = device->runnable; op != NULL;
       op = op->runnable_next) {
    op->deferred = true;
    op->deferred_before = before;
    before = op;
  }
  device->runnable = NULL;
}

void gli_device_leave_deferred(gli_operation *op) {
  gloo_device *device = op->device;
  gli_operation *before = op->deferred_before, *next = op->runnable_next;
  if (before != NULL) {
    before->runnable_next = next;
  } else {
    device->deferred = next;
  }
  if (next != NULL) {
    next->deferred_before = before;
  } else {
    device->deferred_last = before;
  }
  op->deferred = op->runnable = false;
}

void gli_device_start_deferred(gloo_device *device) {
  gli_operation *op = device->deferred;
  gli_device_leave_deferred(op);
  gli_operation_make_runnable(op);
}
