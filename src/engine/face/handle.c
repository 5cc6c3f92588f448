/* Operations as callers see them: start, test, wait, cancel. */
#include "core/error.h"
#include "core/hints.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/life/life.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

static bool is_running(const gli_operation *op) {
  return op->state >= GLI_OPERATION_POSTED;
}

/* Is it, or what was joined to it? */
static bool any_running(const gli_operation *op) {
  return is_running(op) || (op->also != NULL && is_running(op->also));
}

/* The first error of the two. */
static const gli_operation *failed_of(const gli_operation *op) {
  return op->error.status == GLOO_OK && op->also != NULL ? op->also : op;
}

void gli_operation_join(gli_operation *op, gli_operation *also) {
  op->also = also;
}

static void end_unstarted(gli_operation *op, const gloo_error *error) {
  op->error = *error;
  op->state = GLI_OPERATION_DONE;
}

/* A message that goes nowhere, to which nothing was joined. */
static bool is_nothing(const gli_operation *op) {
  return op->plan->n_steps == 0 && op->signature.collective == GLI_SENDRECV;
}

/* What was joined comes first: it may have to copy what the other receives. */
static gloo_status begin_both(gli_operation *op, gloo_error *error) {
  gloo_status status = gli_operation_begin(op->also, true, error);
  gli_device_run(op->device);
  if (status == GLOO_OK) return gli_operation_begin(op, false, error);
  end_unstarted(op, error);
  return status;
}

GLI_COLD static gloo_status refuse_start(gli_operation *op) {
  gloo_error error;
  gloo_status status = gli_context_unusable(op->context, &error);
  end_unstarted(op, &error);
  if (op->also != NULL) end_unstarted(op->also, &error);
  return status;
}

/* Its context is gone, and nobody but the caller knows of the operation now. */
GLI_COLD static gloo_status refuse_orphan(gli_operation *op) {
  gloo_error error;
  bool failed = op->orphaned_by != GLOO_ERR_CANCELLED;
  gli_fail(&error, GLOO_ERR_POISONED, -1,
           "the context of this operation was destroyed%s%s",
           failed ? " after an error: " : "",
           failed ? gloo_status_string(op->orphaned_by) : "");
  error.cause = op->orphaned_by;
  end_unstarted(op, &error);
  if (op->also != NULL) end_unstarted(op->also, &error);
  return GLOO_ERR_POISONED;
}

/* Others than `own` are under way, and a thread that does not sleep sees to
 * them. */
static inline bool is_busy(const gloo_device *device, size_t own) {
  return device->outstanding > own && device->has_helper &&
         device->sleepers == 0;
}

/* It is alone, and what it waits for has been looked for. */
static inline bool needs_no_poll(gloo_device *device, const gli_operation *op) {
  if (device->outstanding > 1 || !gli_in_order_looks(op)) return false;
  return gli_device_may_do_without(device) && ++device->unpolled > 0;
}

/* It has been begun: see to what can be done at once. */
GLI_INLINE void get_going(gli_operation *op, bool busy) {
  gloo_device *device = op->device;
  if (busy) gli_device_defer(device);
  gli_device_settle(device);
  if (!any_running(op)) return;
  if (!busy && !needs_no_poll(device, op)) gli_device_poll(device);
  if (is_running(op)) gli_blame_start_clock(op);
  if (op->also != NULL && is_running(op->also)) gli_blame_start_clock(op->also);
  gli_device_kick_locked(device);
}

/* Two, or nothing. */
GLI_COLD static gloo_status start_odd(gli_operation *op, gloo_error *error) {
  if (op->also == NULL) {
    gli_error_clear(error);
    end_unstarted(op, error);
    return GLOO_OK;
  }
  gloo_status status = begin_both(op, error);
  get_going(op, status == GLOO_OK && is_busy(op->device, 1));
  return status;
}

GLI_INLINE gloo_status start_request(gli_operation *op) {
  gloo_error error;
  if (op->also != NULL || is_nothing(op)) return start_odd(op, &error);
  gloo_device *device = op->device;
  bool busy = is_busy(device, 0);
  gloo_status status = gli_operation_begin(op, !busy, &error);
  if (op->state == GLI_OPERATION_DONE && device->runnable == NULL &&
      !device->loose_ends) {
    return status;
  }
  get_going(op, busy && status == GLOO_OK);
  return status;
}

gloo_status gloo_request_start(gli_operation *op) {
  if (op == NULL || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (op->context == NULL) return refuse_orphan(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  gloo_status status;
  if (any_running(op)) {
    status = GLOO_ERR_BUSY;
  } else if (gli_context_poisoned(op->context)) {
    status = refuse_start(op);
  } else {
    status = start_request(op);
  }
  gli_device_unlock(device);
  return status;
}

static gloo_status request_result(const gli_operation *op) {
  return any_running(op) ? GLOO_IN_PROGRESS : failed_of(op)->error.status;
}

gloo_status gloo_request_test(gli_operation *op) {
  if (op == NULL || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (op->context == NULL) return request_result(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (any_running(op)) {
    gli_device_progress_for(device, op);
    if (any_running(op)) gli_device_check_deadlines(device);
  }
  gloo_status status = request_result(op);
  gli_device_unlock(device);
  return status;
}

gloo_status gloo_request_wait(gli_operation *op) {
  if (op == NULL || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (op->context == NULL) return request_result(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (is_running(op)) gli_device_wait(device, op);
  if (op->also != NULL && is_running(op->also))
    gli_device_wait(device, op->also);
  gloo_status status = request_result(op);
  gli_device_unlock(device);
  return status;
}

static void cancel_request(gli_operation *op) {
  if (gli_operation_is_private(op)) {
    gli_operation_withdraw(op);
    return;
  }
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  uint32_t rank = op->context->root_rank;
  gli_fail(&error, GLOO_ERR_CANCELLED, (int)rank, "rank %u cancelled %s", rank,
           gli_describe_call(&op->signature, text));
  gli_context_poison(op->context, &error);
}

static void cancel_if_running(gli_operation *op) {
  if (op->context == NULL) return;
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (any_running(op)) {
    if (is_running(op)) cancel_request(op);
    if (op->also != NULL && is_running(op->also)) cancel_request(op->also);
    gli_device_settle(device);
    gli_device_wake_sleepers(device);
  }
  gli_device_unlock(device);
}

gloo_status gloo_request_cancel(gli_operation *op) {
  if (op == NULL || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  cancel_if_running(op);
  return op->error.status == GLOO_ERR_FORKED ? GLOO_ERR_FORKED : GLOO_OK;
}

int gloo_request_source(const gli_operation *op) {
  if (op == NULL || gli_custom_op_inside()) return -1;
  gloo_device *device = op->context != NULL ? op->device : NULL;
  if (device != NULL) gli_device_lock(device);
  bool received =
      op->state == GLI_OPERATION_DONE && op->error.status == GLOO_OK;
  int source = received ? op->p2p.source : -1;
  if (device != NULL) gli_device_unlock(device);
  return source;
}

gloo_status gloo_request_error(const gli_operation *op, gloo_error *error) {
  if (op == NULL || error == NULL || gli_custom_op_inside())
    return GLOO_ERR_INVALID;
  gli_error_clear(error);
  gloo_device *device = op->context != NULL ? op->device : NULL;
  if (device != NULL) gli_device_lock(device);
  if (op->state == GLI_OPERATION_DONE) *error = failed_of(op)->error;
  if (device != NULL) gli_device_unlock(device);
  return error->status;
}

void gloo_request_destroy(gli_operation *op) {
  if (op == NULL || gli_custom_op_inside()) return;
  gloo_device *device = op->context != NULL ? op->device : NULL;
  cancel_if_running(op);
  if (device != NULL) gli_device_lock(device);
  if (op->also != NULL) gli_operation_release(op->also);
  gli_operation_release(op);
  if (device != NULL) gli_device_unlock(device);
}
