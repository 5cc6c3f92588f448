/* Internals of the TCP transport.
 *
 * A pair has 1 to 16 streams (connections), the smaller of the numbers that
 * both sides are configured for: they agree when stream 0 is made. The
 * initiator of stream 0 also makes the others. One set (net/events.h) watches
 * all sockets; sendmsg and recvmsg move the data. A small message costs one
 * system call on either side.
 *
 * transport/peer.h says how pairs fail and end. */
#ifndef GLI_TRANSPORT_TCP_TCP_H
#define GLI_TRANSPORT_TCP_TCP_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/hints.h"
#include "net/conn.h"
#include "transport/peer.h"
#include "transport/request.h"
#include "transport_tcp/contact.h"
#include "transport_tcp/handshake.h"

extern const gli_transport_ops gli_transport_tcp;
/* The same for pairs whose messages have checksums. */
extern const gli_transport_ops gli_transport_tcp_checked;

#define GLI_TCP_STREAMS_MAX 16
#define GLI_TCP_BUFFER_BYTES ((size_t)256 * 1024)
#define GLI_TCP_LONG_BYTES 512u /* shorter packets pass wherever IPv4 does */
#define GLI_TCP_IO_MAX ((size_t)1 << 30) /* some systems refuse 2^31 */

typedef struct gli_tcp_pair gli_tcp_pair;
typedef struct gli_tcp_stream gli_tcp_stream;
typedef struct gli_tcp_half_open gli_tcp_half_open;
typedef struct gli_tcp_dial gli_tcp_dial;

typedef enum gli_tcp_stream_state {
  GLI_TCP_UNCONNECTED, /* not started: the peer makes this stream */
  GLI_TCP_CONNECTING,  /* connects are in progress, no hello is sent */
  GLI_TCP_GREETING,    /* a hello is sent, and not answered yet */
  GLI_TCP_WAITING,     /* retry at due_ns, unless the peer connects first */
  GLI_TCP_UP,
  GLI_TCP_ENDED
} gli_tcp_stream_state;

struct gli_tcp_stream {
  gli_tcp_pair *pair;
  uint32_t index;
  gli_tcp_stream_state state;
  gli_conn *conn; /* connection in UP */

  /* connecting */
  gli_tcp_dial *dial;        /* attempts in CONNECTING, GREETING, WAITING */
  uint64_t due_ns;           /* time of the next step; 0 if none */
  uint64_t failing_since_ns; /* time of the first failure; 0 if none */
  int lack; /* errno of a local resource that was exhausted; 0 if none */
  uint32_t attempts;

  /* sending: private_ of the head counts its written bytes, header included */
  gli_request_queue queue;
  uint8_t *rest; /* rest of a message of send_now; goes before `queue` */
  size_t rest_bytes;
  /* First long message (obstacle.c): its length (0 if none), the time of its
   * post, and the number of bytes before it; a longer one replaces it. */
  uint64_t long_bytes, long_since_ns, long_at, long_limit;
  int write_error; /* errno of a failed write; unread input tells whether that
                      is a failure of the peer */

  /* receiving: `partial` is the start of a header, or of a reduced element */
  uint8_t partial[GLI_HEADER_BYTES];
  size_t partial_bytes;
  bool in_payload;
  bool large; /* true if the last payload was large, so the next may be too */
  bool bye;   /* true if the peer's BYE has arrived */
  bool finished; /* true if all further input is ignored */
  gli_header header;
  gli_sink sink;
  uint64_t placed; /* number of payload bytes stored or reduced */
  bool unanswered; /* true if something was read since the last send */
  size_t peeked;   /* number of bytes peeked at, still in the socket */
  /* True if in the transport's list of streams for which TLS has buffered
   * input, so epoll does not report their sockets (SSL_pending). */
  bool tls_pending;
  gli_tcp_stream *next_tls_pending;

  bool checked; /* true if payloads have checksums, as its pair's */
  uint32_t sum, expected_sum;
};

struct gli_tcp_pair {
  gli_transport_peer peer;
  struct gli_tcp *t;
  gli_endpoint there; /* peer's address, at first the first to try */
  char peer_text[GLI_ENDPOINT_TEXT_BYTES];

  bool begun;     /* true if connecting has begun, by either side */
  bool initiator; /* true if this side made stream 0 */
  bool aborting;  /* true while the peer's ABORT arrives */
  gli_header bye; /* peer's BYE, as received on stream 0 */

  gli_request_queue waiting; /* requests until the streams are agreed */
  gli_send_request *last;    /* final message for every stream; owned */
  /* Time limit for the peer to send the reason on another stream after it has
   * ended one; 0 if none has ended. */
  uint64_t reason_due_ns;
  uint64_t heard; /* counter of bytes and answers received */

  uint32_t streams; /* agreed number; 0 if not agreed yet */
  uint32_t stream_capacity;
  gli_tcp_stream stream[];
};

typedef struct gli_tcp {
  gli_transport_peers peers;
  uint32_t streams;
  bool checksum;
  gli_tls_settings *tls;   /* NULL without TLS */
  gli_endpoint local;      /* listener's address */
  gli_tcp_contact contact; /* published addresses */
  gli_interfaces own;      /* interfaces at the time of opening */
  /* Congestion control of connections with other hosts; "" for the default. */
  char control[GLI_TCP_CONTROL_BYTES];

  gli_events *events;
  /* Polls of a single stream skip the set. */
  uint32_t up;            /* number of streams that are up */
  gli_tcp_stream *newest; /* last stream that came up; NULL after its end */
  unsigned direct;        /* number of successive polls of one stream only */
  /* Stream that take_now has found empty since the last poll. */
  gli_tcp_stream *looked;
  gli_tcp_stream *tls_pending; /* list, in order of reading */

  gli_watch listener;
  uint64_t listener_due_ns;      /* end of a pause; 0 if not paused */
  uint64_t lacking_since_ns;     /* start of failures to accept; 0 if none */
  int lack;                      /* errno of the exhausted resource */
  gli_tcp_half_open *half_opens; /* newest first */
  int half_open_count;
  bool listener_full; /* true if paused until fewer are half open */
  uint64_t refused_count;

  /* sleeping; see wake.c */
  int wake_read, wake_write;
  atomic_bool wake_signalled;
  atomic_uint wake_generation;
  atomic_bool oversubscribed;

  /* Input before it is placed, GLI_TCP_BUFFER_BYTES. Between polls it holds the
   * bytes of `held` (may be NULL) that take_now has read but not taken. */
  uint8_t *buffer;
  gli_tcp_stream *held;
  size_t held_bytes;
} gli_tcp;

/* loop.c */
uint64_t gli_tcp_now(gli_transport *t);
int gli_tcp_poll(gli_transport *t);
/* Gives a stream its connection, after the handshake. */
void gli_tcp_stream_up(gli_tcp_stream *stream, gli_conn *conn);

/* wake.c */
bool gli_tcp_wake_open(gli_tcp *t);
void gli_tcp_wake_close(gli_tcp *t);
void gli_tcp_wake_reset(gli_tcp *t);
void gli_tcp_wake(gli_transport *t);
bool gli_tcp_sleep_begin(gli_transport *t, gli_sleep *sleep);
void gli_tcp_sleep_end(gli_transport *t);

/* listen.c */
gloo_status gli_tcp_listen(gli_tcp *t, const gli_transport_config *config,
                           gloo_error *error);
/* Pauses accepting (out of descriptors, or too many half-open connections). */
void gli_tcp_listener_pause(gli_tcp *t);
/* Ends a pause after the number of half-open connections has dropped. */
void gli_tcp_listener_resume(gli_tcp *t);
/* Handles failures of accept() with `code` (errno). Connections in the backlog
 * may still be accepted for a while; then unconnected pairs fail. */
void gli_tcp_listener_fail_resource(gli_tcp *t, int code);
void gli_tcp_listener_due(gli_tcp *t, uint64_t now_ns);

/* accept.c */
void gli_tcp_listener_ready(void *t, int events);
void gli_tcp_half_open_expire(gli_tcp *t, uint64_t now_ns);
void gli_tcp_half_open_close(gli_tcp *t);
void gli_tcp_half_open_forked(gli_tcp *t);

/* dial.c */
void gli_tcp_stream_begin(gli_tcp_stream *stream);
void gli_tcp_stream_due(gli_tcp_stream *stream, uint64_t now_ns);

/* connect.c */
/* Decides about a valid hello for this pair that `conn` has sent, with proof if
 * required, and answers it. Returns true if the connection was taken over. */
bool gli_tcp_pair_join(gli_tcp_pair *pair, const gli_tcp_hello *hello,
                       gli_conn *conn);
bool gli_tcp_reply_send(gli_conn *conn, const gli_tcp_reply *reply);

/* pair.c */
gloo_status gli_tcp_pair_open(gli_transport *t, const gli_pair_config *config,
                              gli_pair **pair, gloo_error *error);
gli_post gli_tcp_send(gli_pair *pair, gli_send_request *request);
/* Sets the address by which messages name the peer. */
void gli_tcp_pair_set_peer(gli_tcp_pair *pair, const gli_endpoint *peer);
/* Returns the stream for a message, once the number of streams is agreed. */
gli_tcp_stream *gli_tcp_pair_stream(gli_tcp_pair *pair,
                                    const gli_header *header);
/* Sets the number of streams, which both sides know once stream 0 is up. */
void gli_tcp_pair_agree(gli_tcp_pair *pair, uint32_t streams, bool initiator);
/* Updates the mark of undelivered data (gli_mark_undelivered). */
void gli_tcp_update_undelivered(gli_tcp_pair *pair);
/* Closes all connections. */
void gli_tcp_pair_end(gli_transport_peer *peer);
/* Closes all connections, and has the memory freed. */
void gli_tcp_pair_dispose(gli_tcp_pair *pair);

/* stream.c */
/* Returns true if our direction is closed. */
static inline bool gli_tcp_stream_is_shut(const gli_tcp_stream *stream) {
  return stream->conn != NULL && stream->conn->state == GLI_CONN_DRAINING;
}
void gli_tcp_stream_end(gli_tcp_stream *stream);
/* Removes the stream from the list of streams with input in TLS. */
void gli_tcp_stream_clear_tls_pending(gli_tcp_stream *stream);
/* Removes peeked bytes from the socket. Returns false with errno (0 if the
 * connection has ended). */
bool gli_tcp_stream_take_peeked(gli_tcp_stream *stream);
/* Discards input, up to and including the end of the connection. */
void gli_tcp_stream_discard(gli_tcp_stream *stream);
/* Breaks a pair whose peer has hung up without a reason. `stuck` ends the
 * message. */
void gli_tcp_pair_hung_up(gli_tcp_pair *pair, const char *stuck);
/* Handles the loss of the connection: `code` is errno, 0 for an orderly end. */
void gli_tcp_stream_lost(gli_tcp_stream *stream, int code);

/* stream_send.c */
/* Stores the checksum of the payload in the header's `number`. */
void gli_tcp_request_sum(gli_send_request *request);
gli_post gli_tcp_stream_send(gli_tcp_stream *stream, gli_send_request *request);
bool gli_tcp_send_now(gli_pair *pair, gli_header *header, const void *payload);
/* Writes queued requests, as far as the kernel accepts them. */
void gli_tcp_stream_flush(gli_tcp_stream *stream);
/* Returns true if TLS has buffered output that can still be written. */
bool gli_tcp_stream_keeps(const gli_tcp_stream *stream);
/* Completes all queued requests after the peer has left. */
void gli_tcp_stream_drop(gli_tcp_stream *stream);

/* stream_recv.c */
void gli_tcp_stream_read(gli_tcp_stream *stream, bool broken);
bool gli_tcp_take_now(gli_pair *pair, const gli_header *expected,
                      gli_taken *taken);
/* Has the next poll read the stream if TLS has input for it. */
void gli_tcp_stream_note_tls_pending(gli_tcp_stream *stream);
/* Processes the bytes that take_now has read but not taken. */
void gli_tcp_stream_read_held(gli_tcp *t);
/* Reads the streams with input in TLS. */
void gli_tcp_read_tls_pending(gli_tcp *t);

/* obstacle.c */
bool gli_tcp_obstacle(const gli_pair *pair, gli_obstacle *obstacle);
/* Returns true, and the end of a sentence, if only long packets get lost. */
bool gli_tcp_stream_stuck(const gli_tcp_stream *stream,
                          char text[GLI_OBSTACLE_BYTES]);
/* Records the post of a message of `bytes`, longer than all before. */
GLI_COLD void gli_tcp_stream_note_long(gli_tcp_stream *stream, uint64_t bytes);
/* Records queued messages, once the stream is up. */
void gli_tcp_stream_note_queued(gli_tcp_stream *stream);
static inline void gli_tcp_stream_look_at_length(gli_tcp_stream *stream,
                                                 const gli_header *header) {
  if (header->length > stream->long_limit)
    gli_tcp_stream_note_long(stream, header->length);
}

/* linger.c */
void gli_tcp_pair_close(gli_pair *pair, const gli_send_request *last);
/* Returns true while peers of closed pairs have not received all data. */
bool gli_tcp_lingering(const gli_tcp *t);
/* Appends the last message to the streams that need it, once their number is
 * known, and ends the others. */
void gli_tcp_pair_queue_last(gli_tcp_pair *pair);
void gli_tcp_stream_linger(gli_tcp_stream *stream, int events);
/* Closes the sending direction of a closed pair's stream after all data. */
void gli_tcp_stream_shut(gli_tcp_stream *stream);
/* Frees a closed pair that has nothing left to do. */
void gli_tcp_linger_check(gli_tcp_pair *pair, uint64_t now_ns);

#endif
