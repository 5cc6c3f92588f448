/* One turn: deadlines, and what is ready. */
#include <stddef.h>
#include <stdlib.h>

#include "transport_tcp/tcp.h"

/* At most so many polls in a row do without the set, and so many of them when
 * they find nothing. */
enum { DIRECT_POLLS = 16, IDLE_POLLS = 4 };

uint64_t gli_tcp_now(gli_transport *t) {
  (void)t;
  return uv_hrtime();
}

static void tcp_begin_pairs(gli_tcp *t) {
  if (!t->to_begin) return;
  t->to_begin = false;
  gli_tcp_pair *lists[2] = {t->pairs, t->leaving};
  for (int i = 0; i < 2; i++) {
    gli_tcp_pair *next;
    for (gli_tcp_pair *pair = lists[i]; pair != NULL; pair = next) {
      next = pair->next;
      if (pair->begun) continue;
      pair->begun = true;
      gli_tcp_stream_begin(&pair->stream[0]);
    }
  }
}

static void free_garbage(gli_tcp *t) {
  while (t->garbage != NULL) {
    gli_tcp_pair *pair = t->garbage;
    t->garbage = pair->next;
    free(pair);
  }
}

/* Where one stream is all there is to wait for, look whether it has something:
 * that is one system call for a message, and not two. Everything else, new
 * connections and timers, can wait for a few polls. True when that will do for
 * this poll. */
static bool poll_directly(gli_tcp *t) {
  gli_tcp_stream *stream = t->newest;
  if (t->up != 1 || stream == NULL || !stream->pair->live) return false;
  if (stream->finished || stream->conn->watch.events != GLI_READABLE)
    return false;
  if (t->direct >= DIRECT_POLLS) return false;
  gli_tcp_stream_read(stream, false);
  t->direct += t->happened > 0 ? 1 : DIRECT_POLLS / IDLE_POLLS;
  return true;
}

/* The thread that waits for one message has just looked: that is as good. */
static bool has_looked(gli_tcp *t) {
  if (t->looked == NULL || t->direct >= DIRECT_POLLS) return false;
  t->direct += DIRECT_POLLS / IDLE_POLLS;
  return true;
}

static void tcp_meet_deadlines(gli_tcp *t);

int gli_tcp_poll(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  t->happened = 0;
  t->in_poll = true;
  gli_tcp_wake_reset(t);
  tcp_begin_pairs(t);
  bool needed = atomic_load_explicit(&t->needs_poll, memory_order_relaxed);
  if (needed) atomic_store(&t->needs_poll, false);
  gli_tcp_stream_read_held(t);
  if (t->hidden != NULL) gli_tcp_read_hidden(t);
  if (needed || (!has_looked(t) && !poll_directly(t))) {
    t->direct = 0;
    tcp_meet_deadlines(t);
    t->happened += gli_events_poll(t->events);
  }
  t->looked = NULL;
  if (t->to_report) gli_tcp_pairs_report(t);
  free_garbage(t);
  t->in_poll = false;
  return t->happened;
}

/* ---- deadlines ----------------------------------------------------------- */

void gli_tcp_schedule(gli_tcp *t, uint64_t due_ns) {
  uint64_t known = atomic_load(&t->next_due_ns);
  if (known != 0 && known <= due_ns) return;
  atomic_store(&t->next_due_ns, due_ns);
  gli_tcp_touch(t); /* a present sleeper knows only the old one */
}

static void pairs_due(gli_tcp_pair *list, uint64_t now) {
  gli_tcp_pair *next;
  for (gli_tcp_pair *pair = list; pair != NULL; pair = next) {
    next = pair->next;
    gli_tcp *t = pair->t;
    for (uint32_t i = 0; i < pair->stream_capacity; i++) {
      gli_tcp_stream *stream = &pair->stream[i];
      if (stream->due_ns == 0) continue;
      if (stream->due_ns <= now)
        gli_tcp_stream_due(stream, now);
      else
        gli_tcp_schedule(t, stream->due_ns);
    }
    if (pair->closed) gli_tcp_linger_check(pair, now);
  }
}

/* All of them, once the earliest has passed. */
static void tcp_meet_deadlines(gli_tcp *t) {
  uint64_t due = atomic_load_explicit(&t->next_due_ns, memory_order_relaxed);
  if (due == 0) return;
  uint64_t now = uv_hrtime();
  if (now < due) return;
  atomic_store(&t->next_due_ns, 0);
  pairs_due(t->pairs, now);
  pairs_due(t->leaving, now);
  gli_tcp_half_open_expire(t, now);
  gli_tcp_listener_due(t, now);
}
