/* The end of a stream: lost, closed, or read to its end. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "net/socket.h"
#include "transport_tcp/dial.h"
#include "transport_tcp/tcp.h"

enum { DISCARDS_PER_TURN = 16 };
/* Time for a peer that has ended one stream to send the reason on another. */
static const uint64_t reason_ns = 200000000;

bool gli_tcp_stream_take_peeked(gli_tcp_stream *stream) {
  while (stream->peeked > 0) {
    size_t bytes = stream->peeked < GLI_TCP_BUFFER_BYTES ? stream->peeked
                                                         : GLI_TCP_BUFFER_BYTES;
    errno = 0;
    ssize_t got = gli_tcp_socket_skip(stream->conn->watch.fd,
                                      stream->pair->t->buffer, bytes);
    if (got <= 0) return false;
    stream->peeked -= (size_t)got;
  }
  return true;
}

void gli_tcp_stream_clear_tls_pending(gli_tcp_stream *stream) {
  gli_tcp_stream **link = &stream->pair->t->tls_pending;
  if (!stream->tls_pending) return;
  while (*link != stream) link = &(*link)->next_tls_pending;
  *link = stream->next_tls_pending;
  stream->tls_pending = false;
}

void gli_tcp_stream_end(gli_tcp_stream *stream) {
  gli_tcp *t = stream->pair->t;
  if (stream->state == GLI_TCP_UP) t->up--;
  if (t->newest == stream) t->newest = NULL;
  if (t->looked == stream) t->looked = NULL;
  if (t->held == stream) t->held = NULL;
  gli_tcp_stream_clear_tls_pending(stream);
  /* Closing with unread data would reset the connection. */
  (void)gli_tcp_stream_take_peeked(stream);
  stream->peeked = 0;
  gli_conn_free(stream->conn);
  stream->conn = NULL;
  gli_tcp_dial_drop(stream);
  stream->state = GLI_TCP_ENDED;
  stream->due_ns = 0;
  if (stream->pair->peer.closed) gli_request_free_all(&stream->queue);
  stream->queue = (gli_request_queue){NULL, NULL};
  free(stream->rest);
  stream->rest = NULL;
  gli_tcp_update_undelivered(stream->pair);
}

static bool stream_is_last(const gli_tcp_stream *stream) {
  const gli_tcp_pair *pair = stream->pair;
  for (uint32_t i = 0; i < pair->streams; i++)
    if (i != stream->index && pair->stream[i].state == GLI_TCP_UP) return false;
  return true;
}

void gli_tcp_pair_hung_up(gli_tcp_pair *pair, const char *stuck) {
  gli_peer_break(&pair->peer, GLOO_ERR_PEER,
                 "rank %" PRIu32
                 " (%s) closed the connection unexpectedly; it may have "
                 "been killed%s",
                 pair->peer.config.peer_rank, pair->peer_text, stuck);
}

/* Handles the end of a stream. A failing peer ends its streams, and sends the
 * reason on those that are up, maybe after the end of another stream. */
static void stream_hung_up(gli_tcp_stream *stream, const char *stuck) {
  gli_tcp_pair *pair = stream->pair;
  if (stream_is_last(stream)) {
    gli_tcp_pair_hung_up(pair, stuck);
    return;
  }
  if (pair->reason_due_ns == 0) pair->reason_due_ns = uv_hrtime() + reason_ns;
  gli_peers_schedule(&pair->t->peers, pair->reason_due_ns);
  gli_tcp_stream_end(stream);
}

void gli_tcp_stream_lost(gli_tcp_stream *stream, int code) {
  gli_tcp_pair *pair = stream->pair;
  /* A peer that ends a stream before this side does is closed, too, or gone. It
   * reads no other stream, and answers no hello for one. */
  if (pair->peer.closed && !gli_tcp_stream_is_shut(stream) &&
      !gli_is_exhaustion(code)) {
    gli_tcp_pair_dispose(pair);
    return;
  }
  if (pair->peer.closed || pair->peer.departed || stream->finished) {
    gli_tcp_stream_end(stream);
    if (pair->peer.closed) gli_tcp_linger_check(pair, uv_hrtime());
    return;
  }
  if (code == 0) code = stream->write_error;
  char stuck[GLI_OBSTACLE_BYTES];
  (void)gli_tcp_stream_stuck(stream, stuck);
  if (gli_is_exhaustion(code))
    gli_peer_fail_resource(&pair->peer, code);
  else if (code == EBADMSG && stream->conn != NULL && stream->conn->tls != NULL)
    gli_peer_break(&pair->peer, GLOO_ERR_PROTOCOL, "rank %" PRIu32 " (%s) %s",
                   pair->peer.config.peer_rank, pair->peer_text,
                   gli_tls_why(stream->conn->tls));
  else if (code == 0 || code == ECONNRESET || code == EPIPE)
    stream_hung_up(stream, stuck);
  else
    gli_peer_break(&pair->peer, GLOO_ERR_PEER,
                   "the connection to rank %" PRIu32
                   " (%s) was lost: %s; its host or the network may be "
                   "down%s",
                   pair->peer.config.peer_rank, pair->peer_text, strerror(code),
                   stuck);
}

/* With TLS, the input stays encrypted. */
void gli_tcp_stream_discard(gli_tcp_stream *stream) {
  struct iovec part = {stream->pair->t->buffer, GLI_TCP_BUFFER_BYTES};
  stream->peeked = 0;
  for (int i = 0; i < DISCARDS_PER_TURN; i++) {
    ssize_t got = gli_tcp_socket_receive(stream->conn->watch.fd, &part, 1);
    if (got < 0 && gli_would_block(errno)) return;
    if (got <= 0) {
      gli_tcp_stream_lost(stream, got < 0 ? errno : 0);
      return;
    }
    if ((size_t)got < part.iov_len) return;
  }
}
