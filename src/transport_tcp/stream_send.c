/* Sending: one vectored write takes as many queued messages as fit. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "core/crc32c.h"
#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/hints.h"
#include "net/socket.h"
#include "transport_tcp/tcp.h"

enum { BATCH_MESSAGES = 16, SHORT_PAYLOAD = 1024 };

typedef struct batch {
  size_t bytes;
  int messages, parts;
  struct iovec part[2 * BATCH_MESSAGES];
  uint8_t header[BATCH_MESSAGES][GLI_HEADER_BYTES];
} batch;

/* ---- batches ------------------------------------------------------------- */

static void add_part(batch *b, const void *from, size_t bytes) {
  if (bytes == 0) return;
  b->part[b->parts++] = (struct iovec){(void *)(uintptr_t)from, bytes};
  b->bytes += bytes;
}

static void tcp_send_encode(const gli_tcp_stream *stream,
                            const gli_header *header,
                            uint8_t out[GLI_HEADER_BYTES]) {
  if (stream->checked)
    gli_header_encode_checked(header, header->number, out);
  else
    gli_header_encode(header, out);
}

/* Adds the unsent part of a message. Returns false if the batch is full. */
static bool add_message(const gli_tcp_stream *stream, batch *b,
                        const gli_send_request *request) {
  uint64_t sent = request->private_, into_payload = 0;
  if (sent < GLI_HEADER_BYTES) {
    uint8_t *header = b->header[b->messages];
    tcp_send_encode(stream, &request->header, header);
    add_part(b, header + sent, GLI_HEADER_BYTES - (size_t)sent);
  } else {
    into_payload = sent - GLI_HEADER_BYTES;
  }
  b->messages++;
  uint64_t left = request->header.length - into_payload;
  size_t room = GLI_TCP_IO_MAX - b->bytes;
  size_t bytes = left < room ? (size_t)left : room;
  if (bytes > 0)
    add_part(b, (const uint8_t *)request->payload + into_payload, bytes);
  return b->messages < BATCH_MESSAGES && bytes == left;
}

static ssize_t write_batch(gli_tcp_stream *stream, const batch *b) {
  return gli_conn_send(stream->conn, b->part, b->parts);
}

/* Accounts for `bytes` written from the queue. Returns the completed requests,
 * removed from the queue, in order. */
static gli_request_queue tcp_send_advance(gli_request_queue *queue,
                                          size_t bytes) {
  gli_request_queue done = {NULL, NULL};
  while (bytes > 0) {
    gli_send_request *head = queue->head;
    uint64_t left = GLI_HEADER_BYTES + head->header.length - head->private_;
    if (bytes < left) {
      head->private_ += bytes;
      break;
    }
    bytes -= (size_t)left;
    gli_request_push(&done, gli_request_pop(queue));
  }
  return done;
}

static void tcp_send_complete(gli_tcp_pair *pair, gli_request_queue *done) {
  if (pair->peer.closed) {
    gli_request_free_all(done);
    return;
  }
  gli_tcp *t = pair->t;
  /* An upcall may close the pair, and so drop its requests. */
  while (pair->peer.live) {
    gli_send_request *request = gli_request_pop(done);
    if (request == NULL) return;
    t->peers.happened++;
    t->peers.upcalls->sent(pair->peer.config.user, request);
  }
}

bool gli_tcp_stream_keeps(const gli_tcp_stream *stream) {
  return stream->conn != NULL && stream->write_error == 0 &&
         gli_conn_unsent(stream->conn);
}

/* Returns true if TLS has buffered bytes, which are then undelivered. */
GLI_COLD static bool tcp_send_keeps(gli_tcp_stream *stream) {
  if (!gli_tcp_stream_keeps(stream)) return false;
  gli_tcp_update_undelivered(stream->pair);
  gli_conn_for(stream->conn, GLI_READABLE | GLI_WRITABLE);
  return true;
}

static void wait_writable(gli_tcp_stream *stream) {
  gli_conn_for(stream->conn, GLI_READABLE | GLI_WRITABLE);
}

/* Handles a peer that accepts no more. Its last data may be an unread ABORT or
 * BYE with the reason, so the end is detected by reading. */
static void write_failed(gli_tcp_stream *stream, int code) {
  if (stream->pair->peer.closed) {
    gli_tcp_stream_lost(stream, code);
    return;
  }
  if (gli_is_exhaustion(code)) {
    gli_peer_fail_resource(&stream->pair->peer, code);
    return;
  }
  stream->write_error = code;
  gli_conn_for(stream->conn, GLI_READABLE);
}

/* Writes a message; a short one is copied to one part, which is faster. */
static ssize_t write_one(gli_tcp_stream *stream, const gli_header *header,
                         const void *payload) {
  uint8_t bytes[GLI_HEADER_BYTES + SHORT_PAYLOAD];
  bool is_short = header->length <= SHORT_PAYLOAD;
  size_t length =
      header->length < GLI_TCP_IO_MAX ? (size_t)header->length : GLI_TCP_IO_MAX;
  gli_header_encode(header, bytes);
  if (is_short && length > 0) memcpy(bytes + GLI_HEADER_BYTES, payload, length);
  struct iovec parts[2] = {{bytes, GLI_HEADER_BYTES + (is_short ? length : 0)},
                           {(void *)(uintptr_t)payload, length}};
  stream->unanswered = false;
  return gli_conn_send(stream->conn, parts, is_short ? 1 : 2);
}

static ssize_t write_checked(gli_tcp_stream *stream,
                             const gli_send_request *request) {
  batch b;
  b.bytes = 0;
  b.messages = b.parts = 0;
  (void)add_message(stream, &b, request);
  stream->unanswered = false;
  return write_batch(stream, &b);
}

void gli_tcp_request_sum(gli_send_request *request) {
  request->header.number =
      gli_crc32c(0, request->payload, (size_t)request->header.length);
}

static bool may_write(const gli_tcp_stream *stream) {
  return stream->state == GLI_TCP_UP && stream->write_error == 0 &&
         stream->queue.head == NULL && stream->rest == NULL;
}

gli_post gli_tcp_stream_send(gli_tcp_stream *stream,
                             gli_send_request *request) {
  gli_tcp_stream_look_at_length(stream, &request->header);
  if (!may_write(stream)) {
    gli_request_push(&stream->queue, request);
    return GLI_POST_IN_PROGRESS;
  }
  ssize_t written = stream->checked
                        ? write_checked(stream, request)
                        : write_one(stream, &request->header, request->payload);
  if (written >= 0 &&
      (uint64_t)written == GLI_HEADER_BYTES + request->header.length) {
    if (stream->conn->tls != NULL) (void)tcp_send_keeps(stream);
    return GLI_POST_DONE;
  }
  int code = errno;
  gli_request_push(&stream->queue, request);
  if (written >= 0)
    request->private_ = (uint64_t)written;
  else if (!gli_would_block(code)) {
    write_failed(stream, code);
    return GLI_POST_IN_PROGRESS;
  }
  wait_writable(stream);
  return GLI_POST_IN_PROGRESS;
}

/* Keeps the rest of a message of send_now that was written partly. */
GLI_COLD static void keep_rest(gli_tcp_stream *stream, const gli_header *header,
                               const uint8_t *payload, size_t written) {
  uint8_t bytes[GLI_HEADER_BYTES];
  size_t length = (size_t)header->length;
  size_t left = GLI_HEADER_BYTES + length - written;
  stream->rest = malloc(left);
  if (stream->rest == NULL) {
    gli_peer_fail_resource(&stream->pair->peer, ENOMEM);
    return;
  }
  gli_header_encode(header, bytes);
  size_t of_header =
      written < GLI_HEADER_BYTES ? GLI_HEADER_BYTES - written : 0;
  size_t of_payload = left - of_header;
  memcpy(stream->rest, bytes + GLI_HEADER_BYTES - of_header, of_header);
  if (of_payload > 0)
    memcpy(stream->rest + of_header, payload + length - of_payload, of_payload);
  stream->rest_bytes = left;
  gli_tcp_update_undelivered(stream->pair);
  wait_writable(stream);
}

bool gli_tcp_send_now(gli_pair *base, gli_header *header, const void *payload) {
  gli_tcp_pair *pair = (gli_tcp_pair *)base;
  if (!pair->peer.live || pair->peer.departed || pair->streams == 0)
    return false;
  gli_tcp_stream *stream = gli_tcp_pair_stream(pair, header);
  if (header->length > GLI_TAKE_BYTES || !may_write(stream)) return false;
  gli_tcp_stream_look_at_length(stream, header);
  ssize_t written = write_one(stream, header, payload);
  if (written <= 0) return false; /* the error will occur again */
  if ((uint64_t)written < GLI_HEADER_BYTES + header->length)
    keep_rest(stream, header, payload, (size_t)written);
  else if (stream->conn->tls != NULL)
    (void)tcp_send_keeps(stream);
  return true;
}

static void drop_rest(gli_tcp_stream *stream) {
  free(stream->rest);
  stream->rest = NULL;
  gli_tcp_update_undelivered(stream->pair);
}

void gli_tcp_stream_drop(gli_tcp_stream *stream) {
  drop_rest(stream);
  gli_request_queue dropped = stream->queue;
  stream->queue = (gli_request_queue){NULL, NULL};
  stream->write_error = EPIPE;
  if (stream->conn != NULL) gli_conn_for(stream->conn, GLI_READABLE);
  tcp_send_complete(stream->pair, &dropped);
}

/* Returns false if more remains to be written, or on failure. */
static bool flush_kept(gli_tcp_stream *stream) {
  if (!gli_conn_unsent(stream->conn)) return true;
  if (!gli_tls_flush(stream->conn->tls)) {
    write_failed(stream, errno);
    return false;
  }
  gli_tcp_update_undelivered(stream->pair);
  return !tcp_send_keeps(stream);
}

static bool flush_rest(gli_tcp_stream *stream) {
  if (!flush_kept(stream)) return false;
  if (stream->rest == NULL) return true;
  struct iovec part = {stream->rest, stream->rest_bytes};
  ssize_t written = gli_conn_send(stream->conn, &part, 1);
  if (written == (ssize_t)stream->rest_bytes) {
    drop_rest(stream);
    return true;
  }
  if (written < 0 && !gli_would_block(errno)) {
    write_failed(stream, errno);
    return false;
  }
  if (written > 0) {
    stream->rest_bytes -= (size_t)written;
    memmove(stream->rest, stream->rest + written, stream->rest_bytes);
  }
  wait_writable(stream);
  return false;
}

void gli_tcp_stream_flush(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  if (stream->write_error == 0 && !flush_rest(stream)) return;
  while (stream->queue.head != NULL && stream->write_error == 0) {
    batch b;
    b.bytes = 0;
    b.messages = b.parts = 0;
    gli_send_request *request = stream->queue.head;
    while (request != NULL && add_message(stream, &b, request))
      request = request->next;
    ssize_t written = write_batch(stream, &b);
    if (written < 0 && !gli_would_block(errno)) {
      write_failed(stream, errno);
      return;
    }
    if (written > 0) {
      gli_request_queue done =
          tcp_send_advance(&stream->queue, (size_t)written);
      tcp_send_complete(pair, &done);
    }
    if (stream->state != GLI_TCP_UP) return;
    if (!pair->peer.live && !pair->peer.closed) return;
    if (written != (ssize_t)b.bytes) {
      wait_writable(stream);
      return;
    }
  }
  if (tcp_send_keeps(stream)) return;
  gli_conn_for(stream->conn, GLI_READABLE);
  if (pair->peer.closed) gli_tcp_stream_shut(stream);
}
