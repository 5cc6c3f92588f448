/* The start of a run. */
#include <string.h>

#include "core/hints.h"
#include "engine/match/match.h"
#include "engine/run/in_order.h"
#include "engine/run/run.h"
#include "engine/state/deadline.h"
#include "engine/wire/wire.h"

/* Announces the start to ranks that send much. */
GLI_COLD static void announce_start(gli_operation *op) {
  const gli_plan *plan = op->plan;
  for (uint32_t i = 0; i < plan->n_peers; i++) {
    if (plan->peers[i].recv_bytes <= GLI_CTS_UNASKED_BYTES) continue;
    gli_wire_control(op->peers[i].link, GLI_MESSAGE_CTS, &op->signature, 0);
  }
}

/* Sets the counters: all steps are pending. */
static void count_steps(gli_operation *op) {
  const gli_plan *plan = op->plan;
  if (plan->n_windows > 0) {
    memset(op->windows, 0, plan->n_windows * sizeof *op->windows);
  }
  uint32_t ready = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    op->pending[i] = plan->n_deps[i];
    op->recv_state[i] = GLI_RECV_UNREADY;
    if (plan->n_deps[i] == 0) op->ready[ready++] = i;
  }
  op->ready_head = 0;
  op->ready_tail = ready;
}

/* Lists an operation. The list is in the order in which operations began. */
static void list_operation(gli_operation *op) {
  gli_operation_list_add(&op->context->family->active, op);
  gli_match_insert(op);
}

void gli_device_list_now(gloo_device *device) {
  list_operation(device->unlisted);
  device->unlisted = NULL;
}

void gli_operation_forget_peers(gli_operation *op) {
  op->noted = false;
  for (uint32_t i = 0; i < op->plan->n_peers; i++)
    op->peers[i] = (gli_op_peer){.link = op->peers[i].link};
}

gloo_status gli_operation_launch(gli_operation *op, gloo_error *error) {
  const gli_plan *plan = op->plan;
  gli_operation_becomes(op, GLI_OPERATION_RUNNING);
  op->steps_todo = plan->n_steps;
  if (op->in_order.allowed) {
    if (!op->in_order.prepared) gli_in_order_prepare(op);
    gli_in_order_reset(op);
    op->in_order.at = 0;
    op->in_order.active = true;
  } else {
    count_steps(op);
  }
  gli_deadline_arm(op);
  gli_device_list(op->device);
  list_operation(op);
  gloo_status status = gli_early_adopt(op, error);
  if (status != GLOO_OK) {
    op->ready_tail = 0;
    op->in_order.active = false;
    return status;
  }
  if (op->cts_unasked && !gli_operation_is_message(op)) announce_start(op);
  gli_operation_make_runnable(op);
  return GLOO_OK;
}
