/* Closing a pair. Messages that its peer must still get are copied, so that the
 * caller's memory is free at once, and sent while the pair lingers: the rest of
 * started messages (with a BYE also messages accepted but not started), the
 * last message on every stream, and the end of our direction. The connection is
 * kept, and input discarded, until the peer closes too: closing with unread
 * data would reset it and could cost the peer unread data. */
#include <errno.h>
#include <stdlib.h>

#include "net/socket.h"
#include "transport_tcp/tcp.h"

/* A test raises this above its own time limit. */
#ifndef GLI_TCP_LINGER_NS
#define GLI_TCP_LINGER_NS GLI_LINGER_NS
#endif

/* Limit to copying the rest of a message for the sake of an ABORT. Above it the
 * connection just ends, which the peer treats as an error as well. */
#define ABORT_COPY_MAX ((uint64_t)256 * 1024 * 1024)

/* Copies the unsent part of a request. Returns NULL if out of memory. */
static gli_send_request *tcp_copy_request(const gli_send_request *from) {
  uint64_t sent = from->private_;
  return gli_request_copy(
      from, sent > GLI_HEADER_BYTES ? sent - GLI_HEADER_BYTES : 0);
}

/* Replaces requests by copies: all of them, or only a partly sent one. */
static bool tcp_own_queue(gli_request_queue *queue, bool all) {
  gli_request_queue theirs = *queue;
  *queue = (gli_request_queue){NULL, NULL};
  gli_send_request *request;
  while ((request = gli_request_pop(&theirs)) != NULL) {
    if (!all && request->private_ == 0) continue;
    if (!all && request->header.length > ABORT_COPY_MAX + request->private_)
      return false;
    gli_send_request *copy = tcp_copy_request(request);
    if (copy == NULL) return false;
    gli_request_push(queue, copy);
  }
  return true;
}

static bool own_queues(gli_tcp_pair *pair, bool all) {
  bool owned = tcp_own_queue(&pair->waiting, all);
  for (uint32_t i = 0; i < pair->stream_capacity; i++)
    owned = tcp_own_queue(&pair->stream[i].queue, all) && owned;
  return owned;
}

/* Returns true if the stream needs the last message. A BYE ends every stream,
 * and messages accepted before it may wait on each. An ABORT, or just the end
 * of the connection, need reach the peer on one stream only: unconnected ones
 * have nothing to send, and the peer may close before it accepts them. */
static bool tcp_last_needs(const gli_tcp_stream *stream) {
  const gli_send_request *last = stream->pair->last;
  return stream->index == 0 || stream->state == GLI_TCP_UP ||
         (last != NULL && last->header.type == GLI_MESSAGE_BYE);
}

void gli_tcp_pair_queue_last(gli_tcp_pair *pair) {
  for (uint32_t i = 0; i < pair->streams; i++) {
    gli_tcp_stream *stream = &pair->stream[i];
    if (!tcp_last_needs(stream)) gli_tcp_stream_end(stream);
    if (stream->state == GLI_TCP_ENDED || pair->last == NULL) continue;
    gli_send_request *copy = tcp_copy_request(pair->last);
    if (copy == NULL)
      gli_tcp_stream_end(stream);
    else
      gli_request_push(&stream->queue, copy);
  }
}

void gli_tcp_stream_shut(gli_tcp_stream *stream) {
  if (gli_tcp_stream_is_shut(stream)) return;
  if (gli_conn_shut(stream->conn, stream->write_error != 0))
    gli_tcp_update_undelivered(stream->pair);
  else
    gli_conn_for(stream->conn, GLI_READABLE | GLI_WRITABLE);
}

/* Returns true if a BYE is all to send, to a peer that has not heard of us. */
static bool tcp_never_spoke(const gli_tcp_pair *pair, bool bye) {
  return bye && !pair->peer.greeted && pair->waiting.head == NULL;
}

static bool tcp_worth_lingering(gli_tcp_pair *pair,
                                const gli_send_request *last) {
  bool bye = last != NULL && last->header.type == GLI_MESSAGE_BYE;
  /* Even if the pair is freed at once, we must own all queues to free them. */
  if (!own_queues(pair, bye)) return false;
  if (pair->peer.broken || pair->peer.departed || tcp_never_spoke(pair, bye))
    return false;
  if (last == NULL) return pair->streams != 0;
  pair->last = tcp_copy_request(last);
  if (pair->last != NULL && pair->peer.checked) gli_tcp_request_sum(pair->last);
  return pair->last != NULL;
}

void gli_tcp_pair_close(gli_pair *base, const gli_send_request *last) {
  gli_tcp_pair *pair = (gli_tcp_pair *)base;
  gli_tcp *t = pair->t;
  gli_peer_leave(&pair->peer);
  if (!tcp_worth_lingering(pair, last)) {
    gli_tcp_pair_dispose(pair);
    return;
  }
  gli_tcp_update_undelivered(pair);
  pair->peer.linger_until_ns = uv_hrtime() + (uint64_t)GLI_TCP_LINGER_NS;
  gli_peers_schedule(&t->peers, pair->peer.linger_until_ns);
  gli_tcp_pair_queue_last(pair);
  for (uint32_t i = 0; i < pair->streams; i++) {
    gli_tcp_stream *stream = &pair->stream[i];
    if (stream->state != GLI_TCP_UP) continue;
    gli_tcp_stream_flush(stream);
  }
}

void gli_tcp_stream_linger(gli_tcp_stream *stream, int events) {
  if ((events & GLI_WRITABLE) != 0) gli_tcp_stream_flush(stream);
  if ((events & GLI_READABLE) == 0 || stream->state != GLI_TCP_UP) return;
  gli_tcp_stream_discard(stream);
}

void gli_tcp_linger_check(gli_tcp_pair *pair, uint64_t now_ns) {
  if (now_ns < pair->peer.linger_until_ns) {
    gli_peers_schedule(&pair->t->peers, pair->peer.linger_until_ns);
    if (pair->streams == 0) return;
    for (uint32_t i = 0; i < pair->streams; i++)
      if (pair->stream[i].state != GLI_TCP_ENDED) return;
  }
  gli_tcp_pair_dispose(pair);
}

/* Returns true if the peer's kernel has all data, as far as is known. */
static bool stream_delivered(const gli_tcp_stream *stream) {
  if (stream->state == GLI_TCP_ENDED) return true;
  if (stream->state != GLI_TCP_UP || !gli_tcp_stream_is_shut(stream))
    return false;
  return gli_tcp_socket_unacknowledged(stream->conn->watch.fd) == 0;
}

bool gli_tcp_lingering(const gli_tcp *t) {
  for (const gli_transport_peer *peer = t->peers.leaving; peer != NULL;
       peer = peer->next) {
    const gli_tcp_pair *pair = (const gli_tcp_pair *)peer;
    if (pair->streams == 0) return true;
    for (uint32_t i = 0; i < pair->streams; i++)
      if (!stream_delivered(&pair->stream[i])) return true;
  }
  return false;
}
