#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory_left.h"
#include "tools/run.h"
#include "tools/tools.h"

enum { TICK_MS = 10, MIN_TERM_MS = 500 };

typedef struct rank_process {
  uv_process_t process;
  gli_run_stream out, err;
  struct job *job;
  int rank, pid;
  bool running;
  bool group_left;     /* the rank ended, but processes that it started have
                          not */
  uint64_t group_ends; /* time at which these are killed, in ms of the loop */
} rank_process;

typedef enum phase {
  RUNNING,
  GRACE,    /* a rank failed; the others may still print errors */
  STOPPING, /* the ranks got SIGTERM */
  KILLED
} phase;

const int gli_run_forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

typedef struct job {
  const gli_run_options *options;
  uv_loop_t loop;
  uv_timer_t tick;
  uv_signal_t signals[GLI_RUN_FORWARDED];
  bool signal_used[GLI_RUN_FORWARDED];
  bool was_forwarded[GLI_RUN_FORWARDED];
  int interrupts;
  rank_process *ranks;
  int started, running, streams_open;
  phase phase;
  uint64_t phase_ends;
  uint64_t drain_ends;
  int exit_status, also_failed;
  int lost;           /* ranks lost without ending the job */
  uint64_t oom_kills; /* the count of gli_memory_kills so far */
  bool failed, finished;
} job;

static uint64_t grace(const job *j) {
  return (uint64_t)j->options->grace_ms;
}

/* ---- ending -------------------------------------------------------------- */

/* Signals a rank's process group, or only the rank if it has just started and
 * leads none yet. */
static void signal_rank(const rank_process *r, int signum) {
  if (!r->running) return;
  if (kill((pid_t)-r->pid, signum) != 0) kill((pid_t)r->pid, signum);
}

static void signal_all(job *j, int signum) {
  for (int i = 0; i < j->started; i++) signal_rank(&j->ranks[i], signum);
}

static bool groups_left(const job *j) {
  for (int i = 0; i < j->started; i++) {
    if (j->ranks[i].group_left) return true;
  }
  return false;
}

/* Ends the loop once nothing of the job is left. */
static void finish_if_done(job *j) {
  if (j->finished || j->running > 0) return;
  if (j->streams_open > 0 || groups_left(j)) return;
  j->finished = true;
  uv_close((uv_handle_t *)&j->tick, NULL);
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (j->signal_used[i]) uv_close((uv_handle_t *)&j->signals[i], NULL);
  }
}

static void print_running(const job *j, const char *what) {
  fprintf(stderr, "gloo run: %s rank%s", what, j->running == 1 ? "" : "s");
  int shown = 0;
  for (int i = 0; i < j->started; i++) {
    if (!j->ranks[i].running) continue;
    if (shown < 16) fprintf(stderr, "%s %d", shown == 0 ? "" : ",", i);
    shown++;
  }
  if (shown > 16) fprintf(stderr, " and %d more", shown - 16);
  fprintf(stderr, "\n");
}

static void next_phase(job *j, uint64_t now) {
  if (j->phase == GRACE) {
    print_running(j, "stopping");
    signal_all(j, SIGTERM);
    signal_all(j, SIGCONT);
    j->phase = STOPPING;
    j->phase_ends = now + (grace(j) > MIN_TERM_MS ? grace(j) : MIN_TERM_MS);
    return;
  }
  print_running(j, "killing");
  signal_all(j, SIGKILL);
  j->phase = KILLED;
}

static void check_group(rank_process *r, uint64_t now) {
  if (!r->group_left) return;
  if (kill((pid_t)-r->pid, 0) != 0) {
    r->group_left = false;
    return;
  }
  if (now < r->group_ends) return;
  kill((pid_t)-r->pid, SIGKILL);
  r->group_left = false; /* killed; reaping it is not our task */
}

/* Descendants that left the group may hold a stream open forever. */
static void drop_streams(job *j) {
  for (int i = 0; i < j->started; i++) {
    gli_run_stream_stop(&j->ranks[i].out);
    gli_run_stream_stop(&j->ranks[i].err);
  }
}

static void on_tick(uv_timer_t *timer) {
  job *j = timer->data;
  uint64_t now = uv_now(&j->loop);
  for (int i = 0; i < j->started; i++) check_group(&j->ranks[i], now);
  bool waiting = j->phase == GRACE || j->phase == STOPPING;
  if (waiting && j->running > 0 && now >= j->phase_ends) next_phase(j, now);
  if (j->running == 0 && !groups_left(j) && now >= j->drain_ends) {
    drop_streams(j);
  }
  finish_if_done(j);
}

static void need_ticks(job *j) {
  if (!uv_is_active((uv_handle_t *)&j->tick)) {
    uv_timer_start(&j->tick, on_tick, TICK_MS, TICK_MS);
  }
}

/* ---- a rank ends --------------------------------------------------------- */

static void begin_grace(job *j, int exit_status) {
  j->failed = true;
  j->exit_status = exit_status;
  j->phase = GRACE;
  j->phase_ends = uv_now(&j->loop) + grace(j);
  need_ticks(j);
}

static bool was_forwarded(const job *j, int signum) {
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_forwarded[i] == signum) return j->was_forwarded[i];
  }
  return false;
}

typedef struct memory_text {
  char text[512];
} memory_text;

/* Returns the clause on a rank that has ended since the kernel killed a process
 * for lack of memory, or "". */
static memory_text out_of_memory(job *j, int signum) {
  memory_text clause = {""};
  gli_memory_kills now = gli_memory_kills_read("");
  uint64_t before = j->oom_kills;
  j->oom_kills = now.kills;
  if (!now.known || now.kills <= before) return clause;
  const char *what = signum == SIGKILL ? "it" : "a process of this job";
  if (now.limit == UINT64_MAX)
    snprintf(clause.text, sizeof clause.text,
             ": the kernel killed %s: out of memory (of this machine); start "
             "fewer ranks here",
             what);
  else
    snprintf(clause.text, sizeof clause.text,
             ": the kernel killed %s: out of memory (limit %.4g MiB of control "
             "group %s); raise the limit, or start fewer ranks here",
             what, (double)now.limit / (1 << 20), now.group);
  return clause;
}

static void report_failure(job *j, const rank_process *r, int64_t exit_status,
                           int signum) {
  if (j->failed) {
    bool stopped_by_us = j->phase == STOPPING || j->phase == KILLED;
    if (!stopped_by_us) j->also_failed++;
    return;
  }
  const gli_run_options *o = j->options;
  bool goes_on = o->min_ranks > 0 && o->ranks - j->lost > o->min_ranks;
  char left[48] = "";
  if (goes_on)
    snprintf(left, sizeof left, "; the job continues with %d",
             o->ranks - ++j->lost);
  memory_text memory = out_of_memory(j, signum);
  if (signum != 0)
    fprintf(
        stderr, "gloo run: rank %d (pid %d) failed: %s signal %d (%s)%s%s\n",
        r->rank, r->pid,
        was_forwarded(j, signum) ? "terminated by the forwarded" : "killed by",
        signum, strsignal(signum), memory.text, left);
  else
    fprintf(stderr, "gloo run: rank %d (pid %d) failed: exit status %d%s%s\n",
            r->rank, r->pid, (int)exit_status, memory.text, left);
  if (!goes_on) begin_grace(j, signum != 0 ? 128 + signum : (int)exit_status);
}

static void on_exit(uv_process_t *process, int64_t exit_status, int signum) {
  rank_process *r = process->data;
  job *j = r->job;
  r->running = false;
  j->running--;
  if (exit_status != 0 || signum != 0) {
    report_failure(j, r, exit_status, signum);
  }
  /* Processes that the rank started may have outlived it. While they exist, no
   * other group can get its id. */
  if (kill((pid_t)-r->pid, 0) == 0) {
    r->group_left = true;
    r->group_ends = uv_now(&j->loop) + grace(j);
    need_ticks(j);
  }
  if (j->running == 0 && j->streams_open > 0) {
    j->drain_ends = uv_now(&j->loop) + grace(j);
    need_ticks(j);
  }
  uv_close((uv_handle_t *)process, NULL);
  finish_if_done(j);
}

static void on_stream_closed(void *user) {
  job *j = user;
  j->streams_open--;
  finish_if_done(j);
}

/* ---- starting ------------------------------------------------------------ */

/* Returns argv of a rank, see gli_run_exec. The array is allocated, the strings
 * are borrowed. */
static char **exec_arguments(const gli_run_options *options, char *parent) {
  static char name[] = GLI_RUN_EXEC_NAME, bind[] = "bind", leave[] = "free";
  size_t count = 0;
  while (options->arguments[count] != NULL) count++;
  char **argv = calloc(count + 5, sizeof *argv);
  if (argv == NULL) return NULL;
  argv[0] = name;
  argv[1] = parent;
  argv[2] = options->bind ? bind : leave;
  argv[3] = options->path;
  memcpy(argv + 4, options->arguments, count * sizeof *argv);
  return argv;
}

static void set_streams(job *j, rank_process *r, uv_stdio_container_t *stdio) {
  stdio[0].flags = r->rank == 0 ? UV_INHERIT_FD : UV_IGNORE;
  stdio[0].data.fd = 0;
  gli_run_stream *streams[2] = {&r->out, &r->err};
  for (int i = 0; i < 2; i++) {
    stdio[i + 1].flags = UV_INHERIT_FD;
    stdio[i + 1].data.fd = i + 1;
    if (!j->options->prefix) continue;
    gli_run_stream_init(streams[i], &j->loop, r->rank, i + 1);
    stdio[i + 1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[i + 1].data.stream = (uv_stream_t *)&streams[i]->pipe;
  }
}

/* Starts one rank; returns 0 or a libuv error. */
static int start_rank(job *j, int rank) {
  rank_process *r = &j->ranks[rank];
  r->job = j;
  r->rank = rank;
  char parent[32], self[GLI_RUN_PATH_MAX];
  size_t size = sizeof self;
  int result = uv_exepath(self, &size);
  if (result != 0) return result;
  snprintf(parent, sizeof parent, "%ld", (long)getpid());
  char **argv = exec_arguments(j->options, parent);
  char **env = gli_run_environment_make(&j->options->environment, rank);
  result = UV_ENOMEM;
  if (argv == NULL || env == NULL) goto free_arguments;

  uv_stdio_container_t stdio[3];
  set_streams(j, r, stdio);
  uv_process_options_t spawn;
  memset(&spawn, 0, sizeof spawn);
  spawn.file = self;
  spawn.args = argv;
  spawn.env = env;
  spawn.exit_cb = on_exit;
  spawn.stdio_count = 3;
  spawn.stdio = stdio;
  r->process.data = r;
  result = uv_spawn(&j->loop, &r->process, &spawn);
  j->started++;
  if (j->options->prefix) {
    j->streams_open += 2;
    gli_run_stream_start(&r->out, on_stream_closed, j);
    gli_run_stream_start(&r->err, on_stream_closed, j);
  }
  if (result != 0) {
    uv_close((uv_handle_t *)&r->process, NULL);
    goto free_arguments;
  }
  r->pid = r->process.pid;
  r->running = true;
  j->running++;
free_arguments:
  gli_run_environment_free(&j->options->environment, env);
  free(argv);
  return result;
}

static void start_all(job *j) {
  for (int rank = 0; rank < j->options->ranks; rank++) {
    int result = start_rank(j, rank);
    if (result == 0) continue;
    fprintf(stderr, "gloo run: cannot start rank %d of %d: %s\n", rank,
            j->options->ranks, uv_strerror(result));
    begin_grace(j, GLI_EXIT_CANNOT_RUN);
    j->phase_ends = 0;
    return;
  }
}

/* ---- signals ------------------------------------------------------------- */

static void on_signal(uv_signal_t *handle, int signum) {
  job *j = handle->data;
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_forwarded[i] == signum) j->was_forwarded[i] = true;
  }
  if (signum == SIGINT || signum == SIGTERM) j->interrupts++;
  signal_all(j, j->interrupts >= 3 ? SIGKILL : signum);
}

bool gli_run_ignores(int signum) {
  struct sigaction present;
  return sigaction(signum, NULL, &present) == 0 &&
         present.sa_handler == SIG_IGN;
}

static void watch_signals(job *j) {
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_ignores(gli_run_forwarded[i])) continue;
    if (uv_signal_init(&j->loop, &j->signals[i]) != 0) continue;
    j->signals[i].data = j;
    j->signal_used[i] = true;
    uv_signal_start(&j->signals[i], on_signal, gli_run_forwarded[i]);
  }
}

/* ---- the job ------------------------------------------------------------- */

int gli_run_job(const gli_run_options *options, const sigset_t *mask) {
  static job j; /* handles must not move */
  memset(&j, 0, sizeof j);
  j.options = options;
  j.ranks = calloc((size_t)options->ranks, sizeof *j.ranks);
  if (j.ranks == NULL || uv_loop_init(&j.loop) != 0) {
    fprintf(stderr, "gloo run: out of memory or descriptors\n");
    free(j.ranks);
    return GLI_EXIT_CANNOT_RUN;
  }
  signal(SIGPIPE, SIG_IGN);
  uv_timer_init(&j.loop, &j.tick);
  j.tick.data = &j;
  watch_signals(&j);
  sigprocmask(SIG_SETMASK, mask, NULL);
  j.oom_kills = gli_memory_kills_read("").kills;
  start_all(&j);
  finish_if_done(&j);
  uv_run(&j.loop, UV_RUN_DEFAULT);
  if (j.also_failed > 0) {
    fprintf(stderr, "gloo run: %d more failed afterwards\n", j.also_failed);
  }
  uv_loop_close(&j.loop);
  free(j.ranks);
  return j.exit_status;
}
