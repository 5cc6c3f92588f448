/* Windows for callers. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/hints.h"
#include "core/random.h"
#include "engine/contexts/settings.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/rma/rma.h"
#include "engine/state/fail.h"
#include "kernels/custom_op.h"
#include "memory/gpu.h"

/* The polling interval for events that a transport does not announce. */
#define UNTOLD_NS UINT64_C(100000)

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

static gloo_status windows_fail_late(const gloo_window *window, uint32_t rank,
                                     gloo_error *error) {
  const gloo_context *context = window->context;
  uint32_t late = gli_context_root_rank(context, rank);
  return gli_fail(error, GLOO_ERR_TIMEOUT, (int)late,
                  "rank %" PRIu32
                  " did not complete the window operations of rank %" PRIu32
                  " within %.3g s",
                  late, context->root_rank, (double)context->timeout_ns / 1e9);
}

static uint64_t windows_now(const gloo_window *window) {
  const gloo_device *device = window->context->device;
  return device->ops->now_ns(device->transport);
}

static uint64_t windows_deadline(const gloo_window *window) {
  uint64_t now_ns = windows_now(window);
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
    uint64_t now_ns = windows_now(window), until_ns = deadline_ns;
    if (now_ns >= deadline_ns) return windows_fail_late(window, rank, error);
    if (gli_rma_waits_untold(window, rank) && deadline_ns - now_ns > UNTOLD_NS)
      until_ns = now_ns + UNTOLD_NS;
    windows_wait(window, &wait, until_ns);
  }
  if (!gli_context_poisoned(context)) return GLOO_OK;
  *error = context->cause;
  return error->status;
}

/* Flushes one rank or all: all requests are sent before the first wait. */
static gloo_status windows_flush_now(gloo_window *window, uint32_t rank,
                                     gloo_error *error) {
  uint64_t deadline_ns = windows_deadline(window);
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

/* Waits until no transfer uses the memory of a window. All ranks have finished.
 * A rank that continues nevertheless, or a transport that still uses the memory
 * at the deadline, fails the context, because that closes the pair. The lock is
 * held, and released while waiting. */
static void windows_await_users(gloo_window *window) {
  gloo_context *group = window->context;
  uint64_t deadline_ns = windows_deadline(window);
  window->closing = true;
  uint32_t rank;
  while (!gli_context_poisoned(group) &&
         (rank = gli_rma_user(window)) != GLI_NO_RANK) {
    gloo_error error;
    gli_rma_wait never = {.rank = GLI_NO_RANK};
    uint64_t now_ns = windows_now(window);
    if (now_ns >= deadline_ns) {
      (void)windows_fail_late(window, rank, &error);
      gli_context_poison(group, &error);
    } else {
      windows_wait(window, &never, now_ns + UNTOLD_NS);
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

/* Checks the arguments of a window call. Takes the lock on GLOO_OK alone. */
static gloo_status windows_enter(const char *function, gloo_window *window,
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
  if (!gli_context_poisoned(context)) return GLOO_OK;
  gloo_status status = gli_context_unusable(context, error);
  gli_context_localize(context, error);
  gli_device_unlock(context->device);
  return status;
}

static gloo_status windows_leave(gloo_window *window, gloo_status status,
                                 gloo_error *error) {
  gloo_context *context = window->context;
  gloo_device *device = context->device;
  if (status != GLOO_OK) gli_context_poison(context, error);
  gli_device_settle(device);
  /* Sleeping threads do not know of the pending messages. */
  if (device->pending_links != NULL) gli_device_wake_sleepers(device);
  gli_device_kick_locked(device);
  gli_device_notify(device);
  if (status != GLOO_OK) gli_context_localize(context, error);
  gli_device_unlock(device);
  return status;
}

static gloo_status windows_refuse(gloo_window *window, gloo_error *error) {
  gli_device_unlock(window->context->device);
  return gli_context_refuse(window->context, error);
}

/* Makes a call. Its arguments were checked as far as possible without the
 * window. */
static gloo_status windows_call(const char *function, gloo_window *window,
                                gli_rma_call *call, int rank, uint64_t bytes,
                                gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  const void *buffer = call->verb == GLI_RMA_PUT ? call->from : call->to;
  gloo_status status = GLOO_OK;
  if (gli_gpu_is_watched()) status = gli_gpu_refuse(function, buffer, error);
  if (status == GLOO_OK) status = windows_enter(function, window, rank, error);
  if (status != GLOO_OK) return status;
  call->rank = (uint32_t)rank;
  gli_rma_target *target = &window->targets[rank];
  if (!gli_in_bounds(call->offset, bytes, target->bytes)) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "%s: %" PRIu64 " bytes at offset %" PRIu64 " exceed the %" PRIu64
             " bytes of rank %d in the window",
             function, bytes, call->offset, target->bytes, rank);
    return windows_refuse(window, error);
  }
  if (bytes > 0 && (target->under_way >= GLI_RMA_UNDER_WAY_MAX ||
                    target->unsent[target->epoch % 2] >= GLI_RMA_UNDER_WAY_MAX))
    status = windows_flush_now(window, call->rank, error);
  if (bytes > 0 && status == GLOO_OK)
    status = gli_rma_begin(window, call, error);
  return windows_leave(window, status, error);
}

static gloo_status windows_no_buffer(const char *function, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the buffer is NULL",
                  function);
}

gloo_status gloo_window_put(gloo_window *window, int rank, uint64_t offset,
                            const void *from, size_t bytes, gloo_error *error) {
  if (from == NULL && bytes > 0)
    return windows_no_buffer("gloo_window_put", error);
  gli_rma_call call = {
      .verb = GLI_RMA_PUT, .offset = offset, .from = from, .bytes = bytes};
  return windows_call("gloo_window_put", window, &call, rank, bytes, error);
}

gloo_status gloo_window_get(gloo_window *window, int rank, uint64_t offset,
                            void *to, size_t bytes, gloo_error *error) {
  if (to == NULL && bytes > 0)
    return windows_no_buffer("gloo_window_get", error);
  gli_rma_call call = {
      .verb = GLI_RMA_GET, .offset = offset, .to = to, .bytes = bytes};
  return windows_call("gloo_window_get", window, &call, rank, bytes, error);
}

static gloo_status windows_atomic(const char *function, gloo_window *window,
                                  gli_rma_call *call, int rank,
                                  gloo_error *error) {
  if (call->offset % 8 == 0)
    return windows_call(function, window, call, rank, 8, error);
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "%s: the offset %" PRIu64 " is not a multiple of 8", function,
                  call->offset);
}

gloo_status gloo_window_fetch_add(gloo_window *window, int rank,
                                  uint64_t offset, uint64_t value,
                                  uint64_t *before, gloo_error *error) {
  const uint64_t operands[2] = {value, 0};
  gli_rma_call call = {
      .verb = GLI_RMA_ADD, .offset = offset, .from = operands, .to = before};
  return windows_atomic("gloo_window_fetch_add", window, &call, rank, error);
}

gloo_status gloo_window_compare_swap(gloo_window *window, int rank,
                                     uint64_t offset, uint64_t expected,
                                     uint64_t desired, uint64_t *before,
                                     gloo_error *error) {
  const uint64_t operands[2] = {expected, desired};
  gli_rma_call call = {
      .verb = GLI_RMA_SWAP, .offset = offset, .from = operands, .to = before};
  return windows_atomic("gloo_window_compare_swap", window, &call, rank, error);
}

static gloo_status windows_flush(const char *function, gloo_window *window,
                                 int checked, uint32_t rank,
                                 gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status = windows_enter(function, window, checked, error);
  if (status != GLOO_OK) return status;
  status = windows_flush_now(window, rank, error);
  return windows_leave(window, status, error);
}

gloo_status gloo_window_flush(gloo_window *window, int rank,
                              gloo_error *error) {
  return windows_flush("gloo_window_flush", window, rank, (uint32_t)rank,
                       error);
}

gloo_status gloo_window_flush_all(gloo_window *window, gloo_error *error) {
  return windows_flush("gloo_window_flush_all", window, 0, GLI_NO_RANK, error);
}
