/* `gloo run`: one program, started as the ranks of one job on this host. */
#ifndef GLI_TOOLS_RUN_H
#define GLI_TOOLS_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "core/error.h"

/* Why the job could not be started is `error`'s message; `exit_status` is what
 * a shell would say. */

/* ---- the program and its environment: run_environment.c ------------------ */

#define GLI_RUN_PATH_MAX 4096

/* Where `program` is: itself when it has a slash, this very command when it is
 * "gloo", else searched in PATH. False, with *exit_status 126 or 127. */
bool gli_run_find(const char *program, char path[GLI_RUN_PATH_MAX],
                  int *exit_status, gloo_error *error);

/* A port on 127.0.0.1 that was free, as was the name of the local socket that
 * goes with it (rendezvous/store/tcp/tcp_local.h). On Linux *reservation is a
 * socket that keeps others from being given it, while a server that sets
 * SO_REUSEADDR may listen on it; elsewhere it is -1. */
bool gli_run_pick_port(uint16_t *port, int *reservation, gloo_error *error);

typedef struct gli_run_environment {
  int ranks;
  uint16_t port;
  char job[33];
  char secret[65]; /* as digits; "": ranks find theirs themselves, or have none
                    */
} gli_run_environment;

/* This process's environment with the variables of `rank`. NULL when memory
 * runs out. Release with gli_run_environment_free, which wipes the secret. */
char **gli_run_environment_make(const gli_run_environment *shared, int rank);
void gli_run_environment_free(const gli_run_environment *shared,
                              char **environment);

/* ---- output by rank: run_output.c ---------------------------------------- */

/* Reads one stream of one rank and writes it to `fd` line by line, each after
 * "[rank] ". */
typedef struct gli_run_stream {
  uv_pipe_t pipe;
  int rank, fd;
  bool open;
  char *data;
  size_t used, capacity;
  void (*on_close)(void *user);
  void *user;
} gli_run_stream;

/* `on_close` comes once, when the rank has closed its end, or when nobody
 * reads `fd` any more. */
int gli_run_stream_init(gli_run_stream *stream, uv_loop_t *loop, int rank,
                        int fd);
void gli_run_stream_start(gli_run_stream *stream, void (*on_close)(void *user),
                          void *user);
/* Write what is left and close. */
void gli_run_stream_stop(gli_run_stream *stream);

/* ---- the processes: run_job.c ------------------------------------------- */

typedef struct gli_run_options {
  int ranks;
  bool prefix;
  bool bind; /* see gli_run_bind */
  int64_t grace_ms;
  int min_ranks;    /* a job of which so many are left goes on; 0: of all */
  char *path;       /* of the program */
  char **arguments; /* argv of the program, ended by NULL */
  gli_run_environment environment;
} gli_run_options;

/* Start all ranks, wait for them, and return the exit status of the job. The
 * signals below may be blocked; once they are attended to, the mask becomes
 * `mask`. */
int gli_run_job(const gli_run_options *options, const sigset_t *mask);

/* What is passed on to the ranks, unless it is ignored, as under nohup. */
enum { GLI_RUN_FORWARDED = 5 };
extern const int gli_run_forwarded[GLI_RUN_FORWARDED];
bool gli_run_ignores(int signum);

/* ---- several hosts: run_hosts.c ------------------------------------------ */

/* Print, or run, the line by which `by` (ssh, srun, mpirun, mpiexec; NULL: what
 * fits) starts the job on the hosts of `list`, which is taken apart. The exit
 * status of the command; `error` is set unless it is GLI_EXIT_OK. */
int gli_run_hosts(char *list, const char *by, bool execute,
                  gli_run_options *job, gloo_error *error);

/* ---- one session for all: run_session.c --------------------------------- */

/* Run the job in a process that leads a session of its own. Returns in both
 * processes, with the exit status. */
int gli_run_session(const gli_run_options *options);

/* ---- a rank before it is the program: run_exec.c ------------------------- */

/* On Linux: be killed when `parent` ends, however it does. False: it already
 * has. Elsewhere nothing. */
bool gli_run_follow(pid_t parent);

/* A rank starts as this command under the name below, so that it can lead a
 * process group and follow its parent, and then becomes the program. */
#define GLI_RUN_EXEC_NAME "gloo-rank"

/* argv: GLI_RUN_EXEC_NAME, process id of the parent, "bind" or "free", path,
 * argv of the program; RANK and WORLD_SIZE are set. Returns only when the
 * program cannot be run. */
int gli_run_exec(int argc, char **argv);

/* ---- ranks on cores: run_cores.c ----------------------------------------- */

/* So many neighbouring cores, of those that ranks may run on. */
typedef struct gli_run_share {
  int first, cores;
} gli_run_share;

/* Where rank belongs when there are more ranks than cores: rank 0 and the next
 * ones to the first share, and so on; as many ranks to each, and as few cores
 * as that allows. All cores, when there is one for each rank. */
gli_run_share gli_run_share_of(int rank, int ranks, int cores);

/* Would each of so many ranks, more than cores, keep to one core? */
bool gli_run_pins(int ranks);

/* Keep this process, a rank, to its share. False: any core will do. Linux only.
 */
bool gli_run_bind(int rank, int ranks);

#endif
