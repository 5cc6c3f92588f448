#include "contexts.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct native_context {
  int64_t number;
  gloo_context *context;
  int users;
  native_context *next;
  size_t length; /* of the name */
  char name[];
};

static pthread_mutex_t native_contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t native_contexts_left = PTHREAD_COND_INITIALIZER;
static native_context *native_contexts;
static int64_t native_contexts_made;

int64_t native_context_add(gloo_context *context, const char *name) {
  size_t length = name == NULL ? 0 : strlen(name);
  native_context *entry = malloc(sizeof *entry + length);
  if (entry == NULL) return 0;
  *entry = (native_context){.context = context, .length = length};
  if (length > 0) memcpy(entry->name, name, length);
  pthread_mutex_lock(&native_contexts_lock);
  int64_t number = ++native_contexts_made;
  entry->number = number;
  entry->next = native_contexts;
  native_contexts = entry;
  pthread_mutex_unlock(&native_contexts_lock);
  return number;
}

static struct timespec native_contexts_deadline(int64_t patience_ns) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  int64_t ns = at.tv_nsec + patience_ns % 1000000000;
  at.tv_sec += (time_t)(patience_ns / 1000000000 + ns / 1000000000);
  at.tv_nsec = (long)(ns % 1000000000);
  return at;
}

/* Called with the lock held. */
static void native_context_drain(native_context *entry, int64_t patience_ns) {
  struct timespec deadline = {0, 0};
  if (patience_ns >= 0) deadline = native_contexts_deadline(patience_ns);
  bool in_time = true;
  while (entry->users > 0 && patience_ns >= 0 && in_time) {
    in_time = pthread_cond_timedwait(&native_contexts_left,
                                     &native_contexts_lock, &deadline) == 0;
  }
  if (entry->users > 0 && !in_time) {
    gloo_context_abort(entry->context, "the context was closed", NULL);
  }
  while (entry->users > 0) {
    pthread_cond_wait(&native_contexts_left, &native_contexts_lock);
  }
}

void native_context_remove(int64_t number, int64_t patience_ns) {
  pthread_mutex_lock(&native_contexts_lock);
  native_context **place = &native_contexts;
  while (*place != NULL && (*place)->number != number) {
    place = &(*place)->next;
  }
  native_context *entry = *place;
  if (entry != NULL) {
    *place = entry->next;
    native_context_drain(entry, patience_ns);
  }
  pthread_mutex_unlock(&native_contexts_lock);
  free(entry);
}

native_context *native_context_enter(int64_t number, gloo_context **context) {
  pthread_mutex_lock(&native_contexts_lock);
  native_context *entry = native_contexts;
  while (entry != NULL && entry->number != number) entry = entry->next;
  if (entry != NULL) {
    entry->users++;
    *context = entry->context;
  }
  pthread_mutex_unlock(&native_contexts_lock);
  return entry;
}

static native_context *native_context_after(native_context *entry,
                                            const char *name, size_t length) {
  while (entry != NULL &&
         (entry->length != length || memcmp(entry->name, name, length) != 0)) {
    entry = entry->next;
  }
  return entry;
}

native_context *native_context_enter_named(const char *name, size_t length,
                                           gloo_context **context,
                                           int *several) {
  *several = 0;
  if (length == 0) return NULL;
  pthread_mutex_lock(&native_contexts_lock);
  native_context *entry = native_context_after(native_contexts, name, length);
  if (entry != NULL &&
      native_context_after(entry->next, name, length) != NULL) {
    *several = 1;
    entry = NULL;
  }
  if (entry != NULL) {
    entry->users++;
    *context = entry->context;
  }
  pthread_mutex_unlock(&native_contexts_lock);
  return entry;
}

void native_context_leave(native_context *entry) {
  pthread_mutex_lock(&native_contexts_lock);
  if (--entry->users == 0) pthread_cond_broadcast(&native_contexts_left);
  pthread_mutex_unlock(&native_contexts_lock);
}
