/* Withdrawal of operations that no other rank knows of. */
#include "core/error.h"
#include "engine/life/life.h"
#include "engine/match/match.h"
#include "engine/run/run.h"
#include "engine/wire/wire.h"

/* Returns true if no part of the message has arrived, and its sender got no
 * CTS. */
static bool is_private_receive(const gli_operation *op) {
  if (op->early != NULL || op->peers[0].told) return false;
  for (uint32_t i = 0; i < op->plan->n_steps; i++) {
    if (op->recv_state[i] > GLI_RECV_READY) return false;
  }
  return true;
}

/* Returns true if all of the message is still here. */
static bool is_private_send(const gli_operation *op) {
  if (op->deferred) return true;
  if (op->peers[0].rts_sent) return false;
  uint32_t blocked = 0;
  const gli_transfer *t = op->peers[0].blocked_first;
  for (; t != NULL; t = t->blocked_next) blocked++;
  uint32_t copies = 0; /* copies from GPU memory, which are done */
  for (uint32_t i = 0; i < op->plan->n_steps; i++)
    copies += op->plan->steps[i].kind == GLI_STEP_COPY_IN;
  return blocked + copies == op->plan->n_steps;
}

bool gli_operation_is_private(const gli_operation *op) {
  if (gli_operation_is(op, GLI_OPERATION_POSTED)) return true;
  if (op->side == GLI_RECV_SIDE) return is_private_receive(op);
  return op->side == GLI_SEND_SIDE && is_private_send(op);
}

/* Gives an operation the next lower number. No other rank knows of it either,
 * because messages with a tag are announced in order. */
static void step_down(gli_operation *op) {
  if (op->in_order.active) gli_in_order_leave(op);
  if (op->side == GLI_RECV_SIDE) gli_match_remove(op);
  op->signature.operation--;
  if (op->side == GLI_RECV_SIDE) {
    gli_match_insert(op);
    return;
  }
  gli_wire_step_down(op, 0);
}

/* Gives the number back. Operations with higher numbers began later, so they
 * follow in the list. */
static void give_back_number(gli_operation *op) {
  gli_device_list(op->device);
  uint64_t left = *op->counter - 1 - op->signature.operation;
  gli_operation *later = op->context->family->active.last;
  for (; left > 0 && later != op; later = later->active_prev) {
    if (later->counter != op->counter) continue;
    step_down(later);
    left--;
  }
  --*op->counter;
}

void gli_operation_withdraw(gli_operation *op) {
  if (gli_operation_is(op, GLI_OPERATION_RUNNING)) {
    if (op->side == GLI_SEND_SIDE) gli_wire_withdraw(op, 0);
    give_back_number(op);
  }
  gloo_error error;
  gli_fail(&error, GLOO_ERR_CANCELLED, -1,
           "cancelled before any other rank took part");
  gli_operation_finish(op, &error);
}
