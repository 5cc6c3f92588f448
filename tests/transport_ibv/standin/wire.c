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

/* The queue pairs that may have work. */
static standin_qp **served;
static unsigned n_served, served_capacity;

static bool has_work(const standin_qp *qp) {
  bool flushes =
      qp->base.state == IBV_QPS_ERR && qp->receive.over != qp->receive.posted;
  return flushes || qp->send.over != qp->send.posted;
}

static void drop_served(unsigned i) {
  served[i]->served = false;
  served[i] = served[--n_served];
}

/* Runs one step of a random queue pair. */
static bool step_any(uint64_t *due_ns) {
  if (n_served == 0) return false;
  unsigned first = standin_random(n_served), n = n_served;
  for (unsigned i = 0; i < n; i++)
    if (standin_step(served[(first + i) % n], due_ns)) return true;
  for (unsigned i = n_served; i-- > 0;)
    if (!has_work(served[i])) drop_served(i);
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
  n_served = 0;
}

void standin_wire_drop(standin_qp *qp) {
  for (unsigned i = 0; i < n_served && qp->served; i++)
    if (served[i] == qp) drop_served(i);
}

void standin_wire_serve(standin_qp *qp) {
  if (!qp->served) {
    if (n_served == served_capacity) {
      served_capacity = 2 * served_capacity + 64;
      served = realloc(served, served_capacity * sizeof *served);
      if (served == NULL) standin_die("no memory for queue pairs");
    }
    qp->served = true;
    served[n_served++] = qp;
  }
  standin_wire_wake();
}

void standin_wire_wake(void) {
  if (standin_is_prompt())
    standin_wire_finish();
  else if (running)
    pthread_cond_signal(&changed);
}
