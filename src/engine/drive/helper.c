/* The helper thread makes progress only while no other thread waits and
 * operations are outstanding, output is pending, or windows exist; it never
 * spins. In between it wakes for the heartbeat, and to answer ranks that
 * connect after this one has left. */
#include "core/error.h"
#include "core/signals.h"
#include "engine/drive/drive.h"

#define HELPER_DELAY_NS UINT64_C(50000)
#define HELPER_REST_MIN_NS UINT64_C(1000000)

/* Returns true if the helper has to poll. A peer may wait for an answer to an
 * operation that has ended here. */
static bool helper_has_work(const gloo_device *device) {
  if (device->notices_pending) return true;
  if (device->wait.waiters > 0) return false;
  return device->outstanding > 0 || device->owed > 0 || device->windows > 0 ||
         device->attended > 0;
}

/* Wakes the helper. The caller holds the device's lock, which the helper keeps
 * until it waits, so no signal is lost. */
static void wake_helper(gloo_device *device) {
  uv_mutex_lock(&device->helper.lock);
  uv_cond_signal(&device->helper.wake);
  uv_mutex_unlock(&device->helper.lock);
}

/* Rests until woken, or until the timeout (0: none). Releases the device's lock
 * meanwhile. */
static void helper_rest(gloo_device *device, uint64_t timeout_ns) {
  uv_cond_t *wake = &device->helper.wake;
  uv_mutex_lock(&device->helper.lock);
  gli_device_unlock(device);
  if (timeout_ns == 0) {
    uv_cond_wait(wake, &device->helper.lock);
  } else {
    (void)uv_cond_timedwait(wake, &device->helper.lock, timeout_ns);
  }
  uv_mutex_unlock(&device->helper.lock);
  gli_device_lock(device);
}

void gli_device_stir_helper(gloo_device *device) {
  wake_helper(device);
}

void gli_device_kick_idle(gloo_device *device) {
  if (helper_has_work(device)) wake_helper(device);
}

void gli_device_kick(gloo_device *device) {
  gli_device_lock(device);
  gli_device_kick_locked(device);
  gli_device_unlock(device);
}

static void helper_turn(gloo_device *device) {
  /* Most operations are waited for at once: do not compete with those
   * threads. */
  if (!device->notices_pending) helper_rest(device, HELPER_DELAY_NS);
  while (!device->helper.stop && helper_has_work(device)) {
    gli_device_notify_all(device);
    if (device->wait.waiters > 0) continue;
    if (gli_device_poll(device) > 0) {
      if (atomic_load(&device->lock_wanted) > 0) gli_device_offer_lock(device);
      continue;
    }
    if (!device->notices_pending) gli_device_sleep(device, INT64_MAX);
  }
}

/* Serves heartbeats while the program makes no calls. Returns the time to
 * rest. */
static uint64_t helper_beat(gloo_device *device) {
  uint64_t next_ns = gli_device_beat(device);
  return next_ns > HELPER_REST_MIN_NS ? next_ns : HELPER_REST_MIN_NS;
}

static void helper_main(void *argument) {
  gloo_device *device = argument;
  gli_device_lock(device);
  while (!device->helper.stop) {
    if (helper_has_work(device)) {
      helper_turn(device);
      continue;
    }
    bool looks = device->beats || device->contexts == NULL;
    uint64_t rest_ns = looks ? helper_beat(device) : 0;
    if (helper_has_work(device)) continue;
    device->helper.idle = true;
    helper_rest(device, rest_ns);
    device->helper.idle = false;
  }
  gli_device_unlock(device);
}

gloo_status gli_device_start_helper(gloo_device *device, gloo_error *error) {
  gli_signal_guard guard;
  gli_signal_block_all(&guard);
  int failed = uv_thread_create(&device->helper.thread, helper_main, device);
  gli_signal_restore(&guard);
  if (failed) {
    return gli_fail(error, GLOO_ERR_IO, -1,
                    "cannot start the helper thread: %s; raise the limit on "
                    "processes (ulimit -u) or that of the control group",
                    uv_strerror(failed));
  }
  device->helper.exists = true;
  return GLOO_OK;
}

void gli_device_stop_helper(gloo_device *device) {
  if (!device->helper.exists) return;
  gli_device_lock(device);
  device->helper.stop = true;
  wake_helper(device);
  device->ops->wake(device->transport);
  gli_device_unlock(device);
  uv_thread_join(&device->helper.thread);
}
