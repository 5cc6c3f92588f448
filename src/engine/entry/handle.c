/* Operations for callers: start, test, wait, cancel. */
#include "core/error.h"
#include "core/hints.h"
#include "engine/contexts/settings.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/life/life.h"
#include "engine/memory/staged_copies.h"
#include "engine/rma/rma.h"
#include "engine/run/run.h"
#include "engine/state/deadline.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

static void end_unstarted(gli_operation *head, const gloo_error *error) {
  for (gli_operation *op = head; op != NULL; op = op->also) {
    if (gli_operation_is_running(op)) continue;
    op->error = *error;
    gli_operation_becomes(op, GLI_OPERATION_DONE);
  }
}

/* Begins all joined operations, in their order: the first may have to copy what
 * the next one receives. */
static gloo_status handle_begin_all(gli_operation *head, gloo_error *error) {
  for (gli_operation *op = head; op != NULL; op = op->also) {
    bool last = op->also == NULL;
    gloo_status status = gli_operation_begin(op, !last, error);
    if (!last) gli_device_run(op->device);
    if (status == GLOO_OK) continue;
    end_unstarted(head, error);
    return status;
  }
  return GLOO_OK;
}

GLI_COLD static gloo_status refuse_start(gli_operation *op, gloo_error *error) {
  gloo_status status = gli_context_unusable(op->context, error);
  end_unstarted(op, error);
  return status;
}

/* Fails an operation whose context has ended; only the caller still refers to
 * it. */
GLI_COLD static gloo_status refuse_orphan(gli_operation *op,
                                          gloo_error *error) {
  bool failed = op->orphaned_by != GLOO_ERR_CANCELLED;
  gloo_error why;
  gli_fail(&why, GLOO_ERR_POISONED, -1,
           "the context of this operation was destroyed%s%s",
           failed ? " after an error: " : "",
           failed ? gloo_status_string(op->orphaned_by) : "");
  why.cause = op->orphaned_by;
  end_unstarted(op, &why);
  if (error != NULL) *error = why;
  return GLOO_ERR_POISONED;
}

/* Returns true if more than `own` operations are pending, and a thread that
 * does not sleep polls for them. */
static inline bool is_busy(const gloo_device *device, size_t own) {
  return device->outstanding > own && device->helper.exists &&
         device->wait.sleepers == 0;
}

/* Returns true if no other operation is pending, and the messages that this one
 * waits for were polled for. */
static inline bool needs_no_poll(gloo_device *device, const gli_operation *op) {
  if (device->outstanding > 1 || !gli_in_order_looks(op)) return false;
  return gli_device_may_skip_poll(device) && ++device->unpolled > 0;
}

/* Advances an operation, and those joined to it unless it is `alone`, as far as
 * possible without waiting. */
GLI_INLINE void get_going(gloo_device *device, gli_operation *op, bool alone,
                          bool busy) {
  if (busy) gli_device_defer(device);
  gli_device_settle(device);
  if (alone ? !gli_operation_is_running(op) : !gli_operation_any_running(op))
    return;
  if (!busy && !needs_no_poll(device, op)) gli_device_poll(device);
  for (gli_operation *o = op; o != NULL; o = alone ? NULL : o->also) {
    if (gli_operation_is_running(o)) gli_deadline_start(o);
  }
  gli_device_kick_locked(device);
}

/* Starts a request without joined operations. */
GLI_INLINE gloo_status start_request(gloo_device *device, gli_operation *op,
                                     gloo_error *error) {
  bool busy = is_busy(device, 0);
  gloo_status status = gli_operation_begin(op, !busy, error);
  if (gli_operation_is(op, GLI_OPERATION_DONE) && device->runnable == NULL &&
      !device->unsettled) {
    return status;
  }
  get_going(device, op, true, busy && status == GLOO_OK);
  gli_device_notify(device);
  return status;
}

/* Returns true if the request may be used in this thread. */
static inline bool is_usable(const gli_operation *op) {
  return op != NULL && !gli_custom_op_inside();
}
/* Returns true if the request also has a context. Most calls begin with this
 * one test. */
static inline bool is_usual(const gli_operation *op) {
  return op != NULL &&
         gli_custom_op_inside() + gli_operation_is_orphaned(op) == 0;
}
GLI_COLD static gloo_status refuse_use(const gli_operation *op,
                                       const char *function,
                                       gloo_error *error) {
  if (op != NULL) return gli_custom_op_refuse(function, error);
  return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the request is NULL",
                  function);
}

/* Leaves a function that has changed something. */
static void handle_leave(gloo_device *device) {
  gli_device_notify(device);
  gli_device_unlock(device);
}

GLI_COLD static void handle_copy_error(const gli_operation *failed,
                                       gloo_error *error) {
  if (error == NULL) return;
  *error = failed->error;
  if (failed->context != NULL) gli_context_localize(failed->context, error);
}

GLI_COLD static gloo_status refuse_running(const gli_operation *op,
                                           gloo_error *error) {
  char text[GLI_TEXT_BYTES];
  return gli_fail(error, GLOO_ERR_BUSY, -1,
                  "%s is still in progress: wait for it first",
                  gli_describe_call(&op->signature, text));
}

/* Calls the function of the last run, and waits for its return, before the next
 * run. */
static void handle_finish_telling(gloo_device *device, gli_operation *op) {
  if (op->notice.queued) gli_device_notify_of(device, op);
  if (op->odd & GLI_ODD_TELLING) gli_operation_await_return(device, op);
}

/* Starts a request on the slow path: it is running, joined, without steps, or
 * its last end is not reported, or its context has failed or just ended. */
GLI_COLD static gloo_status start_odd(gli_operation *op, gloo_error *error) {
  gloo_device *device = op->device;
  bool over = !gli_operation_any_running(op) && !(op->odd & GLI_ODD_ORPHANED);
  if (over && !gli_context_poisoned(op->context))
    handle_finish_telling(device, op); /* may change all state */
  if (op->odd & GLI_ODD_ENDING)
    return gli_fail(error, GLOO_ERR_BUSY, -1,
                    "the request was cancelled and is being destroyed: its "
                    "callback cannot start it again");
  if (gli_operation_any_running(op)) return refuse_running(op, error);
  for (const gli_operation *o = op; o != NULL; o = o->also) {
    if (o->odd & GLI_ODD_FLUSH)
      return gli_fail(error, GLOO_ERR_INVALID, -1,
                      "a flush cannot be started again: call "
                      "gloo_window_flush_start");
  }
  if (op->odd & GLI_ODD_ORPHANED) return refuse_orphan(op, error);
  gloo_error why;
  gli_error_clear(&why);
  gloo_status status = GLOO_OK;
  if (gli_context_poisoned(op->context)) {
    status = refuse_start(op, &why);
  } else if (op->odd & GLI_ODD_JOINED) {
    status = handle_begin_all(op, &why);
    get_going(device, op, false, status == GLOO_OK && is_busy(device, 1));
    gli_device_notify(device);
  } else if (op->odd & GLI_ODD_NOTHING) {
    end_unstarted(op, &why);
  } else {
    status = start_request(device, op, &why);
  }
  if (status == GLOO_OK || error == NULL) return status;
  *error = why;
  gli_context_localize(op->context, error);
  return status;
}

gloo_status gloo_request_start(gli_operation *op, gloo_error *error) {
  if (!is_usual(op)) {
    if (!is_usable(op)) return refuse_use(op, "gloo_request_start", error);
    return refuse_orphan(op, error);
  }
  gloo_device *device = op->device;
  gli_device_lock(device);
  gloo_status status;
  if (gli_operation_is_running(op) || op->odd != 0 ||
      gli_context_poisoned(op->context)) {
    status = start_odd(op, error);
  } else {
    status = start_request(device, op, &op->error);
    if (status != GLOO_OK) handle_copy_error(op, error);
  }
  gli_device_unlock(device);
  return status;
}

/* ---- results ------------------------------------------------------------- */

/* Returns the status of a request, with the details of a failure. */
static inline gloo_status handle_result(const gli_operation *op,
                                        gloo_error *error) {
  bool alone = !(op->odd & GLI_ODD_JOINED) && !gli_operation_is_running(op);
  gloo_status status = alone ? op->error.status : gli_operation_result(op);
  if (status < 0) handle_copy_error(gli_operation_failed_of(op), error);
  return status;
}

GLI_COLD static gloo_status test_joined(gli_operation *head) {
  if (gli_operation_any_running(head)) {
    gli_device_poll(head->device);
    if (gli_operation_any_running(head))
      gli_device_check_deadlines(head->device);
    gli_device_notify(head->device);
  }
  return gli_operation_result(head);
}

/* Returns true if the operation has ended without error. Needs no lock, because
 * only the caller begins it again. */
static inline bool is_over_well(const gli_operation *op) {
  return op->also == NULL && !gli_operation_is_running(op) &&
         op->error.status == GLOO_OK;
}

/* Tests a request in all other cases. */
GLI_APART static gloo_status test_with_lock(gli_operation *op,
                                            gloo_error *error) {
  if (gli_operation_is_orphaned(op)) return handle_result(op, error);
  gloo_device *device = op->device;
  gloo_status status = GLOO_IN_PROGRESS;
  gli_device_lock(device);
  if (op->odd & GLI_ODD_JOINED) {
    status = test_joined(op);
  } else {
    if (gli_operation_is_running(op)) {
      gli_device_progress_for(device, op);
      if (gli_operation_is_running(op)) gli_device_check_deadlines(device);
      gli_device_notify(device);
    }
    if (!gli_operation_is_running(op)) status = op->error.status;
  }
  if (status < 0) handle_copy_error(gli_operation_failed_of(op), error);
  gli_device_unlock(device);
  return status;
}

gloo_status gloo_request_test(gli_operation *op, gloo_error *error) {
  if (!is_usable(op)) return refuse_use(op, "gloo_request_test", error);
  return is_over_well(op) ? GLOO_OK : test_with_lock(op, error);
}

/* Waits for joined operations, or with a time limit. */
GLI_COLD static void handle_wait(gli_operation *head, int64_t timeout_ns) {
  gloo_device *device = head->device;
  if (timeout_ns > 0) {
    gli_device_wait_any(device, &head, 1, timeout_ns);
    return;
  }
  for (gli_operation *op = head; op != NULL; op = op->also) {
    if (gli_operation_is_running(op)) gli_device_wait(device, op);
  }
}

gloo_status gloo_request_wait(gli_operation *op, int64_t timeout_ns,
                              gloo_error *error) {
  if (!is_usual(op)) {
    if (!is_usable(op)) return refuse_use(op, "gloo_request_wait", error);
    return handle_result(op, error);
  }
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (op->also != NULL || timeout_ns > 0) {
    if (gli_operation_any_running(op)) handle_wait(op, timeout_ns);
  } else if (gli_operation_is_running(op)) {
    gli_device_wait(device, op);
  }
  gloo_status status = handle_result(op, error);
  gli_device_unlock(device);
  return status;
}

GLI_COLD static gloo_status hold_stream(gli_operation *op, void *stream,
                                        gloo_error *error) {
  if (op->staged == NULL || (op->odd & GLI_ODD_JOINED))
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    op->staged == NULL
                        ? "no buffer of the request is in GPU memory, so a "
                          "stream cannot wait for it; use gloo_request_wait"
                        : "a stream cannot wait for a joined request; use "
                          "gloo_request_wait");
  if (!gli_operation_is_running(op)) return GLOO_OK;
  return gli_staged_hold_stream(op, stream, error);
}

gloo_status gloo_request_wait_stream(gli_operation *op, void *stream,
                                     gloo_error *error) {
  if (!is_usual(op)) {
    if (!is_usable(op))
      return refuse_use(op, "gloo_request_wait_stream", error);
    return GLOO_OK; /* it ended with its context */
  }
  gloo_device *device = op->device;
  gli_device_lock(device);
  gloo_status status = hold_stream(op, stream, error);
  if (status == GLOO_IN_PROGRESS) {
    if (gli_operation_is_running(op)) gli_device_wait(device, op);
    status = GLOO_OK; /* also after an error, which other calls report */
  }
  gli_device_unlock(device);
  return status;
}

int gloo_request_source(const gli_operation *op) {
  if (!is_usable(op)) return -1;
  gloo_device *device = gli_operation_is_orphaned(op) ? NULL : op->device;
  if (device != NULL) gli_device_lock(device);
  int source = -1;
  bool received = gli_operation_is(op, GLI_OPERATION_DONE) &&
                  gli_operation_result(op) == GLOO_OK;
  for (; received && op != NULL && source < 0; op = op->also) {
    if (op->side == GLI_RECV_SIDE) source = op->p2p.source;
  }
  if (device != NULL) gli_device_unlock(device);
  return source;
}

gloo_status gloo_request_error(const gli_operation *op, gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (!is_usable(op)) return refuse_use(op, "gloo_request_error", error);
  gli_error_clear(error);
  gloo_device *device = gli_operation_is_orphaned(op) ? NULL : op->device;
  if (device != NULL) gli_device_lock(device);
  if (gli_operation_is(op, GLI_OPERATION_DONE))
    handle_copy_error(gli_operation_failed_of(op), error);
  if (device != NULL) gli_device_unlock(device);
  return error->status;
}

/* ---- cancelling ---------------------------------------------------------- */

static void handle_cancel(gli_operation *op) {
  if (op->odd & GLI_ODD_FLUSH) {
    gli_rma_flush_cancel(op);
    return;
  }
  bool held = op->odd & GLI_ODD_NOTHING;
  if (!held && gli_operation_is_private(op)) {
    gli_operation_withdraw(op);
    return;
  }
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  uint32_t rank = op->context->root_rank;
  gli_fail(&error, GLOO_ERR_CANCELLED, (int)rank, "rank %u cancelled %s", rank,
           held ? "the creation of a group"
                : gli_describe_call(&op->signature, text));
  gli_context_poison(op->context, &error);
}

/* Cancels the pending operations of a request. The lock is held. */
static void cancel_all_of(gloo_device *device, gli_operation *head) {
  if (!gli_operation_any_running(head)) return;
  for (gli_operation *op = head; op != NULL; op = op->also) {
    if (gli_operation_is_running(op)) handle_cancel(op);
  }
  gli_device_settle(device);
  gli_device_wake_sleepers(device);
}

gloo_status gloo_request_cancel(gli_operation *op, gloo_error *error) {
  if (!is_usable(op)) return refuse_use(op, "gloo_request_cancel", error);
  if (!gli_operation_is_orphaned(op)) {
    gloo_device *device = op->device;
    gli_device_lock(device);
    cancel_all_of(device, op);
    handle_leave(device);
  }
  if (op->error.status != GLOO_ERR_FORKED) return GLOO_OK;
  handle_copy_error(op, error);
  return GLOO_ERR_FORKED;
}

void gloo_request_destroy(gli_operation *op) {
  if (!is_usable(op)) return;
  if (gli_operation_is_orphaned(op)) {
    gli_operation_await_return(NULL, op);
    gli_operation_release_all(op);
    return;
  }
  gloo_device *device = op->device;
  gli_device_lock(device);
  op->odd |= GLI_ODD_ENDING;
  cancel_all_of(device, op);
  handle_finish_telling(device, op);
  gli_operation_release_all(op);
  handle_leave(device);
}

void gloo_request_release(gli_operation *op) {
  if (!is_usable(op)) return;
  gloo_device *device = op->device;
  bool under_way = false;
  if (!gli_operation_is_orphaned(op)) {
    gli_device_lock(device);
    under_way = gli_operation_any_running(op) || op->notice.queued;
    op->notice.released = under_way;
    if (under_way) gli_operation_will_tell(op);
    gli_device_unlock(device);
  }
  if (!under_way) gloo_request_destroy(op);
}
