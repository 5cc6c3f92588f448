/* Queries about the features of the library and the choices of a context. Names
 * are those of options, files, messages and the `gloo` command.
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

/* ---- features ------------------------------------------------------------ */

/* Returns the name of a transport of this build, of a collective, or of an
 * algorithm of a collective (given by name, such as "allreduce"), by index. To
 * list all names, count from 0 until the result is NULL.
 * Errors: NULL (no such index or collective). Threads: any, at any time.
 * Ownership: static strings. */
GLOO_API const char *gloo_transport_name(size_t index);
GLOO_API const char *gloo_collective_name(size_t index);
GLOO_API const char *gloo_algorithm_name(const char *collective, size_t index);

/* Tests whether a device with this transport can be opened on this host, by
 * opening and closing one. Returns GLOO_OK, or the error with the reason.
 * Errors: those of gloo_device_create. Threads: any; takes about a millisecond.
 * Ownership: none. */
GLOO_API gloo_status gloo_transport_usable(const char *transport,
                                           gloo_error *error);

/* Returns the type or operation with that name (see GLOO_DTYPE_LIST and
 * GLOO_OP_LIST); GLOO_DTYPE_COUNT or GLOO_OP_COUNT if the name is unknown or
 * NULL.
 * Errors: none. Threads: any, at any time. Ownership: the text stays the
 * caller's. */
GLOO_API gloo_dtype gloo_dtype_from_name(const char *name);
GLOO_API gloo_op gloo_op_from_name(const char *name);

/* Returns the transport of a device, and a description of how its threads wait.
 * Errors: NULL for NULL. Threads: any. Ownership: static strings. */
GLOO_API const char *gloo_device_transport(const gloo_device *device);
GLOO_API const char *gloo_device_waiting(const gloo_device *device);

/* Returns the number of cores that this process may use, limited by the system,
 * the CPU affinity and control groups. If more ranks than cores run on a host,
 * they yield instead of spinning.
 * Errors: none; at least 1. Threads: any, at any time. Ownership: none. */
GLOO_API int gloo_cores(void);

/* ---- choices of a context ------------------------------------------------ */

#define GLOO_QUERY_TEXT_BYTES 160

/* Describes a pair of ranks or a call; `why` may be empty. */
typedef struct gloo_answer {
  char text[GLOO_QUERY_TEXT_BYTES];
  char why[GLOO_QUERY_TEXT_BYTES];
} gloo_answer;

/* Gets the path of messages from this rank to `peer` ("shared memory", "tcp",
 * "its own memory"), and the reason why a faster path is not used. Connections
 * are made on first use: as long as these two ranks are not connected the call
 * returns GLOO_IN_PROGRESS, with an empty text.
 * Errors: GLOO_ERR_INVALID (NULL), GLOO_ERR_RANK. Threads: any. Ownership:
 * *answer is the caller's. */
GLOO_API gloo_status gloo_context_route(gloo_context *context, int peer,
                                        gloo_answer *answer, gloo_error *error);

/* Gets the algorithm that a collective would use for such a call (text), and
 * the reason for the choice (why). `collective` is its name; `count`, `dtype`,
 * `op`, `root` and `options` (may be NULL) are as in the call, and ignored if
 * the collective does not have them. Every rank gets the same answer.
 * Errors: GLOO_ERR_NOT_FOUND (no such collective or algorithm),
 * GLOO_ERR_UNSUPPORTED (messages, which have no algorithms, and collectives
 * with blocks of different lengths, whose choice depends on the lists), and
 * those of the call.
 * Threads: any.
 * Ownership: *answer is the caller's.
 * Cost: nothing is sent. */
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
