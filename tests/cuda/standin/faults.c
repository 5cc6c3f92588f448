/* Fault injection: calls that fail on request of a test. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

enum { MOST_NAMES = 64 };

typedef struct entry {
  const char *name;
  unsigned left; /* calls until the failing one; 0: none fails */
  gli_gpu_result result;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry entries[MOST_NAMES];
static gli_gpu_result broken;

static entry *entry_of(const char *name) {
  int i = 0;
  while (entries[i].name != NULL && strcmp(entries[i].name, name) != 0) i++;
  if (i == MOST_NAMES - 1) abort();
  if (entries[i].name == NULL) entries[i].name = strdup(name);
  return &entries[i];
}

void standin_fail(const char *name, unsigned n, gli_gpu_result result) {
  pthread_mutex_lock(&lock);
  entry *e = entry_of(name);
  e->left = n;
  e->result = result;
  pthread_mutex_unlock(&lock);
}

void standin_break(gli_gpu_result result) {
  pthread_mutex_lock(&lock);
  broken = result;
  pthread_mutex_unlock(&lock);
}

gli_gpu_result standin_enter(const char *name) {
  pthread_mutex_lock(&lock);
  entry *e = entry_of(name);
  gli_gpu_result result = broken;
  if (e->left > 0 && --e->left == 0) result = e->result;
  pthread_mutex_unlock(&lock);
  return result;
}

unsigned long standin_number(const char *name, unsigned long otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text ? strtoul(text, NULL, 10) : otherwise;
}
