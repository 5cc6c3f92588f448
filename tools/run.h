/* `gloo run`: starts a program as the ranks of one job on this host. */
#ifndef GLI_TOOLS_RUN_H
#define GLI_TOOLS_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "core/error.h"

/* `error` says why the job could not be started; `exit_status` is that of a
 * shell in the same case. */

/* ---- the program and its environment: run_environment.c ------------------ */

#define GLI_RUN_PATH_MAX 4096

/* Finds the program: itself if its name has a slash, this command if it is
 * "gloo", otherwise by a search of PATH. Returns false, with *exit_status 126
 * or 127. */
bool gli_run_find(const char *program, char path[GLI_RUN_PATH_MAX],
                  int *exit_status, gloo_error *error);

/* Picks a port on 127.0.0.1 that is free, and whose local socket name
 * (rendezvous/store/tcp_local.h) is free. On Linux *reservation is a socket
 * that keeps the port from being assigned to others, while a server that sets
 * SO_REUSEADDR may listen on it; elsewhere it is -1. */
bool gli_run_pick_port(uint16_t *port, int *reservation, gloo_error *error);

typedef struct gli_run_environment {
  int ranks;
  uint16_t port;
  char job[33];
  char secret[65]; /* hexadecimal; "": ranks find theirs themselves, or have
                      none */
} gli_run_environment;

/* Returns this process's environment with the variables of `rank`, or NULL if
 * out of memory. Release it with gli_run_environment_free, which wipes the
 * secret. */
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

/* `on_close` is called once, after the rank has closed its end, or after the
 * reader of `fd` has. */
int gli_run_stream_init(gli_run_stream *stream, uv_loop_t *loop, int rank,
                        int fd);
void gli_run_stream_start(gli_run_stream *stream, void (*on_close)(void *user),
                          void *user);
/* Writes remaining data and closes. */
void gli_run_stream_stop(gli_run_stream *stream);

/* ---- the processes: run_job.c -------------------------------------------- */

typedef struct gli_run_options {
  int ranks;
  bool prefix;
  bool bind; /* see gli_run_bind */
  int64_t grace_ms;
  int min_ranks;    /* minimum of ranks with which the job goes on; 0: all */
  char *path;       /* path of the program */
  char **arguments; /* argv of the program, ended by NULL */
  gli_run_environment environment;
} gli_run_options;

/* Starts all ranks, waits for them, and returns the exit status of the job. The
 * signals below may be blocked; once handlers are installed, the mask becomes
 * `mask`. */
int gli_run_job(const gli_run_options *options, const sigset_t *mask);

/* Signals that are forwarded to the ranks, unless ignored, as under nohup. */
enum { GLI_RUN_FORWARDED = 5 };
extern const int gli_run_forwarded[GLI_RUN_FORWARDED];
bool gli_run_ignores(int signum);

/* ---- several hosts: run_hosts.c ------------------------------------------ */

/* Prints, or runs, the command by which `by` (ssh, srun, mpirun, mpiexec; NULL:
 * chosen automatically) starts the job on the hosts of `list`, which it
 * modifies. Returns the exit status of the command; `error` is set unless that
 * is GLI_EXIT_OK. */
int gli_run_hosts(char *list, const char *by, bool execute,
                  gli_run_options *job, gloo_error *error);

/* ---- one session for all: run_session.c ---------------------------------- */

/* Runs the job in a process that leads a new session. Returns in both
 * processes, with the exit status. */
int gli_run_session(const gli_run_options *options);

/* ---- a rank before it is the program: run_exec.c ------------------------- */

/* Asks Linux to kill this process when `parent` ends. Returns false if it
 * already has. Does nothing on other systems. */
bool gli_run_follow(pid_t parent);

/* A rank starts as this command under the name below, so that it can lead a
 * process group and follow its parent, and then executes the program. */
#define GLI_RUN_EXEC_NAME "gloo-rank"

/* argv: GLI_RUN_EXEC_NAME, process id of the parent, "bind" or "free", path,
 * argv of the program; RANK and WORLD_SIZE are set. Returns only if the program
 * cannot be run. */
int gli_run_exec(int argc, char **argv);

/* ---- ranks on cores: run_cores.c ----------------------------------------- */

/* A range of adjacent cores, among those that ranks may run on. */
typedef struct gli_run_share {
  int first, cores;
} gli_run_share;

/* Returns the cores of a rank if there are more ranks than cores: rank 0 and
 * the next ones get the first share, and so on; every share has the same number
 * of ranks, and as few cores as that allows. Returns all cores if there is one
 * for each rank. */
gli_run_share gli_run_share_of(int rank, int ranks, int cores);

/* Returns true if each of `ranks` ranks, more than cores, would be pinned to
 * one core. */
bool gli_run_pins(int ranks);

/* Binds this process, a rank, to its share. Returns false if it stays unbound.
 * Linux only. */
bool gli_run_bind(int rank, int ranks);

#endif
