/* `gloo run` on Windows: a job object instead of process groups and a session,
 * Ctrl-C instead of signals (docs/portability.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "tools/run.h"
#include "tools/run_control.h"
#include "tools/tools.h"

#undef BOOL

/* ---- the program --------------------------------------------------------- */

/* Returns the path of a program, with .exe if its name has no ending, which the
 * caller frees; NULL if it was not found. */
static char *find_program(const char *program) {
  wchar_t *name = gli_windows_wide(program), path[GLI_RUN_PATH_MAX];
  wchar_t *directories = NULL;
  const char *list = gli_environment_read("PATH");
  bool placed = strpbrk(program, "/\\:") != NULL;
  if (list != NULL && !placed) directories = gli_windows_wide(list);
  DWORD n = 0;
  if (name != NULL && *name != 0 && (placed || directories != NULL))
    n = SearchPathW(directories, name, L".exe", GLI_RUN_PATH_MAX, path, NULL);
  DWORD kind = n > 0 && n < GLI_RUN_PATH_MAX ? GetFileAttributesW(path)
                                             : INVALID_FILE_ATTRIBUTES;
  free(directories);
  free(name);
  bool found =
      kind != INVALID_FILE_ATTRIBUTES && (kind & FILE_ATTRIBUTE_DIRECTORY) == 0;
  return found ? gli_windows_narrow(path) : NULL;
}

bool gli_run_find(const char *program, char path[GLI_RUN_PATH_MAX],
                  int *exit_status, gloo_error *error) {
  size_t size = GLI_RUN_PATH_MAX;
  if (strcmp(program, "gloo") == 0 && uv_exepath(path, &size) == 0) return true;
  char *found = find_program(program);
  bool fits = found != NULL && strlen(found) < GLI_RUN_PATH_MAX;
  if (fits) memcpy(path, found, strlen(found) + 1);
  free(found);
  if (fits) return true;
  *exit_status = GLI_EXIT_NOT_FOUND;
  gli_fail(
      error, GLOO_ERR_NOT_FOUND, -1, "cannot run '%s': %s", program,
      strpbrk(program, "/\\:") != NULL ? "no such file" : "not found in PATH");
  return false;
}

/* ---- ranks --------------------------------------------------------------- */

int gli_run_start_make(gli_run_start *how, const gli_run_options *options) {
  size_t count = 0;
  while (options->arguments[count] != NULL) count++;
  (void)snprintf(how->file, sizeof how->file, "%s", options->path);
  how->arguments = calloc(count + 1, sizeof *how->arguments);
  if (how->arguments == NULL) return UV_ENOMEM;
  memcpy(how->arguments, options->arguments, count * sizeof *how->arguments);
  return 0;
}

/* The console sends Ctrl-C to the ranks itself. */
void gli_run_group_signal(uv_process_t *process, int signum) {
  if (signum == SIGTERM || signum == SIGKILL)
    (void)uv_process_kill(process, signum);
}

bool gli_run_group_left(int pid) {
  (void)pid;
  return false;
}

void gli_run_group_kill(int pid) {
  (void)pid;
}

/* The job object has this process and all that it starts, from their first
 * instruction. Its only handle is closed when this process ends, in whatever
 * way, which ends the others. */
int gli_run_session(int (*work)(void *with, const sigset_t *mask), void *with) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits;
  memset(&limits, 0, sizeof limits);
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  HANDLE job = CreateJobObjectW(NULL, NULL);
  if (job != NULL &&
      SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits,
                              sizeof limits) &&
      AssignProcessToJobObject(job, GetCurrentProcess()))
    return work(with, &(sigset_t){0});
  (void)gli_windows_fail();
  (void)fprintf(stderr,
                "gloo run: cannot put the ranks into a job object: %s\n",
                strerror(errno));
  return GLI_EXIT_CANNOT_RUN;
}

int gli_run_exec(int argc, char **argv) {
  (void)argc;
  (void)argv;
  return GLI_EXIT_USAGE; /* ranks are no processes of this command */
}

/* ---- signals ------------------------------------------------------------- */

const char *gli_windows_strsignal(int signum) {
  return signum == SIGINT    ? "Ctrl-C"
         : signum == SIGTERM ? "Terminated"
         : signum == SIGKILL ? "Killed"
                             : "unknown";
}

static HANDLE interrupted;

static BOOL WINAPI on_control(DWORD event) {
  return event == CTRL_C_EVENT && SetEvent(interrupted);
}

int sigwait(const sigset_t *set, int *signum) {
  (void)set;
  interrupted = CreateEventW(NULL, FALSE, FALSE, NULL);
  if (interrupted == NULL || !SetConsoleCtrlHandler(on_control, TRUE))
    return ENOMEM;
  (void)WaitForSingleObject(interrupted, INFINITE);
  *signum = SIGINT;
  return 0;
}

/* ---- other hosts --------------------------------------------------------- */

static const char one_host[] =
    "gloo run starts ranks on one host only on Windows; on each host, set "
    "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and start the program";

bool gli_run_rsh_parse(const char *text, gli_run_rsh *rsh, int *exit_status,
                       gloo_error *error) {
  (void)text;
  memset(rsh, 0, sizeof *rsh);
  *exit_status = GLI_EXIT_USAGE;
  gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "--hosts, --hostfile: %s",
           one_host);
  return false;
}

void gli_run_rsh_free(gli_run_rsh *rsh) {
  (void)rsh;
}

int gli_run_control(void *plan, const sigset_t *mask) {
  (void)plan;
  (void)mask;
  return GLI_EXIT_USAGE; /* gli_run_rsh_parse has failed */
}

int gli_run_agent(void) {
  (void)fprintf(stderr, "gloo run: --agent: %s\n", one_host);
  return GLI_EXIT_USAGE;
}

int gli_run_by(const char *by, bool execute, const gli_run_hosts *hosts,
               const gli_run_options *job, gloo_error *error) {
  (void)execute;
  (void)hosts;
  (void)job;
  gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "--by %s: %s", by, one_host);
  return GLI_EXIT_USAGE;
}
