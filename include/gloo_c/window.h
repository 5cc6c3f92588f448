/* Windows: memory of each rank that all ranks of a context access (remote
 * memory access, one-sided communication).
 *
 * All ranks of a context create a window together, each with its own memory of
 * any length. Then a rank can put bytes into the part of any rank, get bytes
 * from it, and change words of it with atomic operations, without that rank's
 * participation. A call starts an access, and a flush or a fence completes it;
 * until then the buffers belong to the library.
 *
 * Order. Only flushes order accesses: accesses before a flush complete before
 * later ones start. A signal (gloo_window_put_signal) follows the bytes of its
 * own put, and no others. If two ranks access the same bytes at the same time, and
 * one writes, each byte is that of either, unless both use atomic operations,
 * which are atomic to each other (not to puts and gets). With checksums
 * (GLOO_CHECKSUM), more than 16 bytes that change while they are sent count as
 * corrupt, and the context fails. A rank that reads its own part sees the puts
 * of others once it knows of their flush, by a fence or by a message, or once
 * gloo_window_wait_until has returned with their signal.
 *
 * Transport. Between processes on one host, memory from gloo_alloc (or memory
 * that the window allocates) is mapped: accesses are copies and atomic
 * instructions, without work by the owner. All other accesses, and signals, are
 * messages that the owner's library serves: in its helper thread, or with
 * `no_helper` in gloo_device_options only during its calls. An atomic operation
 * in a message costs a round trip.
 *
 * GPU memory is refused (GLOO_ERR_BUFFER), as a window and as a buffer.
 *
 * Failures. All errors except refused arguments fail the context and all groups
 * of its family, on all ranks: see collectives.h. After a call has returned an
 * error, the library touches neither the buffers of the calls nor the window's
 * memory.
 *
 * Example:
 *
 *     // Sends values to the next rank, which waits for the n-th of them.
 *     // The window has room for a counter, and behind it for the values.
 *     gloo_status pass_on(gloo_window *window, int next, const double *values,
 *                         size_t count, uint64_t n, gloo_error *error) {
 *       gloo_status status = gloo_window_put_signal(
 *           window, next, 8, values, count * sizeof *values, 0,
 *           GLOO_SIGNAL_ADD, 1, error);
 *       if (status != GLOO_OK) return status;
 *       return gloo_window_wait_until(window, 0, GLOO_COMPARE_GE, n,
 *                                     GLOO_TIMEOUT_DEFAULT, NULL, error);
 *     }
 *
 *     // A counter that all ranks share.
 *     gloo_status next_number(gloo_window *window, uint64_t *number,
 *                             gloo_error *error) {
 *       gloo_status status =
 *           gloo_window_fetch_add(window, 0, 0, 1, number, error);
 *       if (status != GLOO_OK) return status;
 *       return gloo_window_flush(window, 0, error);
 *     }
 */
#ifndef GLOO_C_WINDOW_H
#define GLOO_C_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/request.h"
#include "gloo_c/status.h"
#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gloo_window gloo_window;

/* The change that an atomic operation makes to a word. */
typedef enum gloo_atomic {
  GLOO_ATOMIC_ADD = 0, /* modulo 2^64, or 2^32 */
  GLOO_ATOMIC_AND = 1, /* bitwise, as the next two */
  GLOO_ATOMIC_OR = 2,
  GLOO_ATOMIC_XOR = 3,
  GLOO_ATOMIC_SWAP = 4 /* replaces the word */
} gloo_atomic;

/* The change that a signal makes to its word. */
typedef enum gloo_signal {
  GLOO_SIGNAL_SET = 0,
  GLOO_SIGNAL_ADD = 1 /* modulo 2^64 */
} gloo_signal;

/* A comparison of a word with a value, both unsigned. */
typedef enum gloo_compare {
  GLOO_COMPARE_EQ = 0, /* the word equals the value */
  GLOO_COMPARE_NE = 1,
  GLOO_COMPARE_GT = 2, /* the word is greater */
  GLOO_COMPARE_GE = 3,
  GLOO_COMPARE_LT = 4,
  GLOO_COMPARE_LE = 5
} gloo_compare;

typedef struct gloo_window_options {
  size_t struct_size;
  /* Timeout of flushes, fences and the creation, ns; GLOO_TIMEOUT_DEFAULT: that
   * of the context. */
  int64_t timeout_ns;
  /* Calls that create windows or groups with the same tag match in their
   * order. */
  uint32_t tag;
} gloo_window_options;
#define GLOO_WINDOW_OPTIONS_INIT \
  { sizeof(gloo_window_options), 0, 0 }

/* Creates a window over all ranks of the context. Blocks until all have called.
 * This rank exposes `bytes` bytes of `memory` (0: none). If `memory` is NULL
 * the library allocates it (gloo_alloc), filled with zeros, and frees it with
 * the window. *window is set on success only.
 * Shape: `memory` is aligned to 8 bytes. Ranks may pass different lengths.
 * Errors: GLOO_ERR_INVALID (`context` or `window` is NULL, unaligned memory)
 * and GLOO_ERR_UNSUPPORTED (options of a newer version): nothing was sent.
 * GLOO_ERR_NO_MEMORY, and those of gloo_context_split.
 * Threads: any, with a separate tag for each thread; blocks.
 * Ownership: *window is the caller's; the memory is in use until the window is
 * destroyed.
 * Cost: a group (gloo_context_split) and an allgather of 16 bytes per rank. */
GLOO_API gloo_status gloo_window_create(gloo_context *context, void *memory,
                                        size_t bytes,
                                        const gloo_window_options *options,
                                        gloo_window **window,
                                        gloo_error *error);

/* Destroys a window, on all ranks. The call starts with a fence, so no access
 * is pending on any rank. NULL gives GLOO_OK. If the fence fails its error is
 * returned, and the window is destroyed all the same.
 * Errors: those of gloo_window_fence.
 * Threads: any; no other thread may use the window; blocks. Ownership: the
 * window's memory is the caller's again, or freed if the library allocated it.
 */
GLOO_API gloo_status gloo_window_destroy(gloo_window *window,
                                         gloo_error *error);

/* Returns this rank's own part, and the length of a rank's part in bytes.
 * Errors: NULL and 0 (no window, no such rank). Threads: any. Ownership: the
 * memory is the window's or the caller's, see gloo_window_create. */
GLOO_API void *gloo_window_memory(const gloo_window *window);
GLOO_API size_t gloo_window_bytes(const gloo_window *window, int rank);

/* Starts to copy `bytes` bytes from `from` to the part of `rank`, at `offset`
 * bytes from its start (put), or from there to `to` (get). `rank` may be the
 * caller's own.
 * Shape: offset + bytes is at most gloo_window_bytes of that rank.
 * Errors: GLOO_ERR_INVALID (NULL, or beyond the end) and GLOO_ERR_RANK: nothing
 * was sent. GLOO_ERR_PEER (the rank has left or exited), GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_POISONED, GLOO_ERR_FORKED.
 * Threads: any. Blocks only if 1,024 calls to that rank are pending; then it
 * waits for them, like gloo_window_flush. On mapped memory the call makes the
 * copy, and other threads' operations continue meanwhile.
 * Ownership: buffers stay the caller's; until a flush or a fence `from` must
 * not change, and `to` must not be read. */
GLOO_API gloo_status gloo_window_put(gloo_window *window, int rank,
                                     uint64_t offset, const void *from,
                                     size_t bytes, gloo_error *error);
GLOO_API gloo_status gloo_window_get(gloo_window *window, int rank,
                                     uint64_t offset, void *to, size_t bytes,
                                     gloo_error *error);

/* Start to copy `count` blocks of `block_bytes` bytes each, like as many calls
 * of gloo_window_put or gloo_window_get. Block i is at offset + i *
 * window_stride in the part of `rank`, and i * from_stride (to_stride) bytes
 * behind the start of the buffer.
 * Shape: strides are in bytes, and at least block_bytes if count exceeds 1, so
 * that blocks do not overlap. The end of the last block is at most
 * gloo_window_bytes of that rank. count and block_bytes may be 0.
 * Errors: those of gloo_window_put, and GLOO_ERR_INVALID for a short stride.
 * Threads: any; blocks like gloo_window_put.
 * Ownership: as in gloo_window_put. The gaps between blocks stay the caller's.
 * Cost: blocks of at most 8 KiB travel together, up to 16 KiB in a message. */
GLOO_API gloo_status gloo_window_put_strided(
    gloo_window *window, int rank, uint64_t offset, uint64_t window_stride,
    const void *from, size_t from_stride, size_t block_bytes, size_t count,
    gloo_error *error);
GLOO_API gloo_status gloo_window_get_strided(gloo_window *window, int rank,
                                             uint64_t offset,
                                             uint64_t window_stride, void *to,
                                             size_t to_stride,
                                             size_t block_bytes, size_t count,
                                             gloo_error *error);

/* Starts a put, as gloo_window_put, and a change of the 64-bit signal word (in
 * the owner's byte order) at `signal_offset` in the part of `rank`, which
 * happens once the bytes are visible there. A rank that sees the change, by
 * gloo_window_wait_until or an atomic operation on its own part, sees the bytes.
 * The change is atomic to other changes and to atomic operations. Without bytes
 * the signal alone is sent.
 * Shape: as gloo_window_put; signal_offset is a multiple of 8, and
 * signal_offset + 8 at most gloo_window_bytes of that rank. The word is not
 * among the bytes of the put.
 * Errors: those of gloo_window_put, and GLOO_ERR_INVALID for an unaligned
 * signal_offset or an unknown `op`.
 * Threads: any; blocks like gloo_window_put.
 * Ownership: as in gloo_window_put. A flush completes the signal, too.
 * Cost: two messages, on mapped memory a copy and one; no reply. */
GLOO_API gloo_status gloo_window_put_signal(gloo_window *window, int rank,
                                            uint64_t offset, const void *from,
                                            size_t bytes,
                                            uint64_t signal_offset,
                                            gloo_signal op, uint64_t value,
                                            gloo_error *error);

/* Waits until the 64-bit word at `offset` of this rank's own part compares with
 * `value` as wanted, for at most `timeout_ns`. *found, which may be NULL, is
 * then the word. Changes by signals, atomic operations and puts of 8 bytes
 * count, of this rank too if it uses the functions above.
 * With GLOO_TIMEOUT_DEFAULT the limit is that of the window, which fails if it
 * passes; with GLOO_TIMEOUT_NONE there is none. If another limit passes, the
 * call returns GLOO_IN_PROGRESS, and the window remains usable;
 * GLOO_TIMEOUT_NOW tests the word.
 * Shape: offset is a multiple of 8, and offset + 8 at most the bytes of this
 * rank's part.
 * Errors: GLOO_ERR_INVALID (NULL, beyond the end, unaligned, no gloo_compare).
 * GLOO_ERR_PEER and GLOO_ERR_TIMEOUT, if a rank of the context has exited or
 * stopped, name it; GLOO_ERR_TIMEOUT for the window's limit names none.
 * GLOO_ERR_POISONED, GLOO_ERR_FORKED.
 * Threads: any; several may wait. The thread makes progress, and sleeps like
 * that of other waits. Ownership: the word stays the window's.
 * Cost: none. A signal wakes the thread; a change of memory that other ranks
 * access directly, without a signal, may be seen a millisecond later. */
GLOO_API gloo_status gloo_window_wait_until(gloo_window *window,
                                            uint64_t offset,
                                            gloo_compare compare,
                                            uint64_t value, int64_t timeout_ns,
                                            uint64_t *found, gloo_error *error);

/* Start an atomic operation on the 64-bit or (...32) 32-bit word (in the
 * owner's byte order) at `offset` bytes from the start of the part of `rank`:
 * change it by `op` and `value` (fetch_add: GLOO_ATOMIC_ADD), or replace it by
 * `desired` if it equals `expected`. *before gets the previous value; `before`
 * may be NULL. Operations on words of different lengths at one address are not
 * atomic to each other.
 * Shape: offset is a multiple of the length of the word, and offset + length at
 * most gloo_window_bytes.
 * Errors: as gloo_window_put; GLOO_ERR_INVALID also for an unaligned offset or
 * an unknown `op`.
 * Threads: any.
 * Ownership: *before must stay valid, and must not be read, until a flush or a
 * fence. */
GLOO_API gloo_status gloo_window_fetch_op(gloo_window *window, int rank,
                                          uint64_t offset, gloo_atomic op,
                                          uint64_t value, uint64_t *before,
                                          gloo_error *error);
GLOO_API gloo_status gloo_window_fetch_op32(gloo_window *window, int rank,
                                            uint64_t offset, gloo_atomic op,
                                            uint32_t value, uint32_t *before,
                                            gloo_error *error);
GLOO_API gloo_status gloo_window_fetch_add(gloo_window *window, int rank,
                                           uint64_t offset, uint64_t value,
                                           uint64_t *before, gloo_error *error);
GLOO_API gloo_status gloo_window_compare_swap(
    gloo_window *window, int rank, uint64_t offset, uint64_t expected,
    uint64_t desired, uint64_t *before, gloo_error *error);
GLOO_API gloo_status gloo_window_compare_swap32(
    gloo_window *window, int rank, uint64_t offset, uint32_t expected,
    uint32_t desired, uint32_t *before, gloo_error *error);

/* Completes all accesses of this rank to the part of `rank`, or to all parts:
 * puts are visible to every rank, and results have arrived.
 * Errors: GLOO_ERR_INVALID, GLOO_ERR_RANK; GLOO_ERR_TIMEOUT and GLOO_ERR_PEER
 * name the rank that did not answer; GLOO_ERR_POISONED, GLOO_ERR_FORKED.
 * Threads: any; blocks. Ownership: the buffers of the calls are the caller's
 * again. Cost: nothing if all accesses are complete, else a round trip. */
GLOO_API gloo_status gloo_window_flush(gloo_window *window, int rank,
                                       gloo_error *error);
GLOO_API gloo_status gloo_window_flush_all(gloo_window *window,
                                           gloo_error *error);

/* Non-blocking gloo_window_flush and gloo_window_flush_all: the request completes
 * when earlier calls are complete. It has the deadline of the window. Cancelling
 * or destroying a pending request does not fail the window: the accesses
 * continue.
 * Errors: GLOO_ERR_INVALID (NULL), GLOO_ERR_RANK; GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_POISONED, GLOO_ERR_FORKED. The request fails like the blocking call,
 * or with GLOO_ERR_CANCELLED.
 * Threads: any. Ownership: *request is the caller's, also after the window has
 * been destroyed; it cannot be started again. */
GLOO_API gloo_status gloo_window_flush_start(gloo_window *window, int rank,
                                             gloo_request **request,
                                             gloo_error *error);
GLOO_API gloo_status gloo_window_flush_all_start(gloo_window *window,
                                                 gloo_request **request,
                                                 gloo_error *error);

/* Flushes on all ranks, then waits in a barrier: when the call returns, all
 * earlier accesses of all ranks are complete and visible. All ranks call it.
 * Errors: those of gloo_window_flush_all and gloo_barrier.
 * Threads: any, one at a time; blocks. Ownership: as in gloo_window_flush. */
GLOO_API gloo_status gloo_window_fence(gloo_window *window, gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
