#include "tools/run_control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/random.h"
#include "core/text.h"
#include "tools/run_input.h"
#include "tools/run_tree.h"
#include "tools/run_writer.h"
#include "tools/tools.h"

enum { CONTROL_TICK_MS = 10, HOLD_MS = 250 };

typedef enum host_state {
  HOST_STARTING, /* its agent has not prepared the ranks yet */
  HOST_READY,
  HOST_RUNNING,
  HOST_DONE, /* its ranks have ended */
  HOST_GONE
} host_state;

typedef enum control_phase {
  CONTROL_STARTING, /* waits for all hosts */
  CONTROL_RUNNING,
  CONTROL_ENDING
} control_phase;

typedef struct control {
  const gli_run_plan *plan;
  uv_loop_t loop;
  uv_timer_t tick;
  uv_signal_t signals[GLI_RUN_FORWARDED];
  bool signal_used[GLI_RUN_FORWARDED];
  gli_run_tree *tree;
  gli_run_writer *writer;
  gli_run_input *input;
  control_phase phase;
  host_state *hosts;
  bool *runs; /* by rank */
  uint32_t port;
  int ready, failed_starts;
  int start_status;       /* exit status of a job that cannot start; 0: none */
  char start_cause[1200]; /* its first cause */
  gli_run_policy policy;
  uint64_t said_first; /* writes up to the first failure; 0: none */
  bool closed[2];      /* agents know that this output has no reader */
} control;

static uint64_t control_now(const control *c) {
  return uv_now(&c->loop);
}

static const gli_run_host *host_at(const control *c, int host) {
  return &c->plan->hosts.list[host];
}

/* ---- messages ------------------------------------------------------------ */

static void control_say(void *user, const char *line) {
  control *c = user;
  char text[2048];
  int bytes = snprintf(text, sizeof text, "gloo run: %s\n", line);
  if (bytes >= (int)sizeof text) bytes = (int)sizeof text - 1;
  gli_run_writer_put(c->writer, 2, text, (size_t)bytes);
  if (c->said_first == 0 && (c->policy.failed || c->start_status != 0))
    c->said_first = gli_run_writer_count(c->writer);
}

/* Returns true if anything was written after the first failure. */
static bool said_more(const control *c) {
  return gli_run_writer_count(c->writer) > c->said_first;
}

/* ---- the end ------------------------------------------------------------- */

static void end_control(control *c) {
  if (c->phase == CONTROL_ENDING) return;
  c->phase = CONTROL_ENDING;
  uv_close((uv_handle_t *)&c->tick, NULL);
  for (int i = 0; i < GLI_RUN_FORWARDED; i++)
    if (c->signal_used[i]) uv_close((uv_handle_t *)&c->signals[i], NULL);
  if (c->input != NULL) gli_run_input_close(c->input);
  gli_run_tree_end(c->tree);
}

static void control_done(void *user) {
  control *c = user;
  gli_run_writer_close(c->writer);
  uv_stop(&c->loop); /* a look-up of a name may still be waiting */
}

static void end_if_done(control *c) {
  bool left = false;
  for (int i = 0; i < c->plan->hosts.n && !left; i++)
    left = c->hosts[i] != HOST_DONE && c->hosts[i] != HOST_GONE;
  if (c->phase != CONTROL_RUNNING || left) return;
  gli_run_policy_flush(&c->policy, control_now(c));
  end_control(c);
}

/* ---- what the policy asks for -------------------------------------------- */

static void control_signal_all(void *user, int signum) {
  control *c = user;
  int index = gli_run_signal_index(signum);
  if (index >= 0)
    gli_run_tree_send(c->tree, -1, GLI_RUN_SIGNAL, (uint32_t)index, NULL, 0);
}

static bool control_runs(void *user, int rank) {
  return ((control *)user)->runs[rank];
}

static void control_on_tick(uv_timer_t *timer) {
  control *c = timer->data;
  if (!gli_run_policy_tick(&c->policy, control_now(c))) uv_timer_stop(timer);
}

static void control_need_ticks(control *c) {
  if ((c->policy.failed || c->policy.held) && c->phase == CONTROL_RUNNING &&
      !uv_is_active((uv_handle_t *)&c->tick))
    uv_timer_start(&c->tick, control_on_tick, 0, CONTROL_TICK_MS);
}

/* ---- a host is lost ------------------------------------------------------ */

/* Counts the ranks of a host that still run as failed at once. */
static void lose_host(control *c, int host, const char *why, int status) {
  const gli_run_host *h = host_at(c, host);
  int lost = 0, low = -1, high = -1;
  for (int rank = h->first; rank < h->first + h->ranks; rank++) {
    if (!c->runs[rank]) continue;
    c->runs[rank] = false;
    lost++;
    if (low < 0) low = rank;
    high = rank;
  }
  if (lost == 0) return;
  char text[1400], ranks[64];
  if (low == high)
    snprintf(ranks, sizeof ranks, "rank %d", low);
  else if (lost == high - low + 1)
    snprintf(ranks, sizeof ranks, "ranks %d to %d", low, high);
  else
    snprintf(ranks, sizeof ranks, "%d of its ranks %d to %d", lost, low, high);
  snprintf(text, sizeof text, "host %s is lost with %s: %s", h->name, ranks,
           why);
  gli_run_policy_lost(&c->policy, control_now(c), lost, text, status);
  control_need_ticks(c);
}

/* Reports a host on which nothing can start. */
static void fail_start(control *c, int host, const char *why, int status) {
  c->failed_starts++;
  char text[1200];
  snprintf(text, sizeof text, "host %s: %.900s", host_at(c, host)->name, why);
  if (c->start_status == 0) {
    c->start_status = status;
    snprintf(c->start_cause, sizeof c->start_cause, "%s", text);
  }
  control_say(c, text);
}

/* ---- starting ------------------------------------------------------------ */

static void start_ranks(control *c) {
  c->phase = CONTROL_RUNNING;
  for (int i = 0; i < c->plan->hosts.n; i++) c->hosts[i] = HOST_RUNNING;
  for (uint32_t rank = 0; rank < c->plan->setup.world; rank++)
    c->runs[rank] = true;
  gli_run_tree_send(c->tree, -1, GLI_RUN_START, c->port, NULL, 0);
  gli_run_input_next(c->input);
}

/* Starts the ranks once all hosts are ready, or ends if one cannot start and
 * the outcome of all is known. */
static void start_if_ready(control *c) {
  if (c->phase != CONTROL_STARTING) return;
  if (c->ready + c->failed_starts < c->plan->hosts.n) return;
  if (c->failed_starts > 0)
    end_control(c);
  else
    start_ranks(c);
}

static void control_greeted(void *user, int host) {
  control *c = user;
  gli_run_setup setup = c->plan->setup;
  setup.first = (uint32_t)host_at(c, host)->first;
  setup.here = (uint32_t)host_at(c, host)->ranks;
  size_t bytes;
  uint8_t *data = gli_run_setup_write(&setup, &bytes);
  if (data == NULL) {
    gli_run_tree_drop(c->tree, host,
                      "the arguments and the environment exceed 8 MiB");
    return;
  }
  gli_run_tree_send(c->tree, host, GLI_RUN_SETUP, (uint32_t)host, data, bytes);
  gli_wipe(data, bytes);
  free(data);
}

static void take_ready(control *c, int host, const gli_run_frame *frame) {
  uint32_t port = gli_get_u32(frame->data);
  bool has_first = host_at(c, host)->first == 0;
  if (c->hosts[host] != HOST_STARTING || port > 65535 ||
      (has_first && port == 0)) {
    gli_run_tree_drop(c->tree, host, "the agent was ready at a wrong time");
    return;
  }
  c->hosts[host] = HOST_READY;
  c->ready++;
  if (has_first) c->port = port;
  start_if_ready(c);
}

/* ---- what agents send ---------------------------------------------------- */

/* Returns true if the rank of a frame runs on the host. */
static bool is_of_host(const control *c, int host, uint32_t rank) {
  const gli_run_host *h = host_at(c, host);
  return rank >= (uint32_t)h->first && rank < (uint32_t)(h->first + h->ranks);
}

static void take_output(control *c, int host, const gli_run_frame *frame) {
  int fd = frame->data[0];
  if (!is_of_host(c, host, frame->index) || (fd != 1 && fd != 2)) {
    gli_run_tree_drop(c->tree, host, "the agent sent output of other ranks");
    return;
  }
  const char *data = (const char *)frame->data + 1;
  size_t bytes = frame->bytes - 1, made;
  if (!c->plan->prefix) {
    gli_run_writer_put(c->writer, fd, data, bytes);
  } else {
    char prefix[300];
    snprintf(prefix, sizeof prefix, "[%u %s] ", (unsigned)frame->index,
             host_at(c, host)->name);
    char *text = gli_run_prefixed(prefix, data, bytes, &made);
    if (text != NULL) gli_run_writer_put(c->writer, fd, text, made);
    free(text);
  }
  if (gli_run_writer_full(c->writer)) gli_run_tree_pause(c->tree, true);
}

static void take_exited(control *c, int host, const gli_run_frame *frame) {
  char memory[GLI_RUN_TEXT_MAX + 1];
  if (!is_of_host(c, host, frame->index)) {
    gli_run_tree_drop(c->tree, host,
                      "the agent reported the end of another host's rank");
    return;
  }
  /* Ranks of a host that has failed were counted at once. */
  if (!c->runs[frame->index]) return;
  gli_run_end end = gli_run_end_read(frame, memory);
  end.host = host_at(c, host)->name;
  c->runs[frame->index] = false;
  gli_run_policy_ended(&c->policy, control_now(c), &end);
  control_need_ticks(c);
}

static void take_failed(control *c, int host, const gli_run_frame *frame) {
  char text[GLI_RUN_TEXT_MAX + 1];
  int status = (int)(gli_get_u32(frame->data) & 255);
  if (status == 0) status = GLI_EXIT_FAILED;
  gli_run_text_read(frame->data + 4, frame->bytes - 4, text);
  if (c->phase == CONTROL_RUNNING) {
    lose_host(c, host, text, status);
    return;
  }
  if (c->hosts[host] == HOST_GONE) return;
  if (c->hosts[host] == HOST_READY) c->ready--;
  c->hosts[host] = HOST_GONE;
  fail_start(c, host, text, status);
  gli_run_tree_release(c->tree, host);
  start_if_ready(c);
}

static void take_done(control *c, int host) {
  const gli_run_host *h = host_at(c, host);
  for (int rank = h->first; rank < h->first + h->ranks; rank++) {
    if (!c->runs[rank]) continue;
    gli_run_tree_drop(c->tree, host, "the agent ended before its ranks");
    return;
  }
  if (c->hosts[host] != HOST_RUNNING) return;
  c->hosts[host] = HOST_DONE;
  gli_run_tree_release(c->tree, host);
  end_if_done(c);
}

static void control_frame(void *user, int host, const gli_run_frame *frame) {
  control *c = user;
  bool early = c->phase == CONTROL_STARTING && frame->type != GLI_RUN_READY &&
               frame->type != GLI_RUN_FAILED;
  if (early) {
    gli_run_tree_drop(c->tree, host, "the agent sent frames too early");
    return;
  }
  switch (frame->type) {
    case GLI_RUN_READY:
      take_ready(c, host, frame);
      break;
    case GLI_RUN_OUTPUT:
      take_output(c, host, frame);
      break;
    case GLI_RUN_TAKEN:
      if (host == 0) gli_run_input_next(c->input);
      break;
    case GLI_RUN_EXITED:
      take_exited(c, host, frame);
      break;
    case GLI_RUN_FAILED:
      take_failed(c, host, frame);
      break;
    case GLI_RUN_DONE:
      take_done(c, host);
      break;
    default:
      break;
  }
}

static void control_gone(void *user, int host, const char *why) {
  control *c = user;
  host_state before = c->hosts[host];
  if (before == HOST_GONE || c->phase == CONTROL_ENDING) return;
  c->hosts[host] = HOST_GONE;
  if (c->phase == CONTROL_STARTING) {
    if (before == HOST_READY) c->ready--;
    fail_start(c, host, why, GLI_EXIT_CANNOT_RUN);
    start_if_ready(c);
    return;
  }
  lose_host(c, host, why, GLI_EXIT_FAILED);
  end_if_done(c);
}

/* ---- input, output and signals ------------------------------------------- */

static void control_input(void *user, const void *data, size_t bytes) {
  control *c = user;
  gli_run_tree_send(c->tree, 0, GLI_RUN_INPUT, 0, data, bytes);
}

static void control_written(void *user) {
  control *c = user;
  for (int fd = 1; fd <= 2; fd++) {
    if (c->closed[fd - 1] || !gli_run_writer_broken(c->writer, fd)) continue;
    c->closed[fd - 1] = true;
    gli_run_tree_send(c->tree, -1, GLI_RUN_CLOSE, (uint32_t)fd, NULL, 0);
  }
  gli_run_tree_pause(c->tree, gli_run_writer_full(c->writer));
}

static void control_on_signal(uv_signal_t *handle, int signum) {
  control *c = handle->data;
  if (c->phase == CONTROL_RUNNING) {
    gli_run_policy_signal(&c->policy, signum);
    return;
  }
  bool ends = signum == SIGINT || signum == SIGTERM || signum == SIGHUP;
  if (!ends) return;
  char text[128];
  snprintf(text, sizeof text,
           "signal %d (%s) while the hosts were being started", signum,
           strsignal(signum));
  if (c->start_status == 0) {
    c->start_status = 128 + signum;
    snprintf(c->start_cause, sizeof c->start_cause, "%s", text);
  }
  control_say(c, text);
  end_control(c);
}

static void control_watch_signals(control *c) {
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_ignores(gli_run_forwarded[i])) continue;
    if (uv_signal_init(&c->loop, &c->signals[i]) != 0) continue;
    c->signals[i].data = c;
    c->signal_used[i] = true;
    uv_signal_start(&c->signals[i], control_on_signal, gli_run_forwarded[i]);
  }
}

/* ---- the job ------------------------------------------------------------- */

static bool open_control(control *c, const gli_run_plan *plan) {
  static const gli_run_policy_ops ops = {control_signal_all, control_runs,
                                         control_say, NULL};
  static const gli_run_fleet_events events = {control_greeted, control_frame,
                                              control_gone, control_done};
  c->plan = plan;
  c->policy = (gli_run_policy){.ops = &ops,
                               .user = c,
                               .ranks = (int)plan->setup.world,
                               .min_ranks = plan->min_ranks,
                               .grace_ms = plan->setup.grace_ms,
                               .hold_ms = HOLD_MS};
  c->hosts = calloc((size_t)plan->hosts.n, sizeof *c->hosts);
  c->runs = calloc(plan->setup.world, sizeof *c->runs);
  if (c->hosts == NULL || c->runs == NULL) return false;
  if (uv_loop_init(&c->loop) != 0) return false;
  c->writer = gli_run_writer_open(&c->loop, control_written, c);
  c->input = gli_run_input_open(&c->loop, control_input, c);
  c->tree =
      gli_run_tree_open(&c->loop, &plan->hosts, &plan->rsh, plan->parallel,
                        plan->fanout, plan->setup.lost_ms, &events, c);
  uv_timer_init(&c->loop, &c->tick);
  c->tick.data = c;
  return c->writer != NULL && c->input != NULL && c->tree != NULL;
}

/* Prints the last lines, and returns the exit status. */
static int finish_control(control *c) {
  char text[sizeof c->start_cause + 64];
  int status = c->policy.exit_status;
  if (c->start_status != 0) {
    status = c->start_status;
    snprintf(text, sizeof text, "first failure: %s", c->start_cause);
    if (said_more(c)) control_say(c, text);
  }
  gli_run_policy_finish(&c->policy, said_more(c));
  return gli_run_output_status(gli_run_writer_finish(c->writer), status);
}

int gli_run_control(void *with, const sigset_t *mask) {
  static control c; /* handles must not move */
  if (!open_control(&c, with)) {
    fprintf(stderr, "gloo run: out of memory, descriptors or threads\n");
    return GLI_EXIT_CANNOT_RUN;
  }
  signal(SIGPIPE, SIG_IGN);
  control_watch_signals(&c);
  sigprocmask(SIG_SETMASK, mask, NULL);
  gli_run_tree_start(c.tree);
  uv_run(&c.loop, UV_RUN_DEFAULT);
  uv_run(&c.loop, UV_RUN_NOWAIT); /* calls back for closed handles */
  int status = finish_control(&c);
  if (gli_run_tree_free(c.tree)) {
    /* exit would wait for a look-up that cannot be stopped. */
    fflush(NULL);
    _exit(status);
  }
  uv_loop_close(&c.loop);
  free(c.runs);
  free(c.hosts);
  return status;
}
