/* Windows as callers see them. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/cpu.h"
#include "core/custom_op.h"
#include "core/error.h"
#include "core/hints.h"
#include "core/random.h"
#include "engine/contexts/settings.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/rma/rma.h"
#include "engine/state/fail.h"

/* ---- making and ending them ---------------------------------------------- */

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

void *gli_window_close(gloo_window *window) {
  void *ours = window->ours;
  gloo_context *group = window->context;
  gloo_device *device = group->device;
  gli_device_lock(device);
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

static gloo_status windows_fail_late(gloo_window *window, uint32_t rank,
                                     gloo_error *error) {
  const gloo_context *context = window->context;
  uint32_t late =
      gli_context_root_rank(context, gli_rma_late_rank(window, rank));
  return gli_fail(error, GLOO_ERR_TIMEOUT, (int)late,
                  "rank %" PRIu32 " did not complete what rank %" PRIu32
                  " called for in its part of a window within %.3g s",
                  late, context->root_rank, (double)context->timeout_ns / 1e9);
}

static uint64_t windows_deadline(const gloo_context *context) {
  const gloo_device *device = context->device;
  uint64_t now_ns = device->ops->now_ns(device->transport);
  uint64_t timeout_ns = (uint64_t)context->timeout_ns;
  return timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
}

static bool windows_any_unsent(const gloo_window *window, uint32_t rank) {
  if (rank != GLI_NO_RANK) return window->targets[rank].unsent > 0;
  for (uint32_t i = 0; i < window->context->size; i++)
    if (window->targets[i].unsent > 0) return true;
  return false;
}

/* The peer may say that it has a put before the transport says that it is
 * sent. */
static void windows_wait_until_sent(gloo_window *window, uint32_t rank) {
  gloo_context *context = window->context;
  while (!gli_context_poisoned(context) && windows_any_unsent(window, rank)) {
    if (gli_device_poll(context->device) > 0) continue;
    gli_device_unlock(context->device);
    gli_cpu_yield();
    gli_device_lock(context->device);
  }
}

static void windows_enlist(gloo_window *window, gli_rma_wait *wait) {
  wait->next = window->waits;
  window->waits = wait;
}

static void windows_delist(gloo_window *window, const gli_rma_wait *wait) {
  gli_rma_wait **at = &window->waits;
  while (*at != wait) at = &(*at)->next;
  *at = wait->next;
}

/* With the lock held, which is left meanwhile. */
static gloo_status windows_flush_now(gloo_window *window, uint32_t rank,
                                     gloo_error *error) {
  gloo_context *context = window->context;
  gloo_device *device = context->device;
  if (!gli_rma_is_quiet(window, rank)) {
    gloo_status status = gli_rma_ask_flush(window, rank, error);
    if (status != GLOO_OK) return status;
    gli_rma_wait wait = {.rank = rank};
    windows_enlist(window, &wait);
    gli_device_settle(device);
    gli_device_poll(device);
    if (!wait.over)
      gli_device_wait_flag(device, &wait.over, windows_deadline(context));
    if (!wait.over) {
      windows_delist(window, &wait);
      return windows_fail_late(window, rank, error);
    }
  }
  windows_wait_until_sent(window, rank);
  if (!gli_context_poisoned(context)) return GLOO_OK;
  *error = context->cause;
  return error->status;
}

/* ---- calls --------------------------------------------------------------- */

/* What all begin with. The lock is taken on GLOO_OK alone. */
static gloo_status windows_enter(const char *function, gloo_window *window,
                                 int rank, gloo_error *error) {
  if (window == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the window is NULL",
                    function);
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  gloo_context *context = window->context;
  if (rank < 0 || rank >= (int)context->size) {
    gli_fail(error, GLOO_ERR_RANK, -1,
             "%s: there is no rank %d in a window of %" PRIu32 " ranks",
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
  /* Who sleeps does not know of it. */
  if (device->pending_links != NULL) gli_device_wake_sleepers(device);
  gli_device_kick_locked(device);
  gli_device_tell(device);
  if (status != GLOO_OK) gli_context_localize(context, error);
  gli_device_unlock(device);
  return status;
}

static gloo_status windows_refuse(gloo_window *window, gloo_error *error) {
  gli_device_unlock(window->context->device);
  return gli_context_refuse(window->context, error);
}

/* Arguments that could be right for some window. */
static gloo_status windows_call(const char *function, gloo_window *window,
                                gli_rma_call *call, int rank, uint64_t bytes,
                                gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status = windows_enter(function, window, rank, error);
  if (status != GLOO_OK) return status;
  call->rank = (uint32_t)rank;
  gli_rma_target *target = &window->targets[rank];
  if (!gli_in_bounds(call->offset, bytes, target->bytes)) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "%s: %" PRIu64 " bytes from offset %" PRIu64
             " on go beyond the %" PRIu64
             " bytes that rank %d has in the window",
             function, bytes, call->offset, target->bytes, rank);
    return windows_refuse(window, error);
  }
  if (bytes > 0 && (target->under_way >= GLI_RMA_UNDER_WAY_MAX ||
                    target->unsent >= GLI_RMA_UNDER_WAY_MAX))
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
                  "%s: the offset %" PRIu64 " is no multiple of 8", function,
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
