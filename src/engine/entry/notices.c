/* Joined requests, and notification of ends: functions, and the descriptor of a
 * device. */
#include <errno.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/life/life.h"
#include "engine/state/deadline.h"

/* ---- joining ------------------------------------------------------------- */

/* Appends operations to `head`, behind `last`. Returns the new last one. */
static gli_operation *notices_append(gli_operation *head, gli_operation *last,
                                     gli_operation *also) {
  bool tells = head->ending & GLI_ENDS_TOLD;
  last->also = also;
  for (gli_operation *op = also; op != NULL; op = op->also) {
    op->head = head;
    if (tells) op->ending |= GLI_ENDS_TOLD;
    last = op;
  }
  head->odd |= GLI_ODD_JOINED;
  return last;
}

void gli_operation_join(gli_operation *head, gli_operation *also) {
  gli_operation *last = head;
  while (last->also != NULL) last = last->also;
  (void)notices_append(head, last, also);
}

static gloo_status notices_check_joined(gli_operation *const *ops, size_t n,
                                        gloo_error *error) {
  static const char name[] = "gloo_requests_join";
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  if (ops == NULL || n == 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: the list of requests is empty", name);
  for (size_t i = 0; i < n; i++) {
    const char *wrong = NULL;
    if (ops[i] == NULL)
      wrong = "is NULL";
    else if (gli_operation_is_orphaned(ops[i]))
      wrong = "belongs to a destroyed context";
    else if (ops[i]->device != ops[0]->device)
      wrong = "belongs to a different device than the first";
    else if (ops[i]->notice.function != NULL)
      wrong =
          "has a gloo_request_on_done function; set one on the joined request "
          "instead";
    if (wrong != NULL)
      return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: request %zu %s", name,
                      i, wrong);
  }
  return GLOO_OK;
}

/* Returns the index of the first request that is a duplicate; n if none. */
static size_t notices_find_twice(gli_operation *const *ops, size_t n) {
  size_t twice = 0;
  for (; twice < n && !ops[twice]->marked; twice++) ops[twice]->marked = true;
  for (size_t i = 0; i < twice; i++) ops[i]->marked = false;
  return twice;
}

static void notices_join_all(gli_operation *const *ops, size_t n) {
  gli_operation *last = ops[0];
  while (last->also != NULL) last = last->also;
  for (size_t i = 1; i < n; i++) last = notices_append(ops[0], last, ops[i]);
}

gloo_status gloo_requests_join(gli_operation *const *ops, size_t n,
                               gli_operation **joined, gloo_error *error) {
  if (joined == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_requests_join: `joined` must not be NULL");
  gloo_status status = notices_check_joined(ops, n, error);
  if (status != GLOO_OK) return status;
  gloo_device *device = ops[0]->device;
  gli_device_lock(device);
  size_t twice = notices_find_twice(ops, n);
  if (twice == n) notices_join_all(ops, n);
  gli_device_unlock(device);
  if (twice < n)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_requests_join: request %zu is listed twice", twice);
  *joined = ops[0];
  return GLOO_OK;
}

/* ---- functions ----------------------------------------------------------- */

/* Returns true if the request has completed and no call of its function has
 * been made or queued. */
static bool notices_is_untold(const gli_operation *op) {
  return gli_operation_is(op, GLI_OPERATION_DONE) &&
         !gli_operation_any_running(op) && !op->notice.told &&
         !op->notice.queued;
}

gloo_status gloo_request_on_done(gli_operation *op, gloo_request_fn function,
                                 void *user, gloo_error *error) {
  static const char name[] = "gloo_request_on_done";
  if (op == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the request is NULL",
                    name);
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  gloo_device *device = gli_operation_is_orphaned(op) ? NULL : op->device;
  if (device != NULL) gli_device_lock(device);
  op->notice.function = function;
  op->notice.user = user;
  gli_operation_will_tell(op);
  if (function == NULL) gli_operation_unqueue(op);
  gli_operation_await_return(device, op); /* the previous function */
  if (op->notice.function != NULL && notices_is_untold(op)) {
    if (device != NULL)
      gli_device_notify_of(device, op);
    else
      gli_operation_call(NULL, op);
  }
  if (device != NULL) gli_device_unlock(device);
  return GLOO_OK;
}

/* ---- held requests ------------------------------------------------------- */

void gli_operation_hold_locked(gli_operation *op, gli_operation **owner) {
  gloo_device *device = op->device;
  op->owner = owner;
  *owner = op;
  gli_error_clear(&op->error);
  gli_operation_becomes(op, GLI_OPERATION_RUNNING);
  op->started = gli_ticks();
  op->steps_todo = 1; /* until it is settled */
  gli_deadline_arm(op);
  device->outstanding++;
  gli_operation_list_add(&op->context->family->active, op);
}

void gli_operation_hold(gli_operation *op, gli_operation **owner) {
  gli_device_lock(op->device);
  op->deadline.timeout_ns = 0;
  gli_operation_hold_locked(op, owner);
  gli_device_unlock(op->device);
}

bool gli_operation_settle(gloo_device *device, gli_operation **owner,
                          const gloo_error *error, gloo_context **place,
                          gloo_context *value) {
  gli_device_lock(device);
  gli_operation *op = *owner;
  bool running = op != NULL && gli_operation_is_running(op);
  if (op != NULL) {
    op->owner = NULL;
    *owner = NULL;
  }
  if (running) {
    if (error == NULL) *place = value;
    gli_operation_finish(op, error);
    gli_device_settle(device);
    gli_device_wake_sleepers(device);
  }
  gli_device_unlock(device);
  return running;
}

/* ---- the descriptor of a device ------------------------------------------ */

/* Makes the existing operations report their end. */
static void notices_tell_all(gloo_device *device) {
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    gli_context_will_tell(c);
    for (gloo_context *g = c->family->groups; g != NULL; g = g->next)
      gli_context_will_tell(g);
  }
}

static gloo_status notices_open_event(gloo_device *device, gloo_error *error) {
  if (!device->helper.exists)
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "gloo_device_get_fd: the device has no helper thread "
                    "(no_helper) to make the descriptor readable");
  if (!gli_pipe_open(device->event.fds)) {
    int code = errno;
    return gli_fail(error, gli_exhaustion_status(code), -1,
                    "gloo_device_get_fd: cannot create a pipe: %s",
                    gli_exhaustion_text(code));
  }
  device->event.open = true;
  notices_tell_all(device);
  return GLOO_OK;
}

gloo_status gloo_device_get_fd(gloo_device *device, int *fd,
                               gloo_error *error) {
  if (device == NULL || fd == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_device_get_fd: `%s` must not be NULL",
                    device == NULL ? "device" : "fd");
  if (gli_custom_op_inside())
    return gli_custom_op_refuse("gloo_device_get_fd", error);
  if (gli_forked(&device->birth))
    return gli_fork_refuse(&device->birth, "the device", error);
  gli_device_lock(device);
  gloo_status status = GLOO_OK;
  if (!device->event.open) status = notices_open_event(device, error);
  if (status == GLOO_OK) *fd = device->event.fds[0];
  gli_device_unlock(device);
  return status;
}

void gloo_device_clear_fd(gloo_device *device) {
  if (device == NULL || gli_custom_op_inside()) return;
  gli_device_lock(device);
  gli_event *event = &device->event;
  if (event->open && event->signalled) {
    gli_pipe_drain(event->fds[0]);
    event->signalled = false;
  }
  gli_device_unlock(device);
}
