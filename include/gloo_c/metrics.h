/* What a context has done since it was made, in figures: calls, bytes, time,
 * what went to and came from each rank, and which ranks the others waited for.
 *
 * A root context counts for itself and all groups made of it; asking a group
 * gives the same figures. Counting is always on and costs some nanoseconds an
 * operation. With GLOO_METRICS every process also serves them, as OpenMetrics
 * text, at a Unix socket in the directory that it names:
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
 *     } */
#ifndef GLOO_C_METRICS_H
#define GLOO_C_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Operations that ended well, by what was called and which algorithm it used.
 * `bytes` are those of the longest buffer that this rank had in each.
 * `nanoseconds` are from their start to their end, all together: most of that
 * is waiting for other ranks, and operations under way at the same time are
 * counted each. One that had all it needed when it started counts as none. */
typedef struct gloo_call_totals {
  const char *call;      /* a collective; "send" or "receive" */
  const char *algorithm; /* "" for messages */
  uint64_t calls, bytes, nanoseconds;
  uint64_t reserved[4];
} gloo_call_totals;

/* Store what was called, in totals[0 .. room - 1], and how many such there are
 * in *n, which may be more. `totals` may be NULL where `room` is 0.
 * Errors: GLOO_ERR_INVALID (NULL, or in a custom operation),
 * GLOO_ERR_NO_MEMORY, GLOO_ERR_FORKED. Threads: any. Ownership: the texts are
 * static, the rest is the caller's. Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_call_totals(gloo_context *context,
                                              gloo_call_totals *totals,
                                              size_t room, size_t *n,
                                              gloo_error *error);

/* What went to and came from one rank, without headers, by whatever way; what
 * windows carry is not counted. And how often a collective that took more than
 * about 50 microseconds waited in the end for a message of that rank, and how
 * long these collectives took. In most algorithms a rank gets messages from few
 * others, so a rank that is late is named by those next to it, and these by
 * others: `gloo trace` compares when all have started. */
typedef struct gloo_peer_totals {
  uint64_t messages_sent, bytes_sent;
  uint64_t messages_received, bytes_received;
  uint64_t late, late_nanoseconds;
  uint64_t reserved[4];
} gloo_peer_totals;

/* Store what there was with rank `peer` of the context.
 * Errors: those of gloo_context_call_totals, and GLOO_ERR_RANK. Threads: any.
 * Ownership: *totals is the caller's. Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_peer_totals(gloo_context *context, int peer,
                                              gloo_peer_totals *totals,
                                              gloo_error *error);

/* Write all of it as OpenMetrics text. docs/guide/observing.md has the names.
 * Errors: those of gloo_context_trace. Threads: any. Ownership: everything
 * stays the caller's. Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_metrics(gloo_context *context,
                                          gloo_trace_fn write, void *user,
                                          gloo_error *error);

/* Free the memory that a context, the root that it was made of and all groups
 * of that keep for later calls: plans of collectives, operations made for them
 * and their scratch. Bounded without this call (some 20 MB of plans, as much of
 * operations, 64 MiB of scratch), and shown by gloo_context_metrics as
 * gloo_kept_bytes. Nothing under way, prepared or connected is touched; later
 * calls make anew what they need.
 * Errors: GLOO_ERR_INVALID (NULL, or in a custom operation), GLOO_ERR_FORKED.
 * Threads: any. Ownership: the context stays the caller's. Cost: nothing is
 * sent. */
GLOO_API gloo_status gloo_context_trim(gloo_context *context,
                                       gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
