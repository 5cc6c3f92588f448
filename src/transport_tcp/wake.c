/* Sleeping and waking.
 *
 * A wake-up is a byte in a pipe, so it is level-triggered: every sleeper sees
 * it until the next poll removes it. That poll must not remove it while a
 * thread is still on its way out of poll(2) (the kernel looks again before it
 * returns), so it leaves the byte as long as a thread is inside; threads that
 * begin to sleep in the meantime return early, which is allowed. */
#include <unistd.h>

#include "core/descriptor.h"
#include "transport_tcp/tcp.h"

bool gli_tcp_wake_open(gli_tcp *t) {
  int fds[2] = {-1, -1};
  bool opened = gli_pipe_open(fds);
  t->wake_read = fds[0];
  t->wake_write = fds[1];
  return opened;
}

void gli_tcp_wake_close(gli_tcp *t) {
  if (t->wake_read >= 0) close(t->wake_read);
  if (t->wake_write >= 0) close(t->wake_write);
  t->wake_read = t->wake_write = -1;
}

static void signal_once(gli_tcp *t) {
  if (atomic_exchange(&t->wake_signalled, true)) return;
  gli_pipe_signal(t->wake_write);
}

void gli_tcp_wake(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  atomic_fetch_add(&t->wake_generation, 1);
  signal_once(t);
}

void gli_tcp_wake_reset(gli_tcp *t) {
  if (!atomic_load_explicit(&t->wake_signalled, memory_order_relaxed)) return;
  if (atomic_load(&t->peers.sleepers) > 0) return;
  unsigned generation = atomic_load(&t->wake_generation);
  char byte;
  ssize_t taken = read(t->wake_read, &byte, 1);
  if (taken != 1) return; /* the waker has yet to write it: next time */
  atomic_store(&t->wake_signalled, false);
  /* A wake-up that found the signal still set has written nothing. */
  if (atomic_load(&t->wake_generation) != generation) signal_once(t);
}

bool gli_tcp_sleep_begin(gli_transport *base, gli_sleep *sleep) {
  gli_tcp *t = (gli_tcp *)base;
  atomic_fetch_add(&t->peers.sleepers, 1);
  gli_sleep_add(sleep, gli_events_fd(t->events),
                atomic_load(&t->peers.next_due_ns));
  gli_sleep_add(sleep, t->wake_read, 0);
  return !atomic_load(&t->wake_signalled) && !atomic_load(&t->peers.needs_poll);
}

void gli_tcp_sleep_end(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  atomic_fetch_sub(&t->peers.sleepers, 1);
}
