/* Uses PR_SET_PDEATHSIG on Linux; elsewhere this is only an exec. */
#if GLI_LINUX
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/environment.h"
#include "tools/run.h"
#include "tools/tools.h"

#if GLI_LINUX
#include <sys/prctl.h>

bool gli_run_follow(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  return getppid() == parent;
}

void gli_run_hide(void) {
  (void)prctl(PR_SET_DUMPABLE, 0);
}
#else
bool gli_run_follow(pid_t parent) {
  return parent > 0;
}

void gli_run_hide(void) {}
#endif

/* ---- starting, and the process group of a rank --------------------------- */

int gli_run_start_make(gli_run_start *how, const gli_run_options *options) {
  static char name[] = GLI_RUN_EXEC_NAME, bind[] = "bind", leave[] = "free";
  size_t count = 0, size = sizeof how->file;
  while (options->arguments[count] != NULL) count++;
  int result = uv_exepath(how->file, &size);
  if (result != 0) return result;
  how->arguments = calloc(count + 5, sizeof *how->arguments);
  if (how->arguments == NULL) return UV_ENOMEM;
  snprintf(how->parent, sizeof how->parent, "%ld", (long)getpid());
  how->arguments[0] = name;
  how->arguments[1] = how->parent;
  how->arguments[2] = options->bind ? bind : leave;
  how->arguments[3] = options->path;
  memcpy(how->arguments + 4, options->arguments,
         count * sizeof *how->arguments);
  return 0;
}

/* Signals only the rank if it has just started and leads no group yet. */
void gli_run_group_signal(uv_process_t *process, int signum) {
  if (kill((pid_t)-process->pid, signum) != 0)
    kill((pid_t)process->pid, signum);
}

bool gli_run_group_left(int pid) {
  return kill((pid_t)-pid, 0) == 0;
}

void gli_run_group_kill(int pid) {
  kill((pid_t)-pid, SIGKILL);
}

int gli_run_exec(int argc, char **argv) {
  if (argc < 5) return GLI_EXIT_USAGE;
  pid_t parent = (pid_t)strtol(argv[1], NULL, 10);
  if (!gli_run_follow(parent) || setpgid(0, 0) != 0) return GLI_EXIT_CANNOT_RUN;
  const char *rank = gli_environment_read("LOCAL_RANK"),
             *ranks = gli_environment_read("LOCAL_WORLD_SIZE");
  if (strcmp(argv[2], "bind") == 0 && rank != NULL && ranks != NULL)
    (void)gli_run_bind(atoi(rank), atoi(ranks));
  if (strcmp(argv[2], "nocore") == 0)
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  execv(argv[3], argv + 4);
  int reason = errno;
  const char *hint = "";
  if (reason == ENOENT) hint = " (its interpreter is missing)";
  if (reason == ENOEXEC) hint = " (a script must start with #!)";
  if (rank != NULL && strcmp(rank, "0") == 0) { /* one rank reports for
                                                   all of its host */
    fprintf(stderr, "gloo run: cannot run '%s': %s%s\n", argv[3],
            strerror(reason), hint);
  }
  return reason == ENOENT ? GLI_EXIT_NOT_FOUND : GLI_EXIT_CANNOT_RUN;
}
