/* Windows: memory of each rank that all ranks of a context reach (remote memory
 * access, one-sided communication).
 *
 * A window is made by all ranks of a context, each with memory of its own, of
 * any length. From then on a rank may put bytes into the part of any rank, get
 * bytes from it, and change words of it with atomic operations, without that
 * rank taking part. What is called for is begun by the call and done when a
 * flush or a fence has returned; until then the buffers belong to the library.
 *
 * Order. Nothing is ordered but by flushes: what is called for before a flush
 * is done before what is called for after it. Two ranks that reach the same
 * bytes at the same time, one of them to write, get bytes of either, unless
 * both use atomic operations, which are atomic to each other (not to puts and
 * gets). Where there are checksums (GLOO_CHECKSUM), more than 16 bytes that are
 * written to while they travel count as damaged, and the context fails. A rank
 * that reads its own part reads what others have put there once it knows that
 * they have flushed: a fence, or a message from them, tells it.
 *
 * How it travels. Between processes of one host, memory from gloo_alloc (or
 * memory that the window allocates) is mapped: calls are copies and atomic
 * instructions, and the owner does nothing. Everything else travels in messages
 * that the owner's library serves: by its helper thread while the owner
 * computes; with `no_helper` in gloo_device_options only in its calls. An
 * atomic operation in messages costs a round trip.
 *
 * Memory of GPUs is refused (GLOO_ERR_BUFFER), as a window and as a buffer.
 *
 * Failing. All errors but refused arguments fail the context and all groups of
 * its family, on all ranks, as everywhere: see collectives.h. When a call has
 * returned an error, neither the buffers of the calls nor the window's memory
 * are touched any more.
 *
 * Example:
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
#include "gloo_c/status.h"
#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gloo_window gloo_window;

typedef struct gloo_window_options {
  size_t struct_size;
  int64_t timeout_ns; /* of a flush, a fence and of making the window;
                         GLOO_TIMEOUT_DEFAULT: that of the context */
  uint32_t tag;       /* orders the making of windows and groups separately per
                         tag */
} gloo_window_options;
#define GLOO_WINDOW_OPTIONS_INIT \
  { sizeof(gloo_window_options), 0, 0 }

/* Make a window over all ranks of the context. Blocks until all have called.
 * `memory` is what this rank exposes, `bytes` of it (0: nothing); NULL: the
 * library allocates it (gloo_alloc), filled with zeros, and frees it with the
 * window. *window is set on success only.
 * Shape: memory that is given begins at a multiple of 8. Ranks may give
 * different lengths.
 * Errors: GLOO_ERR_INVALID (no context, no place for the window, memory that is
 * not aligned) and GLOO_ERR_UNSUPPORTED (options of a newer version): nothing
 * was sent. GLOO_ERR_NO_MEMORY, and those of gloo_context_split.
 * Threads: any, with a tag for each; blocks. Ownership: *window is the
 * caller's; the memory is in use until the window is destroyed. Cost: a group
 * (gloo_context_split) and an allgather of 16 bytes per rank. */
GLOO_API gloo_status gloo_window_create(gloo_context *context, void *memory,
                                        size_t bytes,
                                        const gloo_window_options *options,
                                        gloo_window **window,
                                        gloo_error *error);

/* Destroy a window, on all ranks: it is a fence first, so nothing is under way
 * any more and all ranks are done with it. NULL is GLOO_OK. When that fails the
 * error is returned, and the window is gone all the same.
 * Errors: those of gloo_window_fence.
 * Threads: any; no other thread may use it any more; blocks. Ownership: the
 * window is gone, its memory the caller's again, or freed where the library
 * allocated it. */
GLOO_API gloo_status gloo_window_destroy(gloo_window *window,
                                         gloo_error *error);

/* This rank's own part, and how many bytes the part of a rank has.
 * Errors: NULL and 0 (no window, no such rank). Threads: any. Ownership: the
 * memory is the window's or the caller's, see gloo_window_create. */
GLOO_API void *gloo_window_memory(const gloo_window *window);
GLOO_API size_t gloo_window_bytes(const gloo_window *window, int rank);

/* Begin to copy `bytes` bytes from `from` to the part of `rank`, `offset` bytes
 * from its beginning, or from there to `to`. `rank` may be the caller's own.
 * Shape: offset + bytes is at most gloo_window_bytes of that rank.
 * Errors: GLOO_ERR_INVALID (NULL, beyond the end) and GLOO_ERR_RANK: nothing
 * was sent. GLOO_ERR_PEER (the rank has left or ended), GLOO_ERR_NO_MEMORY,
 * GLOO_ERR_POISONED, GLOO_ERR_FORKED.
 * Threads: any. Blocks only where 1,024 calls to that rank are under way: then
 * it waits for them, as gloo_window_flush does. Where the memory is mapped the
 * call is the copy. Ownership: buffers stay the caller's; `from` must stay as
 * it is, and `to` is not to be read, until a flush or a fence. */
GLOO_API gloo_status gloo_window_put(gloo_window *window, int rank,
                                     uint64_t offset, const void *from,
                                     size_t bytes, gloo_error *error);
GLOO_API gloo_status gloo_window_get(gloo_window *window, int rank,
                                     uint64_t offset, void *to, size_t bytes,
                                     gloo_error *error);

/* Begin an atomic operation on the 64-bit word (in the owner's byte order) that
 * is `offset` bytes from the beginning of the part of `rank`: add `value` to
 * it, modulo 2^64, or replace it by `desired` if it is `expected`. *before gets
 * what it was before; NULL: it is not wanted. Shape: offset is a multiple of 8,
 * and offset + 8 at most gloo_window_bytes.
 * Errors: as gloo_window_put. Threads: any. Ownership: *before is not to be
 * read, and must be there, until a flush or a fence. */
GLOO_API gloo_status gloo_window_fetch_add(gloo_window *window, int rank,
                                           uint64_t offset, uint64_t value,
                                           uint64_t *before, gloo_error *error);
GLOO_API gloo_status gloo_window_compare_swap(
    gloo_window *window, int rank, uint64_t offset, uint64_t expected,
    uint64_t desired, uint64_t *before, gloo_error *error);

/* Wait until all that this rank has called for in the part of `rank`, or of all
 * ranks, is done: puts are there for everybody to see, and results are here.
 * Errors: GLOO_ERR_INVALID, GLOO_ERR_RANK; GLOO_ERR_TIMEOUT and GLOO_ERR_PEER
 * name the rank that did not answer; GLOO_ERR_POISONED, GLOO_ERR_FORKED.
 * Threads: any; blocks. Ownership: all buffers of these calls are the caller's
 * again. Cost: nothing where all is done; else a round trip. */
GLOO_API gloo_status gloo_window_flush(gloo_window *window, int rank,
                                       gloo_error *error);
GLOO_API gloo_status gloo_window_flush_all(gloo_window *window,
                                           gloo_error *error);

/* All ranks call it: gloo_window_flush_all, and a barrier. When it returns, all
 * that any rank has called for before is done, here as well.
 * Errors: those of gloo_window_flush_all and gloo_barrier.
 * Threads: any, one at a time; blocks. Ownership: as in gloo_window_flush. */
GLOO_API gloo_status gloo_window_fence(gloo_window *window, gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
