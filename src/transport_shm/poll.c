/* One turn: descriptors now and then, deadlines, rings. Linux only. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/hints.h"
#include "transport_shm/shm.h"

/* Looking at the descriptors is a system call, looking at a ring is not. */
enum { POLLS_PER_CLOCK = 32, EVENTS_PER_LOOK = 32 };
static const uint64_t look_every_ns = 50000;

bool gli_shm_watch_add(gli_shm *t, gli_shm_watch *watch) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
  return epoll_ctl(t->epoll, EPOLL_CTL_ADD, watch->fd, &event) == 0;
}

/* A forked child may have a copy of the descriptor, which keeps both alive when
 * it is closed here: the watch, which points into memory that is freed, and the
 * connection, whose end the peer waits for. */
void gli_shm_watch_close(gli_shm *t, gli_shm_watch *watch) {
  if (watch->fd < 0) return;
  if (t->epoll >= 0) (void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
  if (watch->about != GLI_SHM_ABOUT_BELL) (void)shutdown(watch->fd, SHUT_RDWR);
  close(watch->fd);
  watch->fd = -1;
}

static gli_shm_pair *pair_of(gli_shm_watch *watch) {
  char *at = (char *)watch - offsetof(gli_shm_pair, watch);
  return (gli_shm_pair *)(void *)at;
}

static void serve(gli_shm *t, gli_shm_watch *watch) {
  if (watch->fd < 0) return; /* closed by what came before it */
  if (watch->about != GLI_SHM_ABOUT_BELL) t->happened++;
  switch (watch->about) {
    case GLI_SHM_ABOUT_LISTENER:
      gli_shm_knock(t);
      break;
    case GLI_SHM_ABOUT_BELL:
      gli_shm_heard(t);
      break;
    case GLI_SHM_ABOUT_GUEST:
      gli_shm_guest_ready(t, (gli_shm_guest *)watch);
      break;
    case GLI_SHM_ABOUT_PAIR:
      gli_shm_pair_ready(pair_of(watch));
      break;
  }
}

static void look_at_descriptors(gli_shm *t) {
  atomic_store(&t->look, false);
  struct epoll_event events[EVENTS_PER_LOOK];
  int n = epoll_wait(t->epoll, events, EVENTS_PER_LOOK, 0);
  for (int i = 0; i < n; i++) serve(t, events[i].data.ptr);
  if (n == EVENTS_PER_LOOK) atomic_store(&t->look, true);
}

GLI_COLD static bool time_has_come(gli_shm *t) {
  if (t->unsettled > 0) return true;
  uint64_t now_ns = uv_hrtime();
  if (now_ns < t->next_look_ns) return false;
  t->next_look_ns = now_ns + look_every_ns;
  return true;
}

/* Once in a while, or after a sleep; often while connections are made. */
static bool time_to_look(gli_shm *t) {
  if (atomic_load_explicit(&t->look, memory_order_relaxed)) return true;
  return ++t->polls % POLLS_PER_CLOCK == 0 && time_has_come(t);
}

GLI_COLD static void begin_pairs(gli_shm *t) {
  t->to_begin = false;
  gli_shm_pair *next;
  for (gli_shm_pair *pair = t->pairs; pair != NULL; pair = next) {
    next = pair->next;
    if (pair->state == GLI_SHM_IDLE && !pair->broken) gli_shm_begin(pair);
  }
}

/* All deadlines, once the earliest has passed. They are not sharp: the clock is
 * looked at as rarely as the descriptors. */
static void meet_deadlines(gli_shm *t) {
  uint64_t due = atomic_load_explicit(&t->next_due_ns, memory_order_relaxed);
  if (due == 0) return;
  uint64_t now = uv_hrtime();
  if (now < due) return;
  atomic_store(&t->next_due_ns, 0);
  gli_shm_guests_due(t, now);
  gli_shm_pair *next;
  for (gli_shm_pair *pair = t->pairs; pair != NULL; pair = next) {
    next = pair->next;
    if (pair->due_ns != 0 && pair->due_ns <= now) {
      pair->due_ns = 0;
      gli_shm_pair_due(pair, now);
    } else if (pair->due_ns != 0) {
      gli_shm_schedule(t, pair->due_ns);
    }
    if (!pair->closed) continue;
    if (pair->linger_until_ns > now) gli_shm_schedule(t, pair->linger_until_ns);
    gli_shm_linger_check(pair, now);
  }
}

/* A dead peer's last records are read before its death is reported. */
static void bury(gli_shm_pair *pair) {
  if (gli_shm_ready(&pair->in, memory_order_acquire)) return;
  gli_shm_pair_break(
      pair, GLOO_ERR_PEER,
      "rank %u closed the connection without a word; it may have "
      "been killed",
      (unsigned)pair->config.peer_rank);
}

static void spread(gli_shm *t) {
  bool crowded = atomic_load_explicit(&t->crowded, memory_order_relaxed);
  for (size_t i = 0; i < t->n_up; i++)
    gli_shm_spread(&t->up[i]->out, t->n_up, crowded);
}

GLI_COLD static void look_around(gli_shm *t) {
  spread(t);
  look_at_descriptors(t);
  gli_shm_forget_freed(t);
  meet_deadlines(t);
}

/* Is there nothing to see to but what may come? So it is most of the time. */
static inline bool is_quiet(const gli_shm_pair *pair) {
  return pair->queue.head == NULL && pair->unrest == 0;
}

GLI_COLD static int end_turn(gli_shm_pair *pair) {
  int events = gli_shm_flush(pair);
  if (pair->hung && pair->live && !pair->left) bury(pair);
  if (pair->closed) gli_shm_linger_check(pair, 0);
  return events;
}

static inline int turn(gli_shm_pair *pair) {
  int events = 0;
  if (gli_shm_ready(&pair->in, memory_order_acquire) && pair->live &&
      !pair->left) {
    events = gli_shm_receive(pair);
  } else if (gli_shm_untold(&pair->in) > 0 && pair->state == GLI_SHM_UP) {
    gli_shm_give_back(pair);
  }
  return is_quiet(pair) ? events : events + end_turn(pair);
}

int gli_shm_poll(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  t->happened = 0;
  t->in_poll = true;
  if (atomic_load_explicit(&t->needs_poll, memory_order_relaxed))
    atomic_store(&t->needs_poll, false);
  if (time_to_look(t)) look_around(t);
  if (t->to_begin) begin_pairs(t);
  for (size_t i = 0; i < t->n_up; i++) t->happened += turn(t->up[i]);
  if (t->to_tidy) gli_shm_tidy(t);
  t->in_poll = false;
  return t->happened;
}
