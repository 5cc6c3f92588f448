/* Running the steps of operations that can run. */
#include "engine/run/run.h"
#include "core/hints.h"
#include "engine/memory/memory.h"
#include "engine/memory/staged_copies.h"
#include "engine/run/in_order.h"

static void run_step(gli_operation *op, uint32_t index) {
  const gli_step *s = &op->plan->steps[index];
  switch ((gli_step_kind)s->kind) {
    case GLI_STEP_SEND:
      gli_send_step(op, index);
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
      return; /* or it ends in a poll */
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

/* Steps that finish on the spot queue their followers in op->ready. */
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
    op->runnable = false; /* only now: it need not be queued meanwhile */
    if (op->steps_todo == 0 && gli_operation_is(op, GLI_OPERATION_RUNNING) &&
        !gli_context_poisoned(op->context)) {
      gli_operation_finish(op, NULL);
    }
  } while (device->runnable != NULL);
}
