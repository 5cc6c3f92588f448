/* The list of existing objects. */
#include <stdio.h>

#include "standin.h"

static const char *const kind_names[STANDIN_KINDS] = {
    "device list",          "context",
    "protection domain",    "memory",
    "completion channel",   "completion queue",
    "shared receive queue", "queue pair"};

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
standin_object *standin_first;
static standin_object *forgotten;
static int leaked;

void standin_add(standin_object *object, standin_kind kind, void *self,
                 void *context) {
  *object = (standin_object){standin_first, kind, self, context};
  standin_first = object;
}

static standin_object **find(standin_kind kind, const void *self) {
  standin_object **at = &standin_first;
  while (*at != NULL && ((*at)->self != self || (*at)->kind != kind))
    at = &(*at)->next;
  return at;
}

void standin_check(standin_kind kind, const void *self, const char *call) {
  if (*find(kind, self) == NULL)
    standin_die("%s of a %s that is not there (any more)", call,
                kind_names[kind]);
}

void standin_remove(standin_kind kind, const void *self) {
  standin_object **at = find(kind, self);
  *at = (*at)->next;
}

void standin_forget(void) {
  forgotten = standin_first;
  standin_first = NULL;
}

void standin_count_leak(standin_kind kind) {
  leaked++;
  fprintf(stderr, "standin: a device was closed before its %s was destroyed\n",
          kind_names[kind]);
}

__attribute__((visibility("default"))) int standin_objects(void) {
  pthread_mutex_lock(&standin_lock);
  int n = leaked;
  for (standin_object *o = standin_first; o != NULL; o = o->next) {
    fprintf(stderr, "standin: a %s is left\n", kind_names[o->kind]);
    n++;
  }
  pthread_mutex_unlock(&standin_lock);
  return n;
}
