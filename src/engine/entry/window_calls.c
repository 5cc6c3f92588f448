/* Puts, gets and atomic operations for callers. */
#include <inttypes.h>

#include "core/error.h"
#include "engine/drive/drive.h"
#include "engine/entry/windows.h"
#include "engine/rma/rma.h"
#include "engine/state/device.h"
#include "kernels/copy.h"
#include "memory/gpu.h"

/* The longest copy that is made with the lock held, and the longest without,
 * for which a failure of the context waits. */
#define LOCKED_COPY UINT64_C(65536)
#define UNLOCKED_COPY (UINT64_C(16) << 20)

/* ---- parts of calls ------------------------------------------------------ */

/* Moves a call past its first bytes, in the window and in the buffer. */
static void window_call_skip(gli_rma_call *call, uint64_t bytes,
                             uint64_t in_buffer) {
  call->offset += bytes;
  if (call->verb == GLI_RMA_PUT)
    call->from = (const uint8_t *)call->from + in_buffer;
  else
    call->to = (uint8_t *)call->to + in_buffer;
}

/* Copies all but the end of a long put or get without the lock, where that is a
 * copy: other operations continue. Pieces would spoil an overlapping copy. */
static gloo_status window_copy(gloo_window *window, gli_rma_call *call,
                               gloo_error *error) {
  gloo_context *context = window->context;
  uint8_t *place;
  while (call->bytes > LOCKED_COPY &&
         (place = gli_rma_place(window, call)) != NULL) {
    const void *buffer = call->verb == GLI_RMA_PUT ? call->from : call->to;
    if (gli_ranges_overlap(place, buffer, (size_t)call->bytes)) break;
    gli_rma_call piece = *call;
    piece.bytes -= LOCKED_COPY;
    if (piece.bytes > UNLOCKED_COPY) piece.bytes = UNLOCKED_COPY;
    atomic_fetch_add(&window->copying, 1);
    gli_device_unlock(context->device);
    gli_rma_copy(&piece, place);
    atomic_fetch_sub(&window->copying, 1);
    gli_device_lock(context->device);
    if (gli_context_poisoned(context)) {
      *error = context->cause;
      return error->status;
    }
    call->bytes -= piece.bytes;
    window_call_skip(call, piece.bytes, piece.bytes);
  }
  return GLOO_OK;
}

/* Begins a call whose payload fits into one message. The lock is held. */
static gloo_status window_begin(gloo_window *window, gli_rma_call *call,
                                gloo_error *error) {
  const gli_rma_target *target = &window->targets[call->rank];
  gloo_status status = GLOO_OK;
  if (target->under_way >= GLI_RMA_UNDER_WAY_MAX ||
      target->unsent[target->epoch % 2] >= GLI_RMA_UNDER_WAY_MAX)
    status = gli_window_flush_now(window, call->rank, error);
  if (status == GLOO_OK && call->verb != GLI_RMA_ATOMIC && call->blocks == 1)
    status = window_copy(window, call, error);
  return status == GLOO_OK ? gli_rma_begin(window, call, error) : status;
}

/* Begins a call with any number of blocks, in parts. Other threads may have the
 * lock in between. */
static gloo_status window_begin_blocks(gloo_window *window, gli_rma_call *rest,
                                       gloo_error *error) {
  gloo_device *device = window->context->device;
  uint64_t most =
      rest->bytes < GLI_RMA_PACK_MAX ? GLI_RMA_PACK_MAX / rest->bytes : 1;
  gloo_status status = GLOO_OK;
  while (rest->blocks > 0 && status == GLOO_OK) {
    gli_rma_call part = *rest;
    if (part.blocks > most) part.blocks = most;
    rest->blocks -= part.blocks;
    if (rest->blocks > 0)
      window_call_skip(rest, part.blocks * rest->stride,
                       part.blocks * rest->buffer_stride);
    status = window_begin(window, &part, error);
    if (status == GLOO_OK && atomic_load(&device->lock_wanted) > 0)
      gli_device_offer_lock(device);
    if (status != GLOO_OK || !gli_context_poisoned(window->context)) continue;
    *error = window->context->cause;
    status = error->status;
  }
  return status;
}

/* ---- calls --------------------------------------------------------------- */

/* Checks that a call is within the part of its rank. */
static gloo_status window_check_bounds(const char *function,
                                       const gloo_window *window,
                                       const gli_rma_call *call,
                                       gloo_error *error) {
  const gli_rma_target *target = &window->targets[call->rank];
  if (call->blocks > 1 &&
      !gli_rma_blocks_fit(call->offset, call->bytes, call->stride, call->blocks,
                          target->bytes))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: %" PRIu64 " blocks of %" PRIu64 " bytes, %" PRIu64
                    " bytes apart, at offset %" PRIu64 " exceed the %" PRIu64
                    " bytes of rank %" PRIu32 " in the window",
                    function, call->blocks, call->bytes, call->stride,
                    call->offset, target->bytes, call->rank);
  if (call->blocks > 1 ||
      gli_in_bounds(call->offset, call->bytes, target->bytes))
    return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_INVALID, -1,
      "%s: %" PRIu64 " bytes at offset %" PRIu64 " exceed the %" PRIu64
      " bytes of rank %" PRIu32 " in the window",
      function, call->bytes, call->offset, target->bytes, call->rank);
}

/* Makes a call. Its arguments were checked as far as possible without the
 * window. */
static gloo_status window_call(const char *function, gloo_window *window,
                               gli_rma_call *call, int rank,
                               gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  const void *buffer = call->verb == GLI_RMA_PUT ? call->from : call->to;
  gloo_status status = GLOO_OK;
  if (gli_gpu_is_watched()) status = gli_gpu_refuse(function, buffer, error);
  if (status == GLOO_OK)
    status = gli_window_enter(function, window, rank, error);
  if (status != GLOO_OK) return status;
  call->rank = (uint32_t)rank;
  status = window_check_bounds(function, window, call, error);
  if (call->signal != NULL && status == GLOO_OK) {
    gli_rma_call signal = *call->signal;
    signal.rank = call->rank;
    status = window_check_bounds(function, window, &signal, error);
  }
  if (status != GLOO_OK) return gli_window_refuse(window, error);
  if (call->blocks > 1)
    status = window_begin_blocks(window, call, error);
  else if (call->blocks > 0 || call->signal != NULL)
    status = window_begin(window, call, error);
  return gli_window_leave(window, status, error);
}

static gloo_status window_no_buffer(const char *function, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the buffer is NULL",
                  function);
}

gloo_status gloo_window_put(gloo_window *window, int rank, uint64_t offset,
                            const void *from, size_t bytes, gloo_error *error) {
  static const char name[] = "gloo_window_put";
  if (from == NULL && bytes > 0) return window_no_buffer(name, error);
  gli_rma_call call = {.verb = GLI_RMA_PUT,
                       .offset = offset,
                       .from = from,
                       .bytes = bytes,
                       .blocks = bytes > 0};
  return window_call(name, window, &call, rank, error);
}

gloo_status gloo_window_get(gloo_window *window, int rank, uint64_t offset,
                            void *to, size_t bytes, gloo_error *error) {
  static const char name[] = "gloo_window_get";
  if (to == NULL && bytes > 0) return window_no_buffer(name, error);
  gli_rma_call call = {.verb = GLI_RMA_GET,
                       .offset = offset,
                       .to = to,
                       .bytes = bytes,
                       .blocks = bytes > 0};
  return window_call(name, window, &call, rank, error);
}

gloo_status gloo_window_put_signal(gloo_window *window, int rank,
                                   uint64_t offset, const void *from,
                                   size_t bytes, uint64_t signal_offset,
                                   gloo_signal op, uint64_t value,
                                   gloo_error *error) {
  static const char name[] = "gloo_window_put_signal";
  if (from == NULL && bytes > 0) return window_no_buffer(name, error);
  if (op != GLOO_SIGNAL_ADD && op != GLOO_SIGNAL_SET)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: %d is not a gloo_signal",
                    name, (int)op);
  gloo_status status = gli_window_check_aligned(name, signal_offset, 8, error);
  if (status != GLOO_OK) return status;
  bool adds = op == GLOO_SIGNAL_ADD;
  const gli_rma_call change = {
      .verb = GLI_RMA_ATOMIC,
      .change = (uint8_t)(adds ? GLOO_ATOMIC_ADD : GLOO_ATOMIC_SWAP),
      .offset = signal_offset,
      .bytes = 8,
      .blocks = 1,
      .operands = {value, 0}};
  gli_rma_call call = {.verb = GLI_RMA_PUT,
                       .offset = offset,
                       .from = from,
                       .bytes = bytes,
                       .blocks = bytes > 0,
                       .signal = &change};
  return window_call(name, window, &call, rank, error);
}

/* ---- blocks -------------------------------------------------------------- */

static gloo_status window_strided(const char *function, gloo_window *window,
                                  gli_rma_call *call, int rank,
                                  gloo_error *error) {
  const void *buffer = call->verb == GLI_RMA_PUT ? call->from : call->to;
  uint64_t bytes = call->bytes, shorter = call->stride;
  if (call->buffer_stride < shorter) shorter = call->buffer_stride;
  if (call->blocks == 0 || bytes == 0) call->blocks = call->bytes = 0;
  if (buffer == NULL && call->blocks > 0)
    return window_no_buffer(function, error);
  if (call->blocks > 1 && shorter < bytes)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: a stride of %" PRIu64
                    " bytes is less than the block length of %" PRIu64
                    " bytes, so that blocks overlap",
                    function, shorter, bytes);
  if (call->blocks > 1 &&
      call->blocks - 1 > (SIZE_MAX - bytes) / call->buffer_stride)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: %" PRIu64 " blocks, %" PRIu64
                    " bytes apart, exceed the address space",
                    function, call->blocks, call->buffer_stride);
  return window_call(function, window, call, rank, error);
}

gloo_status gloo_window_put_strided(gloo_window *window, int rank,
                                    uint64_t offset, uint64_t window_stride,
                                    const void *from, size_t from_stride,
                                    size_t block_bytes, size_t count,
                                    gloo_error *error) {
  gli_rma_call call = {.verb = GLI_RMA_PUT,
                       .offset = offset,
                       .from = from,
                       .bytes = block_bytes,
                       .blocks = count,
                       .stride = window_stride,
                       .buffer_stride = from_stride};
  return window_strided("gloo_window_put_strided", window, &call, rank, error);
}

gloo_status gloo_window_get_strided(gloo_window *window, int rank,
                                    uint64_t offset, uint64_t window_stride,
                                    void *to, size_t to_stride,
                                    size_t block_bytes, size_t count,
                                    gloo_error *error) {
  gli_rma_call call = {.verb = GLI_RMA_GET,
                       .offset = offset,
                       .to = to,
                       .bytes = block_bytes,
                       .blocks = count,
                       .stride = window_stride,
                       .buffer_stride = to_stride};
  return window_strided("gloo_window_get_strided", window, &call, rank, error);
}

/* ---- atomic operations --------------------------------------------------- */

static gloo_status window_atomic(const char *function, gloo_window *window,
                                 gli_rma_call call, int rank,
                                 gloo_error *error) {
  call.verb = GLI_RMA_ATOMIC;
  call.blocks = 1;
  gloo_status status = gli_window_check_aligned(function, call.offset,
                                                (unsigned)call.bytes, error);
  if (status != GLOO_OK) return status;
  return window_call(function, window, &call, rank, error);
}

static gloo_status window_fetch_op(const char *function, gloo_window *window,
                                   gloo_atomic op, gli_rma_call call, int rank,
                                   gloo_error *error) {
  if ((unsigned)op > GLOO_ATOMIC_SWAP)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: %d is not a gloo_atomic",
                    function, (int)op);
  call.change = (uint8_t)op;
  return window_atomic(function, window, call, rank, error);
}

gloo_status gloo_window_fetch_op(gloo_window *window, int rank, uint64_t offset,
                                 gloo_atomic op, uint64_t value,
                                 uint64_t *before, gloo_error *error) {
  const gli_rma_call call = {
      .offset = offset, .bytes = 8, .to = before, .operands = {value, 0}};
  return window_fetch_op("gloo_window_fetch_op", window, op, call, rank, error);
}

gloo_status gloo_window_fetch_op32(gloo_window *window, int rank,
                                   uint64_t offset, gloo_atomic op,
                                   uint32_t value, uint32_t *before,
                                   gloo_error *error) {
  const gli_rma_call call = {
      .offset = offset, .bytes = 4, .to = before, .operands = {value, 0}};
  return window_fetch_op("gloo_window_fetch_op32", window, op, call, rank,
                         error);
}

gloo_status gloo_window_fetch_add(gloo_window *window, int rank,
                                  uint64_t offset, uint64_t value,
                                  uint64_t *before, gloo_error *error) {
  const gli_rma_call call = {
      .offset = offset, .bytes = 8, .to = before, .operands = {value, 0}};
  return window_fetch_op("gloo_window_fetch_add", window, GLOO_ATOMIC_ADD, call,
                         rank, error);
}

gloo_status gloo_window_compare_swap(gloo_window *window, int rank,
                                     uint64_t offset, uint64_t expected,
                                     uint64_t desired, uint64_t *before,
                                     gloo_error *error) {
  const gli_rma_call call = {.change = GLI_RMA_COMPARE_SWAP,
                             .offset = offset,
                             .bytes = 8,
                             .to = before,
                             .operands = {expected, desired}};
  return window_atomic("gloo_window_compare_swap", window, call, rank, error);
}

gloo_status gloo_window_compare_swap32(gloo_window *window, int rank,
                                       uint64_t offset, uint32_t expected,
                                       uint32_t desired, uint32_t *before,
                                       gloo_error *error) {
  const gli_rma_call call = {.change = GLI_RMA_COMPARE_SWAP,
                             .offset = offset,
                             .bytes = 4,
                             .to = before,
                             .operands = {expected, desired}};
  return window_atomic("gloo_window_compare_swap32", window, call, rank, error);
}
