/* Protection of the host program from signals that a write may raise. */
#ifndef GLI_CORE_SIGNALS_H
#define GLI_CORE_SIGNALS_H

#include <stdbool.h>
#if !defined(_WIN32)
#include <signal.h>
#endif

typedef struct gli_signal_guard {
#if !defined(_WIN32)
  sigset_t before;
  bool pending_pipe, pending_size;
#endif
  bool active;
} gli_signal_guard;

/* Enclose code in which a write to a closed connection (SIGPIPE) or beyond the
 * file size limit (SIGXFSZ) must only return an error, on this thread. */
void gli_signal_guard_enter(gli_signal_guard *guard);
void gli_signal_guard_leave(gli_signal_guard *guard);

/* Enclose the creation of threads: they start with all signals blocked, so that
 * the host program's handlers run on its own threads. */
void gli_signal_block_all(gli_signal_guard *guard);
void gli_signal_restore(gli_signal_guard *guard);

/* Starts a thread that no thread joins, with all signals blocked. Returns 0 or
 * an error code. */
int gli_thread_start(void *(*run)(void *argument), void *argument);

#endif
