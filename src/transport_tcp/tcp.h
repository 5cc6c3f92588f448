/* Inside the TCP transport.
 *
 * A pair is 1..16 streams (connections), as many as the side with fewer is
 * configured for: they agree when stream 0 is made. The side that made stream 0
 * also makes the others. Every socket is watched by one set (net/events.h) and
 * moved by sendmsg and recvmsg; a small message is one system call on either
 * side.
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
/* Of pairs whose messages have checksums. */
extern const gli_transport_ops gli_transport_tcp_checked;

#define GLI_TCP_STREAMS_MAX 16
#define GLI_TCP_BUFFER_BYTES ((size_t)256 * 1024)
#define GLI_TCP_LONG_BYTES 512u /* shorter ones pass wherever IPv4 does */
#define GLI_TCP_IO_MAX ((size_t)1 << 30) /* some systems refuse 2^31 */

typedef struct gli_tcp_pair gli_tcp_pair;
typedef struct gli_tcp_stream gli_tcp_stream;
typedef struct gli_tcp_half_open gli_tcp_half_open;
typedef struct gli_tcp_dial gli_tcp_dial;

typedef enum gli_tcp_stream_state {
  GLI_TCP_UNCONNECTED, /* nothing begun: the peer makes this stream */
  GLI_TCP_CONNECTING,  /* our connects are under way, no hello is */
  GLI_TCP_GREETING,    /* a hello of ours is sent, the answer is to come */
  GLI_TCP_WAITING,     /* trying again at due_ns, unless the peer comes first */
  GLI_TCP_UP,
  GLI_TCP_ENDED
} gli_tcp_stream_state;

struct gli_tcp_stream {
  gli_tcp_pair *pair;
  uint32_t index;
  gli_tcp_stream_state state;
  gli_conn *conn; /* of UP */

  /* making the connection */
  gli_tcp_dial *dial;        /* of CONNECTING, GREETING, WAITING; see dial.h */
  uint64_t due_ns;           /* when to act next; 0: never */
  uint64_t failing_since_ns; /* the first failed attempt; 0: none failed */
  int lack; /* errno of what failed for want of something here; 0: nothing */
  uint32_t attempts;

  /* sending: private_ of the head counts its bytes that are gone, header
   * included */
  gli_request_queue queue;
  uint8_t *rest; /* of a message that send_now was done with; before `queue` */
  size_t rest_bytes;
  /* The first long message (obstacle.c): its length (0: none yet), when it was
   * posted, and how many bytes go before it; longer ones take its place. */
  uint64_t long_bytes, long_since_ns, long_at, long_limit;
  int write_error; /* errno: the peer takes no more; what it sent is still
                      to be read, and tells whether that is a failure */

  /* receiving: `partial` holds the begin of a header, or of an element to be
   * reduced */
  uint8_t partial[GLI_HEADER_BYTES];
  size_t partial_bytes;
  bool in_payload;
  bool large;    /* the last payload was a large one, the next may be too */
  bool bye;      /* the peer's BYE has arrived */
  bool finished; /* nothing that follows matters */
  gli_header header;
  gli_sink sink;
  uint64_t placed; /* bytes of the payload that are stored or reduced */
  bool unanswered; /* something was read since something was sent */
  size_t peeked;   /* bytes that were read, but are still in the socket */
  /* In the transport's list of streams of which TLS has bytes that no eye on
   * the socket sees any more. */
  bool tls_pending;
  gli_tcp_stream *next_tls_pending;

  bool checked; /* as its pair: payloads have checksums */
  uint32_t sum, expected_sum;
};

struct gli_tcp_pair {
  gli_transport_peer peer;
  struct gli_tcp *t;
  gli_endpoint there; /* where it is connected; before, what is tried first */
  char peer_text[GLI_ENDPOINT_TEXT_BYTES];

  bool begun;     /* connecting has begun, or the peer has come */
  bool initiator; /* we made stream 0 */
  bool aborting;  /* the peer's ABORT is arriving */
  gli_header bye; /* the peer's, as it came on stream 0 */

  gli_request_queue
      waiting;            /* requests until the number of streams is agreed */
  gli_send_request *last; /* of a closed pair: ends every stream; owned */
  /* When a pair that has lost a stream fails, unless the peer says why on
   * another one; 0: no stream is lost. */
  uint64_t reason_due_ns;
  uint64_t heard; /* bytes that came, and answers, at least */

  uint32_t streams; /* agreed; 0: not yet */
  uint32_t stream_capacity;
  gli_tcp_stream stream[];
};

typedef struct gli_tcp {
  gli_transport_peers peers;
  uint32_t streams;
  bool checksum;
  gli_tls_settings *tls;   /* NULL: none */
  gli_endpoint local;      /* the listener's */
  gli_tcp_contact contact; /* what is published */
  gli_interfaces own;      /* as they were when it was opened */
  /* What is to control the congestion of connections with other hosts; "":
   * whatever does. */
  char control[GLI_TCP_CONTROL_BYTES];

  gli_events *events;
  /* With one stream only there is no need to ask which one is ready. */
  uint32_t up;            /* streams that are */
  gli_tcp_stream *newest; /* the last that came up, if it still is */
  unsigned direct;        /* polls in a row that looked at one stream alone */
  /* Where take_now found nothing, since the last poll. */
  gli_tcp_stream *looked;
  gli_tcp_stream *tls_pending; /* those that are, the first to be read first */

  gli_watch listener;
  uint64_t listener_due_ns;  /* end of a pause; 0: not paused */
  uint64_t lacking_since_ns; /* when accepting began to fail; 0: it does not, */
  int lack;                  /* and for want of what: errno */
  gli_tcp_half_open *half_opens; /* connections of nobody yet, newest first */
  int half_open_count;
  bool listener_full; /* the listener pauses until there are fewer */
  uint64_t refused_count;

  /* sleeping; see wake.c */
  int wake_read, wake_write;
  atomic_bool wake_signalled;
  atomic_uint wake_generation;
  atomic_bool oversubscribed;

  /* Of GLI_TCP_BUFFER_BYTES: what arrives, before it is placed. Between polls,
   * what take_now has read of `held` in vain (NULL: it has not). */
  uint8_t *buffer;
  gli_tcp_stream *held;
  size_t held_bytes;
} gli_tcp;

/* loop.c */
uint64_t gli_tcp_now(gli_transport *t);
int gli_tcp_poll(gli_transport *t);
/* The stream has this connection, which is greeted. */
void gli_tcp_stream_up(gli_tcp_stream *stream, gli_conn *conn);

/* wake.c */
bool gli_tcp_wake_open(gli_tcp *t);
void gli_tcp_wake_close(gli_tcp *t);
void gli_tcp_wake_reset(gli_tcp *t);
void gli_tcp_wake(gli_transport *t);
void gli_tcp_sleep(gli_transport *t, int64_t timeout_ns);
bool gli_tcp_sleep_begin(gli_transport *t, gli_sleep *sleep);
void gli_tcp_sleep_end(gli_transport *t);

/* listen.c */
gloo_status gli_tcp_listen(gli_tcp *t, const gli_transport_config *config,
                           gloo_error *error);
/* Stop accepting for a while (no descriptors, or too many peers that are about
 * to prove themselves). */
void gli_tcp_listener_pause(gli_tcp *t);
/* There are fewer half-open connections. */
void gli_tcp_listener_resume(gli_tcp *t);
/* It cannot be accepted at all, for `code` from errno. Connections that wait in
 * the system have their chance for a while; then pairs that are not connected
 * fail. */
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
/* Decide about a valid hello that came on `conn` for this pair, which has
 * proved what it has to, and answer. True when the connection was taken over.
 */
bool gli_tcp_pair_join(gli_tcp_pair *pair, const gli_tcp_hello *hello,
                       gli_conn *conn);
bool gli_tcp_reply_send(gli_conn *conn, const gli_tcp_reply *reply);

/* pair.c */
gloo_status gli_tcp_pair_open(gli_transport *t, const gli_pair_config *config,
                              gli_pair **pair, gloo_error *error);
gli_post gli_tcp_send(gli_pair *pair, gli_send_request *request);
bool gli_tcp_send_now(gli_pair *pair, gli_header *header, const void *payload);
/* Messages name the peer by this address. */
void gli_tcp_pair_set_peer(gli_tcp_pair *pair, const gli_endpoint *peer);
/* The stream that a message travels on; the number is agreed. */
gli_tcp_stream *gli_tcp_pair_stream(gli_tcp_pair *pair,
                                    const gli_header *header);
/* Stream 0 is up: both sides know the number of streams. */
void gli_tcp_pair_agree(gli_tcp_pair *pair, uint32_t streams, bool initiator);
/* Something changed that decides whether the pair owes anything (gli_mark_undelivered). */
void gli_tcp_update_undelivered(gli_tcp_pair *pair);
/* Drops all connections. */
void gli_tcp_pair_end(gli_transport_peer *peer);
/* Drop all connections and have the memory freed. */
void gli_tcp_pair_dispose(gli_tcp_pair *pair);

/* stream.c */
/* Our direction is closed. */
static inline bool gli_tcp_stream_is_shut(const gli_tcp_stream *stream) {
  return stream->conn != NULL && stream->conn->state == GLI_CONN_DRAINING;
}
void gli_tcp_stream_end(gli_tcp_stream *stream);
/* Nothing of it is to be read. */
void gli_tcp_stream_clear_tls_pending(gli_tcp_stream *stream);
/* Remove from the socket what was read already; false with errno (0: the
 * connection has ended). */
bool gli_tcp_stream_take_peeked(gli_tcp_stream *stream);
/* Throw away what arrives; until its end, if that comes. */
void gli_tcp_stream_discard(gli_tcp_stream *stream);
/* The peer has closed the connection without a reason. `stuck` ends the
 * message. */
void gli_tcp_pair_hung_up(gli_tcp_pair *pair, const char *stuck);
/* The connection is gone: `code` from errno, 0 for its orderly end. */
void gli_tcp_stream_lost(gli_tcp_stream *stream, int code);

/* stream_send.c */
/* Note the checksum of its payload in its header's `number`. */
void gli_tcp_request_sum(gli_send_request *request);
gli_post gli_tcp_stream_send(gli_tcp_stream *stream, gli_send_request *request);
bool gli_tcp_stream_send_now(gli_tcp_stream *stream, const gli_header *header,
                             const void *payload);
/* Write what is queued, as far as the kernel takes it. */
void gli_tcp_stream_flush(gli_tcp_stream *stream);
/* TLS has kept bytes that count as sent, and that can still be written. */
bool gli_tcp_stream_keeps(const gli_tcp_stream *stream);
/* The peer has left: what is queued for it counts as sent. */
void gli_tcp_stream_drop(gli_tcp_stream *stream);

/* stream_recv.c */
void gli_tcp_stream_read(gli_tcp_stream *stream, bool broken);
bool gli_tcp_take_now(gli_pair *pair, const gli_header *expected,
                      gli_taken *taken);
/* TLS has bytes for it: they are to be read in the next poll. */
void gli_tcp_stream_note_tls_pending(gli_tcp_stream *stream);
/* Go on with what take_now has read. */
void gli_tcp_stream_read_held(gli_tcp *t);
/* ... and with what TLS has. */
void gli_tcp_read_tls_pending(gli_tcp *t);

/* obstacle.c */
bool gli_tcp_obstacle(const gli_pair *pair, gli_obstacle *obstacle);
/* Does the path lose long packets alone? If so, `text` ends a sentence. */
bool gli_tcp_stream_stuck(const gli_tcp_stream *stream,
                          char text[GLI_OBSTACLE_BYTES]);
/* A message of `bytes` is posted, longer than those before. */
GLI_COLD void gli_tcp_stream_note_long(gli_tcp_stream *stream, uint64_t bytes);
/* The stream is up: the same for what is queued. */
void gli_tcp_stream_note_queued(gli_tcp_stream *stream);
static inline void gli_tcp_stream_look_at_length(gli_tcp_stream *stream,
                                                 const gli_header *header) {
  if (header->length > stream->long_limit)
    gli_tcp_stream_note_long(stream, header->length);
}

/* linger.c */
void gli_tcp_pair_close(gli_pair *pair, const gli_send_request *last);
/* Have the peers of closed pairs not got all yet? */
bool gli_tcp_lingering(const gli_tcp *t);
/* Append the last message to the streams that need it, once their number is
 * known, and end the others. */
void gli_tcp_pair_queue_last(gli_tcp_pair *pair);
void gli_tcp_stream_linger(gli_tcp_stream *stream, int events);
/* A stream of a closed pair has nothing more to send. */
void gli_tcp_stream_shut(gli_tcp_stream *stream);
/* A closed pair may have nothing left to do. */
void gli_tcp_linger_check(gli_tcp_pair *pair, uint64_t now_ns);

#endif
