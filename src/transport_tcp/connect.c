/* Making the connections of a pair.
 *
 * Both sides may begin at the same moment; one connection must win, and both
 * must know which. The rule: a hello of the lower rank is never rejected in
 * favour of the higher rank's. When a hello arrives and our own is already sent
 * (GREETING), the lower rank answers USE_MINE and keeps its own connection, and
 * the higher rank drops its own and accepts. While our own hello is unsent, the
 * peer cannot have accepted it, and we take the one received. After USE_MINE
 * the higher rank waits for the peer's hello, and asks again after a while, in
 * case the peer's path to us is blocked or the peer is gone.
 *
 * A peer has several addresses, and several hellos may be on their way to it,
 * or to other programs that listen at some of them (dial.h). The peer accepts
 * the first hello that it processes, and answers TAKEN to the others. Both
 * sides agree on the winner as long as we close no connection before it is
 * answered. The lower rank is GREETING while any of its hellos is unanswered.
 *
 * In a job with a secret, the answer to a hello is a challenge, in which the
 * peer proves that it knows the secret, and after our proof the reply. The
 * rules above stay the same: a challenge decides nothing, and an acceptor
 * decides when the proof arrives, by the state of its own stream at that time.
 * That is the time when "a hello arrives". A challenged hello of ours is still
 * unanswered, so the lower rank, GREETING, rejects each proof of the higher one
 * until its own hello is answered, or the connection of that hello has ended.
 * Then the peer has not accepted it and never will, because it takes no proof
 * from a connection that it has closed. Data before a valid challenge may come
 * from anyone; it is trusted only if it does no more harm than closing the
 * connection.
 *
 * A busy peer may take long to answer (its kernel accepts, it polls later), so
 * waiting for an answer has no limit here: operations have deadlines. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>

#include "core/descriptor.h"
#include "core/random.h"
#include "net/socket.h"
#include "security/trust.h"
#include "transport_tcp/dial.h"
#include "transport_tcp/handshake.h"
#include "transport_tcp/tcp.h"

static const uint64_t ask_again_ns = 1000000000;
static const uint64_t later_ns = 10000000;
enum { LATER_DOUBLINGS = 4 };

/* ---- our hello ----------------------------------------------------------- */

/* Returns false after the attempt has failed. */
static bool attempt_send(gli_tcp_attempt *attempt, const void *data,
                         size_t bytes) {
  ssize_t sent = gli_conn_write(attempt->conn, data, bytes);
  if (sent == (ssize_t)bytes) return true;
  gli_tcp_attempt_failed(attempt, sent < 0 ? errno : ECONNRESET);
  return false;
}

/* Starts TLS right after the hello. The peer may refuse it in plaintext. */
static void attempt_secure(gli_tcp_attempt *attempt) {
  const gli_tcp_pair *pair = attempt->stream->pair;
  gli_conn *conn = attempt->conn;
  gli_key key = {{0}};
  gloo_error error;
  gloo_status status = GLOO_OK;
  if (pair->peer.asks)
    status = gli_tcp_handshake_tls_key(&pair->peer.key, attempt->hello, &key,
                                       &error);
  if (status == GLOO_OK)
    status = gli_conn_secure(conn, pair->t->tls, false, &key, &error);
  gli_wipe(&key, sizeof key);
  if (status == GLOO_OK) {
    gli_tcp_contact contact = {.n = 0};
    (void)gli_tcp_contact_decode(&pair->peer.config.address, &contact);
    gli_tls_expect_rank(conn->tls, pair->peer.config.peer_rank, contact.at,
                        contact.n);
    conn->plain = gli_tcp_reply_first();
    (void)gli_conn_shake_hands(conn, false);
  } else {
    gli_tcp_attempt_failed_because(attempt, error.message,
                                   "a local resource ran out");
  }
}

static void attempt_say_hello(gli_tcp_attempt *attempt) {
  gli_tcp_stream *stream = attempt->stream;
  gli_tcp_pair *pair = stream->pair;
  gli_tcp_hello hello = {
      .version = GLI_TCP_VERSION,
      .stream = stream->index,
      .streams = pair->streams != 0 ? pair->streams : pair->stream_capacity,
      .from = pair->peer.config.self_rank,
      .to = pair->peer.config.peer_rank,
      .key = pair->peer.config.remote_key,
      .asks = pair->peer.asks,
      .tls = gli_tls_settings_kind(pair->t->tls),
  };
  gloo_error error;
  if ((pair->peer.asks || hello.tls != GLI_TLS_NONE) &&
      gli_random_draw(hello.nonce, sizeof hello.nonce, &error) != GLOO_OK) {
    gli_tcp_attempt_failed_because(attempt, error.message,
                                   "a local resource ran out");
    return;
  }
  gli_tcp_hello_encode(&hello, attempt->hello);
  if (!attempt_send(attempt, attempt->hello, sizeof attempt->hello)) return;
  pair->peer.greeted = true;
  gli_conn_for(attempt->conn, GLI_READABLE);
  gli_tcp_attempt_hello_sent(attempt);
  if (hello.tls != GLI_TLS_NONE) attempt_secure(attempt);
}

/* ---- the challenge to our hello ------------------------------------------ */

static void connect_nonsense(gli_tcp_attempt *attempt) {
  gli_tcp_attempt_bad_peer(
      attempt,
      "sent an invalid answer: a proxy or another program may listen "
      "there; set GLOO_PUBLISH_ADDR there to its own address");
}

static void connect_denied(gli_tcp_attempt *attempt, bool peer_asks) {
  const gli_tcp_pair *pair = attempt->stream->pair;
  gli_tcp_attempt_rejected(
      attempt, "%s",
      gli_trust_differs(pair->peer.config.self_rank, pair->peer.asks, peer_asks)
          .text);
}

/* Computes the tags, with a key of TLS in a job without a secret. */
static gloo_status connect_tags(const gli_tcp_attempt *attempt,
                                const gli_tcp_challenge *challenge,
                                gli_proofs *tags, gloo_error *error) {
  const gli_tcp_pair *pair = attempt->stream->pair;
  gli_key key = pair->peer.key;
  gloo_status status = GLOO_OK;
  if (!pair->peer.asks) status = gli_tls_key(attempt->conn->tls, &key, error);
  if (status == GLOO_OK)
    status = gli_tcp_handshake_proofs(&key, attempt->hello, challenge->nonce,
                                      tags, error);
  gli_wipe(&key, sizeof key);
  return status;
}

/* Checks the peer's proof that it knows the secret, and sends our own. */
static void tcp_connect_challenged(gli_tcp_attempt *attempt) {
  const gli_tcp_pair *pair = attempt->stream->pair;
  gli_tcp_challenge challenge;
  gli_proofs tags;
  gloo_error error;
  bool in_clear = pair->t->tls != NULL && !attempt->conn->secured;
  if (attempt->proved || in_clear ||
      !gli_tcp_challenge_decode(attempt->reply, &challenge)) {
    connect_nonsense(attempt);
  } else if (!pair->peer.asks && !attempt->conn->secured) {
    connect_denied(attempt, true);
  } else if (connect_tags(attempt, &challenge, &tags, &error) != GLOO_OK) {
    gli_tcp_attempt_failed_because(attempt, error.message,
                                   "a local resource ran out");
  } else if (!gli_tags_equal(challenge.tag, tags.acceptor)) {
    connect_denied(attempt, true);
  } else {
    attempt->proved = true;
    attempt->reply_bytes = 0;
    (void)attempt_send(attempt, tags.initiator, sizeof tags.initiator);
  }
}

/* ---- the answer to our hello --------------------------------------------- */

/* Returns true if the peer has proved its identity, as far as required. Before
 * that, a reply may come from any program that listens there. */
static bool connect_has_proved(const gli_tcp_attempt *attempt) {
  const gli_tcp_pair *pair = attempt->stream->pair;
  return attempt->proved || (!pair->peer.asks && pair->t->tls == NULL);
}

static bool connect_may_believe(const gli_tcp_attempt *attempt,
                                uint32_t answer) {
  if (connect_has_proved(attempt)) return true;
  return answer == GLI_TCP_UNKNOWN || answer == GLI_TCP_LATER ||
         answer == GLI_TCP_OTHER_VERSION || answer == GLI_TCP_OTHER_TLS;
}

static void tcp_connect_accepted(gli_tcp_attempt *attempt,
                                 const gli_tcp_reply *reply) {
  gli_tcp_stream *stream = attempt->stream;
  gli_tcp_pair *pair = stream->pair;
  bool sensible =
      stream->index == 0
          ? reply->streams >= 1 && reply->streams <= pair->stream_capacity
          : reply->streams == pair->streams;
  if (!sensible || reply->key != pair->peer.config.local_key) {
    gli_tcp_attempt_bad_peer(
        attempt, "answered with %s; another job may use its port",
        sensible ? "a wrong key" : "a wrong number of streams");
    return;
  }
  gli_conn *conn = attempt->conn;
  attempt->conn = NULL;
  gli_tcp_pair_set_peer(pair, &attempt->at);
  gli_tcp_dial_drop(stream);
  if (stream->index == 0) gli_tcp_pair_agree(pair, reply->streams, true);
  gli_tcp_stream_up(stream, conn);
}

/* Asks again later. The peer is alive, so its time limit starts again. */
static void come_later(gli_tcp_attempt *attempt) {
  gli_tcp_stream *stream = attempt->stream;
  uint32_t doublings = stream->attempts++;
  if (doublings > LATER_DOUBLINGS) doublings = LATER_DOUBLINGS;
  stream->failing_since_ns = 0;
  stream->lack = 0;
  gli_tcp_attempt_retry_at(attempt, uv_hrtime() + (later_ns << doublings),
                           "it is not ready yet", "it may take long to start");
}

static void tcp_connect_answered(gli_tcp_attempt *attempt) {
  const gli_tcp_pair *pair = attempt->stream->pair;
  gli_tcp_reply reply;
  if (!gli_tcp_reply_decode(attempt->reply, &reply)) {
    connect_nonsense(attempt);
    return;
  }
  attempt->stream->pair->heard++;
  if (!connect_may_believe(attempt, reply.answer)) {
    connect_denied(attempt, false);
    return;
  }
  switch ((gli_tcp_answer)reply.answer) {
    case GLI_TCP_OTHER_VERSION:
      gli_tcp_attempt_bad_peer(
          attempt,
          "uses version %" PRIu32
          " of the TCP protocol, this rank %d; use the same "
          "release of gloo_c on all ranks",
          reply.version, GLI_TCP_VERSION);
      return;
    case GLI_TCP_ACCEPTED:
      tcp_connect_accepted(attempt, &reply);
      return;
    case GLI_TCP_USE_MINE:
      gli_tcp_attempt_retry_at(
          attempt, uv_hrtime() + ask_again_ns,
          "it answers, but its own connection to this rank does not arrive",
          "a proxy or another program may accept it: set GLOO_PUBLISH_ADDR "
          "here to this rank's own address");
      return;
    case GLI_TCP_LATER:
      if (connect_has_proved(attempt))
        come_later(attempt);
      else
        gli_tcp_attempt_postpone(attempt);
      return;
    case GLI_TCP_OTHER_TLS:
      gli_tcp_attempt_rejected(
          attempt, "%s",
          gli_tls_differs(gli_tls_settings_kind(pair->t->tls),
                          reply.streams <= GLI_TLS_BY_CERTIFICATE
                              ? (gli_tls_kind)reply.streams
                              : GLI_TLS_NONE)
              .text);
      return;
    case GLI_TCP_TAKEN:
      gli_tcp_attempt_failed_because(attempt,
                                     "it is already connected to this rank",
                                     "two processes may have the same rank");
      return;
    case GLI_TCP_DENIED:
      if (attempt->proved)
        connect_denied(attempt, true);
      else
        connect_nonsense(attempt);
      return;
    default:
      gli_tcp_attempt_failed_because(attempt, "it does not know this context",
                                     "it has left, or belongs to another job");
  }
}

/* Returns the length of the answer, as far as known. Reading must stop there,
 * because messages may follow it. */
static size_t reply_whole(const gli_tcp_attempt *attempt) {
  bool challenge = attempt->reply_bytes >= GLI_TCP_REPLY_BYTES &&
                   gli_tcp_challenge_begins(attempt->reply);
  return challenge ? GLI_TCP_CHALLENGE_BYTES : GLI_TCP_REPLY_BYTES;
}

/* Returns true for a complete reply. */
static bool reply_receive(gli_tcp_attempt *attempt, bool broken) {
  gli_conn *conn = attempt->conn;
  while (attempt->reply_bytes < reply_whole(attempt)) {
    ssize_t got = gli_conn_read(conn, attempt->reply + attempt->reply_bytes,
                                reply_whole(attempt) - attempt->reply_bytes);
    if (got < 0 && gli_would_block(errno)) {
      if (!broken) return false;
      errno = gli_tcp_socket_error(conn->watch.fd);
    }
    if (got < 0 && errno == EBADMSG && conn->secured) {
      gli_tcp_attempt_rejected(attempt, "%s", gli_tls_why(conn->tls));
      return false;
    }
    if (got <= 0) {
      gli_tcp_attempt_failed(attempt, got < 0 ? errno : ECONNRESET);
      return false;
    }
    attempt->reply_bytes += (size_t)got;
  }
  return true;
}

static void attempt_ready(void *owner, int events) {
  gli_tcp_attempt *attempt = owner;
  if (!reply_receive(attempt, (events & GLI_BROKEN) != 0)) return;
  if (gli_tcp_challenge_begins(attempt->reply))
    tcp_connect_challenged(attempt);
  else
    tcp_connect_answered(attempt);
}

/* Continues after connecting, or after the TLS handshake, with whose last bytes
 * TLS may have read an answer. */
static void attempt_on_greets(void *owner) {
  gli_tcp_attempt *attempt = owner;
  if (attempt->conn->secured)
    attempt_ready(attempt, GLI_READABLE);
  else
    attempt_say_hello(attempt);
}

static void attempt_ended(void *owner, int code) {
  gli_tcp_attempt *attempt = owner;
  const gli_tls *tls = attempt->conn->tls;
  if (code == EBADMSG && tls != NULL)
    gli_tcp_attempt_rejected(attempt, "%s", gli_tls_why(tls));
  else
    gli_tcp_attempt_failed(attempt, code);
}

const gli_conn_calls gli_tcp_attempt_calls = {.greets = attempt_on_greets,
                                              .ready = attempt_ready,
                                              .ended = attempt_ended};

/* ---- a hello from the peer ----------------------------------------------- */

bool gli_tcp_reply_send(gli_conn *conn, const gli_tcp_reply *reply) {
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  gli_tcp_reply_encode(reply, bytes);
  return gli_conn_write(conn, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
}

static gli_tcp_answer decide_first(const gli_tcp_pair *pair) {
  bool lower = pair->peer.config.self_rank < pair->peer.config.peer_rank;
  switch (pair->stream[0].state) {
    case GLI_TCP_UP:
    case GLI_TCP_ENDED:
      return GLI_TCP_TAKEN;
    case GLI_TCP_GREETING:
      return lower ? GLI_TCP_USE_MINE : GLI_TCP_ACCEPTED;
    default:
      return GLI_TCP_ACCEPTED;
  }
}

static gli_tcp_answer decide_other(const gli_tcp_pair *pair,
                                   const gli_tcp_hello *hello) {
  if (pair->streams != hello->streams || pair->initiator) return GLI_TCP_TAKEN;
  bool free = pair->stream[hello->stream].state == GLI_TCP_UNCONNECTED;
  return free ? GLI_TCP_ACCEPTED : GLI_TCP_TAKEN;
}

/* Finds the peer's address from which the connection comes, if published. */
static void pair_find_peer(gli_tcp_pair *pair, int fd) {
  gli_endpoint from;
  gli_tcp_contact contact;
  socklen_t bytes = sizeof from;
  if (getpeername(fd, &from.any, &bytes) != 0) return;
  if (!gli_tcp_contact_decode(&pair->peer.config.address, &contact)) return;
  gli_endpoint_unmap(&from);
  gli_endpoint_set_port(&from, contact.port);
  for (uint32_t i = 0; i < contact.n; i++)
    if (gli_endpoint_same_address(&contact.at[i], &from))
      gli_tcp_pair_set_peer(pair, &from);
}

bool gli_tcp_pair_join(gli_tcp_pair *pair, const gli_tcp_hello *hello,
                       gli_conn *conn) {
  gli_tcp_reply reply = {
      .version = GLI_TCP_VERSION,
      .key = pair->peer.config.remote_key,
      .streams = hello->streams < pair->stream_capacity ? hello->streams
                                                        : pair->stream_capacity,
  };
  bool first = hello->stream == 0;
  reply.answer = first ? decide_first(pair) : decide_other(pair, hello);
  if (!gli_tcp_reply_send(conn, &reply)) return false;
  if (reply.answer != GLI_TCP_ACCEPTED) return false;

  gli_tcp_stream *stream = &pair->stream[hello->stream];
  gli_tcp_dial_drop(stream);
  if (first) pair_find_peer(pair, conn->watch.fd);
  pair->begun = pair->peer.greeted = true;
  if (first) gli_tcp_pair_agree(pair, reply.streams, false);
  gli_tcp_stream_up(stream, conn);
  return true;
}
