/* Forked children of tests. cmocka turns a fatal signal into the failure of the
 * test that runs, and goes on with the next one. In a child that would run the
 * rest of the program's tests once more, each with children that crash as well;
 * so a child dies by its signal. */
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static void end_by_signal(void) {
  static const int fatal[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
    (void)signal(fatal[i], SIG_DFL);
}

__attribute__((constructor)) static void guard_children(void) {
  (void)pthread_atfork(NULL, NULL, end_by_signal);
}
