/* The wire: a thread that runs while a device is open. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "standin.h"

/* One of PAUSE_EVERY steps is followed by a pause of at most PAUSE_NS. */
enum { PAUSE_EVERY = 16, PAUSE_NS = 100000 };

static pthread_t thread;
static pthread_cond_t changed;
static bool running, stops;

/* Runs one step of a random queue pair. */
static bool step_any(uint64_t *due_ns) {
  unsigned n = 0;
  for (standin_object *o = standin_first; o != NULL; o = o->next)
    n += o->kind == STANDIN_QP;
  if (n == 0) return false;
  unsigned first = standin_random(n);
  for (unsigned turn = 0; turn < 2; turn++) {
    unsigned i = 0;
    for (standin_object *o = standin_first; o != NULL; o = o->next) {
      if (o->kind != STANDIN_QP) continue;
      if ((i++ < first) == (turn == 0)) continue;
      if (standin_step(o->self, due_ns)) return true;
    }
  }
  return false;
}

static void pause_now(void) {
  long ns = standin_random(PAUSE_NS);
  pthread_mutex_unlock(&standin_lock);
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
  pthread_mutex_lock(&standin_lock);
}

static void wait_until(uint64_t due_ns) {
  struct timespec at = {.tv_sec = (time_t)(due_ns / 1000000000),
                        .tv_nsec = (long)(due_ns % 1000000000)};
  if (due_ns == UINT64_MAX)
    pthread_cond_wait(&changed, &standin_lock);
  else
    pthread_cond_timedwait(&changed, &standin_lock, &at);
}

void standin_wire_finish(void) {
  static bool finishing; /* a step may wake the wire */
  uint64_t due_ns = UINT64_MAX;
  if (finishing) return;
  finishing = true;
  while (step_any(&due_ns)) {
  }
  finishing = false;
}

static void *run(void *unused) {
  (void)unused;
  pthread_mutex_lock(&standin_lock);
  while (!stops) {
    uint64_t due_ns = UINT64_MAX;
    if (!step_any(&due_ns))
      wait_until(due_ns);
    else if (standin_random(PAUSE_EVERY) == 0)
      pause_now();
  }
  pthread_mutex_unlock(&standin_lock);
  return NULL;
}

int standin_wire_start(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &attributes);
  pthread_condattr_destroy(&attributes);
  stops = false;
  int code = standin_is_prompt() ? 0 : pthread_create(&thread, NULL, run, NULL);
  running = code == 0 && !standin_is_prompt();
  return code;
}

void standin_wire_stop(void) {
  if (!running) return;
  pthread_mutex_lock(&standin_lock);
  stops = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&standin_lock);
  pthread_join(thread, NULL);
  pthread_cond_destroy(&changed);
  running = false;
}

void standin_wire_forget(void) {
  running = false;
}

void standin_wire_wake(void) {
  if (standin_is_prompt())
    standin_wire_finish();
  else if (running)
    pthread_cond_signal(&changed);
}
