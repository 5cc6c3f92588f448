/* Sleeping and waking.
 *
 * One descriptor (gli_events_fd) covers everything that can end a sleep: the
 * listener, the bell (which only this process has), and the liveness sockets. A
 * peer sends RING on its socket if it finds `asleep` set after a change, and
 * clears the flag, so that it sends only one. shm_ring.h argues that no change
 * is missed. (Peers that shared the bell could break it for others: what a
 * write to a descriptor does, and whether it blocks, depends on all processes
 * that share it.)
 *
 * The bell stays readable until a poll resets it, so every sleeper sees it. A
 * poll must not reset it while a thread is entering or leaving the kernel, so
 * it does not touch the bell as long as any thread is inside; threads that come
 * in the meantime return early, which is allowed. A thread that goes to sleep
 * just when the bell is being reset may have lost a wake, so the bell is rung
 * again for it. A poll that reads RING while a thread is inside rings the bell
 * on its behalf. */
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

void gli_shm_ring(gli_shm_pair *pair) {
  if (atomic_exchange(&pair->peer_page->asleep, 0) != 0)
    gli_shm_note_ring(pair->watch.fd);
}

void gli_shm_wake(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  atomic_fetch_add(&t->wakes, 1);
  gli_shm_bell_ring(t->ringer);
}

void gli_shm_read_bell(gli_shm *t) {
  if (atomic_load(&t->peers.sleepers) > 0) return;
  unsigned wakes = atomic_load(&t->wakes);
  gli_shm_bell_quiet(t->bell.fd);
  if (atomic_load(&t->wakes) != wakes || atomic_load(&t->peers.sleepers) > 0)
    gli_shm_bell_ring(t->ringer);
}

void gli_shm_ring_received(gli_shm *t) {
  if (atomic_load(&t->peers.sleepers) > 0) gli_shm_bell_ring(t->ringer);
}

static bool something_came(gli_shm *t) {
  bool came = false;
  uv_mutex_lock(&t->up_lock);
  for (size_t i = 0; i < t->n_up && !came; i++) {
    gli_shm_pair *pair = t->up[i];
    came = gli_shm_has_arrived(&pair->in);
    if (atomic_load(&pair->waiting))
      came = came || gli_shm_room_made(&pair->out);
  }
  uv_mutex_unlock(&t->up_lock);
  return came;
}

bool gli_shm_sleep_begin(gli_transport *base, gli_sleep *sleep) {
  gli_shm *t = (gli_shm *)base;
  atomic_fetch_add(&t->peers.sleepers, 1);
  atomic_store(&t->page->asleep, 1);
  gli_sleep_add(sleep, gli_events_fd(t->events),
                atomic_load(&t->peers.next_due_ns));
  return !atomic_load(&t->peers.needs_poll) && !something_came(t);
}

void gli_shm_sleep_end(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  atomic_fetch_sub(&t->peers.sleepers, 1);
  atomic_store(&t->look, true);
}

void gli_shm_sleep(gli_transport *base, int64_t timeout_ns) {
  gli_sleep sleep = {.fds = 0};
  if (gli_shm_sleep_begin(base, &sleep))
    gli_sleep_wait(&sleep, uv_hrtime(), timeout_ns);
  gli_shm_sleep_end(base);
}
