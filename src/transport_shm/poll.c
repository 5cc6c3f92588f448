/* One poll: deadlines, descriptors now and then, rings. */
#include "core/hints.h"
#include "transport_shm/shm.h"

/* Intervals of system calls for descriptors; polling a ring needs none. */
enum { POLLS_PER_CLOCK = 32 };
static const uint64_t look_every_ns = 50000;

bool gli_shm_watch(gli_shm *t, gli_watch *watch, int fd, gli_ready ready,
                   void *owner) {
  bool made = gli_watch_init(watch, t->events, fd, ready, owner);
  watch->fd = fd; /* also without a watch, gli_watch_close closes it */
  return made && gli_watch_now(watch, GLI_READABLE);
}

void gli_shm_bell_ready(void *owner, int events) {
  (void)events;
  gli_shm_read_bell(owner);
}

void gli_shm_liveness_ready(void *owner, int events) {
  gli_shm_pair *pair = owner;
  (void)events;
  pair->t->peers.happened++;
  gli_shm_pair_ready(pair);
}

static void look_at_descriptors(gli_shm *t) {
  atomic_store(&t->look, false);
  if (gli_events_poll(t->events) >= GLI_EVENTS_MAX)
    atomic_store(&t->look, true);
}

GLI_COLD static bool time_has_come(gli_shm *t) {
  if (t->connecting > 0) return true;
  uint64_t now_ns = uv_hrtime();
  if (now_ns < t->next_look_ns) return false;
  t->next_look_ns = now_ns + look_every_ns;
  return true;
}

/* Returns true periodically, after a sleep, and often while connecting. */
static bool time_to_look(gli_shm *t) {
  if (atomic_load_explicit(&t->look, memory_order_relaxed)) return true;
  return ++t->polls % POLLS_PER_CLOCK == 0 && time_has_come(t);
}

/* Handles all deadlines once the earliest has passed. They are not exact,
 * because the clock is read as rarely as the descriptors. */
static void shm_meet_deadlines(gli_shm *t) {
  uint64_t due =
      atomic_load_explicit(&t->peers.next_due_ns, memory_order_relaxed);
  if (due == 0) return;
  uint64_t now = uv_hrtime();
  if (now < due) return;
  atomic_store(&t->peers.next_due_ns, 0);
  gli_shm_half_open_due(t, now);
  gli_peers_due(&t->peers, now);
}

/* Reports the death of a peer after its last records have been read. */
static void report_death(gli_shm_pair *pair) {
  if (gli_shm_ready(&pair->in, memory_order_acquire)) return;
  gli_peer_break(
      &pair->peer, GLOO_ERR_PEER,
      "rank %u closed the connection unexpectedly; it may have been killed",
      (unsigned)pair->peer.config.peer_rank);
}

/* Touches each pair, so it does nothing while nothing has changed. */
static void shm_poll_spread(gli_shm *t) {
  bool oversubscribed =
      atomic_load_explicit(&t->oversubscribed, memory_order_relaxed);
  if (t->spread_for == oversubscribed) return;
  t->spread_for = oversubscribed;
  for (size_t i = 0; i < t->n_up; i++)
    gli_shm_spread(&t->up[i]->out, t->n_up, oversubscribed);
}

GLI_COLD static void look_around(gli_shm *t) {
  shm_poll_spread(t);
  look_at_descriptors(t);
  gli_shm_forget_freed(t);
  shm_meet_deadlines(t);
  atomic_store_explicit(&t->page->looked_ns, uv_hrtime(), memory_order_relaxed);
}

void gli_shm_rested(gli_transport *base) {
  atomic_store(&((gli_shm *)base)->look, true);
}

/* Returns true if the pair only waits for records, which is usual. */
static inline bool is_quiet(const gli_shm_pair *pair) {
  return pair->queue.head == NULL && pair->peer.pending_work == 0;
}

GLI_COLD static int end_turn(gli_shm_pair *pair) {
  int events = gli_shm_flush(pair);
  if (pair->peer.peer_closed && pair->peer.live && !pair->peer.departed)
    report_death(pair);
  if (pair->peer.closed) gli_shm_linger_check(pair, 0);
  return events;
}

static inline int shm_poll_turn(gli_shm_pair *pair) {
  int events = 0;
  if (gli_shm_ready(&pair->in, memory_order_acquire) && pair->peer.live &&
      !pair->peer.departed) {
    events = gli_shm_receive(pair);
  } else if (gli_shm_unacked(&pair->in) > 0 && pair->state == GLI_SHM_UP) {
    gli_shm_give_back(pair);
  }
  return is_quiet(pair) ? events : events + end_turn(pair);
}

int gli_shm_poll(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  t->peers.happened = 0;
  t->peers.in_poll = true;
  if (atomic_load_explicit(&t->peers.needs_poll, memory_order_relaxed))
    atomic_store(&t->peers.needs_poll, false);
  if (time_to_look(t)) look_around(t);
  if (t->peers.to_begin) gli_peers_begin(&t->peers);
  for (size_t i = 0; i < t->n_up; i++)
    t->peers.happened += shm_poll_turn(t->up[i]);
  if (t->peers.to_report) gli_shm_tidy(t);
  t->peers.in_poll = false;
  return t->peers.happened;
}
