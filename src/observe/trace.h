/* Traces of contexts as text, returned by a call, or written to a file when a
 * context fails or a signal arrives. */
#ifndef GLI_OBSERVE_TRACE_H
#define GLI_OBSERVE_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "core/run_directory.h"
#include "engine/engine.h"
#include "gloo_c/context.h"

/* Trace settings of options and environment. They are read before a context is
 * created, so that a mistake fails early. */
typedef struct gli_trace_settings {
  uint64_t kept;                  /* number of operations */
  char directory[GLI_PATH_BYTES]; /* absolute; "" if files are off */
  int signal;                     /* 0 if there is none */
  const char *metrics; /* directory of a socket, or NULL; the caller's */
  bool listed;         /* true to list it at the process's socket */
} gli_trace_settings;

gloo_status gli_trace_read(const gloo_context_options *options,
                           gli_trace_settings *settings, gloo_error *error);
/* Begin for a context that other threads do not use yet, and end before it is
 * destroyed, whether it began or not. */
gloo_status gli_trace_begin(gloo_context *context,
                            const gli_trace_settings *settings,
                            gloo_error *error);
void gli_trace_end(gloo_context *context);

/* Reasons that a trace states. */
#define GLI_TRACE_OF_ERROR "error"
#define GLI_TRACE_OF_SIGNAL "signal"
#define GLI_TRACE_OF_CALL "call"
#define GLI_TRACE_OF_READER "reader"

/* Prints one JSON object, on several lines (trace_text.c). */
void gli_trace_print(FILE *to, const gli_snapshot *snapshot,
                     const char *reason);

/* Writes a trace to a new file there (trace_file.c), and logs a failure. Frees
 * the snapshot; NULL: there was no memory for it. */
void gli_trace_save(const char *directory, gli_snapshot *snapshot,
                    const char *reason);
/* A copy to be saved later (trace_file.c), and its directory. */
typedef struct gli_trace_copy {
  struct gli_trace_copy *next;
  gli_snapshot *snapshot;
  char directory[];
} gli_trace_copy;
/* Returns NULL if there is no memory for it, which is logged. */
gli_trace_copy *gli_trace_copy_take(gloo_context *context,
                                    const char *directory);
/* Writes the copies to files, and frees them. */
void gli_trace_copies_save(gli_trace_copy *first, const char *reason);
/* Makes the directory's path absolute, so that the program may change its
 * working directory. GLOO_ERR_INVALID holds the reason if no file can be made
 * there. */
gloo_status gli_trace_find_directory(const char *directory,
                                     char absolute[GLI_PATH_BYTES],
                                     gloo_error *error);

#endif
