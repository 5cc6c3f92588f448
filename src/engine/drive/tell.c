/* Telling the callers of requests that are over: their functions run without
 * the lock, in the helper thread, or where there is none in a thread that is in
 * a call. */
#include "core/cpu.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/life/life.h"

gloo_status gli_operation_result(const gli_operation *head) {
  if (gli_operation_any_running(head)) return GLOO_IN_PROGRESS;
  return gli_operation_failed_of(head)->error.status;
}

/* Is the end of an operation of this context still to be told? */
static bool has_queued(const gloo_context *context) {
  const gli_operation *op = context->all;
  while (op != NULL) {
    const gli_operation *head = op->head != NULL ? op->head : op;
    if (head->notice.queued) return true;
    op = op->all_next;
  }
  return false;
}

static gloo_context *find_idle_closing(const gloo_device *device) {
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    for (gloo_context *g = c->family->groups; g != NULL; g = g->next) {
      if (g->closing && !gli_context_is_busy(g) && !has_queued(g)) return g;
    }
  }
  return NULL;
}

/* Groups that were destroyed, and whose last operation is over. */
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
    gli_operation_release(head);
    head = next;
  }
}

/* This thread is in functions of the library, so many deep. */
static _Thread_local unsigned tells_now;

void gli_device_await_telling(gloo_device *device) {
  while (device->telling > 0 && tells_now == 0) {
    gli_device_unlock(device);
    gli_cpu_yield();
    gli_device_lock(device);
  }
}

void gli_device_tell_of(gloo_device *device, gli_operation *head) {
  gli_operation_unqueue(head);
  bool released = head->notice.released;
  gloo_request_fn function = head->notice.function;
  if (function != NULL) {
    gloo_status status = gli_operation_result(head);
    void *user = head->notice.user;
    bool internal = head->notice.internal;
    head->notice.told = true;
    device->telling += internal;
    gli_device_unlock(device);
    tells_now += internal;
    function(user, head, status); /* may free it, unless it is released */
    tells_now -= internal;
    gli_device_lock(device);
    device->telling -= internal;
  }
  if (released) gli_operation_release_all(head);
  end_closing(device);
}

void gli_device_tell_all(gloo_device *device) {
  while (device->told != NULL) gli_device_tell_of(device, device->told);
}
