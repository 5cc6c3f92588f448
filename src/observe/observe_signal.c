#include "observe/observe_signal.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/cpu.h"
#include "core/error.h"

static int caught; /* 0 if there is none */
static struct sigaction handler_before;

/* State of the handler, and the number of threads in it. */
static atomic_int handler_pipe = -1, handler_threads;
static atomic_char handler_word;
static atomic_llong handler_process;

/* Writes the word. A forked child has the handler until it uses the library or
 * executes another program. */
static void signal_handle(int number) {
  (void)number;
  int code = errno;
  atomic_fetch_add(&handler_threads, 1);
  int fd = atomic_load(&handler_pipe);
  if (fd >= 0 && atomic_load(&handler_process) == (long long)getpid()) {
    const char word = atomic_load(&handler_word);
    ssize_t wrote = write(fd, &word, 1); /* full: another word is pending */
    (void)wrote;
  }
  atomic_fetch_sub(&handler_threads, 1);
  errno = code;
}

static gloo_status signal_fail(int number, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_IO, -1,
                  "cannot install a handler for signal %d: %s", number,
                  strerror(errno));
}

gloo_status gli_observe_signal_catch(int number, int pipe, char word,
                                     gloo_error *error) {
  struct sigaction action, before;
  if (caught == number) return GLOO_OK;
  if (caught != 0)
    return gli_fail(error, GLOO_ERR_BUSY, -1,
                    "GLOO_TRACE_SIGNAL has changed since the first context of "
                    "this process was created");
  memset(&action, 0, sizeof action);
  action.sa_handler = signal_handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, NULL, &before) != 0) return signal_fail(number, error);
  bool ours = (before.sa_flags & SA_SIGINFO) == 0 &&
              (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN);
  if (!ours)
    return gli_fail(error, GLOO_ERR_BUSY, -1,
                    "GLOO_TRACE_SIGNAL names a signal for which the program "
                    "has a handler; use the other one of USR1 and USR2");
  handler_before = before;
  atomic_store(&handler_word, word);
  atomic_store(&handler_process, (long long)getpid());
  atomic_store(&handler_pipe, pipe);
  if (sigaction(number, &action, NULL) != 0) {
    atomic_store(&handler_pipe, -1);
    return signal_fail(number, error);
  }
  caught = number;
  return GLOO_OK;
}

void gli_observe_signal_release(void) {
  struct sigaction now;
  if (caught == 0) return;
  if (sigaction(caught, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
      now.sa_handler == signal_handle)
    (void)sigaction(caught, &handler_before, NULL);
  atomic_store(&handler_pipe, -1);
  while (atomic_load(&handler_threads) > 0) gli_cpu_yield();
  caught = 0;
}

void gli_observe_signal_forget(void) {
  atomic_store(&handler_threads, 0);
  gli_observe_signal_release();
}
