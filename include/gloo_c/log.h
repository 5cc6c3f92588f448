/* Logging. Lines go to standard error unless the program sets a sink.
 *
 * Example:
 *
 *     static void to_file(gloo_log_level level, const char *line, void *user) {
 *       if (level >= GLOO_LOG_WARN) fprintf((FILE *)user, "%s\n", line);
 *     }
 *     void log_to(FILE *file) { gloo_log_set_sink(to_file, file); } */
#ifndef GLOO_C_LOG_H
#define GLOO_C_LOG_H

#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gloo_log_level {
  GLOO_LOG_DEBUG = 0,
  GLOO_LOG_INFO = 1,
  GLOO_LOG_WARN = 2,
  GLOO_LOG_ERROR = 3,
  GLOO_LOG_OFF = 4
} gloo_log_level;

/* Receives one line without a newline. May be called from any thread in the
 * library and from its helper threads; must not call the library. */
typedef void (*gloo_log_fn)(gloo_log_level level, const char *line, void *user);

/* Sets the lowest level that is written; values out of range are clamped. The
 * default is GLOO_LOG_LEVEL from the environment (debug, info, warn, error,
 * off; read at the first line), or GLOO_LOG_WARN.
 * Errors: none. Threads: any, at any time. Ownership: none. */
GLOO_API void gloo_log_set_level(gloo_log_level level);

/* Sends lines to `fn` instead of standard error; NULL restores standard error.
 * Errors: none. Threads: before other threads use the library.
 * Ownership: `user` stays the caller's, and must stay valid as long as `fn` is
 * set. */
GLOO_API void gloo_log_set_sink(gloo_log_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
