/* Keeps signals that a write may raise away from the host program. */
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

/* Between the two, writing to a closed connection (SIGPIPE) or beyond a file
 * size limit (SIGXFSZ) fails with an error only, on this thread. */
void gli_signal_guard_enter(gli_signal_guard *guard);
void gli_signal_guard_leave(gli_signal_guard *guard);

/* Between the two, threads that are made start with all signals blocked, so
 * that the host program's handlers run on its own threads. */
void gli_signal_block_all(gli_signal_guard *guard);
void gli_signal_restore(gli_signal_guard *guard);

#endif
