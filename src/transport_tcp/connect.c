/* Making the connections of a pair.
 *
 * Both sides may begin at the same moment; one connection must win, and both
 * must know which. The rule: a hello that is sent by the lower rank is never
 * turned down in favour of the higher rank's. So when a hello arrives and our
 * own is already sent (GREETING), the lower rank answers USE_MINE and keeps
 * its own, and the higher rank drops its own and accepts. As long as our own is
 * not sent, the peer cannot have accepted it, and the one that arrived is
 * taken. The higher rank, told USE_MINE, waits for the peer's hello and asks
 * again after a while, in case the peer's way to us is blocked or the peer is
 * gone.
 *
 * A busy peer may take long to answer (its kernel accepts, it polls later), so
 * waiting for an answer has no limit here: operations have deadlines. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>

#include "core/descriptor.h"
#include "core/lack.h"
#include "transport_tcp/socket.h"
#include "transport_tcp/tcp.h"

static const uint64_t connect_limit_ns = 30000000000;
static const uint64_t patience_ns = 2000000000;
static const uint64_t ask_again_ns = 1000000000;
static const uint64_t backoff_ns = 10000000;
enum { BACKOFF_DOUBLINGS = 4 };

/* ---- attempts
 * ---------------------------------------------------------------- */

static void set_due(gli_tcp_stream *stream, uint64_t due_ns) {
  stream->due_ns = due_ns;
  if (due_ns != 0) gli_tcp_schedule(stream->pair->t, due_ns);
}

static void drop_attempt(gli_tcp_stream *stream) {
  if (stream->watch != NULL) gli_tcp_watch_close(stream->watch);
  stream->watch = NULL;
  stream->reply_bytes = 0;
}

static void tcp_wait_until(gli_tcp_stream *stream, uint64_t due_ns) {
  drop_attempt(stream);
  stream->state = GLI_TCP_WAITING;
  set_due(stream, due_ns);
}

static void tcp_try_again(gli_tcp_stream *stream, uint64_t now_ns) {
  uint32_t doublings = stream->attempts++;
  if (doublings > BACKOFF_DOUBLINGS) doublings = BACKOFF_DOUBLINGS;
  tcp_wait_until(stream, now_ns + (backoff_ns << doublings));
}

static void break_unreachable(gli_tcp_pair *pair, const char *why,
                              const char *guess) {
  gli_tcp_pair_break(pair, GLOO_ERR_PEER,
                     "rank %" PRIu32 " (%s) cannot be reached: %s; %s",
                     pair->config.peer_rank, pair->peer_text, why, guess);
}

/* Try again after a while, or give up when it has failed for too long: for want
 * of what this process lacks (errno; 0: nothing), or why the peer is at fault.
 */
static void tcp_fail_or_retry(gli_tcp_stream *stream, int lack, const char *why,
                              const char *guess) {
  gli_tcp_pair *pair = stream->pair;
  uint64_t now = uv_hrtime();
  if (stream->failing_since_ns == 0) stream->failing_since_ns = now;
  if (lack != 0) stream->lack = lack;
  if (now - stream->failing_since_ns < patience_ns) {
    tcp_try_again(stream, now);
    return;
  }
  drop_attempt(stream);
  if (stream->lack != 0) { /* which the peer may have given up on meanwhile */
    gli_tcp_pair_lacks(pair, stream->lack);
    return;
  }
  break_unreachable(pair, why, guess);
}

static void tcp_attempt_failed(gli_tcp_stream *stream, const char *why,
                               const char *guess) {
  tcp_fail_or_retry(stream, 0, why, guess);
}

static void tcp_connect_failed(gli_tcp_stream *stream, int code) {
  if (gli_lacking(code)) {
    tcp_fail_or_retry(stream, code, "", "");
    return;
  }
  bool refused = code == ECONNREFUSED || code == ECONNRESET;
  const char *guess =
      refused ? "it may have exited" : "check the network between the hosts";
  /* A rank listens before it publishes where: no listener there means that the
   * rank is gone, and a closed pair that was never connected has no peer to
   * tell. */
  gli_tcp_pair *pair = stream->pair;
  if (code == ECONNREFUSED && pair->closed && pair->streams == 0) {
    drop_attempt(stream);
    break_unreachable(pair, strerror(code), guess);
    return;
  }
  tcp_attempt_failed(stream, strerror(code), guess);
}

static void reply_ready(void *owner, int events);

static void tcp_say_hello(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  const gli_tcp_hello hello = {
      .version = GLI_TCP_VERSION,
      .stream = stream->index,
      .streams = pair->streams != 0 ? pair->streams : pair->stream_capacity,
      .from = pair->config.self_rank,
      .to = pair->config.peer_rank,
      .key = pair->config.remote_key,
  };
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello_encode(&hello, bytes);
  struct iovec part = {bytes, sizeof bytes};
  ssize_t sent = gli_tcp_socket_send(stream->watch->fd, &part, 1);
  if (sent != (ssize_t)sizeof bytes) {
    tcp_connect_failed(stream, sent < 0 ? errno : ECONNRESET);
    return;
  }
  stream->state = GLI_TCP_GREETING;
  pair->greeted = true;
  set_due(stream, 0);
  gli_tcp_watch_give(stream->watch, reply_ready, stream);
  gli_tcp_watch_for(stream->watch, GLI_READABLE);
}

/* When no socket listens on a local port, a connect to it can pick this very
 * port as its own and reach itself. */
static bool connected_to_itself(int fd) {
  gli_tcp_endpoint self, peer;
  socklen_t self_bytes = sizeof self, peer_bytes = sizeof peer;
  if (getsockname(fd, &self.any, &self_bytes) != 0) return false;
  if (getpeername(fd, &peer.any, &peer_bytes) != 0) return false;
  return gli_tcp_endpoint_equal(&self, &peer);
}

static void connect_ready(void *owner, int events) {
  gli_tcp_stream *stream = owner;
  int code = (events & GLI_UNWATCHED) != 0
                 ? stream->watch->code
                 : gli_tcp_socket_error(stream->watch->fd);
  if (code == 0 && connected_to_itself(stream->watch->fd)) code = ECONNREFUSED;
  if (code != 0)
    tcp_connect_failed(stream, code);
  else
    tcp_say_hello(stream);
}

void gli_tcp_stream_begin(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  stream->state = GLI_TCP_CONNECTING;
  stream->reply_bytes = 0;
  int fd = gli_socket_open(pair->peer.any.sa_family, SOCK_STREAM);
  if (fd < 0) {
    tcp_connect_failed(stream, errno);
    return;
  }
  gli_tcp_socket_tune(fd);
  if (gli_tcp_endpoint_same_address(&pair->peer, &pair->t->local)) {
    gli_tcp_socket_tune_local(fd);
  }
  int code = 0;
  if (connect(fd, &pair->peer.any, gli_tcp_endpoint_bytes(&pair->peer)) != 0)
    code = errno;
  stream->watch = gli_tcp_watch_new(pair->t, fd, connect_ready, stream);
  if (stream->watch == NULL) {
    tcp_connect_failed(stream, ENOMEM);
    return;
  }
  if (code != 0 && code != EINPROGRESS && code != EINTR) {
    tcp_connect_failed(stream, code);
    return;
  }
  gli_tcp_watch_for(stream->watch, GLI_WRITABLE);
  set_due(stream, uv_hrtime() + connect_limit_ns);
}

void gli_tcp_stream_due(gli_tcp_stream *stream, uint64_t now_ns) {
  (void)now_ns;
  stream->due_ns = 0;
  if (stream->state == GLI_TCP_WAITING)
    gli_tcp_stream_begin(stream);
  else if (stream->state == GLI_TCP_CONNECTING)
    tcp_connect_failed(stream, ETIMEDOUT);
}

/* ---- the answer to our hello
 * --------------------------------------------------- */

static void tcp_connect_accepted(gli_tcp_stream *stream,
                                 const gli_tcp_reply *reply) {
  gli_tcp_pair *pair = stream->pair;
  bool sensible =
      stream->index == 0
          ? reply->streams >= 1 && reply->streams <= pair->stream_capacity
          : reply->streams == pair->streams;
  if (!sensible || reply->key != pair->config.local_key) {
    gli_tcp_pair_break(pair, GLOO_ERR_PROTOCOL,
                       "rank %" PRIu32
                       " (%s) answered with %s; another job may use its port",
                       pair->config.peer_rank, pair->peer_text,
                       sensible ? "a wrong key" : "a wrong number of streams");
    return;
  }
  gli_tcp_watch *watch = stream->watch;
  if (stream->index == 0) gli_tcp_pair_agree(pair, reply->streams, true);
  gli_tcp_stream_up(stream, watch);
}

/* The peer is there: patience begins anew. */
static void come_later(gli_tcp_stream *stream) {
  stream->failing_since_ns = 0;
  stream->lack = 0;
  tcp_try_again(stream, uv_hrtime());
}

static void tcp_connect_answered(gli_tcp_stream *stream) {
  gli_tcp_pair *pair = stream->pair;
  gli_tcp_reply reply;
  if (!gli_tcp_reply_decode(stream->reply, &reply)) {
    gli_tcp_pair_break(pair, GLOO_ERR_PROTOCOL,
                       "what listens at %s is not rank %" PRIu32
                       ": its answer makes no sense",
                       pair->peer_text, pair->config.peer_rank);
    return;
  }
  if (reply.answer == GLI_TCP_OTHER_VERSION) {
    gli_tcp_pair_break(
        pair, GLOO_ERR_PROTOCOL,
        "rank %" PRIu32 " (%s) speaks version %" PRIu32
        " of the TCP protocol, this one %d; use one version of gloo_c",
        pair->config.peer_rank, pair->peer_text, reply.version,
        GLI_TCP_VERSION);
    return;
  }
  if (reply.answer == GLI_TCP_ACCEPTED)
    tcp_connect_accepted(stream, &reply);
  else if (reply.answer == GLI_TCP_USE_MINE)
    tcp_wait_until(stream, uv_hrtime() + ask_again_ns);
  else if (reply.answer == GLI_TCP_LATER)
    come_later(stream);
  else if (reply.answer == GLI_TCP_TAKEN)
    tcp_attempt_failed(stream, "it says that we are connected already",
                       "two processes may have the same rank");
  else
    tcp_attempt_failed(stream, "it does not know this context",
                       "it has left, or belongs to another job");
}

static void reply_ready(void *owner, int events) {
  gli_tcp_stream *stream = owner;
  if ((events & GLI_UNWATCHED) != 0) {
    tcp_connect_failed(stream, stream->watch->code);
    return;
  }
  /* No byte more than the answer: messages may follow it. */
  struct iovec part = {stream->reply + stream->reply_bytes,
                       sizeof stream->reply - stream->reply_bytes};
  ssize_t got = gli_tcp_socket_receive(stream->watch->fd, &part, 1);
  if (got < 0 && gli_would_block(errno)) {
    if ((events & GLI_BROKEN) == 0) return;
    errno = gli_tcp_socket_error(stream->watch->fd);
  }
  if (got < 0) {
    tcp_connect_failed(stream, errno);
    return;
  }
  if (got == 0) {
    tcp_attempt_failed(stream, "it hung up instead of answering",
                       "it may have exited");
    return;
  }
  stream->reply_bytes += (size_t)got;
  if (stream->reply_bytes == sizeof stream->reply) tcp_connect_answered(stream);
}

/* ---- a hello from the peer
 * ------------------------------------------------------ */

bool gli_tcp_reply_send(gli_tcp_watch *watch, const gli_tcp_reply *reply) {
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  gli_tcp_reply_encode(reply, bytes);
  struct iovec part = {bytes, sizeof bytes};
  return gli_tcp_socket_send(watch->fd, &part, 1) == (ssize_t)sizeof bytes;
}

static gli_tcp_answer decide_first(const gli_tcp_pair *pair) {
  bool lower = pair->config.self_rank < pair->config.peer_rank;
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

bool gli_tcp_pair_join(gli_tcp_pair *pair, const gli_tcp_hello *hello,
                       gli_tcp_watch *watch) {
  gli_tcp_reply reply = {
      .version = GLI_TCP_VERSION,
      .key = pair->config.remote_key,
      .streams = hello->streams < pair->stream_capacity ? hello->streams
                                                        : pair->stream_capacity,
  };
  bool first = hello->stream == 0;
  reply.answer = first ? decide_first(pair) : decide_other(pair, hello);
  if (!gli_tcp_reply_send(watch, &reply)) return false;
  if (reply.answer != GLI_TCP_ACCEPTED) return false;

  gli_tcp_stream *stream = &pair->stream[hello->stream];
  drop_attempt(stream);
  pair->begun = pair->greeted = true;
  if (first) gli_tcp_pair_agree(pair, reply.streams, false);
  gli_tcp_stream_up(stream, watch);
  return true;
}
