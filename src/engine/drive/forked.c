/* Devices in forked children.
 *
 * No call checks whether it is in a child. The child's copy of a device has its
 * lock held, by no thread. The first thread that wants the lock detects that
 * where it would wait. It turns the device into an end point without peers, and
 * fails its contexts with GLOO_ERR_FORKED. The rest is as after any failure. */
#include "core/fork.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/state/fail.h"
#include "kernels/custom_op.h"

/* ---- a transport that reaches no peer ------------------------------------ */

static uint64_t nowhere_now_ns(gli_transport *t) {
  return t->ops->now_ns(t);
}

static int nowhere_poll(gli_transport *t) {
  (void)t;
  return 0;
}

static void nowhere_sleep(gli_transport *t, int64_t timeout_ns) {
  (void)t;
  (void)timeout_ns;
}

static void nowhere_wake(gli_transport *t) {
  (void)t;
}

static void nowhere_close(gli_transport *t) {
  if (t->ops->abandon != NULL) t->ops->abandon(t);
}

/* A transport that opens no pairs, because all contexts have failed. */
static const gli_transport_ops nowhere = {
    .name = "forked",
    .now_ns = nowhere_now_ns,
    .poll = nowhere_poll,
    .sleep = nowhere_sleep,
    .wake = nowhere_wake,
    .close = nowhere_close,
};

/* ---- the first use ------------------------------------------------------- */

/* Fails all operations, finished ones as well: only the parent may report their
 * results. */
static void end_operations(gloo_context *context, const gloo_error *cause) {
  for (gli_operation *op = context->all; op != NULL; op = op->all_next) {
    op->error = *cause;
    gli_operation_becomes(op, GLI_OPERATION_DONE);
  }
}

static void forked_part(gloo_context *root, const gloo_error *cause,
                        bool torn) {
  gli_family *family = root->family;
  gli_context_set_cause(root, cause);
  root->attended = false;
  if (!torn) {
    root->teardown_pending = true;
    gli_context_finish_teardown(root);
  }
  end_operations(root, cause);
  for (gloo_context *g = family->groups; g != NULL; g = g->next) {
    end_operations(g, cause);
  }
}

void gli_device_disable_in_child(gloo_device *device) {
  gloo_error cause;
  gli_fork_refuse(&device->birth, "the context", &cause);
  device->fork.child = true;
  device->ops = &nowhere;
  device->helper.exists = false;
  device->owed = device->windows = device->attended = 0;
  device->wait.waiters = device->wait.sleepers = device->wait.to_wake = 0;
  gli_event_close(&device->event); /* the parent has the same pipe */
  if (device->fork.torn) {
    device->runnable = device->deferred = device->unlisted = NULL;
    device->self_queue = device->finished = (gli_transfer_list){NULL, NULL};
    device->pending_links = NULL;
    device->staged = NULL;
  }
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    forked_part(c, &cause, device->fork.torn);
  }
  gli_device_run(device);
}

/* ---- the fork ------------------------------------------------------------ */

static bool forked_hold(void *object, gli_fork_patience *patience) {
  gloo_device *device = object;
  device->fork.locked = false;
  if (atomic_load(&device->fork.pending)) return true;
  bool may_wait = !gli_custom_op_inside(); /* it holds the lock */
  atomic_fetch_add(&device->lock_wanted, 1);
  bool taken = gli_lock_try(&device->lock);
  while (!taken && may_wait && gli_fork_wait(patience)) {
    taken = gli_lock_try(&device->lock);
  }
  atomic_fetch_sub(&device->lock_wanted, 1);
  device->fork.locked = taken;
  return taken;
}

static void forked_release(void *object) {
  gloo_device *device = object;
  if (device->fork.locked) gli_device_unlock(device);
}

/* Resets the state that other threads have in the parent. */
static void forked_child(void *object, bool held) {
  gloo_device *device = object;
  if (!held) device->fork.torn = true;
  gli_lock_held_alone(&device->lock);
  gli_fork_mutex(&device->helper.lock, false);
  gli_fork_condition(&device->helper.wake);
  atomic_store(&device->lock_wanted, 0);
  atomic_store(&device->fork.pending, true);
  if (!device->fork.torn && device->ops->forked != NULL) {
    device->ops->forked(device->transport);
  }
}

bool gli_device_watch_forks(gloo_device *device) {
  static const gli_fork_care care = {forked_hold, forked_release, forked_child};
  if (!gli_callback_prepare()) return false;
  device->birth = gli_birth_here();
  return gli_fork_watch_begin(&device->fork.watch, GLI_FORK_OBJECTS, &care,
                              device);
}
