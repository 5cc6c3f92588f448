/* `gloo run --agent`: runs the ranks of one host for `gloo run` on another one.
 * Ranks end when the connection does, for whatever reason. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/random.h"
#include "core/text.h"
#include "gloo_c/version.h"
#include "tools/run.h"
#include "tools/run_branch.h"
#include "tools/run_control.h"
#include "tools/run_link.h"
#include "tools/tools.h"

enum {
  AGENT_TICK_MS = 50,
  AGENT_BEAT_MS = 500,
  AGENT_FLUSH_MS = 200,     /* after which unfinished lines are sent */
  AGENT_SETUP_MS = 3600000, /* limit of the time before the setup */
  AGENT_SIGNALS = 3
};

typedef enum agent_state {
  AGENT_GREETED,
  AGENT_READY,   /* the setup has arrived */
  AGENT_RUNNING, /* ranks run */
  AGENT_ENDING,  /* ranks are being ended, or never ran */
  AGENT_DONE     /* nothing of the job is left */
} agent_state;

typedef struct agent {
  uv_loop_t loop;
  uv_timer_t tick;
  uv_signal_t signals[AGENT_SIGNALS];
  gli_run_link link;
  agent_state state;
  uint32_t host;
  gli_run_setup setup;
  gli_run_options options;
  char path[GLI_RUN_PATH_MAX];
  int reservation;
  gli_run_job *ranks;
  gli_run_policy policy;  /* used to end the ranks */
  gli_run_branch *branch; /* hosts that this agent starts; NULL: none */
  uint64_t last_tick, last_beat, last_flush;
  bool input_pending;
  bool ranks_left, branch_left; /* their `done` has not come */
  bool leaving; /* closes the connection when its ranks have ended */
} agent;

/* ---- the end of the ranks ------------------------------------------------ */

static void agent_signal_all(void *user, int signum) {
  agent *a = user;
  if (a->ranks != NULL) gli_run_job_signal(a->ranks, signum);
}

static bool agent_runs(void *user, int rank) {
  const agent *a = user;
  return a->ranks != NULL &&
         gli_run_job_runs(a->ranks, rank + a->options.environment.first);
}

static void agent_say(void *user, const char *line) {
  (void)user;
  (void)line;
}

static void send_failed(agent *a, int status, const char *text) {
  uint8_t data[4 + GLI_RUN_TEXT_MAX];
  size_t bytes = strlen(text);
  if (bytes > GLI_RUN_TEXT_MAX) bytes = GLI_RUN_TEXT_MAX;
  gli_put_u32(data, (uint32_t)status);
  memcpy(data + 4, text, bytes);
  gli_run_link_send(&a->link, GLI_RUN_FAILED, a->host, data, 4 + bytes);
}

/* Closes the handles of an agent without ranks. */
static void close_agent(agent *a) {
  if (a->state == AGENT_DONE) return;
  a->state = AGENT_DONE;
  uv_close((uv_handle_t *)&a->tick, NULL);
  for (int i = 0; i < AGENT_SIGNALS; i++)
    uv_close((uv_handle_t *)&a->signals[i], NULL);
  gli_run_link_close(&a->link);
}

/* Ends the agent if it has neither a connection nor work. */
static void close_if_idle(agent *a) {
  bool connected = !a->link.ended && !a->link.finishing;
  if (!connected && !a->ranks_left && !a->branch_left) close_agent(a);
}

/* Ends the ranks (SIGTERM, the grace, SIGKILL) and the hosts of the branch. */
static void end_ranks(agent *a) {
  if (a->branch_left) gli_run_branch_end(a->branch);
  if (!a->ranks_left) {
    if (a->link.ended) close_if_idle(a);
    return;
  }
  a->state = AGENT_ENDING;
  gli_run_policy_stop(&a->policy, uv_now(&a->loop), "", GLI_EXIT_FAILED);
}

/* ---- what ranks report --------------------------------------------------- */

static void agent_ended(void *user, const gli_run_end *end) {
  agent *a = user;
  uint8_t data[GLI_RUN_ENDED_FIXED + GLI_RUN_TEXT_MAX];
  size_t bytes = gli_run_end_write(end, data);
  gli_run_link_send(&a->link, GLI_RUN_EXITED, (uint32_t)end->rank, data, bytes);
}

/* Stops or continues to read what is sent to `gloo run`. */
static void pause_sources(agent *a, bool pause) {
  if (a->ranks != NULL) gli_run_job_pause(a->ranks, pause);
  if (a->branch_left) gli_run_branch_pause(a->branch, pause);
}

static bool agent_output(void *user, int rank, int fd, const char *data,
                         size_t bytes) {
  agent *a = user;
  uint8_t *payload = malloc(bytes + 1);
  if (payload == NULL) return false;
  payload[0] = (uint8_t)fd;
  memcpy(payload + 1, data, bytes);
  gli_run_link_send(&a->link, GLI_RUN_OUTPUT, (uint32_t)rank, payload,
                    bytes + 1);
  free(payload);
  if (a->link.long_queue) pause_sources(a, true);
  return !a->link.ended;
}

static void agent_congested(void *user) {
  pause_sources(user, true);
}

static void agent_drained(void *user) {
  pause_sources(user, false);
}

static void agent_taken(void *user) {
  agent *a = user;
  a->input_pending = false;
  gli_run_link_send(&a->link, GLI_RUN_TAKEN, 0, NULL, 0);
}

static void agent_done(void *user) {
  agent *a = user;
  a->ranks_left = false;
  gli_run_link_send(&a->link, GLI_RUN_DONE, a->host, NULL, 0);
  a->state = AGENT_ENDING; /* until gloo run closes the connection */
  if (a->leaving) gli_run_link_finish(&a->link);
  close_if_idle(a);
}

static void agent_branch_done(void *user) {
  agent *a = user;
  a->branch_left = false;
  close_if_idle(a);
}

/* ---- the setup ----------------------------------------------------------- */

/* Applies the setup; returns 0, or the exit status with an error. */
static int apply_setup(agent *a, gloo_error *error) {
  gli_run_setup *s = &a->setup;
  for (char **at = s->variables; *at != NULL; at++) {
    char *equals = strchr(*at, '=');
    *equals = '\0';
    int result = setenv(*at, equals + 1, 1);
    *equals = '=';
    if (result == 0) continue;
    gli_fail(error, GLOO_ERR_IO, -1, "cannot set the environment: %s",
             strerror(errno));
    return GLI_EXIT_FAILED;
  }
  if (chdir(s->directory) != 0) {
    gli_fail(error, GLOO_ERR_IO, -1,
             "cannot change to the directory %s there: %s; %s",
             gli_quote(s->directory).text, strerror(errno),
             s->chosen[0] != '\0' ? "set another one with --chdir"
                                  : "set one that all hosts have with --chdir");
    return GLI_EXIT_CANNOT_RUN;
  }
  int status = GLI_EXIT_FAILED;
  if (!gli_run_find(s->arguments[0], a->path, &status, error)) return status;
  uint16_t port = (uint16_t)s->port;
  if (s->first == 0 && port == 0 &&
      !gli_run_pick_port(true, &port, &a->reservation, error))
    return GLI_EXIT_FAILED;
  s->port = port;
  return 0;
}

static void make_options(agent *a) {
  const gli_run_setup *s = &a->setup;
  gli_run_environment *e = &a->options.environment;
  a->options = (gli_run_options){.ranks = (int)s->here,
                                 .piped = true,
                                 .input = s->first == 0,
                                 .bind = s->bind != 0,
                                 .grace_ms = s->grace_ms,
                                 .path = a->path,
                                 .arguments = s->arguments};
  e->ranks = (int)s->world;
  e->first = (int)s->first;
  e->here = (int)s->here;
  e->master = s->master;
  snprintf(e->job, sizeof e->job, "%s", s->job);
  snprintf(e->secret, sizeof e->secret, "%s", s->secret);
  a->policy.ranks = (int)s->here;
  a->policy.grace_ms = s->grace_ms;
}

/* Ends the connection because of a frame that is wrong here. */
static void refuse(agent *a, const char *why) {
  send_failed(a, GLI_EXIT_FAILED, why);
  gli_run_link_finish(&a->link);
  end_ranks(a);
}

static void take_setup(agent *a, const gli_run_frame *frame) {
  gloo_error error;
  if (a->state != AGENT_GREETED) {
    refuse(a, "gloo run sent a second setup");
    return;
  }
  a->host = frame->index;
  if (!gli_run_setup_read(frame->data, frame->bytes, &a->setup, &error)) {
    refuse(a, error.message);
    return;
  }
  a->state = AGENT_READY;
  int status = apply_setup(a, &error);
  if (status != 0) {
    a->state = AGENT_ENDING;
    send_failed(a, status, error.message);
    return;
  }
  make_options(a);
  uint8_t port[4];
  gli_put_u32(port, a->setup.port);
  gli_run_link_send(&a->link, GLI_RUN_READY, a->host, port, sizeof port);
}

static void take_branch(agent *a, const gli_run_frame *frame) {
  gloo_error error;
  if (a->state != AGENT_GREETED || a->branch != NULL) {
    refuse(a, "gloo run sent a branch after the setup, or twice");
    return;
  }
  a->branch = gli_run_branch_open(&a->loop, &a->link, frame, agent_congested,
                                  agent_branch_done, a, &error);
  if (a->branch != NULL)
    a->branch_left = true;
  else
    refuse(a, error.message);
}

static void take_start(agent *a, uint32_t port) {
  static const gli_run_events events = {agent_ended, agent_output, agent_taken,
                                        agent_done};
  if (a->state != AGENT_READY) {
    refuse(a, "gloo run started ranks before their setup, or twice");
    return;
  }
  a->options.environment.port = (uint16_t)port;
  a->ranks = gli_run_job_open(&a->loop, &a->options, &events, a);
  if (a->ranks == NULL) {
    refuse(a, "cannot start ranks: out of memory");
    return;
  }
  a->state = AGENT_RUNNING;
  a->ranks_left = true;
  int rank, result = gli_run_job_start(a->ranks, &rank);
  if (result == 0) return;
  char text[128];
  snprintf(text, sizeof text, "cannot start rank %d: %s", rank,
           uv_strerror(result));
  send_failed(a, GLI_EXIT_CANNOT_RUN, text);
  end_ranks(a);
}

/* ---- what `gloo run` sends ----------------------------------------------- */

static void take_input(agent *a, const gli_run_frame *frame) {
  if (a->ranks == NULL || !a->options.input || a->input_pending) {
    refuse(a, "gloo run sent input before rank 0 took the last one");
    return;
  }
  a->input_pending = true;
  gli_run_job_input(a->ranks, frame->data, frame->bytes);
}

/* Passes a frame on if it is about hosts of the branch. Returns true if it is
 * about this host, too. */
static bool pass_frame(agent *a, const gli_run_frame *frame) {
  if (!a->branch_left) return true;
  switch (frame->type) {
    case GLI_RUN_SETUP:
    case GLI_RUN_RELEASE:
      if (!gli_run_branch_has(a->branch, frame->index)) return true;
      gli_run_branch_pass(a->branch, frame);
      return false;
    case GLI_RUN_START:
    case GLI_RUN_SIGNAL:
    case GLI_RUN_CLOSE:
      gli_run_branch_pass(a->branch, frame);
      return true;
    default:
      return true;
  }
}

static void agent_frame(void *user, const gli_run_frame *frame) {
  agent *a = user;
  if (!pass_frame(a, frame)) return;
  switch (frame->type) {
    case GLI_RUN_BRANCH:
      take_branch(a, frame);
      break;
    case GLI_RUN_SETUP:
      take_setup(a, frame);
      break;
    case GLI_RUN_START:
      take_start(a, frame->index);
      break;
    case GLI_RUN_SIGNAL:
      if (a->ranks != NULL)
        gli_run_job_signal(a->ranks, gli_run_signals[frame->index]);
      break;
    case GLI_RUN_INPUT:
      take_input(a, frame);
      break;
    case GLI_RUN_CLOSE:
      if (a->ranks != NULL)
        gli_run_job_close_output(a->ranks, (int)frame->index);
      break;
    default:
      break;
  }
}

static void agent_link_ended(void *user, const char *why) {
  (void)why;
  end_ranks(user);
}

static void agent_link_closed(void *user) {
  (void)user;
}

/* ---- time and signals ---------------------------------------------------- */

static void agent_on_tick(uv_timer_t *timer) {
  agent *a = timer->data;
  uint64_t now = uv_now(&a->loop), lost = a->setup.lost_ms;
  if (lost == 0) lost = AGENT_SETUP_MS;
  /* After a pause of this process or machine, beats must be read first. */
  if (now > a->last_tick + 2 * AGENT_BEAT_MS) a->link.heard = now;
  a->last_tick = now;
  if (now >= a->last_beat + AGENT_BEAT_MS) {
    gli_run_link_send(&a->link, GLI_RUN_BEAT, 0, NULL, 0);
    a->last_beat = now;
  }
  if (a->ranks != NULL && a->setup.lines == 0 &&
      now >= a->last_flush + AGENT_FLUSH_MS) {
    gli_run_job_flush(a->ranks);
    a->last_flush = now;
  }
  if (a->ranks != NULL) gli_run_policy_tick(&a->policy, now);
  if (a->link.ended || now <= a->link.heard + lost) return;
  char text[160];
  snprintf(text, sizeof text,
           "its agent has received nothing from gloo run for %s and ended its "
           "ranks",
           gli_duration((int64_t)lost * 1000000).text);
  refuse(a, text);
  close_if_idle(a);
}

static void agent_on_signal(uv_signal_t *handle, int signum) {
  agent *a = handle->data;
  char text[128];
  snprintf(text, sizeof text, "its agent got signal %d (%s)", signum,
           strsignal(signum));
  send_failed(a, 128 + signum, text);
  a->leaving = true;
  if (!a->ranks_left) gli_run_link_finish(&a->link);
  end_ranks(a);
  close_if_idle(a);
}

static void watch_agent_signals(agent *a) {
  static const int ends[AGENT_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
  for (int i = 0; i < AGENT_SIGNALS; i++) {
    uv_signal_init(&a->loop, &a->signals[i]);
    a->signals[i].data = a;
    uv_signal_start(&a->signals[i], agent_on_signal, ends[i]);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGUSR1, SIG_IGN);
  signal(SIGUSR2, SIG_IGN);
}

/* ---- the process --------------------------------------------------------- */

static bool open_link(agent *a) {
  static const gli_run_link_events events = {agent_frame, agent_link_ended,
                                             agent_drained, agent_link_closed};
  gli_run_link_init(&a->link, &a->loop, false, &events, a);
  bool pipes = uv_guess_handle(STDIN_FILENO) == UV_NAMED_PIPE &&
               uv_guess_handle(STDOUT_FILENO) == UV_NAMED_PIPE;
  int result = pipes ? uv_pipe_open(&a->link.in, STDIN_FILENO) : UV_ENOTSUP;
  if (result == 0) result = uv_pipe_open(&a->link.out, STDOUT_FILENO);
  if (result == 0) return true;
  fprintf(stderr,
          "gloo run: cannot use standard input and output: %s; agents are "
          "started by 'gloo run --hosts'\n",
          uv_strerror(result));
  return false;
}

static int agent_main(void *with, const sigset_t *mask) {
  static const gli_run_policy_ops ops = {agent_signal_all, agent_runs,
                                         agent_say, NULL};
  static agent a; /* handles must not move */
  (void)with;
  a.reservation = -1;
  a.policy.ops = &ops;
  a.policy.user = &a;
  if (uv_loop_init(&a.loop) != 0) return GLI_EXIT_CANNOT_RUN;
  if (!open_link(&a)) return GLI_EXIT_USAGE;
  uv_timer_init(&a.loop, &a.tick);
  a.tick.data = &a;
  watch_agent_signals(&a);
  sigprocmask(SIG_SETMASK, mask, NULL);
  a.last_tick = a.last_beat = a.last_flush = uv_now(&a.loop);
  uv_timer_start(&a.tick, agent_on_tick, AGENT_TICK_MS, AGENT_TICK_MS);
  const char *version = gloo_version();
  gli_run_link_send_raw(&a.link, gli_run_preamble, GLI_RUN_PREAMBLE_BYTES);
  gli_run_link_send(&a.link, GLI_RUN_HELLO, 0, version, strlen(version));
  gli_run_link_start(&a.link);
  uv_run(&a.loop, UV_RUN_DEFAULT);
  uv_loop_close(&a.loop);
  if (a.ranks != NULL) gli_run_job_free(a.ranks);
  if (a.branch != NULL) gli_run_branch_free(a.branch);
  gli_wipe(a.options.environment.secret, sizeof a.options.environment.secret);
  gli_run_setup_free(&a.setup);
  if (a.reservation >= 0) close(a.reservation);
  return GLI_EXIT_OK;
}

int gli_run_agent(void) {
  return gli_run_session(agent_main, NULL);
}
