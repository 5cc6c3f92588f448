/* Creation of gloo_error values, and checked size arithmetic. */
#ifndef GLI_CORE_ERROR_H
#define GLI_CORE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

#if defined(__GNUC__)
#define GLI_PRINTF(at, first) __attribute__((__format__(__printf__, at, first)))
#else
#define GLI_PRINTF(at, first)
#endif

/* Fills `error` (may be NULL) and returns `status`, so that a failing function
 * reads `return gli_fail(error, ...)`. `rank` is the rank at fault in the root
 * context, or -1; see gli_context_localize (engine/contexts/settings.h) for
 * groups. A long message is truncated, and control characters in it become
 * blanks. */
gloo_status gli_fail(gloo_error *error, gloo_status status, int rank,
                     const char *format, ...) GLI_PRINTF(4, 5);

/* Behaves like gli_fail, with the arguments as a list. */
gloo_status gli_vfail(gloo_error *error, gloo_status status, int rank,
                      const char *format, va_list arguments) GLI_PRINTF(4, 0);

/* Puts text such as "prefix: " before the message of an error. */
void gli_error_prefix(gloo_error *error, const char *format, ...)
    GLI_PRINTF(2, 3);

/* Returns true if a number from elsewhere is the status of a failure. */
static inline bool gli_is_failure(int64_t status) {
  return status < 0 && status >= GLOO_ERR_AUTH;
}

/* Resets an error to GLOO_OK without a message. */
static inline void gli_error_clear(gloo_error *error) {
  if (error == NULL) return;
  error->status = GLOO_OK;
  error->cause = GLOO_OK;
  error->rank = -1;
  error->root_rank = -1;
  error->message[0] = '\0';
}

/* Store a + b or a * b in *result; on overflow return false, store nothing. */
static inline bool gli_add_u64(uint64_t a, uint64_t b, uint64_t *result) {
  if (a > UINT64_MAX - b) return false;
  *result = a + b;
  return true;
}
static inline bool gli_mul_u64(uint64_t a, uint64_t b, uint64_t *result) {
  if (b != 0 && a > UINT64_MAX / b) return false;
  *result = a * b;
  return true;
}

/* Returns true if [offset, offset + bytes) is within a buffer of `size`. */
static inline bool gli_in_bounds(uint64_t offset, uint64_t bytes,
                                 uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

#endif
