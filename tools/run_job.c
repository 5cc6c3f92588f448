#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory_left.h"
#include "core/run_directory.h"
#include "tools/run.h"
#include "tools/tools.h"

enum { TICK_MS = 10 };

typedef struct rank_process {
  uv_process_t process;
  gli_run_stream streams[2];
  gli_run_job *job;
  int rank, pid;
  bool running;
  bool group_left;     /* the rank ended, but processes that it started have
                          not */
  uint64_t group_ends; /* time at which these are killed, in ms of the loop */
} rank_process;

struct gli_run_job {
  const gli_run_options *options;
  const gli_run_events *events;
  void *user;
  uv_loop_t *loop;
  uv_timer_t tick;
  uv_pipe_t input; /* the standard input of rank 0 */
  uv_write_t input_write;
  uint8_t *input_data; /* being written */
  rank_process *ranks;
  int started, running, streams_open, handles_open;
  uint64_t drain_ends;
  uint64_t oom_kills; /* the count of gli_memory_kills so far */
  bool input_open, finished;
};

/* Returns the last process of a rank. Replacements stand behind the ranks. */
static rank_process *rank_of(const gli_run_job *j, int rank) {
  for (int i = j->started - 1; i >= j->options->ranks; i--) {
    if (j->ranks[i].rank == rank) return &j->ranks[i];
  }
  int i = rank - j->options->environment.first;
  return i >= 0 && i < j->started ? &j->ranks[i] : NULL;
}

bool gli_run_job_runs(const gli_run_job *j, int rank) {
  const rank_process *r = rank_of(j, rank);
  return r != NULL && r->running;
}

int gli_run_job_pid(const gli_run_job *j, int rank) {
  const rank_process *r = rank_of(j, rank);
  return r == NULL ? 0 : r->pid;
}

/* ---- ending -------------------------------------------------------------- */

void gli_run_job_signal(gli_run_job *j, int signum) {
  for (int i = 0; i < j->started; i++)
    if (j->ranks[i].running) gli_run_group_signal(&j->ranks[i].process, signum);
}

static bool groups_left(const gli_run_job *j) {
  for (int i = 0; i < j->started; i++) {
    if (j->ranks[i].group_left) return true;
  }
  return false;
}

static void on_handle_closed(uv_handle_t *handle) {
  gli_run_job *j = handle->data;
  if (--j->handles_open == 0) j->events->done(j->user);
}

static void close_input(gli_run_job *j) {
  if (!j->input_open) return;
  j->input_open = false;
  uv_close((uv_handle_t *)&j->input, on_handle_closed);
}

/* Ends the job once nothing of it is left. */
static void finish_if_done(gli_run_job *j) {
  if (j->finished || j->running > 0) return;
  if (j->streams_open > 0 || groups_left(j)) return;
  j->finished = true;
  close_input(j);
  uv_close((uv_handle_t *)&j->tick, on_handle_closed);
}

static void check_group(rank_process *r, uint64_t now) {
  if (!r->group_left) return;
  if (!gli_run_group_left(r->pid)) {
    r->group_left = false;
    return;
  }
  if (now < r->group_ends) return;
  gli_run_group_kill(r->pid);
  r->group_left = false; /* killed; reaping it is not our task */
}

void gli_run_job_close_output(gli_run_job *j, int fd) {
  for (int i = 0; i < j->started; i++)
    gli_run_stream_stop(&j->ranks[i].streams[fd - 1]);
}

static void on_tick(uv_timer_t *timer) {
  gli_run_job *j = timer->data;
  uint64_t now = uv_now(j->loop);
  for (int i = 0; i < j->started; i++) check_group(&j->ranks[i], now);
  /* Descendants that left the group may hold a stream open forever. */
  if (j->running == 0 && !groups_left(j) && now >= j->drain_ends) {
    gli_run_job_close_output(j, 1);
    gli_run_job_close_output(j, 2);
  }
  finish_if_done(j);
}

static void need_ticks(gli_run_job *j) {
  if (!uv_is_active((uv_handle_t *)&j->tick)) {
    uv_timer_start(&j->tick, on_tick, TICK_MS, TICK_MS);
  }
}

/* ---- a rank ends --------------------------------------------------------- */

typedef struct memory_text {
  char text[512];
} memory_text;

/* Returns the clause on a rank that has ended since the kernel killed a process
 * for lack of memory, or "". */
static memory_text out_of_memory(gli_run_job *j, int signum) {
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

static void on_exit(uv_process_t *process, int64_t exit_status, int signum) {
  rank_process *r = process->data;
  gli_run_job *j = r->job;
  r->running = false;
  j->running--;
  bool failed = exit_status != 0 || signum != 0;
  memory_text memory = {""};
  if (failed) memory = out_of_memory(j, signum);
  gli_run_end end = {.rank = r->rank,
                     .pid = r->pid,
                     .status = (int)exit_status,
                     .signum = signum,
                     .memory = memory.text};
  j->events->ended(j->user, &end);
  /* Processes that the rank started may have outlived it. While they exist, no
   * other group can get its id. */
  uint64_t grace = (uint64_t)j->options->grace_ms;
  if (gli_run_group_left(r->pid)) {
    r->group_left = true;
    r->group_ends = uv_now(j->loop) + grace;
    need_ticks(j);
  }
  if (j->running == 0 && j->streams_open > 0) {
    j->drain_ends = uv_now(j->loop) + grace;
    need_ticks(j);
  }
  uv_close((uv_handle_t *)process, NULL);
  finish_if_done(j);
}

static void on_stream_closed(void *user) {
  rank_process *r = user;
  r->job->streams_open--;
  finish_if_done(r->job);
}

static bool on_stream_data(void *user, int rank, int fd, const char *data,
                           size_t bytes) {
  gli_run_job *j = ((rank_process *)user)->job;
  return j->events->output(j->user, rank, fd, data, bytes);
}

/* ---- starting ------------------------------------------------------------ */

static void set_streams(gli_run_job *j, rank_process *r,
                        uv_stdio_container_t *stdio) {
  bool piped = j->options->piped;
  bool first = r->rank == 0 && r < j->ranks + j->options->ranks;
  stdio[0].flags = r->rank == 0 ? UV_INHERIT_FD : UV_IGNORE;
  stdio[0].data.fd = 0;
  if (first && j->options->input && uv_pipe_init(j->loop, &j->input, 0) == 0) {
    j->input.data = j;
    j->input_open = true;
    j->handles_open++;
    stdio[0].flags = UV_CREATE_PIPE | UV_READABLE_PIPE;
    stdio[0].data.stream = (uv_stream_t *)&j->input;
  }
  for (int i = 0; i < 2; i++) {
    stdio[i + 1].flags = UV_INHERIT_FD;
    stdio[i + 1].data.fd = i + 1;
    if (!piped) continue;
    gli_run_stream_init(&r->streams[i], j->loop, r->rank, i + 1);
    stdio[i + 1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[i + 1].data.stream = (uv_stream_t *)&r->streams[i].pipe;
  }
}

static void read_streams(gli_run_job *j, rank_process *r) {
  for (int i = 0; i < 2; i++) {
    gli_run_stream *s = &r->streams[i];
    s->write = on_stream_data;
    s->on_close = on_stream_closed;
    s->user = r;
    j->streams_open++;
    gli_run_stream_start(s);
  }
}

/* Starts the next process; returns 0 or a libuv error. */
static int start_rank(gli_run_job *j, const gli_run_place *place) {
  rank_process *r = &j->ranks[j->started];
  r->job = j;
  r->rank = place->rank;
  gli_run_start how;
  int result = gli_run_start_make(&how, j->options);
  if (result != 0) return result;
  char **env = gli_run_environment_make(&j->options->environment, place);
  result = UV_ENOMEM;
  if (env == NULL) goto free_arguments;

  uv_stdio_container_t stdio[3];
  set_streams(j, r, stdio);
  uv_process_options_t spawn;
  memset(&spawn, 0, sizeof spawn);
  spawn.file = how.file;
  spawn.args = how.arguments;
  spawn.env = env;
  spawn.exit_cb = on_exit;
  spawn.stdio_count = 3;
  spawn.stdio = stdio;
  r->process.data = r;
  result = uv_spawn(j->loop, &r->process, &spawn);
  j->started++;
  if (j->options->piped) read_streams(j, r);
  if (result != 0) {
    uv_close((uv_handle_t *)&r->process, NULL);
    goto free_arguments;
  }
  r->pid = r->process.pid;
  r->running = true;
  j->running++;
free_arguments:
  gli_run_environment_free(&j->options->environment, place, env);
  free(how.arguments);
  return result;
}

gli_run_job *gli_run_job_open(uv_loop_t *loop, const gli_run_options *options,
                              const gli_run_events *events, void *user) {
  gli_run_job *j = calloc(1, sizeof *j);
  size_t processes = (size_t)options->ranks + (size_t)options->max_restarts;
  if (j != NULL) j->ranks = calloc(processes, sizeof *j->ranks);
  if (j == NULL || j->ranks == NULL) {
    free(j);
    return NULL;
  }
  j->loop = loop;
  j->options = options;
  j->events = events;
  j->user = user;
  uv_timer_init(loop, &j->tick);
  j->tick.data = j;
  j->handles_open = 1;
  return j;
}

int gli_run_job_start(gli_run_job *j, int *failed) {
  j->oom_kills = gli_memory_kills_read("").kills;
  int result = 0;
  while (j->started < j->options->ranks && result == 0) {
    *failed = j->options->environment.first + j->started;
    gli_run_place place = {*failed, j->options->joins};
    result = start_rank(j, &place);
  }
  finish_if_done(j);
  return result;
}

int gli_run_job_replace(gli_run_job *j, int rank) {
  if (j->started >= j->options->ranks + j->options->max_restarts)
    return UV_EAGAIN;
  return start_rank(j, &(gli_run_place){rank, true});
}

int gli_run_job_running(const gli_run_job *j) {
  return j->running;
}

/* Ranks that were killed have left their sockets. */
void gli_run_job_free(gli_run_job *j) {
  gli_run_socket_sweep();
  free(j->ranks);
  free(j);
}

/* ---- streams ------------------------------------------------------------- */

void gli_run_job_pause(gli_run_job *j, bool pause) {
  for (int i = 0; i < j->started; i++) {
    gli_run_stream_pause(&j->ranks[i].streams[0], pause);
    gli_run_stream_pause(&j->ranks[i].streams[1], pause);
  }
}

void gli_run_job_flush(gli_run_job *j) {
  for (int i = 0; i < j->started; i++) {
    gli_run_stream_flush(&j->ranks[i].streams[0]);
    gli_run_stream_flush(&j->ranks[i].streams[1]);
  }
}

static void on_input_written(uv_write_t *write, int status) {
  gli_run_job *j = write->data;
  free(j->input_data);
  j->input_data = NULL;
  if (status != 0) close_input(j);
  j->events->taken(j->user);
}

void gli_run_job_input(gli_run_job *j, const void *data, size_t bytes) {
  if (bytes == 0) close_input(j);
  if (j->input_open) j->input_data = malloc(bytes);
  if (j->input_data == NULL) {
    j->events->taken(j->user);
    return;
  }
  memcpy(j->input_data, data, bytes);
  uv_buf_t buffer = uv_buf_init((char *)j->input_data, (unsigned)bytes);
  j->input_write.data = j;
  int result = uv_write(&j->input_write, (uv_stream_t *)&j->input, &buffer, 1,
                        on_input_written);
  if (result != 0) on_input_written(&j->input_write, result);
}
