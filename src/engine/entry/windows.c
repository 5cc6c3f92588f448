/* Windows for callers: creation, flushes, and the end. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/hints.h"
#include "core/random.h"
#include "engine/contexts/settings.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/entry/windows.h"
#include "engine/rma/rma.h"
#include "engine/state/deadline.h"
#include "engine/state/fail.h"
#include "kernels/custom_op.h"

/* ---- creation ------------------------------------------------------------ */

gloo_status gli_window_open(gloo_context *group, void *memory, size_t bytes,
                            void *ours, gloo_window **out, gloo_error *error) {
  gloo_device *device = group->device;
  uint64_t key;
  gloo_status status = gli_random_draw(&key, sizeof key, error);
  if (status != GLOO_OK) return status;
  gloo_window *window = calloc(1, sizeof *window);
  gli_rma_target *targets = calloc(group->size, sizeof *targets);
  if (window == NULL || targets == NULL) {
    free(window);
    free(targets);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a window of %" PRIu32 " ranks",
                    group->size);
  }
  window->context = group;
  window->memory = memory;
  window->bytes = bytes;
  window->ours = ours;
  window->key = key;
  window->targets = targets;
  gli_device_lock(device);
  group->window = window;
  device->windows++;
  gli_device_kick_locked(device);
  gli_device_unlock(device);
  *out = window;
  return GLOO_OK;
}

uint64_t gli_window_key(const gloo_window *window) {
  return window->key;
}

gloo_context *gli_window_context(const gloo_window *window) {
  return window->context;
}

void gli_window_learn(gloo_window *window, uint32_t rank, uint64_t key,
                      uint64_t bytes) {
  gli_device_lock(window->context->device);
  window->targets[rank].key = key;
  window->targets[rank].bytes = bytes;
  gli_device_unlock(window->context->device);
}

static void free_requests(gli_rma_request *r) {
  while (r != NULL) {
    gli_rma_request *next = r->next;
    free(r);
    r = next;
  }
}

bool gli_window_is_shared(const gloo_window *window) {
  gli_device_lock(window->context->device);
  bool shared = gli_rma_is_shared(window);
  gli_device_unlock(window->context->device);
  return shared;
}

void *gloo_window_memory(const gloo_window *window) {
  return window != NULL ? window->memory : NULL;
}

size_t gloo_window_bytes(const gloo_window *window, int rank) {
  if (window == NULL || rank < 0 || rank >= (int)window->context->size)
    return 0;
  return (size_t)window->targets[rank].bytes;
}

/* ---- waiting ------------------------------------------------------------- */

uint64_t gli_window_now(const gloo_window *window) {
  const gloo_device *device = window->context->device;
  return device->ops->now_ns(device->transport);
}

uint64_t gli_window_deadline(const gloo_window *window) {
  uint64_t now_ns = gli_window_now(window);
  uint64_t timeout_ns = (uint64_t)window->context->timeout_ns;
  return timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
}

/* Polls until the deadline, or until the wait ends. Releases the lock
 * meanwhile. */
static void windows_wait(gloo_window *window, gli_rma_wait *wait,
                         uint64_t until_ns) {
  gloo_device *device = window->context->device;
  wait->over = false;
  wait->next = window->waits;
  window->waits = wait;
  gli_device_wait_flag(device, &wait->over, until_ns);
  gli_device_check_deadlines(device);
  if (wait->over) return;
  gli_rma_wait **at = &window->waits;
  while (*at != wait) at = &(*at)->next;
  *at = wait->next;
}

/* Flushes one rank. The lock is held, and released while waiting. */
static gloo_status windows_flush_rank(gloo_window *window, uint32_t rank,
                                      uint64_t deadline_ns, gloo_error *error) {
  gloo_context *context = window->context;
  gli_rma_wait wait = {.rank = rank, .goal = gli_rma_goal_now(window, rank)};
  while (!gli_context_poisoned(context) &&
         !gli_rma_reached(window, rank, &wait.goal)) {
    gloo_status status = gli_rma_pursue(window, rank, &wait.goal, error);
    if (status != GLOO_OK) return status;
    gli_device_settle(context->device);
    uint64_t now_ns = gli_window_now(window), until_ns = deadline_ns;
    if (now_ns >= deadline_ns) return gli_rma_fail_late(window, rank, error);
    if (gli_rma_waits_untold(window, rank) &&
        deadline_ns - now_ns > GLI_WINDOW_UNTOLD_NS)
      until_ns = now_ns + GLI_WINDOW_UNTOLD_NS;
    windows_wait(window, &wait, until_ns);
  }
  if (!gli_context_poisoned(context)) return GLOO_OK;
  *error = context->cause;
  return error->status;
}

/* All requests are sent before the first wait. */
gloo_status gli_window_flush_now(gloo_window *window, uint32_t rank,
                                 gloo_error *error) {
  uint64_t deadline_ns = gli_window_deadline(window);
  gloo_status status = GLOO_OK;
  if (rank != GLI_NO_RANK)
    return windows_flush_rank(window, rank, deadline_ns, error);
  uint32_t size = window->context->size;
  for (uint32_t i = 0; i < size && status == GLOO_OK; i++) {
    gli_rma_goal goal = gli_rma_goal_now(window, i);
    status = gli_rma_pursue(window, i, &goal, error);
  }
  for (uint32_t i = 0; i < size && status == GLOO_OK; i++)
    status = windows_flush_rank(window, i, deadline_ns, error);
  return status;
}

/* ---- the end ------------------------------------------------------------- */

/* Returns true if a thread is in a call, or a transfer uses the memory of the
 * window; *rank is its rank. */
static bool windows_is_used(const gloo_window *window, uint32_t *rank) {
  const gloo_context *group = window->context;
  *rank = GLI_NO_RANK;
  if (window->callers > 0 && !group->device->fork.child) return true;
  if (gli_context_poisoned(group)) return false;
  *rank = gli_rma_user(window);
  return *rank != GLI_NO_RANK;
}

/* Waits until nothing uses the memory of a window. All ranks have finished. A
 * rank that continues nevertheless, or a transport that still uses the memory
 * at the deadline, fails the context, because that closes the pair. The lock is
 * held, and released while waiting. */
static void windows_await_users(gloo_window *window) {
  gloo_context *group = window->context;
  uint64_t deadline_ns = gli_window_deadline(window);
  window->closing = true;
  uint32_t rank;
  while (windows_is_used(window, &rank)) {
    gloo_error error;
    gli_rma_wait never = {.rank = GLI_NO_RANK};
    uint64_t now_ns = gli_window_now(window);
    if (now_ns >= deadline_ns && rank != GLI_NO_RANK) {
      (void)gli_rma_fail_late(window, rank, &error);
      gli_context_poison(group, &error);
    } else {
      windows_wait(window, &never, now_ns + GLI_WINDOW_UNTOLD_NS);
    }
    gli_device_settle(group->device);
  }
}

void *gli_window_close(gloo_window *window) {
  void *ours = window->ours;
  gloo_context *group = window->context;
  gloo_device *device = group->device;
  gli_device_lock(device);
  windows_await_users(window);
  gli_rma_flush_drop(window);
  group->window = NULL;
  if (device->windows > 0) device->windows--;
  gli_device_unlock(device);
  for (uint32_t i = 0; i < group->size; i++)
    free_requests(window->targets[i].first);
  free_requests(window->spare);
  free(window->targets);
  free(window);
  return ours;
}

/* ---- calls --------------------------------------------------------------- */

gloo_status gli_window_enter(const char *function, gloo_window *window,
                             int rank, gloo_error *error) {
  if (window == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the window is NULL",
                    function);
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  gloo_context *context = window->context;
  if (rank < 0 || rank >= (int)context->size) {
    gli_fail(error, GLOO_ERR_RANK, -1,
             "%s: rank %d is out of range for a window of %" PRIu32 " ranks",
             function, rank, context->size);
    return gli_context_refuse(context, error);
  }
  gli_device_lock(context->device);
  if (!gli_context_poisoned(context)) {
    window->callers++;
    return GLOO_OK;
  }
  gloo_status status = gli_context_unusable(context, error);
  gli_context_localize(context, error);
  gli_device_unlock(context->device);
  return status;
}

gloo_status gli_window_check_aligned(const char *function, uint64_t offset,
                                     unsigned bytes, gloo_error *error) {
  if (offset % bytes == 0) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "%s: the offset %" PRIu64 " is not a multiple of %u",
                  function, offset, bytes);
}

gloo_status gli_window_leave(gloo_window *window, gloo_status status,
                             gloo_error *error) {
  gloo_context *context = window->context;
  gloo_device *device = context->device;
  window->callers--;
  if (status != GLOO_OK) gli_context_poison(context, error);
  gli_device_settle(device);
  /* Sleeping threads do not know of the pending messages, or of changed
   * words. */
  if (device->pending_links != NULL || window->watches != NULL)
    gli_device_wake_sleepers(device);
  if (status != GLOO_OK) gli_context_localize(context, error);
  gli_device_kick_locked(device);
  gli_device_notify(device);
  gli_device_unlock(device);
  return status;
}

gloo_status gli_window_refuse(gloo_window *window, gloo_error *error) {
  window->callers--;
  gli_device_unlock(window->context->device);
  return gli_context_refuse(window->context, error);
}

static gloo_status windows_flush(const char *function, gloo_window *window,
                                 int checked, uint32_t rank,
                                 gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status = gli_window_enter(function, window, checked, error);
  if (status != GLOO_OK) return status;
  status = gli_window_flush_now(window, rank, error);
  return gli_window_leave(window, status, error);
}

gloo_status gloo_window_flush(gloo_window *window, int rank,
                              gloo_error *error) {
  return windows_flush("gloo_window_flush", window, rank, (uint32_t)rank,
                       error);
}

gloo_status gloo_window_flush_all(gloo_window *window, gloo_error *error) {
  return windows_flush("gloo_window_flush_all", window, 0, GLI_NO_RANK, error);
}

gloo_status gli_window_flush(const char *function, gloo_window *window,
                             int64_t rank, gli_operation *request,
                             gloo_error *error) {
  gli_rma_flush *flush = NULL;
  gli_operation *none = NULL;
  bool all = rank == GLI_WINDOW_ALL;
  gloo_status status =
      gli_window_enter(function, window, all ? 0 : (int)rank, error);
  if (status != GLOO_OK) return status;
  status = gli_rma_flush_begin(window, all ? GLI_NO_RANK : (uint32_t)rank,
                               &flush, error);
  if (status == GLOO_OK) {
    request->odd |= GLI_ODD_FLUSH;
    gli_operation_hold_locked(request, flush != NULL ? &flush->request : &none);
    gli_deadline_start(request);
    if (flush == NULL) {
      request->owner = NULL;
      gli_operation_finish(request, NULL);
    }
  }
  return gli_window_leave(window, status, error);
}
