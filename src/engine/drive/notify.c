/* Completion functions. They run without the lock, in the helper thread, or
 * without a helper in a thread that is in a call. */
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/life/life.h"

gloo_status gli_operation_result(const gli_operation *head) {
  if (gli_operation_any_running(head)) return GLOO_IN_PROGRESS;
  return gli_operation_failed_of(head)->error.status;
}

/* Returns true if the end of an operation of this context is not reported
 * yet. */
static bool has_queued(const gloo_context *context) {
  const gli_operation *op = context->all;
  while (op != NULL) {
    const gli_operation *head = op->head != NULL ? op->head : op;
    if (head->notice.queued) return true;
    op = op->all_next;
  }
  return false;
}

static bool notify_is_of_context(const gli_callback *callback,
                                 const void *what) {
  return callback->context == what;
}

static gloo_context *find_idle_closing(const gloo_device *device) {
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    for (gloo_context *g = c->family->groups; g != NULL; g = g->next) {
      if (g->closing && !gli_context_is_busy(g) && !has_queued(g) &&
          !gli_callback_runs(notify_is_of_context, g))
        return g;
    }
  }
  return NULL;
}

/* Ends destroyed groups whose last operation has ended. */
static void end_closing(gloo_device *device) {
  gloo_context *group;
  while (device->closings > 0 && (group = find_idle_closing(device)) != NULL) {
    device->closings--;
    (void)gli_context_end(group);
  }
}

void gli_operation_release_all(gli_operation *head) {
  while (head != NULL) {
    gli_operation *next = head->also;
    if (head->odd & (GLI_ODD_TELLING | GLI_ODD_ORPHANED))
      gli_callback_forget(head);
    gli_operation_release(head);
    head = next;
  }
}

bool gli_device_await_return(gloo_device *device, gli_callback_match match,
                             const void *what) {
  gli_callback_waiter waiter;
  if (!gli_callback_enlist(&waiter, match, what)) return false;
  if (device != NULL) gli_device_unlock(device);
  gli_callback_await(&waiter);
  if (device != NULL) gli_device_lock(device);
  return true;
}

static bool notify_is_of_request(const gli_callback *callback,
                                 const void *what) {
  const gli_operation *op = what;
  while (op != NULL && op != callback->head) op = op->also;
  return op != NULL;
}

void gli_operation_await_return(gloo_device *device,
                                const gli_operation *head) {
  while (gli_device_await_return(device, notify_is_of_request, head)) continue;
}

void gli_operation_call(gloo_device *device, gli_operation *head) {
  gloo_status status = gli_operation_result(head);
  gloo_request_fn function = head->notice.function;
  void *user = head->notice.user;
  head->notice.told = true;
  gli_callback callback;
  gli_callback_begin(&callback, device, head);
  if (device != NULL) gli_device_unlock(device);
  function(user, head, status); /* may free it, unless released */
  if (device != NULL) gli_device_lock(device);
  gli_callback_end(&callback);
}

void gli_device_notify_of(gloo_device *device, gli_operation *head) {
  gli_operation_unqueue(head);
  bool released = head->notice.released;
  if (head->notice.function != NULL) gli_operation_call(device, head);
  if (released) gli_operation_release_all(head);
  end_closing(device);
}

void gli_device_notify_all(gloo_device *device) {
  while (device->told != NULL) gli_device_notify_of(device, device->told);
}
