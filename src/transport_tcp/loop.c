/* One poll: deadlines, and streams that are ready. */
#include <stddef.h>
#include <stdlib.h>

#include "transport_tcp/tcp.h"

/* Maximum number of polls in a row without the set, and of idle ones. */
enum { DIRECT_POLLS = 16, IDLE_POLLS = 4 };

uint64_t gli_tcp_now(gli_transport *t) {
  (void)t;
  return uv_hrtime();
}

static void free_garbage(gli_tcp *t) {
  while (t->peers.garbage != NULL) {
    gli_transport_peer *pair = t->peers.garbage;
    t->peers.garbage = pair->next;
    free(pair);
  }
}

/* Reads the only stream without polling the set first, which saves one of two
 * system calls per message. New connections and timers can wait for a few
 * polls. Returns true if this poll need not look at the set. */
static bool poll_directly(gli_tcp *t) {
  gli_tcp_stream *stream = t->newest;
  if (t->up != 1 || stream == NULL || !stream->pair->peer.live) return false;
  if (stream->finished || stream->conn->watch.events != GLI_READABLE)
    return false;
  if (t->direct >= DIRECT_POLLS) return false;
  gli_tcp_stream_read(stream, false);
  t->direct += t->peers.happened > 0 ? 1 : DIRECT_POLLS / IDLE_POLLS;
  return true;
}

/* Returns true if take_now has just found the stream empty, as a poll would. */
static bool has_looked(gli_tcp *t) {
  if (t->looked == NULL || t->direct >= DIRECT_POLLS) return false;
  t->direct += DIRECT_POLLS / IDLE_POLLS;
  return true;
}

static void tcp_meet_deadlines(gli_tcp *t);

int gli_tcp_poll(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  t->peers.happened = 0;
  t->peers.in_poll = true;
  gli_tcp_wake_reset(t);
  if (t->peers.to_begin) gli_peers_begin(&t->peers);
  bool needed =
      atomic_load_explicit(&t->peers.needs_poll, memory_order_relaxed);
  if (needed) atomic_store(&t->peers.needs_poll, false);
  gli_tcp_stream_read_held(t);
  if (t->tls_pending != NULL) gli_tcp_read_tls_pending(t);
  if (needed || (!has_looked(t) && !poll_directly(t))) {
    t->direct = 0;
    tcp_meet_deadlines(t);
    t->peers.happened += gli_events_poll(t->events);
  }
  t->looked = NULL;
  if (t->peers.to_report) gli_peers_report(&t->peers);
  free_garbage(t);
  t->peers.in_poll = false;
  return t->peers.happened;
}

/* ---- deadlines ----------------------------------------------------------- */

/* Handles all deadlines, once the earliest has passed. */
static void tcp_meet_deadlines(gli_tcp *t) {
  uint64_t due =
      atomic_load_explicit(&t->peers.next_due_ns, memory_order_relaxed);
  if (due == 0) return;
  uint64_t now = uv_hrtime();
  if (now < due) return;
  atomic_store(&t->peers.next_due_ns, 0);
  gli_peers_due(&t->peers, now);
  gli_tcp_half_open_expire(t, now);
  gli_tcp_listener_due(t, now);
}

/* ---- streams that are up ------------------------------------------------- */

static void stream_ready(void *owner, int events) {
  gli_tcp_stream *stream = owner;
  gli_tcp_pair *pair = stream->pair;
  bool broken = (events & GLI_BROKEN) != 0;
  if (pair->peer.closed) {
    gli_tcp_stream_linger(stream, events);
    return;
  }
  if ((events & GLI_READABLE) != 0) gli_tcp_stream_read(stream, broken);
  if ((events & GLI_WRITABLE) == 0) return;
  if (pair->peer.live && stream->state == GLI_TCP_UP)
    gli_tcp_stream_flush(stream);
}

/* The system refuses to watch the socket. */
static void stream_unwatched(void *owner, int code) {
  gli_peer_fail_resource(&((gli_tcp_stream *)owner)->pair->peer, code);
}

static const gli_conn_calls stream_calls = {.ready = stream_ready,
                                            .ended = stream_unwatched};

/* Returns true if both ends have the same address. */
static bool is_local(const gli_conn *conn) {
  gli_endpoint self, peer;
  return gli_conn_ends(conn, &self, &peer) &&
         gli_endpoint_same_address(&self, &peer);
}

void gli_tcp_stream_up(gli_tcp_stream *stream, gli_conn *conn) {
  gli_tcp_pair *pair = stream->pair;
  gli_tcp *t = pair->t;
  stream->state = GLI_TCP_UP;
  t->up++;
  t->newest = stream;
  stream->conn = conn;
  stream->due_ns = 0;
  if (is_local(conn)) {
    gli_tcp_socket_tune_local(conn->watch.fd);
  } else if (t->control[0] != 0) {
    gli_tcp_socket_set_control(conn->watch.fd, t->control);
  }
  gli_conn_move(conn, GLI_CONN_UP);
  gli_conn_give(conn, &stream_calls, stream);
  bool used = pair->peer.live || pair->peer.closed;
  gli_conn_for(conn, used ? GLI_READABLE : 0);
  gli_tcp_stream_note_queued(stream);
  if (used) gli_tcp_stream_flush(stream);
  gli_tcp_stream_note_tls_pending(stream);
}
