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

static bool is_running(const gloo_operation *op) {
  return op->state >= GLI_OPERATION_POSTED;
}

/* Is it, or what was joined to it? */
static bool any_running(const gloo_operation *op) {
  return is_running(op) || (op->also && is_running(op->also));
}

/* The first error of the two. */
static const gloo_operation *failed_of(const gloo_operation *op) {
  return op->error.status == GLOO_OK && op->also ? op->also : op;
}

void gli_operation_join(gloo_operation *op, gloo_operation *also) {
  op->also = also;
}

static void end_unstarted(gloo_operation *op, const gloo_error *error) {
  op->error = *error;
  op->state = GLI_OPERATION_DONE;
}

/* A message that goes nowhere, to which nothing was joined. */
static bool is_nothing(const gloo_operation *op) {
  return op->plan->n_steps == 0 && op->signature.collective == GLI_SENDRECV;
}

/* What was joined comes first: it may have to copy what the other receives. */
static gloo_status begin_both(gloo_operation *op, gloo_error *error) {
  gloo_status status = gli_operation_begin(op->also, true, error);
  gli_device_run(op->device);
  if (status == GLOO_OK) return gli_operation_begin(op, false, error);
  end_unstarted(op, error);
  return status;
}

GLI_COLD static gloo_status refuse_start(gloo_operation *op) {
  gloo_error error;
  gloo_status status = gli_context_unusable(op->context, &error);
  end_unstarted(op, &error);
  if (op->also) end_unstarted(op->also, &error);
  return status;
}

/* Its context is gone, and nobody but the caller knows of the operation now. */
GLI_COLD static gloo_status refuse_orphan(gloo_operation *op) {
  gloo_error error;
  bool failed = op->orphaned_by != GLOO_ERR_CANCELLED;
  gli_fail(&error, GLOO_ERR_POISONED, -1,
           "the context of this operation was destroyed%s%s",
           failed ? " after an error: " : "",
           failed ? gloo_status_string(op->orphaned_by) : "");
  error.cause = op->orphaned_by;
  end_unstarted(op, &error);
  if (op->also) end_unstarted(op->also, &error);
  return GLOO_ERR_POISONED;
}

/* Others than `own` are under way, and a thread that does not sleep sees to
 * them. */
static inline bool is_busy(const gloo_device *device, size_t own) {
  return device->outstanding > own && device->has_helper &&
         device->sleepers == 0;
}

/* It is alone, and what it waits for has been looked for. */
static inline bool needs_no_poll(gloo_device *device,
                                 const gloo_operation *op) {
  if (device->outstanding > 1 || !gli_in_order_looks(op)) return false;
  return gli_device_may_do_without(device) && ++device->unpolled > 0;
}

/* It has been begun: see to what can be done at once. */
GLI_INLINE void get_going(gloo_operation *op, bool busy) {
  gloo_device *device = op->device;
  if (busy) gli_device_put_off(device);
  gli_device_settle(device);
  if (!any_running(op)) return;
  if (!busy && !needs_no_poll(device, op)) gli_device_poll(device);
  if (is_running(op)) gli_late_start_clock(op);
  if (op->also && is_running(op->also)) gli_late_start_clock(op->also);
  gli_device_kick_locked(device);
}

/* Two, or nothing. */
GLI_COLD static gloo_status start_odd(gloo_operation *op, gloo_error *error) {
  if (!op->also) {
    gli_error_clear(error);
    end_unstarted(op, error);
    return GLOO_OK;
  }
  gloo_status status = begin_both(op, error);
  get_going(op, status == GLOO_OK && is_busy(op->device, 1));
  return status;
}

GLI_INLINE gloo_status start(gloo_operation *op) {
  gloo_error error;
  if (op->also || is_nothing(op)) return start_odd(op, &error);
  gloo_device *device = op->device;
  bool busy = is_busy(device, 0);
  gloo_status status = gli_operation_begin(op, !busy, &error);
  if (op->state == GLI_OPERATION_DONE && !device->runnable &&
      !device->loose_ends) {
    return status;
  }
  get_going(op, busy && status == GLOO_OK);
  return status;
}

gloo_status gloo_operation_start(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (!op->context) return refuse_orphan(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  gloo_status status;
  if (any_running(op)) {
    status = GLOO_ERR_BUSY;
  } else if (gli_context_poisoned(op->context)) {
    status = refuse_start(op);
  } else {
    status = start(op);
  }
  gli_device_unlock(device);
  return status;
}

static gloo_status result(const gloo_operation *op) {
  return any_running(op) ? GLOO_IN_PROGRESS : failed_of(op)->error.status;
}

gloo_status gloo_operation_test(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (!op->context) return result(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (any_running(op)) {
    gli_device_progress_for(device, op);
    if (any_running(op)) gli_device_check_deadlines(device);
  }
  gloo_status status = result(op);
  gli_device_unlock(device);
  return status;
}

gloo_status gloo_operation_wait(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (!op->context) return result(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (is_running(op)) gli_device_wait(device, op);
  if (op->also && is_running(op->also)) gli_device_wait(device, op->also);
  gloo_status status = result(op);
  gli_device_unlock(device);
  return status;
}

static void cancel(gloo_operation *op) {
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

static void cancel_if_running(gloo_operation *op) {
  if (!op->context) return;
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (any_running(op)) {
    if (is_running(op)) cancel(op);
    if (op->also && is_running(op->also)) cancel(op->also);
    gli_device_settle(device);
    gli_device_wake_sleepers(device);
  }
  gli_device_unlock(device);
}

gloo_status gloo_operation_cancel(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  cancel_if_running(op);
  return op->error.status == GLOO_ERR_FORKED ? GLOO_ERR_FORKED : GLOO_OK;
}

int gloo_operation_source(const gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return -1;
  gloo_device *device = op->context ? op->device : NULL;
  if (device) gli_device_lock(device);
  bool received =
      op->state == GLI_OPERATION_DONE && op->error.status == GLOO_OK;
  int source = received ? op->p2p.source : -1;
  if (device) gli_device_unlock(device);
  return source;
}

gloo_status gloo_operation_error(const gloo_operation *op, gloo_error *error) {
  if (!op || !error || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  gli_error_clear(error);
  gloo_device *device = op->context ? op->device : NULL;
  if (device) gli_device_lock(device);
  if (op->state == GLI_OPERATION_DONE) *error = failed_of(op)->error;
  if (device) gli_device_unlock(device);
  return error->status;
}

void gloo_operation_destroy(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return;
  gloo_device *device = op->context ? op->device : NULL;
  cancel_if_running(op);
  if (device) gli_device_lock(device);
  if (op->also) gli_operation_release(op->also);
  gli_operation_release(op);
  if (device) gli_device_unlock(device);
}
