/* The part of POSIX that the command uses beyond src/windows/posix.h. meson
 * includes this header first in its sources. */
#ifndef GLI_TOOLS_WINDOWS_POSIX_H
#define GLI_TOOLS_WINDOWS_POSIX_H

#include <signal.h>

#include "windows/posix.h"

/* Names of signals that Windows does not send: a console sends SIGINT alone
 * (Ctrl-C). */
enum { SIGPIPE = 13, SIGCONT = 18 };
enum { SIG_BLOCK, SIG_SETMASK };
typedef uint64_t sigset_t;

struct sigaction {
  void (*sa_handler)(int);
};

const char *gli_windows_strsignal(int signum);
#define strsignal gli_windows_strsignal
/* Waits for Ctrl-C, whatever the set is. */
int sigwait(const sigset_t *set, int *signum);

static inline int sigemptyset(sigset_t *set) {
  *set = 0;
  return 0;
}
static inline int sigaddset(sigset_t *set, int signum) {
  *set |= UINT64_C(1) << signum;
  return 0;
}
static inline int sigprocmask(int how, const sigset_t *set, sigset_t *before) {
  (void)how;
  (void)set;
  (void)before;
  return 0;
}
/* Fails: no signal is ignored. */
static inline int sigaction(int signum, const struct sigaction *next,
                            struct sigaction *before) {
  (void)signum;
  (void)next;
  (void)before;
  errno = ENOSYS;
  return -1;
}
static inline int setrlimit(int resource, const struct rlimit *limit) {
  (void)resource;
  (void)limit;
  return 0;
}

struct statvfs {
  uint64_t f_bavail, f_frsize;
};
/* Fails: there is no /dev/shm. */
static inline int statvfs(const char *path, struct statvfs *of) {
  (void)path;
  (void)of;
  errno = ENOENT;
  return -1;
}

/* Names of Windows that the command has for its own. */
#define POINTS gli_own_POINTS
#undef FAR
#undef LONG
#undef SHORT

#endif
