/* Traces: the last operations of a context, to find the rank that is behind
 * when a program hangs or has failed.
 *
 * Every context records its last operations and those of its groups: the call,
 * its size, its start and end times, and for a pending operation the ranks that
 * it waits for. It keeps 1,024 operations, or GLOO_TRACE_OPERATIONS. Recording
 * is always on and costs about 10 ns per operation. `gloo trace` compares the
 * traces of all ranks and names the rank that is behind or made a different
 * call.
 *
 * A program can get a trace in three ways. It can call gloo_context_trace. With
 * `trace_directory` in gloo_context_options or GLOO_TRACE_DIR, a file is
 * written to that directory when the context fails, on all ranks. With
 * GLOO_TRACE_SIGNAL as well, a file is written whenever the process receives
 * that signal, whatever its threads are doing. Files are named
 * gloo-trace-rank3-pid4711.json; later ones have -2, -3 and so on after the
 * process id, so no file replaces another. Only the user can read them. The
 * signal interrupts calls such as sleep() and nanosleep() on the thread that
 * receives it.
 *
 * From outside, `gloo trace --pid` and `gloo top` query every process with a
 * context, through a Unix socket that only its user can open; GLOO_OBSERVE=0
 * disables it.
 *
 * Example:
 *
 *     static int to_stderr(void *user, const char *text, size_t bytes) {
 *       (void)user;
 *       return fwrite(text, 1, bytes, stderr) == bytes ? 0 : 1;
 *     }
 *
 *     gloo_status show_trace(gloo_context *context, gloo_error *error) {
 *       return gloo_context_trace(context, to_stderr, NULL, error);
 *     } */
#ifndef GLOO_C_TRACE_H
#define GLOO_C_TRACE_H

#include <stddef.h>

#include "gloo_c/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Receives a piece of text, which is not zero-terminated and valid only during
 * the call. Returns 0 to continue; any other value ends the output. No lock is
 * held, so it may call any function. */
typedef int (*gloo_trace_fn)(void *user, const char *text, size_t bytes);

/* Writes the trace of the context and its groups as JSON; for a group, that of
 * its whole family. docs/formats.md lists the fields. It also works on a failed
 * context.
 * Errors: GLOO_ERR_INVALID (NULL, or in a custom operation), GLOO_ERR_IO
 * (`write` returned nonzero), GLOO_ERR_NO_MEMORY, GLOO_ERR_FORKED.
 * Threads: any; calls of other threads on the device wait while the records are
 * copied, well below a millisecond.
 * Ownership: everything stays the caller's.
 * Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_trace(gloo_context *context,
                                        gloo_trace_fn write, void *user,
                                        gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
