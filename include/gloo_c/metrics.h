/* Counters of a context: calls, bytes and time since its creation, traffic with
 * each rank, and the ranks for which others waited.
 *
 * A root context counts for itself and all its groups; a group returns the same
 * values. Counting is always on and costs some nanoseconds per operation. The
 * library's own messages, of the start and of the creation of groups, count
 * separately. With GLOO_METRICS=DIRECTORY every process also serves the
 * counters, as Prometheus text, on a Unix socket in that directory:
 *
 *     GLOO_METRICS=sockets gloo run -n 4 -- ./program
 *     curl --unix-socket sockets/gloo-metrics-rank0-pid4711.sock http://rank/
 *
 * Example:
 *
 *     void print_late(gloo_context *context) {
 *       for (int rank = 0; rank < gloo_context_size(context); rank++) {
 *         gloo_peer_totals t;
 *         if (gloo_context_peer_totals(context, rank, &t, NULL) == GLOO_OK)
 *           printf("waited %.3f s for rank %d\n",
 *                  (double)t.late_nanoseconds / 1e9, rank);
 *       }
 *     }
 */
#ifndef GLOO_C_METRICS_H
#define GLOO_C_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Completed operations, by call and algorithm. `bytes` sums the longest buffer
 * of each on this rank. `nanoseconds` sums their times from start to end:
 * mostly waiting for other ranks, and overlapping operations count separately.
 * An operation that completed within its start counts as 0. */
typedef struct gloo_call_totals {
  const char *call;      /* a collective; "send" or "receive" */
  const char *algorithm; /* "" for messages */
  uint64_t calls, bytes, nanoseconds;
  uint64_t reserved[4];
} gloo_call_totals;

/* Stores the totals of each call and algorithm in totals[0 .. room - 1], and
 * their number in *n, which may be larger than `room`. `totals` may be NULL if
 * `room` is 0.
 * Errors: GLOO_ERR_INVALID (NULL, or in a custom operation),
 * GLOO_ERR_NO_MEMORY, GLOO_ERR_FORKED. Threads: any. Ownership: the texts are
 * static, the rest is the caller's. Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_call_totals(gloo_context *context,
                                              gloo_call_totals *totals,
                                              size_t room, size_t *n,
                                              gloo_error *error);

/* Traffic with one rank, without headers, on any transport; window traffic is
 * not counted. `late` counts the collectives of more than about 50 microseconds
 * whose last missing message was one of that rank, and `late_nanoseconds` their
 * time. In most algorithms a rank gets messages from few others, so the
 * neighbours of a late rank blame it and are themselves blamed by theirs; `gloo
 * trace` compares the start times of all ranks. */
typedef struct gloo_peer_totals {
  uint64_t messages_sent, bytes_sent;
  uint64_t messages_received, bytes_received;
  uint64_t late, late_nanoseconds;
  uint64_t reserved[4];
} gloo_peer_totals;

/* Stores the traffic with rank `peer` of the context.
 * Errors: those of gloo_context_call_totals, and GLOO_ERR_RANK. Threads: any.
 * Ownership: *totals is the caller's. Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_peer_totals(gloo_context *context, int peer,
                                              gloo_peer_totals *totals,
                                              gloo_error *error);

/* Writes all counters as Prometheus text. docs/formats.md lists the names.
 * Errors: those of gloo_context_trace. Threads: any. Ownership: everything
 * stays the caller's. Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_metrics(gloo_context *context,
                                          gloo_trace_fn write, void *user,
                                          gloo_error *error);

/* Frees the memory that a context, its root context and all its groups cache
 * for later calls: plans of collectives, operations and scratch buffers. The
 * caches are bounded without this call (about 20 MB of plans, 20 MB of
 * operations and 64 MiB of scratch), and gloo_context_metrics reports them as
 * gloo_kept_bytes. Pending and prepared operations and connections are not
 * affected.
 * Errors: GLOO_ERR_INVALID (NULL, or in a custom operation), GLOO_ERR_FORKED.
 * Threads: any. Ownership: the context stays the caller's. Cost: nothing is
 * sent. */
GLOO_API gloo_status gloo_context_trim(gloo_context *context,
                                       gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
