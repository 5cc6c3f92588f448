#include "contexts.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

struct xla_context {
  int64_t number;
  gloo_context *context;
  int users;
  xla_context *next;
};

static pthread_mutex_t xla_contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t xla_contexts_left = PTHREAD_COND_INITIALIZER;
static xla_context *xla_contexts;
static int64_t xla_contexts_made;

int64_t xla_context_add(gloo_context *context) {
  xla_context *entry = malloc(sizeof *entry);
  if (entry == NULL) return 0;
  pthread_mutex_lock(&xla_contexts_lock);
  int64_t number = ++xla_contexts_made;
  *entry = (xla_context){number, context, 0, xla_contexts};
  xla_contexts = entry;
  pthread_mutex_unlock(&xla_contexts_lock);
  return number;
}

static struct timespec xla_contexts_deadline(int64_t patience_ns) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  int64_t ns = at.tv_nsec + patience_ns % 1000000000;
  at.tv_sec += (time_t)(patience_ns / 1000000000 + ns / 1000000000);
  at.tv_nsec = (long)(ns % 1000000000);
  return at;
}

/* Called with the lock held. */
static void xla_context_drain(xla_context *entry, int64_t patience_ns) {
  struct timespec deadline = {0, 0};
  if (patience_ns >= 0) deadline = xla_contexts_deadline(patience_ns);
  bool in_time = true;
  while (entry->users > 0 && patience_ns >= 0 && in_time) {
    in_time = pthread_cond_timedwait(&xla_contexts_left, &xla_contexts_lock,
                                     &deadline) == 0;
  }
  if (entry->users > 0 && !in_time) {
    gloo_context_abort(entry->context, "the context was closed", NULL);
  }
  while (entry->users > 0) {
    pthread_cond_wait(&xla_contexts_left, &xla_contexts_lock);
  }
}

void xla_context_remove(int64_t number, int64_t patience_ns) {
  pthread_mutex_lock(&xla_contexts_lock);
  xla_context **place = &xla_contexts;
  while (*place != NULL && (*place)->number != number) {
    place = &(*place)->next;
  }
  xla_context *entry = *place;
  if (entry != NULL) {
    *place = entry->next;
    xla_context_drain(entry, patience_ns);
  }
  pthread_mutex_unlock(&xla_contexts_lock);
  free(entry);
}

xla_context *xla_context_enter(int64_t number, gloo_context **context) {
  pthread_mutex_lock(&xla_contexts_lock);
  xla_context *entry = xla_contexts;
  while (entry != NULL && entry->number != number) entry = entry->next;
  if (entry != NULL) {
    entry->users++;
    *context = entry->context;
  }
  pthread_mutex_unlock(&xla_contexts_lock);
  return entry;
}

void xla_context_leave(xla_context *entry) {
  pthread_mutex_lock(&xla_contexts_lock);
  if (--entry->users == 0) pthread_cond_broadcast(&xla_contexts_left);
  pthread_mutex_unlock(&xla_contexts_lock);
}
