#include "core/signals.h"

#include <pthread.h>
#include <stddef.h>

#if defined(_WIN32)

void gli_signal_guard_enter(gli_signal_guard *guard) {
  guard->active = false;
}
void gli_signal_guard_leave(gli_signal_guard *guard) {
  guard->active = false;
}
void gli_signal_block_all(gli_signal_guard *guard) {
  guard->active = false;
}
void gli_signal_restore(gli_signal_guard *guard) {
  guard->active = false;
}

#else

static void signals_look(bool *pipe_pending, bool *size_pending) {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  *pipe_pending = sigismember(&pending, SIGPIPE) == 1;
  *size_pending = sigismember(&pending, SIGXFSZ) == 1;
}

/* Consumes one pending signal. */
static void signals_take(int signal_number) {
  sigset_t set;
  int taken;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  sigwait(&set, &taken);
}

void gli_signal_guard_enter(gli_signal_guard *guard) {
  sigset_t set;
  signals_look(&guard->pending_pipe, &guard->pending_size);
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  sigaddset(&set, SIGXFSZ);
  guard->active = pthread_sigmask(SIG_BLOCK, &set, &guard->before) == 0;
}

/* Restores the mask. Signals that were pending before stay pending; others are
 * consumed. */
void gli_signal_guard_leave(gli_signal_guard *guard) {
  bool pipe_pending, size_pending;
  if (!guard->active) return;
  signals_look(&pipe_pending, &size_pending);
  if (pipe_pending && !guard->pending_pipe) signals_take(SIGPIPE);
  if (size_pending && !guard->pending_size) signals_take(SIGXFSZ);
  pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

void gli_signal_block_all(gli_signal_guard *guard) {
  sigset_t set;
  sigfillset(&set);
  guard->active = pthread_sigmask(SIG_SETMASK, &set, &guard->before) == 0;
}

void gli_signal_restore(gli_signal_guard *guard) {
  if (guard->active) pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

#endif

int gli_thread_start(void *(*run)(void *argument), void *argument) {
  pthread_attr_t detached;
  pthread_t thread;
  gli_signal_guard signals;
  int code = pthread_attr_init(&detached);
  if (code != 0) return code;
  (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  gli_signal_block_all(&signals);
  code = pthread_create(&thread, &detached, run, argument);
  gli_signal_restore(&signals);
  (void)pthread_attr_destroy(&detached);
  return code;
}
