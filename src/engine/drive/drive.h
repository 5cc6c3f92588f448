/* Polling, spinning, yielding and sleeping. Only this folder and entry/ take
 * the device's lock; all other code is called with it held. */
#ifndef GLI_ENGINE_DRIVE_DRIVE_H
#define GLI_ENGINE_DRIVE_DRIVE_H

#include "engine/drive/driver.h"
#include "engine/run/run.h"
#include "engine/state/callback.h"
#include "engine/state/device.h"

/* ---- the lock ------------------------------------------------------------ */

static inline void gli_device_unlock(gloo_device *device) {
  gli_lock_leave(&device->lock);
}
void gli_device_lock_contended(gloo_device *device);
static inline void gli_device_lock(gloo_device *device) {
  if (!gli_lock_try(&device->lock)) gli_device_lock_contended(device);
}

/* Takes the lock without waiting for another thread. */
static inline bool gli_device_try_lock(gloo_device *device) {
  if (gli_lock_try(&device->lock)) return true;
  if (!atomic_load(&device->fork.pending)) return false;
  gli_device_lock_contended(device); /* forked child: no thread holds it */
  return true;
}

/* ---- forked children (forked.c) ------------------------------------------ */

bool gli_device_watch_forks(gloo_device *device);
/* Turns the device of a forked child into an end point that reaches no peer,
 * and ends all pending operations. Called with the lock held, before any other
 * use of the device in the child. */
void gli_device_disable_in_child(gloo_device *device);

/* ---- progress (driver.c) ------------------------------------------------- */

/* Makes progress, with the lock held. */
int gli_device_poll(gloo_device *device);
/* Makes progress for a thread that waits for this operation. */
int gli_device_progress_for(gloo_device *device, gli_operation *operation);
/* Fails overdue operations. Returns the time to the next deadline. */
int64_t gli_device_check_deadlines(gloo_device *device);
/* Runs all runnable operations, ends poisoned contexts, and leaves pending
 * output to the helper. Every entry into the engine ends with it. */
void gli_device_settle_rest(gloo_device *device);
static inline void gli_device_settle(gloo_device *device) {
  gli_device_run(device);
  if (device->unsettled) gli_device_settle_rest(device);
}

/* The functions that transports call when something arrives, was sent, or broke
 * (upcalls.c). */
extern const gli_upcalls gli_engine_upcalls;

/* ---- completion functions (notify.c) ------------------------------------- */

/* Returns GLOO_IN_PROGRESS, or the result of all operations of a joined
 * request. */
gloo_status gli_operation_result(const gli_operation *head);
/* Returns the first operation of a joined request that failed, or else the
 * first. */
static inline const gli_operation *gli_operation_failed_of(
    const gli_operation *head) {
  const gli_operation *op = head;
  while (op != NULL && op->error.status == GLOO_OK) op = op->also;
  return op != NULL ? op : head;
}
void gli_operation_release_all(gli_operation *head);
/* Reports the end of a request: calls its function, or frees it if it was
 * released. The lock is released during the call, so the caller must read the
 * state of operations again. */
void gli_device_notify_of(gloo_device *device, gli_operation *head);
/* Calls the function of a request. `device` is NULL for a request without a
 * context. The lock is released during the call. */
void gli_operation_call(gloo_device *device, gli_operation *head);
void gli_device_notify_all(gloo_device *device);
/* Calls all due functions, on a device without a helper. */
static inline void gli_device_notify(gloo_device *device) {
  if (device->notices_pending && !device->helper.exists)
    gli_device_notify_all(device);
}
/* Waits until a function that `match` finds has returned, and releases the lock
 * of `device` (may be NULL) meanwhile. Returns false if this thread can wait
 * for none; the lock was not released then. */
bool gli_device_await_return(gloo_device *device, gli_callback_match match,
                             const void *what);
/* Waits until the function of a request has returned. */
void gli_operation_await_return(gloo_device *device, const gli_operation *head);

/* ---- waiting (wait.c, helper.c) ------------------------------------------ */

/* Wakes the helper after operations were started that no thread waits for. */
void gli_device_kick(gloo_device *device);
void gli_device_kick_idle(gloo_device *device);
static inline void gli_device_kick_locked(gloo_device *device) {
  if (device->helper.exists && device->helper.idle)
    gli_device_kick_idle(device);
}
/* Wakes all sleepers, because the event that they wait for may have
 * happened. */
void gli_device_wake_sleepers(gloo_device *device);
/* Sleeps until there is work, or a deadline passes. Releases the lock
 * meanwhile. */
void gli_device_sleep(gloo_device *device, int64_t limit_ns);
/* Lets threads that wait for the lock have it. */
void gli_device_offer_lock(gloo_device *device);
/* Waits until the operation is done. */
void gli_device_wait(gloo_device *device, gli_operation *operation);
/* Waits until all operations of one of the requests (NULL entries are skipped)
 * have ended, for at most the timeout; without limit if negative. */
void gli_device_wait_any(gloo_device *device, gli_operation *const *heads,
                         size_t n, int64_t timeout_ns);
/* Waits until *flag is set, or until `until_ns` (UINT64_MAX: no limit). Another
 * thread, or a poll, sets the flag and counts it in `completed`. */
void gli_device_wait_flag(gloo_device *device, const bool *flag,
                          uint64_t until_ns);
/* Makes the helper check again for work and due times. */
void gli_device_stir_helper(gloo_device *device);
/* Serves the heartbeats and lost connections of a device, where no thread
 * waits. Returns the time until the next call. */
uint64_t gli_device_beat(gloo_device *device);
gloo_status gli_device_start_helper(gloo_device *device, gloo_error *error);
void gli_device_stop_helper(gloo_device *device);
gloo_status gli_device_read_wait_mode(gloo_device *device, gloo_error *error);

#endif
