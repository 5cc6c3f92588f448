/* Asking the library what it has, and a context what it would do. Names are
 * those that options, files, messages and the `gloo` command use.
 *
 * Example:
 *
 *     void print_algorithms(const char *collective) {
 *       const char *name;
 *       for (size_t i = 0;; i++) {
 *         name = gloo_algorithm_name(collective, i);
 *         if (name == NULL) return;
 *         puts(name);
 *       }
 *     } */
#ifndef GLOO_C_QUERY_H
#define GLOO_C_QUERY_H

#include <stddef.h>

#include "gloo_c/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is ------------------------------------------------------- */

/* The name of the transport, the collective, or the algorithm of a collective
 * (by name, such as "allreduce") with that number: count from 0 until it is
 * NULL. Transports are those of this build.
 * Errors: NULL (no such number, no such collective). Threads: any, any time.
 * Ownership: static strings. */
GLOO_API const char *gloo_transport_name(size_t index);
GLOO_API const char *gloo_collective_name(size_t index);
GLOO_API const char *gloo_algorithm_name(const char *collective, size_t index);

/* Can a device with this transport be opened here? It is tried, and closed
 * again. GLOO_OK, or why not.
 * Errors: those of gloo_device_create. Threads: any; takes about a millisecond.
 * Ownership: nothing stays. */
GLOO_API gloo_status gloo_transport_usable(const char *transport,
                                           gloo_error *error);

/* The type or operation with that name (see GLOO_DTYPE_LIST and GLOO_OP_LIST);
 * GLOO_DTYPE_COUNT, GLOO_OP_COUNT when there is none, or it is NULL.
 * Errors: none. Threads: any, any time. Ownership: the text stays the caller's.
 */
GLOO_API gloo_dtype gloo_dtype_from_name(const char *name);
GLOO_API gloo_op gloo_op_from_name(const char *name);

/* The transport of a device, and how its threads wait, in words for people.
 * Errors: NULL for NULL. Threads: any. Ownership: static strings. */
GLOO_API const char *gloo_device_transport(const gloo_device *device);
GLOO_API const char *gloo_device_waiting(const gloo_device *device);

/* How many cores this process may use: what the system, affinity and control
 * groups allow. More ranks on a host than cores yield instead of spinning.
 * Errors: none; at least 1. Threads: any, any time. Ownership: nothing stays.
 */
GLOO_API int gloo_cores(void);

/* ---- what a context does ------------------------------------------------- */

#define GLOO_QUERY_TEXT_BYTES 160

/* Text about a pair of ranks or a call; `why` may be empty. */
typedef struct gloo_answer {
  char text[GLOO_QUERY_TEXT_BYTES];
  char why[GLOO_QUERY_TEXT_BYTES];
} gloo_answer;

/* Through what messages of this rank to `peer` go ("shared memory", "tcp", "its
 * own memory"), and why not through something better. Connections are made when
 * first used: GLOO_IN_PROGRESS, with an empty text, as long as nothing has made
 * these two connect.
 * Errors: GLOO_ERR_INVALID (NULL), GLOO_ERR_RANK. Threads: any. Ownership:
 * *answer is the caller's. */
GLOO_API gloo_status gloo_context_route(gloo_context *context, int peer,
                                        gloo_answer *answer, gloo_error *error);

/* The algorithm that a collective would use for such a call (text), and what
 * chose it (why). `collective` is its name; `count`, `dtype`, `op`, `root` and
 * `options` (may be NULL) are as in the call, and those that it does not have
 * are ignored. Nothing is sent. Every rank gets the same answer.
 * Errors: GLOO_ERR_NOT_FOUND (no such collective or algorithm),
 * GLOO_ERR_UNSUPPORTED (messages, which have no algorithms; collectives whose
 * blocks differ in length, whose choice is a matter of their lists), and those
 * of the call. Threads: any. Ownership: *answer is the caller's. */
GLOO_API gloo_status gloo_context_choice(gloo_context *context,
                                         const char *collective, size_t count,
                                         gloo_dtype dtype, gloo_op op, int root,
                                         const gloo_options *options,
                                         gloo_answer *answer,
                                         gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
