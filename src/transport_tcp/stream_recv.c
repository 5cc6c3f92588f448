/* Receiving. One read takes a small message with its header, and the messages
 * after it. A large payload to be stored goes directly to its destination, and
 * the next header arrives in the same read; a payload to be reduced passes
 * through the transport's buffer in pieces that stay in cache. Reading stops
 * after a short read: another read for EAGAIN would double the system calls. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>

#include "core/crc32c.h"
#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/hints.h"
#include "net/socket.h"
#include "transport/sink.h"
#include "transport_tcp/tcp.h"

#define READ_AHEAD ((size_t)64 * 1024)
#define REDUCE_PIECE ((size_t)128 * 1024)
/* Minimum of a "large" payload. The next message is likely to be large, too, so
 * little more than its header is read ahead, to avoid a second copy. */
#define LARGE_PAYLOAD ((uint64_t)32 * 1024)
#define READ_AHEAD_LARGE ((size_t)4096)
#define BYTES_PER_TURN ((size_t)4 * 1024 * 1024)
/* Maximum read directly of a payload with a checksum, so that it is still in
 * cache when it is summed. */
#define SUM_PIECE ((size_t)256 * 1024)

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

static void stop_reading(gli_tcp_pair *pair) {
  pair->peer.live = false;
  for (uint32_t i = 0; i < pair->stream_capacity; i++) {
    gli_conn *conn = pair->stream[i].conn;
    if (conn != NULL) gli_conn_for(conn, 0);
  }
}

/* ---- whole messages ------------------------------------------------------ */

static bool ask_for_sink(gli_tcp_pair *pair, const gli_header *header,
                         gli_sink *sink) {
  gli_tcp *t = pair->t;
  *sink = (gli_sink){0};
  t->peers.happened++;
  gloo_status status =
      t->peers.upcalls->header(pair->peer.config.user, header, sink);
  if (!pair->peer.live) return false;
  if (status == GLOO_OK) return true;
  stop_reading(pair);
  return false;
}

static void payload_damaged(gli_tcp_stream *stream, uint32_t sum) {
  const gli_tcp_pair *pair = stream->pair;
  gli_peer_spoil(
      &stream->pair->peer,
      "a message of %" PRIu64 " bytes from rank %" PRIu32
      " (%s) to rank %" PRIu32
      " is corrupt: its checksum (CRC32C) is %08" PRIx32 ", expected %08" PRIx32
      "; check the memory and the network of both hosts",
      stream->header.length, pair->peer.config.peer_rank, pair->peer_text,
      pair->peer.config.self_rank, sum, stream->expected_sum);
}

static void payload_complete(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  gli_tcp *t = pair->t;
  if (stream->checked && stream->sum != stream->expected_sum) {
    payload_damaged(stream, stream->sum);
    return;
  }
  stream->in_payload = false;
  stream->large = stream->header.length >= LARGE_PAYLOAD;
  if (stream->header.type == GLI_MESSAGE_ABORT)
    pair->peer.departed = stream->finished = true;
  t->peers.happened++;
  t->peers.upcalls->received(pair->peer.config.user, stream->sink.token);
}

/* The peer has left when all streams have received a BYE. */
static void bye_arrived(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  stream->bye = stream->finished = true;
  if (stream->index == 0) pair->bye = stream->header;
  for (uint32_t i = 0; i < pair->streams; i++)
    if (!pair->stream[i].bye) return;
  pair->peer.departed = true;
  gli_sink sink;
  if (!ask_for_sink(pair, &pair->bye, &sink)) return;
  pair->t->peers.happened++;
  pair->t->peers.upcalls->received(pair->peer.config.user, sink.token);
  for (uint32_t i = 0; i < pair->streams && pair->peer.live; i++)
    gli_tcp_stream_drop(&pair->stream[i]);
}

static bool sink_is_sound(const gli_sink *sink, const gli_header *header) {
  if (sink->fn == NULL) return true;
  if (sink->elem_bytes == 0 || sink->elem_bytes > GLI_HEADER_BYTES)
    return false;
  return header->length % sink->elem_bytes == 0;
}

/* Offers a complete message to the engine. Returns true if it was taken. */
static bool tcp_take_whole(gli_tcp_stream *stream, const uint8_t *payload,
                           size_t bytes) {
  gli_tcp_pair *pair = stream->pair;
  gli_tcp *t = pair->t;
  bool taken = false;
  if (t->peers.upcalls->message == NULL || stream->header.length > bytes)
    return false;
  gloo_status status = t->peers.upcalls->message(
      pair->peer.config.user, &stream->header, payload, &taken);
  if (taken) t->peers.happened++;
  if (pair->peer.live && status != GLOO_OK) stop_reading(pair);
  return taken;
}

static void begin_payload(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  stream->placed = 0;
  stream->sum = 0;
  if (!ask_for_sink(pair, &stream->header, &stream->sink)) return;
  if (!sink_is_sound(&stream->sink, &stream->header)) {
    gli_peer_break(&pair->peer, GLOO_ERR_INTERNAL,
                   "a message of %" PRIu64
                   " bytes was to be reduced in elements of %" PRIu32,
                   stream->header.length, stream->sink.elem_bytes);
    return;
  }
  stream->in_payload = true;
  if (stream->header.length == 0) payload_complete(stream);
}

/* Handles a message after its header, followed by `bytes` of payload. Returns
 * the number of bytes used. */
static size_t message_arrived(gli_tcp_stream *stream, const uint8_t *payload,
                              size_t bytes) {
  gli_tcp_pair *pair = stream->pair;
  /* An ABORT comes on every stream: one suffices, and nothing may follow it. */
  if (pair->aborting) {
    stream->finished = true;
    return 0;
  }
  if (stream->header.type == GLI_MESSAGE_BYE) {
    bye_arrived(stream);
    return 0;
  }
  pair->aborting = stream->header.type == GLI_MESSAGE_ABORT;
  if (tcp_take_whole(stream, payload, bytes)) {
    stream->large = false;
    return (size_t)stream->header.length;
  }
  if (pair->peer.live) begin_payload(stream);
  return 0;
}

/* Handles a header that is not one of a message without checksums. */
GLI_COLD static size_t other_arrived(gli_tcp_stream *stream,
                                     const uint8_t *header, size_t bytes) {
  gli_tcp_pair *pair = stream->pair;
  if (!pair->peer.checked) {
    gli_peer_spoil(&pair->peer,
                   "rank %" PRIu32 " (%s) sent rank %" PRIu32
                   " an invalid message; the connection or the peer is corrupt",
                   pair->peer.config.peer_rank, pair->peer_text,
                   pair->peer.config.self_rank);
    return 0;
  }
  if (!gli_header_decode_checked(header, &stream->header,
                                 &stream->expected_sum)) {
    gli_peer_spoil(&pair->peer,
                   "a message from rank %" PRIu32 " (%s) to rank %" PRIu32
                   " is corrupt: the checksum (CRC32C) of its header is wrong; "
                   "check the memory and the network of both hosts",
                   pair->peer.config.peer_rank, pair->peer_text,
                   pair->peer.config.self_rank);
    return 0;
  }
  const uint8_t *payload = header + GLI_HEADER_BYTES;
  if (stream->header.length <= bytes) {
    uint32_t sum = gli_crc32c(0, payload, (size_t)stream->header.length);
    if (sum != stream->expected_sum) {
      payload_damaged(stream, sum);
      return 0;
    }
  }
  return message_arrived(stream, payload, bytes);
}

/* Handles a header followed by `bytes`. Returns the number of them used. */
static size_t header_arrived(gli_tcp_stream *stream, const uint8_t *header,
                             size_t bytes) {
  if (!gli_header_decode(header, &stream->header))
    return other_arrived(stream, header, bytes);
  return message_arrived(stream, header + GLI_HEADER_BYTES, bytes);
}

/* ---- bytes --------------------------------------------------------------- */

static uint64_t payload_left(const gli_tcp_stream *stream) {
  return stream->header.length - stream->placed;
}

/* Stores or reduces the start of data. Returns the number of bytes used, which
 * for a reduction are whole elements. */
static size_t tcp_recv_place(gli_tcp_stream *stream, const uint8_t *data,
                             size_t bytes) {
  const gli_sink *sink = &stream->sink;
  uint64_t left = payload_left(stream);
  size_t n = left < bytes ? (size_t)left : bytes;
  if (sink->fn != NULL) n -= n % sink->elem_bytes;
  gli_sink_place(sink, stream->placed, data, n);
  stream->placed += n;
  if (stream->checked) stream->sum = gli_crc32c(stream->sum, data, n);
  return n;
}

static bool tcp_recv_readable(const gli_tcp_stream *stream) {
  if (!stream->pair->peer.live || stream->finished) return false;
  return stream->state == GLI_TCP_UP;
}

/* Processes input. An incomplete header or element is kept in `partial`. */
static void tcp_recv_consume(gli_tcp_stream *stream, const uint8_t *data,
                             size_t bytes) {
  while (bytes > 0 && tcp_recv_readable(stream)) {
    size_t used = 0;
    if (stream->in_payload) {
      used = tcp_recv_place(stream, data, bytes);
      if (payload_left(stream) == 0) payload_complete(stream);
    } else if (bytes >= GLI_HEADER_BYTES) {
      used = GLI_HEADER_BYTES;
      used += header_arrived(stream, data, bytes - GLI_HEADER_BYTES);
    }
    if (used == 0) break;
    data += used;
    bytes -= used;
  }
  if (!tcp_recv_readable(stream)) return;
  memcpy(stream->partial, data, bytes);
  stream->partial_bytes = bytes;
}

/* ---- reads --------------------------------------------------------------- */

static size_t read_ahead(const gli_tcp_stream *stream, bool in_payload) {
  uint64_t length = stream->header.length;
  if (!in_payload) return stream->large ? READ_AHEAD_LARGE : READ_AHEAD;
  return length >= LARGE_PAYLOAD ? GLI_HEADER_BYTES : READ_AHEAD;
}

/* Reads into the destination, and the next message into the buffer. */
static ssize_t read_direct(gli_tcp_stream *stream, size_t *asked) {
  uint8_t *buffer = stream->pair->t->buffer;
  uint64_t left = payload_left(stream);
  size_t most = stream->checked ? SUM_PIECE : GLI_TCP_IO_MAX;
  size_t direct = left < most ? (size_t)left : most;
  size_t ahead = direct == left ? read_ahead(stream, true) : 0;
  uint8_t *to = (uint8_t *)stream->sink.dst + stream->placed;
  struct iovec parts[2] = {{to, direct}, {buffer, ahead}};
  *asked = direct + ahead;
  ssize_t got = gli_conn_receive(stream->conn, parts, ahead > 0 ? 2 : 1);
  if (got <= 0) return got;
  size_t placed = min_size((size_t)got, direct);
  stream->placed += placed;
  if (stream->checked) stream->sum = gli_crc32c(stream->sum, to, placed);
  if (payload_left(stream) == 0) payload_complete(stream);
  tcp_recv_consume(stream, buffer, (size_t)got - placed);
  return got;
}

/* Returns true if a message should only be peeked at, to be taken from the
 * socket by the next poll. Linux sends a delayed ACK before recv returns if
 * nothing was sent since the previous read: a packet that costs about as much
 * time as the message, and that no thread waits for. */
static bool should_peek(const gli_tcp_stream *stream) {
  if (stream->in_payload || stream->large) return false;
  if (stream->conn->tls != NULL) return false;
  gli_tcp *t = stream->pair->t;
  return stream->unanswered && t->up == 1 &&
         !atomic_load_explicit(&t->oversubscribed, memory_order_relaxed);
}

static ssize_t read_or_peek(gli_tcp_stream *stream, uint8_t *to, size_t bytes) {
  gli_conn *conn = stream->conn;
  bool peek = should_peek(stream);
  ssize_t got = peek ? gli_tcp_socket_peek(conn->watch.fd, to, bytes)
                     : gli_conn_read(conn, to, bytes);
  if (got <= 0) return got;
  stream->peeked = peek ? (size_t)got : 0;
  stream->unanswered = true;
  return got;
}

/* Reads into the buffer, after the rest of earlier input. */
static ssize_t read_buffered(gli_tcp_stream *stream, size_t *asked) {
  uint8_t *buffer = stream->pair->t->buffer;
  size_t kept = stream->partial_bytes;
  size_t room = read_ahead(stream, false);
  if (stream->in_payload) {
    uint64_t left = payload_left(stream) - kept;
    room = left < REDUCE_PIECE ? (size_t)left + read_ahead(stream, true)
                               : REDUCE_PIECE;
  }
  memcpy(buffer, stream->partial, kept);
  *asked = room;
  ssize_t got = read_or_peek(stream, buffer + kept, room);
  if (got <= 0) return got;
  stream->partial_bytes = 0;
  tcp_recv_consume(stream, buffer, kept + (size_t)got);
  return got;
}

static void tcp_read_failed(gli_tcp_stream *stream, bool broken) {
  if (!gli_would_block(errno)) {
    gli_tcp_stream_lost(stream, errno);
    return;
  }
  int code = broken ? gli_tcp_socket_error(stream->conn->watch.fd) : 0;
  if (code != 0) gli_tcp_stream_lost(stream, code);
}

/* ---- input in TLS -------------------------------------------------------- */

static bool tcp_recv_has_tls_pending(const gli_tcp_stream *stream) {
  return tcp_recv_readable(stream) && gli_conn_tls_pending(stream->conn);
}

void gli_tcp_stream_note_tls_pending(gli_tcp_stream *stream) {
  gli_tcp *t = stream->pair->t;
  gli_tcp_stream **end = &t->tls_pending;
  if (stream->tls_pending || !tcp_recv_has_tls_pending(stream)) return;
  while (*end != NULL) end = &(*end)->next_tls_pending;
  *end = stream;
  stream->tls_pending = true;
  stream->next_tls_pending = NULL;
  gli_peers_touch(&t->peers);
}

/* Reads each stream once. Bytes still pending wait for the next poll. */
void gli_tcp_read_tls_pending(gli_tcp *t) {
  unsigned n = 0;
  for (gli_tcp_stream *s = t->tls_pending; s != NULL; s = s->next_tls_pending)
    n++;
  while (n-- > 0 && t->tls_pending != NULL) {
    gli_tcp_stream *stream = t->tls_pending;
    gli_tcp_stream_clear_tls_pending(stream);
    if (tcp_recv_readable(stream)) gli_tcp_stream_read(stream, false);
  }
}

/* ---- a turn -------------------------------------------------------------- */

static void stream_read_turn(gli_tcp_stream *stream, bool broken) {
  const bool secured = stream->pair->t->tls != NULL;
  size_t budget = BYTES_PER_TURN;
  while (tcp_recv_readable(stream)) {
    if (!gli_tcp_stream_take_peeked(stream)) {
      gli_tcp_stream_lost(stream, errno);
      return;
    }
    bool direct = stream->in_payload && stream->sink.fn == NULL;
    size_t asked;
    ssize_t got =
        direct ? read_direct(stream, &asked) : read_buffered(stream, &asked);
    if (got < 0) {
      tcp_read_failed(stream, broken);
      return;
    }
    if (got == 0) {
      gli_tcp_stream_lost(stream, 0);
      return;
    }
    stream->pair->heard += (size_t)got;
    if ((size_t)got < asked && !broken &&
        (!secured || !tcp_recv_has_tls_pending(stream)))
      return;
    if ((size_t)got >= budget) return;
    budget -= (size_t)got;
  }
  if (!stream->pair->peer.live || stream->state != GLI_TCP_UP) return;
  if (stream->finished) gli_tcp_stream_discard(stream);
}

void gli_tcp_stream_read(gli_tcp_stream *stream, bool broken) {
  const gli_tcp *t = stream->pair->t;
  stream_read_turn(stream, broken);
  if (t->tls != NULL) gli_tcp_stream_note_tls_pending(stream);
}

/* ---- one message, without a poll ----------------------------------------- */

/* Returns true if another look would be useless: on oversubscribed cores the
 * peer has to run first. */
static bool looked_in_vain(const gli_tcp_stream *stream) {
  gli_tcp *t = stream->pair->t;
  return t->looked == stream &&
         atomic_load_explicit(&t->oversubscribed, memory_order_relaxed);
}

/* Keeps an error, because the system reports it once, and then only the end. */
static void nothing_taken(gli_tcp_stream *stream, ssize_t got) {
  if (got == 0) return;
  if (gli_would_block(errno))
    stream->pair->t->looked = stream;
  else if (gli_is_exhaustion(errno))
    gli_peer_fail_resource(&stream->pair->peer, errno);
  else if (stream->write_error == 0)
    stream->write_error = errno;
}

/* Reads no more than the expected message, so that nothing has to be kept if
 * the expected message arrives. */
bool gli_tcp_take_now(gli_pair *base, const gli_header *expected,
                      gli_taken *taken) {
  gli_tcp_pair *pair = (gli_tcp_pair *)base;
  if (pair->streams == 0) return false;
  gli_tcp_stream *stream = gli_tcp_pair_stream(pair, expected);
  gli_tcp *t = pair->t;
  if (t->held != NULL || !tcp_recv_readable(stream)) return false;
  if (stream->in_payload || stream->partial_bytes > 0) return false;
  if (looked_in_vain(stream)) return false;
  if (!gli_tcp_stream_take_peeked(stream)) return false;
  size_t bytes = GLI_HEADER_BYTES + (size_t)expected->length;
  ssize_t got = read_or_peek(stream, t->buffer, bytes);
  if (got <= 0) nothing_taken(stream, got);
  if (t->tls != NULL) gli_tcp_stream_note_tls_pending(stream);
  if (got <= 0) return false;
  pair->heard += (size_t)got;
  gli_header *header = &stream->header; /* unused between messages */
  if ((size_t)got < bytes || !gli_header_decode(t->buffer, header) ||
      !gli_header_is(header, expected)) {
    t->held = stream;
    t->held_bytes = (size_t)got;
    gli_peers_touch(&t->peers);
    return false;
  }
  taken->eager = header->eager;
  taken->credit = header->credit;
  taken->payload = t->buffer + GLI_HEADER_BYTES;
  return true;
}

void gli_tcp_stream_read_held(gli_tcp *t) {
  gli_tcp_stream *stream = t->held;
  if (stream == NULL) return;
  t->held = NULL;
  t->peers.happened++;
  tcp_recv_consume(stream, t->buffer, t->held_bytes);
}
