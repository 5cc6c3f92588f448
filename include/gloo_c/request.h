/* Requests: handles of operations that were started without waiting (`_start`),
 * or prepared to be started any number of times (`_init`; persistent requests).
 *
 * A request is pending from its start until its operation has completed or
 * failed. After that, and before its first start, it is inactive. Its status is
 * GLOO_IN_PROGRESS, GLOO_OK or its own error, and stays until the next start: a
 * request that completed before its context failed is GLOO_OK.
 *
 * Progress. Operations advance while a thread is in a call of this library on
 * their device, and otherwise by the device's helper thread; with `no_helper`
 * in gloo_device_options they advance in calls only.
 *
 * Completion can be observed by test, by wait, by waiting for any or all of
 * several requests, by a callback (gloo_request_on_done), and by a descriptor
 * that becomes readable (gloo_device_get_fd). A program may mix these.
 *
 * Threads. Any thread may call any function here, and several threads may use
 * the same request, unless one thread destroys, releases or joins it. Inside a
 * custom operation all functions fail with GLOO_ERR_INVALID, in a forked child
 * with GLOO_ERR_FORKED.
 *
 * Example:
 *
 *     gloo_status sum_meanwhile(gloo_context *context, float *values,
 *                               size_t count, void (*work)(void),
 *                               gloo_error *error) {
 *       gloo_request *sum;
 *       gloo_status status =
 *           gloo_allreduce_start(context, GLOO_IN_PLACE, values, count,
 *                                GLOO_FLOAT32, GLOO_SUM, NULL, &sum, error);
 *       if (status != GLOO_OK) return status;
 *       work();
 *       status = gloo_request_wait(sum, GLOO_TIMEOUT_DEFAULT, error);
 *       gloo_request_destroy(sum);
 *       return status;
 *     }
 */
#ifndef GLOO_C_REQUEST_H
#define GLOO_C_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gloo_request gloo_request;
typedef struct gloo_device gloo_device;

/* Starts a persistent request (made by `_init`) again. Its timeout counts from
 * this call. A callback of gloo_request_on_done that still runs for the
 * previous run returns first, unless the callback itself makes this call.
 * Errors: GLOO_ERR_INVALID (NULL). GLOO_ERR_BUSY if the request is pending, or
 * (within its callback) being destroyed. GLOO_ERR_POISONED if its context
 * failed or was destroyed; `cause` is what the context failed with, or
 * GLOO_ERR_CANCELLED if it was destroyed without having failed.
 * Threads: any; operations of one context and tag are started in the same order
 * on all ranks. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_start(gloo_request *request,
                                        gloo_error *error);

/* Tests a request without blocking; makes progress. Returns GLOO_OK if it
 * completed, GLOO_IN_PROGRESS while it is pending, else its error.
 * Errors: GLOO_ERR_INVALID (NULL), and those of the operation.
 * Threads: any. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_test(gloo_request *request,
                                       gloo_error *error);

/* Waits for a request, at most `timeout_ns`: GLOO_TIMEOUT_DEFAULT and
 * GLOO_TIMEOUT_NONE set no limit beside the operation's own deadline. If that
 * time passes the operation continues, and the call returns GLOO_IN_PROGRESS.
 * Otherwise it returns like gloo_request_test.
 * Errors: GLOO_ERR_INVALID (NULL), and those of the operation.
 * Threads: any; several may wait for one request. Ownership: the request stays
 * the caller's. */
GLOO_API gloo_status gloo_request_wait(gloo_request *request,
                                       int64_t timeout_ns, gloo_error *error);

/* Orders a GPU stream after the request's completion or failure: work that is
 * put into the stream afterwards runs when the result is in the GPU buffers.
 * gloo_request_test reports success or failure later. By default the call waits
 * until the request has ended; with GLOO_STREAM_WAIT_VALUE=1 (see
 * docs/guide/cuda.md) the stream waits, and the call returns at once.
 * Shape: stream is a CUstream, cudaStream_t or hipStream_t; NULL: the legacy
 * default stream.
 * Errors: GLOO_ERR_INVALID (no request, invalid stream). GLOO_ERR_UNSUPPORTED:
 * no buffer is in GPU memory, the request joins several, or the stream is
 * capturing a graph. GLOO_ERR_IO: the driver refuses it. No error changes the
 * request; its own failure is not one of this call.
 * Threads: any. Ownership: the request stays the caller's. It may be destroyed
 * while the stream waits: a pending request is then cancelled, and the stream
 * continues. */
GLOO_API gloo_status gloo_request_wait_stream(gloo_request *request,
                                              void *stream, gloo_error *error);

/* The index that wait_any and test_any store if no request completed. */
#define GLOO_NO_INDEX SIZE_MAX

/* Waits until one of `n` requests has completed or failed. `*index` is its
 * index, the lowest of several, and the call returns its status. NULL entries
 * are skipped; set an entry to NULL after its completion was reported, or it is
 * reported again. If all entries are NULL, or n is 0, *index is GLOO_NO_INDEX
 * and the status GLOO_OK. If `timeout_ns` passes (as in gloo_request_wait) the
 * status is GLOO_IN_PROGRESS, and *index GLOO_NO_INDEX. The requests may belong
 * to any contexts and devices.
 * Shape: requests has n entries; *index is below n.
 * Errors: GLOO_ERR_INVALID (`requests` or `index` is NULL), GLOO_ERR_NO_MEMORY
 * (*index is GLOO_NO_INDEX), and those of the operation.
 * Threads: any. Ownership: requests and list stay the caller's.
 * Cost: a look at each request per poll; with several devices a thread that
 * finds nothing soon sleeps until a helper thread wakes it. */
GLOO_API gloo_status gloo_request_wait_any(gloo_request *const *requests,
                                           size_t n, int64_t timeout_ns,
                                           size_t *index, gloo_error *error);

/* gloo_request_wait_any without waiting: GLOO_IN_PROGRESS if none has completed
 * or failed.
 * Shape: requests has n entries; *index is below n.
 * Errors: those of gloo_request_wait_any. Threads: any. Ownership: requests and
 * list stay the caller's. */
GLOO_API gloo_status gloo_request_test_any(gloo_request *const *requests,
                                           size_t n, size_t *index,
                                           gloo_error *error);

/* Waits until all of `n` requests have completed or failed. Returns GLOO_OK if
 * all completed, else the status of the first in the list that failed;
 * gloo_request_error returns the error of each. NULL entries are skipped.
 * Returns GLOO_IN_PROGRESS if `timeout_ns` passes (as in gloo_request_wait; one
 * limit for all).
 * Shape: requests has n entries.
 * Errors: GLOO_ERR_INVALID (`requests` is NULL), and those of the operations.
 * Threads: any. Ownership: requests and list stay the caller's. */
GLOO_API gloo_status gloo_request_wait_all(gloo_request *const *requests,
                                           size_t n, int64_t timeout_ns,
                                           gloo_error *error);

/* A completion callback. `status` is GLOO_OK or the request's error. */
typedef void (*gloo_request_fn)(void *user, gloo_request *request,
                                gloo_status status);

/* Sets a callback that runs with `user` at the end of each run of the request;
 * NULL removes it. For a run that ended already the calling thread runs it at
 * once, unless a callback ran for that run before. When this call returns, the
 * callback that was set before has returned and does not run again.
 *
 * A callback runs exactly once per run: in the device's helper thread; on a
 * device without one, in a thread that is in a call; and at the latest in the
 * thread that starts the request again, destroys it, or destroys its context.
 * No lock of the library is held, so it may start, test, release and destroy
 * requests, including its own. It should be short: while it runs, the helper
 * thread runs no other. It must not destroy a device, or a context that owns
 * its device. It must not throw: no C++ exception may leave it.
 *
 * These calls wait for a callback that runs: gloo_request_destroy,
 * gloo_request_start, gloo_request_on_done and gloo_request_release (unless the
 * request is pending), with that request; gloo_context_destroy with
 * its context, or the last context of its family that the program holds. So a
 * thread must not make them while it holds a lock that the callback takes.
 * There are two exceptions. A callback that makes such a call does not wait for
 * itself. Where callbacks in several threads would wait for each other, because
 * each destroys the request of the next, the last call of the cycle returns at
 * once, while its callback still runs.
 * Errors: GLOO_ERR_INVALID (NULL).
 * Threads: any. Ownership: `user` stays the caller's, and must stay valid until
 * the request is destroyed or the callback is removed; if the request was
 * released while pending, until the callback has returned. */
GLOO_API gloo_status gloo_request_on_done(gloo_request *request,
                                          gloo_request_fn function, void *user,
                                          gloo_error *error);

/* Joins `n` requests into one, in this order. The joined request replaces their
 * handles. It is complete when all are; its error is that of the first that
 * failed, its source that of the first that has one; it is started (if all are
 * persistent), cancelled, released and destroyed as one. All must belong to one
 * device. Pending requests stay pending; persistent ones are started in the
 * order of the list.
 * Shape: requests has n entries.
 * Errors: GLOO_ERR_INVALID (an empty list, NULL, a request twice, different
 * devices, a destroyed context, a request with a callback of
 * gloo_request_on_done): nothing was joined.
 * Threads: any. Ownership: on success the requests are part of *joined, which
 * is the caller's. */
GLOO_API gloo_status gloo_requests_join(gloo_request *const *requests, size_t n,
                                        gloo_request **joined,
                                        gloo_error *error);

/* Cancels a request. A receive that matched no message and a send of which no
 * byte was sent are withdrawn, and end with GLOO_ERR_CANCELLED; anything else
 * poisons the context, because the other ranks cannot complete either. Returns
 * GLOO_OK for a request that is not pending, too.
 * Errors: GLOO_ERR_INVALID (NULL).
 * Threads: any. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_cancel(gloo_request *request,
                                         gloo_error *error);

/* Returns the rank from which a completed receive got its message, as its
 * context numbers it; -1 for any other request.
 * Errors: none. Threads: any. Ownership: the request stays the caller's. */
GLOO_API int gloo_request_source(const gloo_request *request);

/* Gets the error of a request again. Fills `*error`, with status GLOO_OK and an
 * empty message if there is none, and returns that status; `error` may be NULL.
 * Errors: the request's; GLOO_ERR_INVALID (no request, or in a custom
 * operation).
 * Threads: any. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_error(const gloo_request *request,
                                        gloo_error *error);

/* Releases a request without cancelling it: it is freed when it has completed
 * or failed. Its buffers must stay valid until then; a callback of
 * gloo_request_on_done tells when. NULL is allowed.
 * Errors: none. Threads: any. Ownership: the library's from now on. */
GLOO_API void gloo_request_release(gloo_request *request);

/* Frees a request; a pending one is cancelled first (see gloo_request_cancel).
 * It can be destroyed after its context. Its callback has run and returned when
 * this call returns (see gloo_request_on_done). NULL is allowed.
 * Errors: none. Threads: any. Ownership: the handle is invalid afterwards. */
GLOO_API void gloo_request_destroy(gloo_request *request);

/* ---- event loops --------------------------------------------------------- */

/* Gets a descriptor that becomes readable when an operation of the device has
 * completed or failed, for poll, epoll, libuv or asyncio. It stays readable
 * until gloo_device_clear_fd is called. On readable: clear it, then test the
 * requests of interest; a later completion makes it readable again. The program
 * must not read or close it. The device must have a helper thread.
 * Shape: *fd is a descriptor of this process; the same one in every call.
 * Errors: GLOO_ERR_INVALID (NULL), GLOO_ERR_UNSUPPORTED (`no_helper`),
 * GLOO_ERR_IO and GLOO_ERR_NO_MEMORY (no descriptor left), GLOO_ERR_FORKED.
 * Threads: any. Ownership: the device's, which closes it when it is destroyed.
 * Cost: from now on a system call per operation that ends while the descriptor
 * is not readable. */
GLOO_API gloo_status gloo_device_get_fd(gloo_device *device, int *fd,
                                        gloo_error *error);

/* Makes the descriptor of gloo_device_get_fd unreadable until another operation
 * ends. Without a descriptor it does nothing; NULL is allowed.
 * Errors: none. Threads: any. Ownership: the device stays the caller's. */
GLOO_API void gloo_device_clear_fd(gloo_device *device);

#ifdef __cplusplus
}
#endif
#endif
