/* Status codes and errors: every fallible call of gloo_c returns a gloo_status.
 *
 * Example:
 *
 *     int print_error(const gloo_error *error) {
 *       return fprintf(stderr, "%s: %s (rank %d)\n",
 *                      gloo_status_string(error->cause), error->message,
 *                      error->root_rank);
 *     } */
#ifndef GLOO_C_STATUS_H
#define GLOO_C_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one list of codes, with the text gloo_status_string() gives for each. */
#define GLOO_STATUS_LIST(X)                                            \
  X(GLOO_OK, 0, "success")                                             \
  X(GLOO_IN_PROGRESS, 1, "operation still in progress")                \
  X(GLOO_ERR_INVALID, -1, "invalid argument")                          \
  X(GLOO_ERR_UNSUPPORTED, -2, "not supported")                         \
  X(GLOO_ERR_NOT_FOUND, -3, "not found")                               \
  X(GLOO_ERR_NO_MEMORY, -4, "out of memory")                           \
  X(GLOO_ERR_IO, -5, "input/output error")                             \
  X(GLOO_ERR_ADDRESS, -6, "address cannot be used")                    \
  X(GLOO_ERR_TIMEOUT, -7, "deadline passed")                           \
  X(GLOO_ERR_PEER, -8, "a peer failed or left")                        \
  X(GLOO_ERR_MISMATCH, -9, "ranks disagree about the call")            \
  X(GLOO_ERR_PROTOCOL, -10, "a peer broke the protocol")               \
  X(GLOO_ERR_STALE, -11, "belongs to another job or epoch")            \
  X(GLOO_ERR_BUSY, -12, "already in use")                              \
  X(GLOO_ERR_CANCELLED, -13, "cancelled")                              \
  X(GLOO_ERR_POISONED, -14, "context unusable after an earlier error") \
  X(GLOO_ERR_COMPARE, -15, "compare-and-set found another value")      \
  X(GLOO_ERR_INTERNAL, -16, "internal error, please report")           \
  X(GLOO_ERR_FORKED, -17,                                              \
    "belongs to the process that this one was forked from")            \
  X(GLOO_ERR_ABORTED, -18, "a rank gave up (gloo_context_abort)")      \
  X(GLOO_ERR_ROOT, -19, "the root is not a rank of the context")       \
  X(GLOO_ERR_RANK, -20, "not a rank of the context")                   \
  X(GLOO_ERR_COUNT, -21, "invalid count or displacement")              \
  X(GLOO_ERR_DTYPE, -22, "unknown element type")                       \
  X(GLOO_ERR_OP, -23, "unknown reduction operation")                   \
  X(GLOO_ERR_BUFFER, -24, "buffer missing or overlapping another")     \
  X(GLOO_ERR_AUTH, -25, "the job's secret is missing, or another one")

typedef enum gloo_status {
#define GLOO_STATUS_ENUM(name, value, text) name = value,
  GLOO_STATUS_LIST(GLOO_STATUS_ENUM)
#undef GLOO_STATUS_ENUM
} gloo_status;

#define GLOO_ERROR_MESSAGE_BYTES 512

/* Details of a failure: a plain value that the caller owns and may copy freely.
 * It needs no initialisation. Functions take it as the last argument, accept
 * NULL, and fill it on failure only.
 *
 * `struct_size` is sizeof(gloo_error) as the library was compiled. The size of
 *   the struct never changes; fields that a newer header defines in place of
 *   `reserved` are zero if the library is older.
 * `cause` is the status on which a program bases its next step. It equals
 *   `status`, except for GLOO_ERR_POISONED: then it is the status that made the
 *   context unusable, such as GLOO_ERR_TIMEOUT or GLOO_ERR_PEER, and never
 *   GLOO_ERR_POISONED.
 * `rank` is the rank at fault, as the context of the call numbers it; -1 if no
 *   single rank is at fault, or if it is not in that context (a group fails
 *   with its parent context).
 * `root_rank` is the same rank as the root context numbers it (the context
 *   without a parent), as in messages; -1 if no single rank is at fault.
 * `message` is one sentence with the failure, its place and the remedy. */
typedef struct gloo_error {
  size_t struct_size;
  gloo_status status;
  gloo_status cause;
  int rank;
  int root_rank;
  int reserved[14];
  char message[GLOO_ERROR_MESSAGE_BYTES];
} gloo_error;

/* ---- timeouts ------------------------------------------------------------ */

/* All timeouts are in nanoseconds and have the same meaning everywhere: 0 is
 * the default, which the function or field documents; a negative value is no
 * limit; and 1 is a test without waiting. */
#define GLOO_TIMEOUT_DEFAULT ((int64_t)0)
#define GLOO_TIMEOUT_NONE ((int64_t)-1)
#define GLOO_TIMEOUT_NOW ((int64_t)1)

/* Returns the text of a status; "unknown status" for unknown values, never
 * NULL.
 * Errors: none. Threads: any, at any time. Ownership: a static string. */
GLOO_API const char *gloo_status_string(gloo_status status);

#ifdef __cplusplus
}
#endif
#endif
