/* What a context has done of late: for a program that hangs, or has failed, and
 * whose ranks are to say how far each has come.
 *
 * Every context remembers its last operations, with those of its groups: what
 * was called, with how much, when it was started and when it ended, and of one
 * that is under way for which ranks it waits. 1,024 of them, or as many as
 * GLOO_TRACE_OPERATIONS says. It costs some 10 ns an operation, and is always
 * on. `gloo trace` reads what all ranks have to tell, and says which of them is
 * behind, or called something else.
 *
 * A program has three ways to it. gloo_context_trace, for programs that ask
 * themselves. Where `trace_directory` in gloo_context_options or GLOO_TRACE_DIR
 * names a directory, a file is written there when the context fails, for
 * whatever reason; all ranks of it do so, for all hear of it. And with
 * GLOO_TRACE_SIGNAL as well, whenever the process gets that signal, whatever
 * its threads are doing. A file is called gloo-trace-rank3-pid4711.json; those
 * that come after it have -2, -3 and so on behind the process, so that none
 * takes the place of another. Only the user can read it. The signal ends calls
 * such as sleep() and nanosleep() on the thread that it reaches.
 *
 * From outside, `gloo trace --pid` and `gloo top` ask every process that has a
 * context, at a Unix socket that only its user can open; with GLOO_OBSERVE=0
 * there is none.
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

/* Takes a piece of text, which has no 0 at its end and is valid only for this
 * call. Returns 0; anything else: no more. No lock is held meanwhile, so it may
 * call any function. */
typedef int (*gloo_trace_fn)(void *user, const char *text, size_t bytes);

/* Write what the context remembers, and what its groups do, as JSON; of a
 * group, what all of its family do. docs/formats.md lists the fields. It works
 * as well on a context that has failed. Errors: GLOO_ERR_INVALID (NULL, or in
 * a custom operation), GLOO_ERR_IO (`write` did not want it all),
 * GLOO_ERR_NO_MEMORY, GLOO_ERR_FORKED. Threads:
 * any; other threads' calls on the device wait for as long as it takes to copy
 * the records, well below a millisecond. Ownership: everything stays the
 * caller's. Cost: nothing is sent. */
GLOO_API gloo_status gloo_context_trace(gloo_context *context,
                                        gloo_trace_fn write, void *user,
                                        gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
