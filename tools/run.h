/* `gloo run`: starts a program as the ranks of one job on this host. */
#ifndef GLI_TOOLS_RUN_H
#define GLI_TOOLS_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "core/error.h"
#include "gloo_c/store.h"
#include "tools/run_frame.h"
#include "tools/run_policy.h"

/* `error` says why the job could not be started; `exit_status` is that of a
 * shell in the same case. */

/* ---- the program: run_find.c --------------------------------------------- */

#define GLI_RUN_PATH_MAX 4096

/* Finds the program: itself if its name has a slash, this command if it is
 * "gloo", otherwise by a search of PATH. Returns false, with *exit_status 126
 * or 127. */
bool gli_run_find(const char *program, char path[GLI_RUN_PATH_MAX],
                  int *exit_status, gloo_error *error);

/* ---- its environment: run_environment.c ---------------------------------- */

/* Picks a port that is free on 127.0.0.1, and whose local socket name
 * (rendezvous/store/tcp_local.h) is free; with `everywhere` a port that is free on
 * all interfaces, in GLOO_PORT_RANGE if that is set. On Linux *reservation is a
 * socket that keeps the port from being assigned to others, while a server that
 * sets SO_REUSEADDR may listen on it; elsewhere it is -1. */
bool gli_run_pick_port(bool everywhere, uint16_t *port, int *reservation,
                       gloo_error *error);

typedef struct gli_run_environment {
  int ranks;       /* of the job */
  int first, here; /* first rank of this host, and their number */
  uint16_t port;
  const char *master; /* MASTER_ADDR */
  char job[33];
  char store[320];  /* GLOO_STORE; "": as in this process */
  char secret[129]; /* hexadecimal; "": ranks find theirs themselves, or have
                      none */
} gli_run_environment;

/* A process: its rank, and whether it joins a running job (GLOO_JOIN). */
typedef struct gli_run_place {
  int rank;
  bool joins;
} gli_run_place;

/* Returns this process's environment with the variables of a rank, or NULL if
 * out of memory. Release it with gli_run_environment_free, which wipes the
 * secret. */
char **gli_run_environment_make(const gli_run_environment *shared,
                                const gli_run_place *place);
void gli_run_environment_free(const gli_run_environment *shared,
                              const gli_run_place *place, char **environment);

/* Returns this environment without the variables of gloo_c, which may hold
 * secrets or choose other ways, and with the variable `first` unless that is
 * NULL; NULL if out of memory. The array is allocated, the strings are
 * borrowed. */
char **gli_run_plain_environment(char *first);

/* ---- output by rank: run_output.c ---------------------------------------- */

/* Reads one stream of one rank, and passes on complete lines. */
typedef struct gli_run_stream {
  uv_pipe_t pipe;
  int rank, fd;
  bool open;
  char *data;
  size_t used, capacity;
  /* Takes whole lines, at most GLI_RUN_OUTPUT_MAX bytes. A longer line comes in
   * pieces, and the last one may lack its end. Returns false if the reader of
   * the output is gone. */
  bool (*write)(void *user, int rank, int fd, const char *data, size_t bytes);
  /* Called once, after the rank has closed its end, or after the reader has. */
  void (*on_close)(void *user);
  void *user;
} gli_run_stream;

int gli_run_stream_init(gli_run_stream *stream, uv_loop_t *loop, int rank,
                        int fd);
/* Starts to read; `write`, `on_close` and `user` are set. */
void gli_run_stream_start(gli_run_stream *stream);
void gli_run_stream_pause(gli_run_stream *stream, bool pause);
/* Passes on an unfinished line. */
void gli_run_stream_flush(gli_run_stream *stream);
/* Passes on remaining data and closes. */
void gli_run_stream_stop(gli_run_stream *stream);

/* Returns the lines of `data`, each after `prefix` and with a newline, in an
 * allocated text of *made bytes; NULL if out of memory. */
char *gli_run_prefixed(const char *prefix, const char *data, size_t bytes,
                       size_t *made);
/* Writes all bytes, and waits while the descriptor takes none. Returns false,
 * with errno, if it cannot be written: its reader is gone, the disk is full. */
bool gli_run_write_all(int fd, const char *data, size_t bytes);
/* Reports why standard output could not be written (errno), unless its reader
 * has gone, and returns the status of a failure in place of success. */
int gli_run_output_status(int code, int status);

/* ---- the processes of this host ------------------------------------------ */

typedef struct gli_run_options {
  int ranks; /* on this host */
  bool prefix;
  bool piped; /* true to read the ranks' output; else they inherit ours */
  bool input; /* true if rank 0 reads what gli_run_job_input passes */
  bool bind;  /* see gli_run_bind */
  int64_t grace_ms;
  int min_ranks;    /* minimum of ranks with which the job goes on; 0: all */
  int max_restarts; /* number of processes that may take the place of others */
  bool joins;       /* all ranks join a running job */
  bool serves;      /* see gli_run_store_serve; `store` is the address */
  const char *store;
  char *path;       /* path of the program */
  char **arguments; /* argv of the program, ended by NULL */
  gli_run_environment environment;
} gli_run_options;

/* ---- processes: run_exec.c, windows/run.c -------------------------------- */

/* Describes to libuv how a rank starts. The caller frees `arguments`, an array
 * of borrowed strings. */
typedef struct gli_run_start {
  char file[GLI_RUN_PATH_MAX], parent[32];
  char **arguments;
} gli_run_start;

/* Returns 0, or an error of libuv. */
int gli_run_start_make(gli_run_start *how, const gli_run_options *options);
/* Signals a rank that runs, and the processes that it has started. On Windows
 * SIGTERM and SIGKILL end the rank alone, and others do nothing. */
void gli_run_group_signal(uv_process_t *process, int signum);
/* Returns true if a rank has ended, but processes that it started have not. On
 * Windows these are not known, and end with this process. */
bool gli_run_group_left(int pid);
void gli_run_group_kill(int pid);

/* ---- the job: run_job.c -------------------------------------------------- */

typedef struct gli_run_job gli_run_job;

/* Calls from the job to its owner. */
typedef struct gli_run_events {
  void (*ended)(void *user, const gli_run_end *end);
  /* See gli_run_stream; only if `piped`. */
  bool (*output)(void *user, int rank, int fd, const char *data, size_t bytes);
  /* Rank 0 has taken its input, or will not. */
  void (*taken)(void *user);
  /* Nothing of the job is left; the owner may free it. */
  void (*done)(void *user);
} gli_run_events;

/* Returns a job without processes, or NULL if out of memory. `options` and
 * `events` are borrowed. */
gli_run_job *gli_run_job_open(uv_loop_t *loop, const gli_run_options *options,
                              const gli_run_events *events, void *user);
/* Starts the ranks. Returns 0, or an error of libuv, in which case *failed is
 * the rank that could not be started, and earlier ones run. `done` follows in
 * both cases. */
int gli_run_job_start(gli_run_job *job, int *failed);
/* Starts another process in place of a rank that has ended, which joins the
 * others. At most `max_restarts` times. Returns 0, or an error of libuv. */
int gli_run_job_replace(gli_run_job *job, int rank);
int gli_run_job_running(const gli_run_job *job);
void gli_run_job_free(gli_run_job *job);

bool gli_run_job_runs(const gli_run_job *job, int rank);
int gli_run_job_pid(const gli_run_job *job, int rank);
/* Signals the process groups of all ranks that run. */
void gli_run_job_signal(gli_run_job *job, int signum);
void gli_run_job_pause(gli_run_job *job, bool pause);
void gli_run_job_flush(gli_run_job *job);
/* Closes the streams of one descriptor (1 or 2), so that ranks learn that it
 * has no reader. */
void gli_run_job_close_output(gli_run_job *job, int fd);
/* Passes bytes to the standard input of rank 0, if `input`; 0 bytes end it.
 * Calls `taken` afterwards; until then it must not be called again. */
void gli_run_job_input(gli_run_job *job, const void *data, size_t bytes);

/* ---- a job of one host: run_local.c -------------------------------------- */

/* Starts all ranks, waits for them, and returns the exit status of the job. The
 * forwarded signals may be blocked; once handlers are installed, the mask
 * becomes `mask`. `options` is a gli_run_options. */
int gli_run_local(void *options, const sigset_t *mask);

/* ---- the store for newcomers: run_store.c -------------------------------- */

/* Serves a store at `address`, HOST:PORT (NULL: a free port of 127.0.0.1), and
 * sets its URL in `environment`. The store requires the job's secret. */
gloo_status gli_run_store_serve(const char *address,
                                gli_run_environment *environment,
                                gloo_store **store, gloo_error *error);

/* ---- one session for all: run_session.c, windows/run.c ------------------- */

/* Calls `work` in a process that leads a new session, with the forwarded
 * signals blocked. Returns in both processes, with the exit status. On Windows
 * this process calls it, in a job object, so that the ranks end with it. */
int gli_run_session(int (*work)(void *with, const sigset_t *mask), void *with);

/* ---- a rank before it is the program: run_exec.c ------------------------- */

/* Asks Linux to kill this process when `parent` ends. Returns false if it
 * already has. Does nothing on other systems. */
bool gli_run_follow(pid_t parent);

/* Keeps the memory of this process, which has the secret, out of core files and
 * away from debuggers until it executes another program. Linux only. */
void gli_run_hide(void);

/* A rank starts as this command under the name below, so that it can lead a
 * process group and follow its parent, and then executes the program. */
#define GLI_RUN_EXEC_NAME "gloo-rank"

/* argv: GLI_RUN_EXEC_NAME, process id of the parent, "bind", "free" or "nocore"
 * (for programs that carry a secret: no core files), path, argv of the program;
 * for "bind" LOCAL_RANK and LOCAL_WORLD_SIZE are set. Returns only if the
 * program cannot be run. */
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
