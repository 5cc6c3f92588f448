/* Runs all ranks in one session, which is not the terminal's.
 *
 * Linux distributes the cores among sessions first (autogroup), then among the
 * processes of each. If each rank had its own session, ranks would not let each
 * other run when they yield, and oversubscribed ranks would take two to three
 * times as long. And in the session of a terminal only the foreground group may
 * read from it, while every rank leads its own group. So `gloo run` is two
 * processes: the original one waits and forwards signals, and its child leads
 * the session and runs the job. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run.h"
#include "tools/tools.h"

static volatile sig_atomic_t leader;

static void pass_on(int signum) {
  int saved = errno;
  kill((pid_t)leader, signum);
  errno = saved;
}

static void catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_ignores(gli_run_forwarded[i])) continue;
    sigaction(gli_run_forwarded[i], &action, NULL);
  }
}

static int wait_for(pid_t pid) {
  int how;
  while (waitpid(pid, &how, 0) < 0) {
    if (errno == EINTR) continue;
    fprintf(stderr, "gloo run: lost the process that runs the job: %s\n",
            strerror(errno));
    return GLI_EXIT_FAILED;
  }
  if (WIFEXITED(how)) return WEXITSTATUS(how);
  int signum = WTERMSIG(how);
  fprintf(stderr,
          "gloo run: the process that runs the job was killed by signal %d "
          "(%s)\n",
          signum, strsignal(signum));
  return 128 + signum;
}

/* Blocks signals until their handlers are installed. */
int gli_run_session(int (*work)(void *with, const sigset_t *mask), void *with) {
  signal(SIGCHLD, SIG_DFL); /* a process that ignores it gets no exit status */
  gli_run_hide();
  sigset_t forwarded, before;
  sigemptyset(&forwarded);
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    sigaddset(&forwarded, gli_run_forwarded[i]);
  }
  sigprocmask(SIG_BLOCK, &forwarded, &before);
  pid_t parent = getpid(), pid = fork();
  if (pid < 0) {
    sigprocmask(SIG_SETMASK, &before, NULL);
    fprintf(stderr, "gloo run: cannot start a process: %s\n", strerror(errno));
    return GLI_EXIT_CANNOT_RUN;
  }
  if (pid == 0) {
    if (!gli_run_follow(parent) || setsid() < 0) return GLI_EXIT_CANNOT_RUN;
    return work(with, &before);
  }
  leader = (sig_atomic_t)pid;
  catch_signals();
  sigprocmask(SIG_SETMASK, &before, NULL);
  return wait_for(pid);
}
