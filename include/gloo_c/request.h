/* Requests: calls that were started and not waited for (`_start`), or prepared
 * to be started any number of times (`_init`).
 *
 * A request is under way from its start until it has completed or failed; then
 * it is over. One that was prepared and not started is as good as over. Its
 * status is GLOO_IN_PROGRESS, GLOO_OK or its own error, which stays until it is
 * started again: a request that had completed before its context failed is
 * GLOO_OK.
 *
 * Progress. Operations advance while a thread is in a call of this library on
 * their device, and by the device's helper thread otherwise; with `no_helper`
 * in gloo_device_options only in calls.
 *
 * Ways to learn of the end: test, wait, wait for any or all of several, a
 * function that is called (gloo_request_on_done), a descriptor that becomes
 * readable (gloo_device_get_fd). They can be mixed.
 *
 * Threads. Any thread may call any function here, also several at once with the
 * same request; but nothing may be done with a request that another thread
 * destroys, releases or joins. In a custom operation all of them fail with
 * GLOO_ERR_INVALID, in a forked child with GLOO_ERR_FORKED.
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

/* Start a persistent request (made by `_init`) once more. Its timeout counts
 * from here. A function of gloo_request_on_done that still runs for the last
 * run returns first, unless it is what makes this call. Errors:
 * GLOO_ERR_INVALID (NULL). GLOO_ERR_BUSY when it is under way, or (in its
 * function) being destroyed.
 * GLOO_ERR_POISONED when its context has failed or was destroyed; `cause` says
 * what of, the latter as GLOO_ERR_CANCELLED unless it had failed before.
 * Threads: any; operations of one context and tag are started in the same order
 * on all ranks. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_start(gloo_request *request,
                                        gloo_error *error);

/* GLOO_OK when it is over and went well, GLOO_IN_PROGRESS when it is under way,
 * else its error. Makes progress; does not block.
 * Errors: GLOO_ERR_INVALID (NULL), and those of the operation.
 * Threads: any. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_test(gloo_request *request,
                                       gloo_error *error);

/* Wait until it is over, for `timeout_ns` at most: GLOO_TIMEOUT_DEFAULT and
 * GLOO_TIMEOUT_NONE set no limit beside the operation's own deadline. When that
 * time has passed it goes on, and the call returns GLOO_IN_PROGRESS. Else as
 * gloo_request_test.
 * Errors: GLOO_ERR_INVALID (NULL), and those of the operation.
 * Threads: any; several may wait for one request. Ownership: the request stays
 * the caller's. */
GLOO_API gloo_status gloo_request_wait(gloo_request *request,
                                       int64_t timeout_ns, gloo_error *error);

/* Have a CUDA stream wait until it is over, whether it goes well or not, and
 * return at once: what is put into the stream afterwards runs when the result
 * is in the buffers of GPUs. How it went gloo_request_test says later. Nothing
 * waits when it is over already.
 * Shape: stream is a CUstream or cudaStream_t; NULL: the legacy default stream.
 * Errors: GLOO_ERR_INVALID (no request, no such stream). GLOO_ERR_UNSUPPORTED:
 * none of its buffers is a GPU's, several requests were joined, the stream
 * records a graph, or the device has no streams that wait for memory.
 * GLOO_ERR_IO: CUDA refuses it. None of them changes the request.
 * Threads: any. Ownership: the request stays the caller's. It may be destroyed
 * while the stream waits: under way it is cancelled, and the stream goes on. */
GLOO_API gloo_status gloo_request_wait_stream(gloo_request *request,
                                              void *stream, gloo_error *error);

/* What wait_any and test_any give for an index when there is none. */
#define GLOO_NO_INDEX SIZE_MAX

/* Wait until one of `n` requests is over. `*index` says which, the first of
 * several, and the call returns its status. Entries that are NULL are left out;
 * put NULL where a request was found over, so that it is not found again. When
 * all are NULL, or n is 0, *index is GLOO_NO_INDEX and the status GLOO_OK. When
 * `timeout_ns` has passed (as in gloo_request_wait) it is GLOO_IN_PROGRESS, and
 * *index GLOO_NO_INDEX. The requests may be of any contexts and devices.
 * Shape: requests has n entries; *index is below n.
 * Errors: GLOO_ERR_INVALID (no list, or no index), GLOO_ERR_NO_MEMORY (*index
 * is GLOO_NO_INDEX), and those of the operation.
 * Threads: any. Ownership: requests and list stay the caller's.
 * Cost: a look at each request per poll; with several devices a thread that
 * finds nothing soon sleeps until one of the helper threads wakes it. */
GLOO_API gloo_status gloo_request_wait_any(gloo_request *const *requests,
                                           size_t n, int64_t timeout_ns,
                                           size_t *index, gloo_error *error);

/* gloo_request_wait_any without waiting: GLOO_IN_PROGRESS when none is over.
 * Shape: requests has n entries; *index is below n.
 * Errors: as there. Threads: any. Ownership: requests and list stay the
 * caller's. */
GLOO_API gloo_status gloo_request_test_any(gloo_request *const *requests,
                                           size_t n, size_t *index,
                                           gloo_error *error);

/* Wait until all of `n` requests are over. GLOO_OK when all went well, or the
 * status of the first in the list that did not; each can be asked for its own.
 * NULL entries are left out. GLOO_IN_PROGRESS when `timeout_ns` has passed (as
 * in gloo_request_wait; for all of them together).
 * Shape: requests has n entries.
 * Errors: GLOO_ERR_INVALID (no list), and those of the operations.
 * Threads: any. Ownership: requests and list stay the caller's. */
GLOO_API gloo_status gloo_request_wait_all(gloo_request *const *requests,
                                           size_t n, int64_t timeout_ns,
                                           gloo_error *error);

/* Called when a request is over: `status` is GLOO_OK or what it failed of. */
typedef void (*gloo_request_fn)(void *user, gloo_request *request,
                                gloo_status status);

/* Have `function` called with `user` at the end of each run of the request;
 * NULL takes that back. For a run that is over already it is called at once, by
 * the calling thread, unless it was called for it before. The function that was
 * set before is not called any more, and has returned, when this call returns.
 *
 * It is called exactly once per run: by the device's helper thread; on a device
 * that has none, by a thread that is in a call; and at the latest by the thread
 * that starts the request again, destroys it, or destroys its context. No lock
 * of the library is held, so it may start, test, release and destroy requests,
 * this one too. It should be short: while it runs, the helper thread calls no
 * other. It must not destroy a device, or a context that owns its device. It
 * must not throw: no C++ exception may leave it.
 *
 * While a function runs, these calls wait until it has returned:
 * gloo_request_destroy, gloo_request_start, gloo_request_on_done and, of a
 * request that is over, gloo_request_release, with that request;
 * gloo_context_destroy with its context, or the last context of its family that
 * the program holds. So no thread may make them while it holds a lock that the
 * function takes. Two exceptions: a function that makes such a call itself does
 * not wait for itself; and where functions in several threads would wait for
 * each other, because each destroys the request of the next, the last call of
 * the circle returns at once, while the function that it is about still runs.
 * Errors: GLOO_ERR_INVALID (NULL).
 * Threads: any. Ownership: `user` stays the caller's, and must be there until
 * the request is destroyed, the function is taken back, or, of a request that
 * was released under way, the function has returned. */
GLOO_API gloo_status gloo_request_on_done(gloo_request *request,
                                          gloo_request_fn function, void *user,
                                          gloo_error *error);

/* Make one request of `n`, in this order: from now on it stands for all of
 * them, and they have no handles of their own. It is over when all are; its
 * error is that of the first one that failed, its source that of the first one
 * that has one; it is started (when all are persistent), cancelled, released
 * and destroyed as one. All must be of one device; those that are under way
 * stay so, and those that can be started are started in the order of the list.
 * Shape: requests has n entries.
 * Errors: GLOO_ERR_INVALID (an empty list, NULL, twice the same one, different
 * devices, a destroyed context, one with a function of gloo_request_on_done):
 * nothing was joined.
 * Threads: any. Ownership: on success the requests are part of *joined, which
 * is the caller's. */
GLOO_API gloo_status gloo_requests_join(gloo_request *const *requests, size_t n,
                                        gloo_request **joined,
                                        gloo_error *error);

/* Give up. A receive that no message has reached and a send of which nothing
 * has left are withdrawn quietly, and end with GLOO_ERR_CANCELLED; anything
 * else poisons the context, for the other ranks cannot complete either. GLOO_OK
 * also when it was over.
 * Errors: GLOO_ERR_INVALID (NULL).
 * Threads: any. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_cancel(gloo_request *request,
                                         gloo_error *error);

/* The rank that a completed receive got its message from, in its context; else
 * -1.
 * Errors: none. Threads: any. Ownership: the request stays the caller's. */
GLOO_API int gloo_request_source(const gloo_request *request);

/* Details of a failed request, again: `*error` is filled, with status GLOO_OK
 * and no text when there is nothing to tell. Returns that status; `error` may
 * be NULL where it is enough.
 * Errors: that one; GLOO_ERR_INVALID (no request, or in a custom operation).
 * Threads: any. Ownership: the request stays the caller's. */
GLOO_API gloo_status gloo_request_error(const gloo_request *request,
                                        gloo_error *error);

/* Let go of a request without cancelling it: it is freed when it is over, and
 * not before. Its buffers must stay until then; a function set by
 * gloo_request_on_done says when that is. NULL is allowed.
 * Errors: none. Threads: any. Ownership: the library's from now on. */
GLOO_API void gloo_request_release(gloo_request *request);

/* Free a request, cancelling it first when it is under way (see
 * gloo_request_cancel). It can be destroyed after its context. Its function was
 * called, and has returned, when this call returns (see gloo_request_on_done).
 * NULL is allowed.
 * Errors: none. Threads: any. Ownership: the handle is not valid any more. */
GLOO_API void gloo_request_destroy(gloo_request *request);

/* ---- event loops --------------------------------------------------------- */

/* A descriptor that becomes readable when an operation of the device has ended:
 * for poll, epoll, libuv, asyncio. It stays readable until gloo_device_clear_fd
 * is called. On readable: clear it, then test the requests that are of
 * interest; what ends after that makes it readable again. Nothing else may be
 * done with it: not read, not closed. The device must have a helper thread.
 * Shape: *fd is a descriptor of this process; the same one in every call.
 * Errors: GLOO_ERR_INVALID (NULL), GLOO_ERR_UNSUPPORTED (`no_helper`),
 * GLOO_ERR_IO and GLOO_ERR_NO_MEMORY (no descriptor left), GLOO_ERR_FORKED.
 * Threads: any. Ownership: the device's, which closes it when it is destroyed.
 * Cost: from now on a system call per operation that ends while the descriptor
 * is not readable. */
GLOO_API gloo_status gloo_device_get_fd(gloo_device *device, int *fd,
                                        gloo_error *error);

/* Make the descriptor of gloo_device_get_fd unreadable until another operation
 * ends. Without a descriptor it does nothing; NULL is allowed.
 * Errors: none. Threads: any. Ownership: the device stays the caller's. */
GLOO_API void gloo_device_clear_fd(gloo_device *device);

#ifdef __cplusplus
}
#endif
#endif
