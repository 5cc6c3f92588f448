#include "tools/run_fleet.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "gloo_c/version.h"
#include "tools/run_here.h"

enum {
  FLEET_TICK_MS = 100,
  BEAT_MS = 500,
  RESOLVE_MS = 2000, /* after that a name is not that of this host */
  START_MS = 60000,  /* limit of the time until an agent greets */
  SETTLE_MS = 1000,  /* from the first sign of an end to its report */
  RELEASE_MS = 2000  /* from a release to the end of the child */
};

typedef enum member_state {
  MEMBER_WAITING,
  MEMBER_RESOLVING,
  MEMBER_STARTING, /* the child runs */
  MEMBER_GREETED,  /* the agent has greeted */
  MEMBER_RELEASED, /* the child should end */
  MEMBER_GONE      /* reported, or nothing is left to report */
} member_state;

typedef struct fleet_member {
  gli_run_fleet *fleet;
  int host;
  member_state state;
  gli_run_here here;
  uv_process_t process;
  uv_pipe_t errors;
  gli_run_link link;
  int handles; /* open ones: process, errors, and the link as one */
  bool spawned, exited, link_ended, errors_ended;
  int status, signum;
  uint64_t since;  /* time of the state, in ms of the loop */
  uint64_t ending; /* time of the first sign of an end; 0: none */
  char said[4097]; /* end of the child's standard error */
  size_t said_bytes;
} fleet_member;

struct gli_run_fleet {
  uv_loop_t *loop;
  const gli_run_hosts *hosts;
  const gli_run_rsh *rsh;
  const gli_run_fleet_events *events;
  void *user;
  uv_timer_t tick;
  fleet_member *members;
  int parallel, next, starting, open;
  uint64_t lost_ms, last_tick, last_beat;
  bool paused, ended;
};

static uint64_t now_of(const fleet_member *m) {
  return uv_now(m->fleet->loop);
}

static const gli_run_host *host_of(const fleet_member *m) {
  return &m->fleet->hosts->list[m->host];
}

static void enter(fleet_member *m, member_state state) {
  bool was = m->state == MEMBER_RESOLVING || m->state == MEMBER_STARTING;
  bool is = state == MEMBER_RESOLVING || state == MEMBER_STARTING;
  m->fleet->starting += is - was;
  m->state = state;
  m->since = now_of(m);
}

/* ---- the end of a member ------------------------------------------------- */

static void fleet_on_done(uv_handle_t *handle) {
  gli_run_fleet *f = handle->data;
  f->events->done(f->user);
}

static void finish_fleet(gli_run_fleet *f) {
  if (f->ended && f->open == 0 && !uv_is_closing((uv_handle_t *)&f->tick))
    uv_close((uv_handle_t *)&f->tick, fleet_on_done);
}

static void member_handle_closed(fleet_member *m) {
  if (--m->handles > 0) return;
  m->fleet->open--;
  finish_fleet(m->fleet);
}

static void on_child_closed(uv_handle_t *handle) {
  member_handle_closed(handle->data);
}

static void close_errors(fleet_member *m) {
  m->errors_ended = true;
  if (!uv_is_closing((uv_handle_t *)&m->errors))
    uv_close((uv_handle_t *)&m->errors, on_child_closed);
}

/* Ends what is left of a child, without a report. */
static void close_member(fleet_member *m) {
  enter(m, MEMBER_GONE);
  if (m->handles == 0) return;
  if (m->spawned && !m->exited) {
    kill((pid_t)-m->process.pid, SIGKILL);
    kill((pid_t)m->process.pid, SIGKILL);
  }
  gli_run_link_close(&m->link);
  close_errors(m);
}

static void start_more(gli_run_fleet *f);

static void report_gone(fleet_member *m, const char *why) {
  gli_run_fleet *f = m->fleet;
  close_member(m);
  f->events->gone(f->user, m->host, why);
  start_more(f);
}

/* Reports the end of a child, once its status and its last words are known. */
static void settle(fleet_member *m) {
  if (m->state == MEMBER_RELEASED && m->exited) {
    close_member(m);
    return;
  }
  if (m->state != MEMBER_STARTING && m->state != MEMBER_GREETED) return;
  bool ends = m->exited || m->link_ended;
  if (!ends) return;
  if (m->ending == 0) m->ending = now_of(m);
  bool complete = m->exited && m->link_ended && m->errors_ended;
  bool expired = !m->fleet->paused && now_of(m) >= m->ending + SETTLE_MS;
  if (!complete && !expired) return;
  char why[1024];
  gli_run_child_end end = {.greeted = m->state == MEMBER_GREETED,
                           .local = m->here.is_here,
                           .exited = m->exited,
                           .status = m->status,
                           .signum = m->signum,
                           .said = m->said};
  gli_run_rsh_explain(m->fleet->rsh, host_of(m), &end, why, sizeof why);
  report_gone(m, why);
}

void gli_run_fleet_drop(gli_run_fleet *f, int host, const char *why) {
  fleet_member *m = &f->members[host];
  if (m->state != MEMBER_GONE) report_gone(m, why);
}

static void on_child_exit(uv_process_t *process, int64_t status, int signum) {
  fleet_member *m = process->data;
  m->exited = true;
  m->status = (int)status;
  m->signum = signum;
  uv_close((uv_handle_t *)process, on_child_closed);
  settle(m);
}

/* ---- what children say --------------------------------------------------- */

static void on_errors_alloc(uv_handle_t *handle, size_t suggested,
                            uv_buf_t *buffer) {
  (void)suggested;
  fleet_member *m = handle->data;
  size_t most = sizeof m->said - 1;
  if (m->said_bytes > most / 2) { /* keeps the end */
    memmove(m->said, m->said + m->said_bytes - most / 2, most / 2);
    m->said_bytes = most / 2;
  }
  *buffer =
      uv_buf_init(m->said + m->said_bytes, (unsigned)(most - m->said_bytes));
}

static void on_errors_read(uv_stream_t *pipe, ssize_t bytes,
                           const uv_buf_t *buffer) {
  (void)buffer;
  fleet_member *m = pipe->data;
  if (bytes > 0) {
    for (ssize_t i = 0; i < bytes; i++)
      if (m->said[m->said_bytes + (size_t)i] == '\0')
        m->said[m->said_bytes + (size_t)i] = ' ';
    m->said_bytes += (size_t)bytes;
    m->said[m->said_bytes] = '\0';
  }
  if (bytes >= 0) return;
  close_errors(m);
  settle(m);
}

/* Takes the greeting of an agent. */
static void take_hello(fleet_member *m, const gli_run_frame *frame) {
  char version[GLI_RUN_TEXT_MAX + 1], why[256];
  gli_run_text_read(frame->data, frame->bytes, version);
  if (strcmp(version, gloo_version()) != 0) {
    snprintf(why, sizeof why,
             "it has gloo_c %.64s, and this host has %s: install the same "
             "version on all hosts",
             version, gloo_version());
    report_gone(m, why);
    return;
  }
  enter(m, MEMBER_GREETED);
  m->fleet->events->greeted(m->fleet->user, m->host);
  start_more(m->fleet);
}

static void member_frame(void *user, const gli_run_frame *frame) {
  fleet_member *m = user;
  bool hello = frame->type == GLI_RUN_HELLO;
  if (m->state == MEMBER_STARTING && hello)
    take_hello(m, frame);
  else if (m->state == MEMBER_STARTING || hello)
    report_gone(m, "the agent sent frames in the wrong order");
  else if (m->state == MEMBER_GREETED && frame->type != GLI_RUN_BEAT)
    m->fleet->events->frame(m->fleet->user, m->host, frame);
}

static void member_ended(void *user, const char *why) {
  fleet_member *m = user;
  m->link_ended = true;
  if (*why != '\0' && m->state != MEMBER_GONE && m->state != MEMBER_RELEASED)
    report_gone(m, why);
  else
    settle(m);
}

static void member_closed(void *user) {
  member_handle_closed(user);
}

/* ---- starting ------------------------------------------------------------ */

/* Returns the words of gli_run_exec. The array is allocated, the strings are
 * borrowed. */
static char **child_arguments(char *parent, char *path, bool here,
                              char **words) {
  static char name[] = GLI_RUN_EXEC_NAME, leave[] = "free",
              no_core[] = "nocore";
  size_t n = 0;
  while (words[n] != NULL) n++;
  char **argv = calloc(n + 5, sizeof *argv);
  if (argv == NULL) return NULL;
  argv[0] = name;
  argv[1] = parent;
  argv[2] = here ? leave : no_core;
  argv[3] = path;
  memcpy(argv + 4, words, n * sizeof *words);
  return argv;
}

static int spawn_words(fleet_member *m, char **words) {
  static const gli_run_link_events events = {member_frame, member_ended, NULL,
                                             member_closed};
  gli_run_fleet *f = m->fleet;
  char parent[32], self[GLI_RUN_PATH_MAX], path[GLI_RUN_PATH_MAX];
  snprintf(parent, sizeof parent, "%ld", (long)getpid());
  snprintf(self, sizeof self, "%s", f->rsh->self);
  snprintf(path, sizeof path, "%s",
           m->here.is_here ? f->rsh->self : f->rsh->path);
  /* Agents get the variables of gloo_c through the link. */
  char **env = gli_run_plain_environment(NULL);
  char **argv = child_arguments(parent, path, m->here.is_here, words);
  int result = UV_ENOMEM;
  if (env == NULL || argv == NULL) goto free_words;
  gli_run_link_init(&m->link, f->loop, true, &events, m);
  uv_pipe_init(f->loop, &m->errors, 0);
  m->errors.data = m;
  m->process.data = m;
  m->handles = 3;
  f->open++;
  uv_stdio_container_t stdio[3] = {{UV_CREATE_PIPE | UV_READABLE_PIPE,
                                    {.stream = (uv_stream_t *)&m->link.out}},
                                   {UV_CREATE_PIPE | UV_WRITABLE_PIPE,
                                    {.stream = (uv_stream_t *)&m->link.in}},
                                   {UV_CREATE_PIPE | UV_WRITABLE_PIPE,
                                    {.stream = (uv_stream_t *)&m->errors}}};
  uv_process_options_t spawn;
  memset(&spawn, 0, sizeof spawn);
  spawn.file = self;
  spawn.args = argv;
  spawn.env = env;
  spawn.exit_cb = on_child_exit;
  spawn.stdio_count = 3;
  spawn.stdio = stdio;
  result = uv_spawn(f->loop, &m->process, &spawn);
  if (result != 0) uv_close((uv_handle_t *)&m->process, on_child_closed);
free_words:
  free(argv);
  free(env);
  return result;
}

static void start_child(fleet_member *m) {
  gli_run_fleet *f = m->fleet;
  enter(m, MEMBER_STARTING);
  char **words = gli_run_rsh_words(f->rsh, host_of(m), m->here.is_here);
  int result = words == NULL ? UV_ENOMEM : spawn_words(m, words);
  gli_run_words_free(words);
  if (result != 0) {
    char why[256];
    snprintf(why, sizeof why, "cannot start %s: %s",
             m->here.is_here ? "an agent" : f->rsh->name, uv_strerror(result));
    report_gone(m, why);
    return;
  }
  m->spawned = true;
  gli_run_link_pause(&m->link, f->paused);
  if (!f->paused) gli_run_link_start(&m->link);
  uv_read_start((uv_stream_t *)&m->errors, on_errors_alloc, on_errors_read);
}

static void on_here(gli_run_here *here) {
  fleet_member *m = here->user;
  if (m->state == MEMBER_RESOLVING) start_child(m);
}

static void start_more(gli_run_fleet *f) {
  while (!f->ended && f->starting < f->parallel && f->next < f->hosts->n) {
    fleet_member *m = &f->members[f->next++];
    enter(m, MEMBER_RESOLVING);
    m->here.user = m;
    gli_run_here_find(f->loop, host_of(m), &m->here, on_here);
  }
}

/* ---- time ---------------------------------------------------------------- */

static void check_member(fleet_member *m, uint64_t now, bool late, bool beat) {
  gli_run_fleet *f = m->fleet;
  char why[128];
  if (m->state == MEMBER_GREETED) {
    if (late) m->link.heard = now;
    if (beat) gli_run_link_send(&m->link, GLI_RUN_BEAT, 0, NULL, 0);
    if (!f->paused && !m->link_ended && now > m->link.heard + f->lost_ms) {
      snprintf(why, sizeof why, "nothing has arrived from it for %s",
               gli_duration((int64_t)f->lost_ms * 1000000).text);
      report_gone(m, why);
      return;
    }
  }
  if (m->state == MEMBER_RESOLVING && now > m->since + RESOLVE_MS) {
    m->here.found = NULL;
    start_child(m);
    return;
  }
  if (late && m->state == MEMBER_STARTING) m->since = now;
  if (m->state == MEMBER_STARTING && now > m->since + START_MS) {
    snprintf(why, sizeof why, "its agent did not start within %d s",
             START_MS / 1000);
    report_gone(m, why);
    return;
  }
  if (m->state == MEMBER_RELEASED && now > m->since + RELEASE_MS)
    close_member(m);
  else
    settle(m);
}

static void fleet_on_tick(uv_timer_t *timer) {
  gli_run_fleet *f = timer->data;
  uint64_t now = uv_now(f->loop);
  /* After a pause of this process or machine, agents must be heard first. */
  bool late = now > f->last_tick + 2 * BEAT_MS;
  bool beat = now >= f->last_beat + BEAT_MS;
  f->last_tick = now;
  if (beat) f->last_beat = now;
  for (int i = 0; i < f->next; i++)
    check_member(&f->members[i], now, late, beat);
}

/* ---- the interface ------------------------------------------------------- */

gli_run_fleet *gli_run_fleet_open(uv_loop_t *loop, const gli_run_hosts *hosts,
                                  const gli_run_rsh *rsh, int parallel,
                                  int64_t lost_ms,
                                  const gli_run_fleet_events *events,
                                  void *user) {
  gli_run_fleet *f = calloc(1, sizeof *f);
  if (f == NULL) return NULL;
  f->members = calloc((size_t)hosts->n, sizeof *f->members);
  if (f->members == NULL) {
    free(f);
    return NULL;
  }
  for (int i = 0; i < hosts->n; i++) {
    f->members[i].fleet = f;
    f->members[i].host = i;
  }
  f->loop = loop;
  f->hosts = hosts;
  f->rsh = rsh;
  f->parallel = parallel;
  f->lost_ms = (uint64_t)lost_ms;
  f->events = events;
  f->user = user;
  f->last_tick = f->last_beat = uv_now(loop);
  uv_timer_init(loop, &f->tick);
  f->tick.data = f;
  return f;
}

void gli_run_fleet_start(gli_run_fleet *f) {
  uv_timer_start(&f->tick, fleet_on_tick, FLEET_TICK_MS, FLEET_TICK_MS);
  start_more(f);
}

void gli_run_fleet_send(gli_run_fleet *f, int host, gli_run_type type,
                        uint32_t index, const void *data, size_t bytes) {
  for (int i = 0; i < f->hosts->n; i++) {
    fleet_member *m = &f->members[i];
    if (m->state == MEMBER_GREETED && (host < 0 || host == i))
      gli_run_link_send(&m->link, type, index, data, bytes);
  }
}

void gli_run_fleet_pause(gli_run_fleet *f, bool pause) {
  f->paused = pause;
  for (int i = 0; i < f->next; i++) {
    fleet_member *m = &f->members[i];
    bool reads = m->state == MEMBER_STARTING || m->state == MEMBER_GREETED;
    if (!reads || m->handles == 0) continue;
    if (m->ending != 0) m->ending = now_of(m);
    gli_run_link_pause(&m->link, f->paused); /* a frame may change it */
  }
}

void gli_run_fleet_release(gli_run_fleet *f, int host) {
  fleet_member *m = &f->members[host];
  if (m->state != MEMBER_GREETED) return;
  enter(m, MEMBER_RELEASED);
  gli_run_link_finish(&m->link);
  settle(m);
}

void gli_run_fleet_end(gli_run_fleet *f) {
  if (f->ended) return;
  f->ended = true;
  for (int i = 0; i < f->next; i++) {
    fleet_member *m = &f->members[i];
    if (m->state == MEMBER_GREETED) gli_run_fleet_release(f, i);
    if (m->state == MEMBER_RESOLVING || m->state == MEMBER_STARTING)
      close_member(m);
  }
  finish_fleet(f);
}

bool gli_run_fleet_free(gli_run_fleet *f) {
  bool resolving = false;
  for (int i = 0; i < f->next; i++)
    resolving = resolving || f->members[i].here.resolving;
  if (resolving) return true;
  free(f->members);
  free(f);
  return false;
}
