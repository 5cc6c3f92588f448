#include "rendezvous/join/port_watch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

#include "core/error.h"
#include "core/fork.h"
#include "core/signals.h"
#include "engine/engine.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/store/store.h"

/* The time between the starts of a job's ranks seldom exceeds this. */
#define WATCH_NS INT64_C(5000000000)
#define LINGER_MS 3000u

typedef struct port_watch port_watch;
struct port_watch {
  port_watch *next;
  gloo_context *context;
  uv_thread_t thread;
  gli_birth birth;   /* a forked child has the memory, but no thread */
  uv_mutex_t lock;   /* guards `store` */
  gloo_store *store; /* NULL after the watch's time */
};

static atomic_bool once;
static uv_mutex_t all_lock; /* guards `all`; watching threads do not take it */
static port_watch *all;

/* ---- forks --------------------------------------------------------------- */

static gli_fork_guard guard;

static void init_lock(void) {
  (void)uv_mutex_init(&all_lock);
  (void)gli_fork_guard_begin(&guard, GLI_FORK_OBJECTS, &all_lock, NULL);
}

/* Locks the list. A forked child that finds it torn, because a thread was
 * ending a watch at the fork, leaks the entries. */
static void lock_all(void) {
  gli_once(&once, init_lock);
  uv_mutex_lock(&all_lock);
  if (guard.torn) all = NULL;
  guard.torn = false;
}

/* ---- watching ------------------------------------------------------------ */

static void port_watch_watch(void *argument) {
  port_watch *self = argument;
  gloo_error cause;
  gloo_store *store = self->store;
  if (gli_bootstrap_watch(store, gli_deadline_after(WATCH_NS), &cause) !=
      GLOO_OK) {
    (void)gli_context_fail(self->context, &cause);
    uv_sleep(LINGER_MS); /* late ranks read the outcome meanwhile */
  }
  uv_mutex_lock(&self->lock);
  self->store = NULL;
  uv_mutex_unlock(&self->lock);
  gloo_store_destroy(store);
}

static port_watch *start_watch(gloo_context *context, gloo_store *store) {
  gli_signal_guard signals;
  port_watch *self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  *self = (port_watch){.context = context, .store = store};
  self->birth = gli_birth_here();
  if (uv_mutex_init(&self->lock) != 0) goto free_self;
  gli_signal_block_all(&signals);
  int rc = uv_thread_create(&self->thread, port_watch_watch, self);
  gli_signal_restore(&signals);
  if (rc == 0) return self;
  uv_mutex_destroy(&self->lock);
free_self:
  free(self);
  return NULL;
}

void gli_port_watch_begin(gloo_context *context, gloo_store *store) {
  lock_all();
  port_watch *self = start_watch(context, store);
  if (self != NULL) {
    self->next = all;
    all = self;
  }
  uv_mutex_unlock(&all_lock);
  if (self == NULL) gloo_store_destroy(store); /* no watch without memory */
}

static void stop_watch(port_watch *self) {
  if (gli_forked(&self->birth)) { /* closes the copies of descriptors only */
    gloo_store_destroy(self->store);
    free(self);
    return;
  }
  uv_mutex_lock(&self->lock);
  if (self->store != NULL) gli_bootstrap_stop_watching(self->store);
  uv_mutex_unlock(&self->lock);
  uv_thread_join(&self->thread);
  uv_mutex_destroy(&self->lock);
  free(self);
}

/* Holds the lock throughout: after the return no thread uses the context,
 * whichever thread ended the watch. */
void gli_port_watch_end(const gloo_context *context) {
  lock_all();
  for (port_watch **at = &all; *at != NULL;) {
    port_watch *self = *at;
    if (context != NULL && self->context != context) {
      at = &self->next;
      continue;
    }
    *at = self->next;
    stop_watch(self);
  }
  uv_mutex_unlock(&all_lock);
}
