#include "api/observe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "api/metrics_socket.h"
#include "api/trace.h"
#include "core/cpu.h"
#include "core/descriptor.h"
#include "core/error.h"
#include "core/fork.h"
#include "core/lack.h"
#include "core/signals.h"

/* A context that is watched. */
typedef struct observed {
  gloo_context *context;
  struct observed *next;
  gli_metrics_socket metrics;
  char directory[]; /* for traces; "": none */
} observed;

/* The thread, and what wakes it: bytes that say what to do. */
typedef struct observing {
  uv_thread_t thread;
  int pipe[2];
} observing;

/* All of this is guarded by `all_lock`. The thread takes a device's lock while
 * it holds this one, and no thread the other way round. */
static struct {
  observed *contexts;
  observing *thread; /* NULL: no context, and no thread */
  gli_birth birth;   /* a forked child has the memory, but not the thread */
  int signal;        /* 0: none */
  struct sigaction before; /* its handler */
} observer;

static uv_once_t once = UV_ONCE_INIT;
static uv_mutex_t all_lock;
static gli_fork_guard guard;
/* What the handler goes by, and how many threads are in it. */
static atomic_int handler_pipe = -1, handler_threads;
static atomic_llong handler_process;

enum { WORD_TRACE = 't', WORD_NEWS = 'n', WORD_END = 'e' };
enum {
  SOCKETS_WATCHED = 64, /* others are looked at when one of them wakes it */
  LACKING_MS = 100      /* before clients are tried again, where this process
                           had no descriptor for one */
};

/* A forked child has the handler until it uses the library, or another
 * program. */
static void observe_handle(int number) {
  (void)number;
  int code = errno;
  atomic_fetch_add(&handler_threads, 1);
  int fd = atomic_load(&handler_pipe);
  if (fd >= 0 && atomic_load(&handler_process) == (long long)getpid()) {
    const char word = WORD_TRACE;
    ssize_t wrote = write(fd, &word, 1); /* full: there is one to be read */
    (void)wrote;
  }
  atomic_fetch_sub(&handler_threads, 1);
  errno = code;
}

/* ---- forks --------------------------------------------------------------- */

static void observe_init(void) {
  (void)uv_mutex_init(&all_lock);
  (void)gli_fork_guard_begin(&guard, GLI_FORK_OBJECTS, &all_lock, NULL);
}

/* Take the handler away, unless the program has set its own meanwhile; and
 * wait for threads that are in it. */
static void observe_release_signal(void) {
  struct sigaction now;
  if (observer.signal == 0) return;
  if (sigaction(observer.signal, NULL, &now) == 0 &&
      (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == observe_handle)
    (void)sigaction(observer.signal, &observer.before, NULL);
  atomic_store(&handler_pipe, -1);
  while (atomic_load(&handler_threads) > 0) gli_cpu_yield();
  observer.signal = 0;
}

static void observe_close(observing *thread) {
  gli_fd_close(thread->pipe[0]);
  gli_fd_close(thread->pipe[1]);
  free(thread);
}

static void observe_forget(void) {
  while (!guard.torn && observer.contexts != NULL) {
    observed *o = observer.contexts;
    observer.contexts = o->next;
    gli_fd_close(o->metrics.fd); /* the name is the parent's */
    free(o);
  }
  observer.contexts = NULL;
  atomic_store(&handler_threads, 0); /* those of the parent */
  observe_release_signal();
  observe_close(observer.thread);
  observer.thread = NULL;
}

/* What is there in a forked child is its parent's, and is dropped. */
static void observe_lock(void) {
  uv_once(&once, observe_init);
  uv_mutex_lock(&all_lock);
  if (observer.thread != NULL && gli_forked(&observer.birth)) observe_forget();
  guard.torn = false;
}

/* ---- the signal ---------------------------------------------------------- */

static gloo_status observe_catch(int number, gloo_error *error) {
  struct sigaction action, before;
  memset(&action, 0, sizeof action);
  action.sa_handler = observe_handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, NULL, &before) != 0)
    return gli_fail(error, GLOO_ERR_IO, -1, "no handler of signal %d: %s",
                    number, strerror(errno));
  bool ours = (before.sa_flags & SA_SIGINFO) == 0 &&
              (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN);
  if (!ours)
    return gli_fail(error, GLOO_ERR_BUSY, -1,
                    "GLOO_TRACE_SIGNAL names a signal that the program has a "
                    "handler for; name the other one of USR1 and USR2");
  observer.before = before;
  atomic_store(&handler_process, (long long)getpid());
  atomic_store(&handler_pipe, observer.thread->pipe[1]);
  observer.signal = number;
  if (sigaction(number, &action, NULL) == 0) return GLOO_OK;
  observer.signal = 0;
  return gli_fail(error, GLOO_ERR_IO, -1, "no handler of signal %d: %s", number,
                  strerror(errno));
}

/* ---- the thread ---------------------------------------------------------- */

/* What is to be written, and where. */
typedef struct observed_trace {
  struct observed_trace *next;
  gli_snapshot *snapshot;
  char directory[];
} observed_trace;

static observed_trace *observe_take_trace(const observed *o) {
  size_t bytes = strlen(o->directory) + 1;
  observed_trace *t = malloc(sizeof *t + bytes);
  if (t == NULL) {
    gli_trace_save(o->directory, NULL, GLI_TRACE_OF_SIGNAL); /* says so */
    return NULL;
  }
  t->next = NULL;
  t->snapshot = gli_context_snapshot(o->context);
  memcpy(t->directory, o->directory, bytes);
  return t;
}

/* Disks may be slow: what is written is a copy, and no thread waits for it but
 * one that ends the last context. */
static void observe_write_traces(void) {
  observed_trace *first = NULL, **last = &first;
  uv_mutex_lock(&all_lock);
  for (const observed *o = observer.contexts; o != NULL; o = o->next) {
    if (o->directory[0] == '\0') continue;
    *last = observe_take_trace(o);
    if (*last != NULL) last = &(*last)->next;
  }
  uv_mutex_unlock(&all_lock);
  while (first != NULL) {
    observed_trace *t = first;
    first = t->next;
    gli_trace_save(t->directory, t->snapshot, GLI_TRACE_OF_SIGNAL);
    free(t);
  }
}

/* A client that waits, and what it is to get. -1: none does, or (*lacking) this
 * process has no descriptors for it. */
static int observe_accept(char **text, size_t *bytes, bool *lacking) {
  int client = -1;
  uv_mutex_lock(&all_lock);
  for (const observed *o = observer.contexts; o != NULL && client < 0;
       o = o->next) {
    if (o->metrics.fd < 0) continue;
    client = gli_socket_accept(o->metrics.fd);
    if (client < 0 && gli_lacking(errno)) *lacking = true;
    if (client >= 0) *text = gli_metrics_answer(o->context, bytes);
  }
  uv_mutex_unlock(&all_lock);
  return client;
}

/* Without the lock: a client takes as long as it likes, up to a second. One at
 * a time, for there may be a signal. False: clients are not to be looked at for
 * a while. */
static bool observe_serve(void) {
  char *text = NULL;
  size_t bytes = 0;
  bool lacking = false;
  int client = observe_accept(&text, &bytes, &lacking);
  if (client < 0) return !lacking;
  if (text != NULL)
    gli_metrics_serve(client, text, bytes);
  else
    gli_fd_close(client);
  free(text);
  return true;
}

/* Until there is a word, or a client. */
static void observe_sleep(int pipe, bool clients) {
  struct pollfd fds[1 + SOCKETS_WATCHED];
  nfds_t n = 0;
  fds[n++] = (struct pollfd){.fd = pipe, .events = POLLIN};
  uv_mutex_lock(&all_lock);
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
  while (word != WORD_END) {
    ssize_t got = read(self->pipe[0], &word, 1);
    if (got == 1 && word == WORD_TRACE) observe_write_traces();
    if (got == 1 || (got < 0 && errno == EINTR)) continue;
    observe_sleep(self->pipe[0], observe_serve());
  }
}

static gloo_status observe_run(observing *thread, gloo_error *error) {
  gli_signal_guard blocked;
  gli_signal_block_all(&blocked);
  int failed = uv_thread_create(&thread->thread, observe_main, thread);
  gli_signal_restore(&blocked);
  if (failed == 0) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_IO, -1,
                  "cannot start the thread that observes: %s",
                  uv_strerror(failed));
}

static gloo_status observe_start(gloo_error *error) {
  observing *thread = malloc(sizeof *thread);
  if (thread == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the thread that observes");
  if (!gli_pipe_open(thread->pipe)) {
    int code = errno;
    free(thread);
    return gli_fail(error, gli_lack_status(code), -1,
                    "no pipe for the thread that observes: %s",
                    gli_lack_text(code));
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

/* Taken out under the lock, and ended without it, for it may want that. */
static void observe_stop(observing *thread) {
  const char word = WORD_END;
  if (thread == NULL) return;
  while (write(thread->pipe[1], &word, 1) < 0) gli_cpu_yield();
  uv_thread_join(&thread->thread);
  observe_close(thread);
}

/* If no context wants it any more. */
static observing *observe_take_idle(void) {
  observing *thread = observer.thread;
  if (observer.contexts != NULL || thread == NULL) return NULL;
  observe_release_signal();
  observer.thread = NULL;
  return thread;
}

/* ---- contexts ------------------------------------------------------------ */

static gloo_status observe_signal(int number, gloo_error *error) {
  if (observer.signal == 0) return observe_catch(number, error);
  if (observer.signal == number) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_BUSY, -1,
                  "GLOO_TRACE_SIGNAL named another signal when the first "
                  "context of this process was made");
}

static void observe_tell_news(void) {
  const char word = WORD_NEWS;
  ssize_t wrote = write(observer.thread->pipe[1], &word, 1);
  (void)wrote; /* full: it is about to look */
}

static gloo_status observe_add(observed *o, const gli_observe_settings *s,
                               gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (observer.thread == NULL) status = observe_start(error);
  if (status == GLOO_OK && s->signal != 0)
    status = observe_signal(s->signal, error);
  if (status == GLOO_OK && s->metrics != NULL)
    status = gli_metrics_listen(s->metrics, o->context, &o->metrics, error);
  if (status != GLOO_OK) return status;
  o->next = observer.contexts;
  observer.contexts = o;
  observe_tell_news();
  return GLOO_OK;
}

gloo_status gli_observe_begin(gloo_context *context,
                              const gli_observe_settings *settings,
                              gloo_error *error) {
  const char *directory =
      settings->signal != 0 ? settings->trace_directory : "";
  if (settings->signal == 0 && settings->metrics == NULL) return GLOO_OK;
  size_t bytes = strlen(directory) + 1;
  observed *o = malloc(sizeof *o + bytes);
  if (o == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the thread that observes");
  *o = (observed){.context = context, .metrics = {.fd = -1}};
  memcpy(o->directory, directory, bytes);
  observe_lock();
  gloo_status status = observe_add(o, settings, error);
  observing *idle = observe_take_idle();
  uv_mutex_unlock(&all_lock);
  if (status != GLOO_OK) free(o);
  observe_stop(idle);
  return status;
}

void gli_observe_end(gloo_context *context) {
  observe_lock();
  observed **at = &observer.contexts;
  while (*at != NULL && (*at)->context != context) at = &(*at)->next;
  observed *o = *at;
  if (o != NULL) {
    *at = o->next;
    gli_metrics_close(&o->metrics);
    observe_tell_news();
  }
  observing *idle = observe_take_idle();
  uv_mutex_unlock(&all_lock);
  free(o);
  observe_stop(idle);
}
