/* A rank of a cell: makes calls until one fails or the driver ends the cell. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cell.h"

/* AHEAD exceeds the distance between ranks in calls, since some calls are
 * barriers. */
enum { AHEAD = 32, NEVER = 0, FEW = 150 };

typedef struct position {
  const cell *c;
  cell_board *board;
  cell_note *note;
  int rank;
  bool departed;
} position;

static bool is_victim(const position *p) {
  return p->rank == p->c->victim;
}

/* ---- what the rank at fault does ----------------------------------------- */

static void await_strike(const cell_board *board) {
  while (!atomic_load(&board->struck)) cell_nap_ns(200000);
}

static void *suffer_later(void *argument) {
  const position *p = argument;
  await_strike(p->board);
  atomic_store(&p->board->struck_ns, cell_now_ns());
  p->c->fault->suffer();
  return NULL;
}

/* Starts the fault on a separate thread, since the calling thread may be
 * blocked. */
static void begin_to_suffer(position *p) {
  pthread_t thread;
  if (p->c->fault->suffer == NULL || !is_victim(p)) return;
  if (p->c->before_start) {
    atomic_store(&p->board->struck_ns, cell_now_ns());
    p->c->fault->suffer();
  } else if (pthread_create(&thread, NULL, suffer_later, p) == 0) {
    pthread_detach(thread);
  } else {
    _exit(81);
  }
}

/* Makes the deviating call. Leaves the number of the next call in
 * call->number. */
static gloo_status depart(position *p, cell_work *w, cell_call *call) {
  cell_departure departure = p->c->fault->departure;
  bool wrong;
  p->departed = true;
  atomic_store(&p->board->struck_ns, cell_now_ns());
  cell_call other = *call;
  gloo_status status = GLOO_OK;
  if (departure == CELL_ORDER) {
    other = cell_call_draw(p->c->kind, p->c->seed, call->number + 1, w->ranks);
    status = cell_call_make(w, &other, &wrong);
    if (status == GLOO_OK) status = cell_call_make(w, call, &wrong);
    call->number += 2;
    return status;
  }
  cell_call_depart(&other, departure, w->rank, w->ranks);
  if (departure != CELL_MISSING) status = cell_call_make(w, &other, &wrong);
  if (departure != CELL_EXTRA && departure != CELL_ALONE) call->number++;
  return status;
}

/* ---- calls --------------------------------------------------------------- */

/* Creates a group, which takes descriptors and memory. */
static gloo_status make_a_group(const cell_work *w, gloo_error *error) {
  gloo_context *group;
  gloo_status status =
      gloo_context_split(w->context, w->rank % 2, 0, NULL, &group, error);
  if (status != GLOO_OK) return status;
  status = gloo_barrier(group, NULL, error);
  gloo_context_destroy(group);
  return status;
}

/* Returns true if ranks stop before this call. */
static bool is_over(const position *p, unsigned number) {
  cell_board *board = p->board;
  unsigned last =
      p->c->fault->others_leave ? FEW : atomic_load(&board->stop_at);
  if (p->rank == 0 && last == NEVER && atomic_load(&board->stop)) {
    last = number + AHEAD;
    atomic_store(&board->stop_at, last);
  }
  return last != NEVER && number >= last;
}

static bool is_to_depart(const position *p, const cell_call *call) {
  return is_victim(p) && !p->departed && p->c->fault->departure != CELL_NONE &&
         call->kind == p->c->kind && atomic_load(&p->board->struck);
}

static bool is_to_act(const position *p) {
  cell_board *board = p->board;
  if (p->c->fault->act == NULL || !is_victim(p)) return false;
  if (!atomic_load(&board->struck)) return false;
  atomic_store(&board->struck_ns, cell_now_ns());
  return true;
}

/* Sleeps, as for computation, and makes a message call, no collective. */
static void pause_and_call_on(const cell *c, cell_call *call) {
  static unsigned random = 1;
  call->kind = c->kind;
  cell_nap_ns(cell_random(&random, 2000000));
}

static gloo_status call_until_the_end(position *p, cell_work *w) {
  const cell *c = p->c;
  for (unsigned n = 0; !is_over(p, n); n++) {
    gloo_status status;
    cell_call call = cell_call_draw(c->kind, c->seed, n, w->ranks);
    if (c->fault->departure == CELL_ALONE) pause_and_call_on(c, &call);
    p->note->calls = n;
    if (is_to_act(p)) c->fault->act(w->context);
    if (is_to_depart(p, &call)) {
      status = depart(p, w, &call);
      n = call.number - 1;
    } else {
      status = cell_call_make(w, &call, &p->note->wrong);
    }
    if (status == GLOO_OK && c->fault->makes_groups && n % 16 == 15)
      status = make_a_group(w, NULL);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

/* Records the cause. A refused call leaves the context intact; the status of
 * the call is then the cause. */
static void tell_why(const position *p, const cell_work *w,
                     gloo_status status) {
  cell_note *note = p->note;
  gloo_error error = {.rank = -1}, later = {.status = GLOO_OK};
  note->at_ns = cell_now_ns();
  note->cause = status;
  note->named = -1;
  if (status == GLOO_OK) return;
  gloo_status cause = gloo_context_error(w->context, &error);
  if (cause == GLOO_OK) return;
  note->cause = cause;
  note->named = error.root_rank;
  memcpy(note->text, error.message, sizeof note->text);
  /* After a refused call the barrier would match the next call of the other
   * ranks. */
  if (p->c->fault->outcome != CELL_ENDS) return;
  note->changed = gloo_barrier(w->context, NULL, &later) != GLOO_ERR_POISONED ||
                  later.cause != cause;
}

/* ---- a rank -------------------------------------------------------------- */

static void set_environment(const cell *c) {
  setenv("GLOO_HEARTBEAT", c->fault->heartbeat, 1);
  setenv("GLOO_LOG_LEVEL", "error", 0);
  if (c->fault->setting != NULL) setenv(c->fault->setting, c->fault->value, 0);
}

typedef struct belongings {
  gloo_store *store;
  gloo_device *device;
} belongings;

static gloo_status join(const position *p, const char *directory,
                        belongings *own, cell_work *w, gloo_error *error) {
  const cell *c = p->c;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  d.transport = c->over == CELL_HOSTS ? "auto" : cell_over_names[c->over];
  o.timeout_ns = c->fault->timeout_ns;
  if (c->over == CELL_HOSTS)
    d.host = cell_is_there(c, p->rank) ? "10.213.78.2" : "10.213.78.1";
  gloo_status status =
      cell_store_open(c, directory, p->board, &own->store, error);
  if (status != GLOO_OK) return status;
  status = gloo_device_create(&d, &own->device, error);
  if (status != GLOO_OK) return status;
  return gloo_context_create(p->rank, c->ranks, own->store, own->device, &o,
                             &w->context, error);
}

int cell_rank(const cell *c, int rank, const char *directory,
              cell_board *board) {
  position p = {
      .c = c, .board = board, .note = &board->notes[rank], .rank = rank};
  belongings own = {NULL, NULL};
  cell_work w = {.rank = rank, .ranks = c->ranks};
  gloo_error error;
  set_environment(c);
  if (!cell_work_make(&w)) return 82;
  begin_to_suffer(&p);
  gloo_status status = join(&p, directory, &own, &w, &error);
  if (status == GLOO_OK) {
    atomic_store(&p.note->works, true);
    tell_why(&p, &w, call_until_the_end(&p, &w));
  } else {
    p.note->at_ns = cell_now_ns();
    p.note->cause = status;
    p.note->named = error.root_rank;
    memcpy(p.note->text, error.message, sizeof p.note->text);
  }
  uint64_t leaving_ns = cell_now_ns();
  gloo_context_destroy(w.context);
  if (own.device != NULL) gloo_device_destroy(own.device);
  gloo_store_destroy(own.store);
  p.note->leaving_ns = (int64_t)(cell_now_ns() - leaving_ns);
  cell_work_free(&w);
  atomic_store(&p.note->ended, true);
  return 0;
}
