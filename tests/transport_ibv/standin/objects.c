/* The list of existing objects. */
#include <stdio.h>
#include <string.h>

#include "standin.h"

static const char *const kind_names[STANDIN_KINDS] = {
    "device list",          "context",
    "protection domain",    "memory",
    "completion channel",   "completion queue",
    "shared receive queue", "queue pair"};

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
standin_object *standin_first[STANDIN_KINDS];
static standin_object *forgotten[STANDIN_KINDS];
static int leaked;

/* There may be thousands of queue pairs, of which each call checks one. */
enum { BUCKETS = 4096 };
static standin_object *buckets[BUCKETS];

static standin_object **bucket_of(const void *self) {
  return &buckets[((uintptr_t)self >> 5) % BUCKETS];
}

void standin_add(standin_object *object, standin_kind kind, void *self,
                 void *context) {
  standin_object **bucket = bucket_of(self), *next = standin_first[kind];
  *object = (standin_object){.next = next,
                             .next_found = *bucket,
                             .kind = kind,
                             .self = self,
                             .context = context};
  if (next != NULL) next->prev = object;
  standin_first[kind] = *bucket = object;
}

static standin_object **find(standin_kind kind, const void *self) {
  standin_object **at = bucket_of(self);
  while (*at != NULL && ((*at)->self != self || (*at)->kind != kind))
    at = &(*at)->next_found;
  return at;
}

void standin_check(standin_kind kind, const void *self, const char *call) {
  if (*find(kind, self) == NULL)
    standin_die("%s of a %s that is not there (any more)", call,
                kind_names[kind]);
}

void standin_remove(standin_kind kind, const void *self) {
  standin_object **at = find(kind, self), *object = *at;
  *at = object->next_found;
  if (object->next != NULL) object->next->prev = object->prev;
  if (object->prev != NULL)
    object->prev->next = object->next;
  else
    standin_first[kind] = object->next;
}

void standin_forget(void) {
  memcpy(forgotten, standin_first, sizeof forgotten);
  memset(standin_first, 0, sizeof standin_first);
  memset(buckets, 0, sizeof buckets);
}

void standin_count_leak(standin_kind kind) {
  leaked++;
  fprintf(stderr, "standin: a device was closed before its %s was destroyed\n",
          kind_names[kind]);
}

__attribute__((visibility("default"))) int standin_objects(void) {
  pthread_mutex_lock(&standin_lock);
  int n = leaked;
  for (int kind = 0; kind < STANDIN_KINDS; kind++) {
    for (standin_object *o = standin_first[kind]; o != NULL; o = o->next) {
      fprintf(stderr, "standin: a %s is left\n", kind_names[kind]);
      n++;
    }
  }
  pthread_mutex_unlock(&standin_lock);
  return n;
}
