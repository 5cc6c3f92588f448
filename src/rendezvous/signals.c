#include "rendezvous/signals.h"

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

static bool is_pending(int signal_number) {
  sigset_t pending;
  if (sigpending(&pending) != 0) return false;
  return sigismember(&pending, signal_number) == 1;
}

/* Take a signal that was raised meanwhile, and only that one, out again. */
static void take(int signal_number, bool was_pending) {
  sigset_t set;
  int taken;
  if (was_pending || !is_pending(signal_number)) return;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  sigwait(&set, &taken);
}

void gli_signal_guard_enter(gli_signal_guard *guard) {
  sigset_t set;
  guard->pending_pipe = is_pending(SIGPIPE);
  guard->pending_size = is_pending(SIGXFSZ);
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  sigaddset(&set, SIGXFSZ);
  guard->active = pthread_sigmask(SIG_BLOCK, &set, &guard->before) == 0;
}

void gli_signal_guard_leave(gli_signal_guard *guard) {
  if (!guard->active) return;
  take(SIGPIPE, guard->pending_pipe);
  take(SIGXFSZ, guard->pending_size);
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
