/* Opening and closing the end point, and its table of operations. */
#include <errno.h>
#include <stdlib.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "net/socket.h"
#include "transport_tcp/dial.h"
#include "transport_tcp/tcp.h"

static const int64_t close_nap_ns = 5000000;

static void tcp_transport_release(gli_tcp *t) {
  gli_events_close(t->events);
  gli_tcp_wake_close(t);
  gli_interfaces_free(&t->own);
  gli_tls_settings_release(t->tls);
  free(t->buffer);
  free(t);
}

static void tcp_transport_touched(void *user) {
  gli_peers_touch(&((gli_tcp *)user)->peers);
}

static gloo_status tcp_open_parts(gli_tcp *t, gloo_error *error) {
  t->wake_read = t->wake_write = t->listener.fd = -1;
  t->buffer = malloc(GLI_TCP_BUFFER_BYTES);
  if (t->buffer == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the TCP transport");
  if (gli_tcp_wake_open(t))
    t->events = gli_events_open(tcp_transport_touched, t);
  if (t->events == NULL)
    return gli_fail(error, gli_exhaustion_status(errno), -1,
                    "the TCP transport cannot watch sockets: %s",
                    gli_exhaustion_text(errno));
  return GLOO_OK;
}

/* ---- functions of gli_peer_kind ------------------------------------------ */

static void tcp_peer_begin(gli_transport_peer *peer) {
  gli_tcp_pair *pair = (gli_tcp_pair *)peer;
  if (pair->begun) return;
  pair->begun = true;
  gli_tcp_stream_begin(&pair->stream[0]);
}

static void tcp_peer_due(gli_transport_peer *peer, uint64_t now_ns) {
  gli_tcp_pair *pair = (gli_tcp_pair *)peer;
  for (uint32_t i = 0; i < pair->stream_capacity; i++) {
    gli_tcp_stream *stream = &pair->stream[i];
    if (stream->due_ns == 0) continue;
    if (stream->due_ns <= now_ns)
      gli_tcp_stream_due(stream, now_ns);
    else
      gli_peers_schedule(peer->set, stream->due_ns);
  }
  if (peer->closed)
    gli_tcp_linger_check(pair, now_ns);
  else if (pair->reason_due_ns > now_ns)
    gli_peers_schedule(peer->set, pair->reason_due_ns);
  else if (pair->reason_due_ns != 0 && !peer->departed)
    gli_tcp_pair_hung_up(pair, "");
}

static void tcp_peer_update_undelivered(gli_transport_peer *peer) {
  gli_tcp_update_undelivered((gli_tcp_pair *)peer);
}

static void tcp_peer_ignore(gli_transport_peer *peer) {
  gli_tcp_pair *pair = (gli_tcp_pair *)peer;
  for (uint32_t i = 0; i < pair->stream_capacity; i++) {
    if (pair->stream[i].conn != NULL) gli_conn_for(pair->stream[i].conn, 0);
    gli_tcp_dial_ignore(&pair->stream[i]);
  }
}

static void tcp_peer_dispose(gli_transport_peer *peer) {
  gli_tcp_pair_dispose((gli_tcp_pair *)peer);
}

static const gli_peer_kind tcp_peers = {
    .without = "no connection with rank",
    .begin = tcp_peer_begin,
    .due = tcp_peer_due,
    .update_undelivered = tcp_peer_update_undelivered,
    .ignore = tcp_peer_ignore,
    .end = gli_tcp_pair_end,
    .dispose = tcp_peer_dispose,
};

static gloo_status tcp_open(const gli_transport_config *config,
                            gli_transport **transport, gloo_error *error) {
  if (config->streams < 1 || config->streams > GLI_TCP_STREAMS_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "streams is %d; it must be 1 to %d", config->streams,
                    GLI_TCP_STREAMS_MAX);
  gli_tcp *t = calloc(1, sizeof *t);
  if (t == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the TCP transport");
  gloo_status status = tcp_open_parts(t, error);
  if (status != GLOO_OK) {
    tcp_transport_release(t);
    return status;
  }
  t->peers.base.ops = &gli_transport_tcp;
  t->peers.base.owed = config->owed;
  t->peers.kind = &tcp_peers;
  t->peers.upcalls = config->upcalls;
  t->peers.device_user = config->device_user;
  t->streams = (uint32_t)config->streams;
  t->checksum = config->checksum;
  t->tls = gli_tls_settings_hold(config->tls);
  status = gli_tcp_listen(t, config, error);
  if (status != GLOO_OK) {
    tcp_transport_release(t);
    return status;
  }
  t->contact.verbs = config->verbs;
  *transport = &t->peers.base;
  return GLOO_OK;
}

static void tcp_address(const gli_transport *t, gli_address *address) {
  gli_tcp_contact_encode(&((const gli_tcp *)t)->contact, address);
}

static bool tcp_speaks_verbs(const gli_address *address) {
  gli_tcp_contact contact;
  return gli_tcp_contact_decode(address, &contact) && contact.verbs;
}

/* Ends a transport that has no pairs other than lingering ones. */
static void tcp_transport_end(gli_tcp *t) {
  while (t->peers.leaving != NULL)
    gli_tcp_pair_dispose((gli_tcp_pair *)t->peers.leaving);
  gli_tcp_half_open_close(t);
  gli_watch_close(&t->listener);
  while (t->peers.garbage != NULL) {
    gli_transport_peer *pair = t->peers.garbage;
    t->peers.garbage = pair->next;
    free(pair);
  }
  tcp_transport_release(t);
}

static void tcp_close(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  t->peers.closing = true;
  gli_tcp_poll(base);
  while (gli_tcp_lingering(t)) {
    gli_transport_sleep(base, close_nap_ns);
    gli_tcp_poll(base);
  }
  tcp_transport_end(t);
}

static void pairs_forked(gli_transport_peer *list) {
  for (gli_transport_peer *peer = list; peer != NULL; peer = peer->next) {
    gli_tcp_pair *pair = (gli_tcp_pair *)peer;
    for (uint32_t i = 0; i < pair->stream_capacity; i++) {
      gli_conn_forked(pair->stream[i].conn);
      gli_tcp_dial_forked(&pair->stream[i]);
    }
  }
}

static void tcp_forked(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  pairs_forked(t->peers.pairs);
  pairs_forked(t->peers.leaving);
  gli_tcp_half_open_forked(t);
  gli_fd_close(t->listener.fd);
  t->listener.fd = -1;
  gli_tcp_wake_close(t);
  gli_events_abandon(t->events);
}

static void tcp_tcp_abandon(gli_transport *base) {
  gli_tcp *t = (gli_tcp *)base;
  while (t->peers.pairs != NULL) {
    gli_tcp_pair *pair = (gli_tcp_pair *)t->peers.pairs;
    pair->waiting = (gli_request_queue){NULL, NULL}; /* not ours to free */
    gli_tcp_pair_dispose(pair);
  }
  tcp_transport_end(t);
}

static uint64_t tcp_heard(const gli_pair *base) {
  return ((const gli_tcp_pair *)base)->heard;
}

static uint64_t tcp_heard_at(const gli_pair *base) {
  const gli_tcp_pair *pair = (const gli_tcp_pair *)base;
  uint64_t last_ns = 0, now_ns = uv_hrtime();
  for (uint32_t i = 0; i < pair->stream_capacity; i++) {
    const gli_tcp_stream *stream = &pair->stream[i];
    if (stream->conn == NULL) continue;
    int64_t ago_ns = gli_tcp_socket_silence_ns(stream->conn->watch.fd);
    if (ago_ns < 0 || (uint64_t)ago_ns >= now_ns) continue;
    uint64_t at_ns = now_ns - (uint64_t)ago_ns;
    if (at_ns > last_ns) last_ns = at_ns;
  }
  return last_ns;
}

static void tcp_rested(gli_transport *base) {
  atomic_store(&((gli_tcp *)base)->peers.needs_poll, true);
}

static void tcp_set_oversubscribed(gli_transport *base, bool oversubscribed) {
  atomic_store(&((gli_tcp *)base)->oversubscribed, oversubscribed);
}

const gli_transport_ops gli_transport_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .address = tcp_address,
    .speaks_verbs = tcp_speaks_verbs,
    .now_ns = gli_tcp_now,
    .pair_open = gli_tcp_pair_open,
    .send = gli_tcp_send,
    .send_now = gli_tcp_send_now,
    .take_now = gli_tcp_take_now,
    .pair_close = gli_tcp_pair_close,
    .heard = tcp_heard,
    .heard_at = tcp_heard_at,
    .obstacle = gli_tcp_obstacle,
    .rested = tcp_rested,
    .poll = gli_tcp_poll,
    .sleep = gli_transport_sleep,
    .wake = gli_tcp_wake,
    .close = tcp_close,
    .forked = tcp_forked,
    .abandon = tcp_tcp_abandon,
    .set_oversubscribed = tcp_set_oversubscribed,
    .sleep_begin = gli_tcp_sleep_begin,
    .sleep_end = gli_tcp_sleep_end,
};

/* Operations of checked pairs, without the short paths for small messages. */
const gli_transport_ops gli_transport_tcp_checked = {
    .name = "tcp",
    .send = gli_tcp_send,
    .pair_close = gli_tcp_pair_close,
    .heard = tcp_heard,
    .heard_at = tcp_heard_at,
    .obstacle = gli_tcp_obstacle,
};
