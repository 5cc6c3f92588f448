/* Sleeping and being woken. Linux only.
 *
 * All that can end a sleep is in one epoll descriptor: the listener, the bell,
 * an eventfd of this process alone, and the liveness sockets, on which a peer
 * says RING when it finds `asleep` set after it has changed something; it takes
 * the flag back, so that it says so once. shm_ring.h argues that no change is
 * missed. (A bell that peers have, too, would be theirs to break for others:
 * what writing to a descriptor does, and whether it blocks, is up to all that
 * share it.)
 *
 * The bell stays readable until a poll quiets it, so every sleeper hears it. A
 * poll must not quiet it under a thread that is on its way to or out of the
 * kernel, so it leaves it alone as long as a thread is inside; threads that
 * come meanwhile return early, which is allowed. A thread that goes to sleep
 * just when the bell is being quieted may have lost a ring of wake, so the bell
 * is rung again for it. A poll that reads RING while a thread is inside rings
 * the bell in its place. */
#define _GNU_SOURCE
#include <poll.h>

#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

void gli_shm_ring(gli_shm_pair *pair) {
  if (atomic_exchange(&pair->peer_page->asleep, 0) != 0)
    gli_shm_note_ring(pair->watch.fd);
}

void gli_shm_wake(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  atomic_fetch_add(&t->wakes, 1);
  gli_shm_bell_ring(t->bell.fd);
}

void gli_shm_heard(gli_shm *t) {
  if (atomic_load(&t->peers.sleepers) > 0) return;
  unsigned wakes = atomic_load(&t->wakes);
  gli_shm_bell_quiet(t->bell.fd);
  if (atomic_load(&t->wakes) != wakes || atomic_load(&t->peers.sleepers) > 0)
    gli_shm_bell_ring(t->bell.fd);
}

void gli_shm_rung(gli_shm *t) {
  if (atomic_load(&t->peers.sleepers) > 0) gli_shm_bell_ring(t->bell.fd);
}

static bool something_came(gli_shm *t) {
  bool came = false;
  uv_mutex_lock(&t->up_lock);
  for (size_t i = 0; i < t->n_up && !came; i++) {
    gli_shm_pair *pair = t->up[i];
    came = gli_shm_came(&pair->in);
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
