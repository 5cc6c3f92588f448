/* For PR_SET_PDEATHSIG; elsewhere this is only an exec. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run.h"
#include "tools/tools.h"

#ifdef __linux__
#include <sys/prctl.h>

/* Die with `gloo run`, however it dies. It may be dead already. */
static bool follow_parent(const char *parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  return (long)getppid() == strtol(parent, NULL, 10);
}
#else
static bool follow_parent(const char *parent) {
  return parent != NULL;
}
#endif

int gli_run_exec(int argc, char **argv) {
  if (argc < 4) return GLI_EXIT_USAGE;
  if (!follow_parent(argv[1])) return GLI_EXIT_CANNOT_RUN;
  execv(argv[2], argv + 3);
  int reason = errno;
  const char *rank = getenv("RANK");
  const char *hint = "";
  if (reason == ENOENT) hint = " (the interpreter that it names is missing)";
  if (reason == ENOEXEC) hint = " (a script must start with #!)";
  if (rank != NULL && strcmp(rank, "0") == 0) { /* one voice for all */
    fprintf(stderr, "gloo run: cannot run '%s': %s%s\n", argv[2],
            strerror(reason), hint);
  }
  return reason == ENOENT ? GLI_EXIT_NOT_FOUND : GLI_EXIT_CANNOT_RUN;
}
