#include "observe/observe.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/cpu.h"
#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/signals.h"
#include "observe/metrics.h"
#include "observe/observe_client.h"
#include "observe/observe_signal.h"
#include "observe/observe_socket.h"
#include "observe/text_out.h"
#include "observe/trace.h"

/* An observed context. */
typedef struct observed {
  gloo_context *context;
  struct observed *next;
  bool listed; /* true if readers of the process's socket get its data */
  gli_metrics_socket metrics;
  char directory[]; /* for traces; "" if there is none */
} observed;

/* The thread, and the pipe that wakes it by words of one byte. */
typedef struct observing {
  uv_thread_t thread;
  int pipe[2];
  atomic_bool ends;
} observing;

/* State guarded by `all_lock`. The thread takes a device's lock while it holds
 * this lock; no thread takes them in the reverse order. */
static struct {
  observed *contexts;        /* newest first */
  observing *thread;         /* NULL without contexts */
  gli_observe_socket socket; /* the process's socket, for all listed contexts */
  const observed *named;     /* context that names the socket, or NULL */
  gli_birth birth;           /* a forked child has the memory, but no thread */
} observer = {.socket = {.fd = -1}};

static atomic_bool once;
static uv_mutex_t all_lock;

enum { WORD_TRACE = 't', WORD_NEWS = 'n', WORD_END = 'e' };
enum {
  /* Further sockets are polled when a watched one wakes the thread. */
  SOCKETS_WATCHED = 64,
  LACKING_MS = 100 /* pause after a lack of descriptors */
};

/* ---- forks --------------------------------------------------------------- */

static gli_fork_watch fork_watch;
static bool torn; /* in a child: a thread was changing the list */

static bool observe_hold(void *object, gli_fork_patience *patience) {
  return gli_fork_lock(object, patience);
}

static void observe_release(void *object) {
  (void)pthread_mutex_unlock(object);
}

/* Closes the child's copies, so that a reader notices the end of the parent
 * while the child lives. The files stay the parent's. */
static void observe_child(void *object, bool held) {
  torn = torn || !held;
  gli_fork_mutex(object, held);
  if (!held) return;
  gli_fd_close(observer.socket.fd);
  observer.socket.fd = -1;
  for (observed *o = observer.contexts; o != NULL; o = o->next) {
    gli_fd_close(o->metrics.fd);
    o->metrics.fd = -1;
  }
}

static void observe_init(void) {
  static const gli_fork_care care = {observe_hold, observe_release,
                                     observe_child};
  (void)uv_mutex_init(&all_lock);
  (void)gli_fork_watch_begin(&fork_watch, GLI_FORK_OBSERVER, &care, &all_lock);
}

static void observe_close(observing *thread) {
  gli_fd_close(thread->pipe[0]);
  gli_fd_close(thread->pipe[1]);
  free(thread);
}

static void observe_forget(void) {
  while (!torn && observer.contexts != NULL) {
    observed *o = observer.contexts;
    observer.contexts = o->next;
    free(o);
  }
  observer.contexts = NULL;
  observer.named = NULL;
  observer.socket.fd = -1;
  gli_observe_signal_forget();
  observe_close(observer.thread);
  observer.thread = NULL;
}

/* Locks the list. A forked child drops the entries of its parent. */
static void observe_lock(void) {
  gli_once(&once, observe_init);
  uv_mutex_lock(&all_lock);
  if (observer.thread != NULL && gli_forked(&observer.birth)) observe_forget();
  torn = false;
}

/* ---- traces in files ----------------------------------------------------- */

/* Writes the traces from a copy, because disks may be slow. Only a thread that
 * ends the last context waits for it. */
static void observe_write_traces(void) {
  gli_trace_copy *first = NULL, **last = &first;
  uv_mutex_lock(&all_lock);
  for (const observed *o = observer.contexts; o != NULL; o = o->next) {
    if (o->directory[0] == '\0') continue;
    *last = gli_trace_copy_take(o->context, o->directory);
    if (*last != NULL) last = &(*last)->next;
  }
  uv_mutex_unlock(&all_lock);
  gli_trace_copies_save(first, GLI_TRACE_OF_SIGNAL);
}

/* ---- clients ------------------------------------------------------------- */

/* Prints one context after the other. */
static bool observe_print(FILE *to, void *of) {
  const gli_observe_question *question = of;
  bool good = true;
  gli_observe_answer_begin(to, *question);
  uv_mutex_lock(&all_lock);
  for (const observed *o = observer.contexts; good && o != NULL; o = o->next)
    if (o->listed) good = gli_observe_answer(to, *question, o->context);
  uv_mutex_unlock(&all_lock);
  return good;
}

static char *observe_answer(const gli_observe_client *client, size_t *bytes) {
  char path[32];
  if (!gli_observe_client_asks(client, path, sizeof path)) return NULL;
  gli_observe_question question = gli_observe_question_read(path);
  return gli_text_print(observe_print, &question, bytes);
}

/* Accepts a client: of a context's own socket, with its answer in *text, or of
 * the process's socket, whose request must be read (NULL). Returns -1 if none
 * waits, or (*lacking) this process has no descriptors. */
static int observe_accept(char **text, size_t *bytes, bool *lacking) {
  int client = -1;
  uv_mutex_lock(&all_lock);
  for (const observed *o = observer.contexts; o != NULL && client < 0;
       o = o->next) {
    if (o->metrics.fd < 0) continue;
    client = gli_socket_accept(o->metrics.fd);
    if (client < 0 && gli_is_exhaustion(errno)) *lacking = true;
    if (client >= 0) *text = gli_metrics_answer(o->context, bytes);
  }
  if (client < 0 && observer.socket.fd >= 0) {
    client = gli_observe_socket_accept(&observer.socket);
    if (client < 0 && gli_is_exhaustion(errno)) *lacking = true;
  }
  uv_mutex_unlock(&all_lock);
  return client;
}

/* Serves one client, without the lock: a client may take up to half a second.
 * One at a time, because a signal may wait. Returns false for a pause. */
static bool observe_serve(const observing *self) {
  char *text = NULL;
  size_t bytes = 0;
  bool lacking = false;
  int fd = observe_accept(&text, &bytes, &lacking);
  if (fd < 0) return !lacking;
  gli_observe_client client = gli_observe_client_of(fd, &self->ends);
  if (text == NULL) text = observe_answer(&client, &bytes);
  gli_observe_client_serve(&client, text, text != NULL ? bytes : 0);
  free(text);
  return true;
}

/* ---- the thread ---------------------------------------------------------- */

/* Sleeps until there is a word or a client. */
static void observe_sleep(int pipe, bool clients) {
  struct pollfd fds[2 + SOCKETS_WATCHED];
  nfds_t n = 0;
  fds[n++] = (struct pollfd){.fd = pipe, .events = POLLIN};
  uv_mutex_lock(&all_lock);
  if (clients && observer.socket.fd >= 0)
    fds[n++] = (struct pollfd){.fd = observer.socket.fd, .events = POLLIN};
  for (const observed *o = observer.contexts;
       o != NULL && clients && n <= SOCKETS_WATCHED; o = o->next) {
    if (o->metrics.fd >= 0)
      fds[n++] = (struct pollfd){.fd = o->metrics.fd, .events = POLLIN};
  }
  uv_mutex_unlock(&all_lock);
  (void)poll(fds, n, clients ? -1 : LACKING_MS);
}

static void observe_main(void *argument) {
  const observing *self = argument;
  char word = 0;
  gli_run_socket_sweep();
  while (word != WORD_END) {
    ssize_t got = read(self->pipe[0], &word, 1);
    if (got == 1 && word == WORD_TRACE) observe_write_traces();
    if (got == 1 || (got < 0 && errno == EINTR)) continue;
    observe_sleep(self->pipe[0], observe_serve(self));
  }
}

static gloo_status observe_run(observing *thread, gloo_error *error) {
  gli_signal_guard blocked;
  gli_signal_block_all(&blocked);
  int failed = uv_thread_create(&thread->thread, observe_main, thread);
  gli_signal_restore(&blocked);
  if (failed == 0) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_IO, -1, "cannot start the metrics thread: %s",
                  uv_strerror(failed));
}

static gloo_status observe_start(gloo_error *error) {
  observing *thread = malloc(sizeof *thread);
  if (thread == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the metrics thread");
  atomic_init(&thread->ends, false);
  if (!gli_pipe_open(thread->pipe)) {
    int code = errno;
    free(thread);
    return gli_fail(error, gli_exhaustion_status(code), -1,
                    "cannot create a pipe for the metrics thread: %s",
                    gli_exhaustion_text(code));
  }
  gloo_status status = observe_run(thread, error);
  if (status != GLOO_OK) {
    observe_close(thread);
    return status;
  }
  observer.thread = thread;
  observer.birth = gli_birth_here();
  return GLOO_OK;
}

/* Ends the thread. The caller has removed it under the lock and released the
 * lock, which the thread may need. */
static void observe_stop(observing *thread) {
  const char word = WORD_END;
  if (thread == NULL) return;
  atomic_store(&thread->ends, true);
  while (write(thread->pipe[1], &word, 1) < 0) gli_cpu_yield();
  uv_thread_join(&thread->thread);
  observe_close(thread);
}

/* Removes the thread if no context needs it. */
static observing *observe_take_idle(void) {
  observing *thread = observer.thread;
  if (observer.contexts != NULL || thread == NULL) return NULL;
  gli_observe_signal_release();
  observer.thread = NULL;
  return thread;
}

static void observe_tell_news(void) {
  const char word = WORD_NEWS;
  ssize_t wrote = write(observer.thread->pipe[1], &word, 1);
  (void)wrote; /* a full pipe wakes the thread anyway */
}

/* ---- the name of the socket ---------------------------------------------- */

static gli_observe_name observe_name(const observed *o) {
  return (gli_observe_name){.job = gli_context_mark(o->context),
                            .rank = gloo_context_rank(o->context),
                            .process = (int64_t)getpid()};
}

/* Renames the socket after the oldest listed context, because the ranks of a
 * job make that context together. */
static void observe_rename(void) {
  const observed *oldest = NULL;
  for (const observed *o = observer.contexts; o != NULL; o = o->next)
    if (o->listed) oldest = o;
  observer.named = oldest;
  if (oldest == NULL) {
    gli_observe_socket_close(&observer.socket);
    return;
  }
  gli_observe_name name = observe_name(oldest);
  gli_observe_socket_rename(&observer.socket, &name);
}

static gloo_status observe_list(observed *o, gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (observer.socket.fd < 0) {
    gli_observe_name name = observe_name(o);
    status = gli_observe_socket_open(&observer.socket, &name, error);
    if (status != GLOO_OK) return status;
    observer.named = o;
  }
  o->listed = true;
  return GLOO_OK;
}

/* ---- contexts ------------------------------------------------------------ */

/* Returns true for an explicit setting, which must work; the socket that exists
 * by default must never fail a context. */
static bool observe_is_asked_for(const gli_observe_settings *s) {
  return s->signal != 0 || s->metrics != NULL;
}

static gloo_status observe_add(observed *o, const gli_observe_settings *s,
                               gloo_error *unlisted, gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (observer.thread == NULL) status = observe_start(error);
  if (status == GLOO_OK && s->signal != 0)
    status = gli_observe_signal_catch(s->signal, observer.thread->pipe[1],
                                      WORD_TRACE, error);
  if (status == GLOO_OK && s->metrics != NULL)
    status = gli_metrics_listen(s->metrics, o->context, &o->metrics, error);
  if (status != GLOO_OK) return status;
  if (s->listed && observe_list(o, unlisted) != GLOO_OK &&
      !observe_is_asked_for(s)) {
    *error = *unlisted;
    return error->status;
  }
  o->next = observer.contexts;
  observer.contexts = o;
  observe_tell_news();
  return GLOO_OK;
}

static gloo_status observe_begin(gloo_context *context,
                                 const gli_observe_settings *settings,
                                 gloo_error *unlisted, gloo_error *error) {
  const char *directory =
      settings->signal != 0 ? settings->trace_directory : "";
  size_t bytes = strlen(directory) + 1;
  observed *o = malloc(sizeof *o + bytes);
  if (o == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the metrics thread");
  *o = (observed){.context = context, .metrics = {.fd = -1}};
  memcpy(o->directory, directory, bytes);
  observe_lock();
  gloo_status status = observe_add(o, settings, unlisted, error);
  observing *idle = observe_take_idle();
  uv_mutex_unlock(&all_lock);
  if (status != GLOO_OK) free(o);
  observe_stop(idle);
  return status;
}

gloo_status gli_observe_begin(gloo_context *context,
                              const gli_observe_settings *settings,
                              gloo_error *error) {
  gloo_error unlisted = {.status = GLOO_OK};
  gloo_status status = GLOO_OK;
  if (observe_is_asked_for(settings))
    status = observe_begin(context, settings, &unlisted, error);
  else if (settings->listed)
    (void)observe_begin(context, settings, &unlisted, &unlisted);
  if (status == GLOO_OK && unlisted.status != GLOO_OK)
    gli_log(GLOO_LOG_INFO, "rank %d cannot be observed by gloo top: %s",
            gloo_context_rank(context), unlisted.message);
  return status;
}

void gli_observe_met(gloo_context *context) {
  observe_lock();
  if (observer.named != NULL && observer.named->context == context)
    observe_rename();
  uv_mutex_unlock(&all_lock);
}

void gli_observe_end(gloo_context *context) {
  observe_lock();
  observed **at = &observer.contexts;
  while (*at != NULL && (*at)->context != context) at = &(*at)->next;
  observed *o = *at;
  if (o != NULL) {
    *at = o->next;
    gli_metrics_close(&o->metrics);
    if (observer.named == o) observe_rename();
    observe_tell_news();
  }
  observing *idle = observe_take_idle();
  uv_mutex_unlock(&all_lock);
  free(o);
  observe_stop(idle);
}
