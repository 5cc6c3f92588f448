/* Status codes and errors: every fallible call of gloo_c returns a gloo_status.
 */
#ifndef GLOO_C_STATUS_H
#define GLOO_C_STATUS_H

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
    "belongs to the process that this one was forked from")

typedef enum gloo_status {
#define GLOO_STATUS_ENUM(name, value, text) name = value,
  GLOO_STATUS_LIST(GLOO_STATUS_ENUM)
#undef GLOO_STATUS_ENUM
} gloo_status;

#define GLOO_ERROR_MESSAGE_BYTES 512

/* What went wrong. A plain value that the caller owns: copy it freely.
 * `rank` is the rank at fault, or -1 when no single rank is. `cause` is the
 * status that a program decides by what to do next. It is `status`, unless that
 * is GLOO_ERR_POISONED: then it says what made the context unusable, such as
 * GLOO_ERR_TIMEOUT or GLOO_ERR_PEER, and is never GLOO_ERR_POISONED. `message`
 * is one sentence that says what was wrong, where, and what can be done. */
typedef struct gloo_error {
  gloo_status status;
  int rank;
  gloo_status cause;
  char message[GLOO_ERROR_MESSAGE_BYTES];
} gloo_error;

/* The text of a status. Never NULL; unknown values give "unknown status".
 * Any thread, any time. The string is static. */
GLOO_API const char *gloo_status_string(gloo_status status);

#ifdef __cplusplus
}
#endif
#endif
