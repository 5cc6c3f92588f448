/* Incoming connections, until they have named their rank, and in a job with a
 * secret also proved that they know it. A half-open connection may send one
 * hello, its TLS handshake if TLS is used, and one proof when challenged, and
 * nothing else. Their number is limited, so that strangers cost little and
 * disturb no rank. Before its proof, a connection opens and changes nothing.
 *
 * When there are too many, or descriptors are scarce, the connection that has
 * been silent for longest is closed at once, because it may block a peer. A
 * connection that has sent its hello has named a context of ours and its rank
 * in it. It has a moment to prove that, unless others have named the same. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "core/random.h"
#include "net/socket.h"
#include "transport_tcp/handshake.h"
#include "transport_tcp/tcp.h"

enum { HALF_OPEN_MAX = 64, ACCEPTS_PER_TURN = 64 };
static const uint64_t half_open_silent_limit_ns = 5000000000;
/* A busy peer may take long to process its challenge. */
static const uint64_t half_open_named_limit_ns = 60000000000;
static const uint64_t half_open_full_limit_ns = 1000000000;

typedef enum half_open_state {
  HALF_OPEN_HELLO,    /* waits for the hello */
  HALF_OPEN_SECURING, /* waits for the TLS handshake */
  HALF_OPEN_PROOF     /* waits for the proof, after a challenge */
} half_open_state;

struct gli_tcp_half_open {
  gli_tcp *t;
  gli_conn *conn;
  gli_tcp_half_open *next, **link;
  half_open_state state;
  uint64_t since_ns; /* time when it entered the state */
  size_t bytes;      /* number of bytes received of the hello or proof */
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello said; /* decoded `hello`, after HALF_OPEN_HELLO */
  uint8_t proof[GLI_TAG_BYTES], right_proof[GLI_TAG_BYTES];
};

/* ---- half-open connections ----------------------------------------------- */

static void half_open_add(gli_tcp *t, gli_tcp_half_open *half_open) {
  half_open->next = t->half_opens;
  half_open->link = &t->half_opens;
  if (half_open->next != NULL) half_open->next->link = &half_open->next;
  t->half_opens = half_open;
  t->half_open_count++;
}

/* Frees the half-open connection, but not its `conn`. */
static void half_open_forget(gli_tcp_half_open *half_open) {
  *half_open->link = half_open->next;
  if (half_open->next != NULL) half_open->next->link = half_open->link;
  half_open->t->half_open_count--;
  gli_tcp_listener_resume(half_open->t);
  free(half_open);
}

static void half_open_refuse(gli_tcp_half_open *half_open, const char *why) {
  gli_tcp *t = half_open->t;
  t->refused_count++;
  if (gli_log_enabled(GLOO_LOG_INFO)) {
    char text[GLI_ENDPOINT_TEXT_BYTES] = "an unknown address";
    gli_endpoint from;
    socklen_t bytes = sizeof from;
    if (getpeername(half_open->conn->watch.fd, &from.any, &bytes) == 0) {
      gli_endpoint_unmap(&from);
      gli_endpoint_text(&from, text);
    }
    gli_log(GLOO_LOG_INFO,
            "tcp: rejected a connection from %s: %s (%llu so far)", text, why,
            (unsigned long long)t->refused_count);
  }
  gli_conn_free(half_open->conn);
  half_open_forget(half_open);
}

/* Refuses a connection with a reply. Reads the pending start of the peer's TLS
 * handshake first: closing with unread data could cost the peer the reply. */
static void half_open_refuse_politely(gli_tcp_half_open *half_open,
                                      gli_tcp_answer answer, const char *why) {
  gli_tls_kind own = gli_tls_settings_kind(half_open->t->tls);
  const gli_tcp_reply reply = {
      .version = GLI_TCP_VERSION, .answer = answer, .streams = (uint32_t)own};
  (void)gli_tcp_reply_send(half_open->conn, &reply);
  struct iovec unread = {half_open->t->buffer, GLI_TCP_BUFFER_BYTES};
  if (!half_open->conn->secured)
    (void)gli_tcp_socket_receive(half_open->conn->watch.fd, &unread, 1);
  half_open_refuse(half_open, why);
}

void gli_tcp_half_open_close(gli_tcp *t) {
  t->listener_full = false;
  while (t->half_opens != NULL) {
    gli_conn_free(t->half_opens->conn);
    half_open_forget(t->half_opens);
  }
}

/* ---- hello --------------------------------------------------------------- */

static gli_peer_name half_open_name(const gli_tcp_half_open *half_open) {
  const gli_tcp_hello *said = &half_open->said;
  return (gli_peer_name){said->key, said->from, said->to};
}

static gloo_status half_open_expect(gli_tcp_half_open *half_open,
                                    gli_peer_expected *expected,
                                    gloo_error *error) {
  const gli_peer_name name = half_open_name(half_open);
  return gli_peer_expect(&half_open->t->peers, &name, expected, error);
}

/* Hands a connection with a complete handshake to its pair. */
static void half_open_join(gli_tcp_half_open *half_open) {
  const gli_tcp_hello hello = half_open->said;
  const gli_peer_name name = half_open_name(half_open);
  gli_peer_refusal refusal;
  gli_tcp_pair *pair =
      (gli_tcp_pair *)gli_peer_find(&half_open->t->peers, &name, &refusal);
  bool proves = pair != NULL && (pair->peer.asks || half_open->t->tls != NULL);
  if (proves && half_open->state != HALF_OPEN_PROOF) pair = NULL;
  if (pair == NULL) {
    bool later = refusal == GLI_PEER_LATER;
    half_open_refuse_politely(
        half_open, later ? GLI_TCP_LATER : GLI_TCP_UNKNOWN,
        later ? "its context is still being created on this rank"
              : "no context of this rank has its key and rank");
    return;
  }
  gli_conn *conn = half_open->conn;
  half_open_forget(half_open);
  if (!gli_tcp_pair_join(pair, &hello, conn)) gli_conn_free(conn);
}

/* ---- challenge and proof ------------------------------------------------- */

static void half_open_enter(gli_tcp_half_open *half_open,
                            half_open_state state) {
  half_open->state = state;
  half_open->bytes = 0;
  half_open->since_ns = uv_hrtime();
  gli_peers_schedule(&half_open->t->peers,
                     half_open->since_ns + half_open_named_limit_ns);
}

static bool challenge_send(const gli_tcp_half_open *half_open,
                           const gli_tcp_challenge *challenge) {
  uint8_t bytes[GLI_TCP_CHALLENGE_BYTES];
  gli_tcp_challenge_encode(challenge, bytes);
  return gli_conn_write(half_open->conn, bytes, sizeof bytes) ==
         (ssize_t)sizeof bytes;
}

/* Proves that we know the secret, and waits for the peer's proof. */
static void half_open_challenge(gli_tcp_half_open *half_open,
                                const gli_key *key) {
  gli_tcp_challenge challenge;
  gli_proofs tags;
  gloo_error error;
  gloo_status status =
      gli_random_draw(challenge.nonce, sizeof challenge.nonce, &error);
  if (status == GLOO_OK)
    status = gli_tcp_handshake_proofs(key, half_open->hello, challenge.nonce,
                                      &tags, &error);
  if (status != GLOO_OK) {
    half_open_refuse(half_open, error.message);
    return;
  }
  memcpy(challenge.tag, tags.acceptor, sizeof challenge.tag);
  memcpy(half_open->right_proof, tags.initiator, sizeof tags.initiator);
  if (!challenge_send(half_open, &challenge)) {
    half_open_refuse(half_open,
                     "it closed the connection without proving the job secret");
    return;
  }
  half_open_enter(half_open, HALF_OPEN_PROOF);
  gli_conn_await(half_open->conn);
}

/* Continues after the hello, and TLS if used. Without a secret the tags use a
 * key of TLS: plaintext may have been modified in transit. */
static void half_open_greeted(gli_tcp_half_open *half_open,
                              const gli_peer_expected *expected) {
  gli_key key = expected->key;
  gloo_error error;
  if (!expected->asks && !half_open->conn->secured)
    half_open_join(half_open);
  else if (!expected->asks &&
           gli_tls_key(half_open->conn->tls, &key, &error) != GLOO_OK)
    half_open_refuse(half_open, error.message);
  else
    half_open_challenge(half_open, &key);
  gli_wipe(&key, sizeof key);
}

/* ---- TLS ----------------------------------------------------------------- */

/* TLS is established, with the rank that the hello names. */
static void half_open_secured(void *owner) {
  gli_tcp_half_open *half_open = owner;
  gli_peer_expected expected = {.known = false};
  gloo_error error;
  if (half_open_expect(half_open, &expected, &error) == GLOO_OK)
    half_open_greeted(half_open, &expected);
  else
    half_open_refuse(half_open, error.message);
  gli_wipe(&expected.key, sizeof expected.key);
}

static void half_open_secure(gli_tcp_half_open *half_open,
                             const gli_peer_expected *expected) {
  gli_conn *conn = half_open->conn;
  gli_tcp_contact contact = {.n = 0};
  gli_key key = {{0}};
  gloo_error error;
  gloo_status status = GLOO_OK;
  if (expected->asks)
    status = gli_tcp_handshake_tls_key(&expected->key, half_open->hello, &key,
                                       &error);
  if (status == GLOO_OK)
    status = gli_conn_secure(conn, half_open->t->tls, true, &key, &error);
  gli_wipe(&key, sizeof key);
  if (status != GLOO_OK) {
    half_open_refuse(half_open, error.message);
    return;
  }
  (void)gli_tcp_contact_decode(&expected->address, &contact);
  gli_tls_expect_rank(conn->tls, half_open->said.from, contact.at, contact.n);
  half_open_enter(half_open, HALF_OPEN_SECURING);
  (void)gli_conn_shake_hands(conn, false);
}

/* ---- complete steps ------------------------------------------------------ */

static void half_open_introduced(gli_tcp_half_open *half_open) {
  gli_peer_expected expected = {.known = false};
  gloo_error error;
  gli_tcp_hello *said = &half_open->said;
  gli_tls_kind own = gli_tls_settings_kind(half_open->t->tls);
  if (!gli_tcp_hello_decode(half_open->hello, said))
    half_open_refuse(half_open, "it sent an invalid greeting");
  else if (said->tls != own)
    half_open_refuse_politely(half_open, GLI_TCP_OTHER_TLS,
                              gli_tls_differs(own, said->tls).text);
  else if (half_open_expect(half_open, &expected, &error) != GLOO_OK)
    half_open_refuse(half_open, error.message);
  else if (expected.asks && expected.self_rank != said->to)
    half_open_refuse_politely(half_open, GLI_TCP_UNKNOWN,
                              "it expected another rank");
  else if (!expected.asks && expected.known && said->asks)
    half_open_refuse_politely(half_open, GLI_TCP_DENIED,
                              "the peer requires a job secret, but none is set "
                              "on this rank (GLOO_JOB_SECRET)");
  else if (expected.known && own != GLI_TLS_NONE)
    half_open_secure(half_open, &expected);
  else
    half_open_greeted(half_open, &expected);
  gli_wipe(&expected.key, sizeof expected.key);
}

static void half_open_answered(gli_tcp_half_open *half_open) {
  if (!gli_tags_equal(half_open->proof, half_open->right_proof))
    half_open_refuse_politely(half_open, GLI_TCP_DENIED,
                              "its job secret is different");
  else
    half_open_join(half_open);
}

/* ---- input --------------------------------------------------------------- */

void gli_tcp_half_open_forked(gli_tcp *t) {
  for (gli_tcp_half_open *g = t->half_opens; g != NULL; g = g->next)
    gli_conn_forked(g->conn);
}

/* Reads available input. Returns true if more is needed, false if the
 * connection was challenged, joined its pair, or was refused. */
static bool half_open_read(gli_tcp_half_open *half_open, bool broken) {
  bool challenged = half_open->state == HALF_OPEN_PROOF;
  if (half_open->state == HALF_OPEN_SECURING)
    return gli_conn_shake_hands(half_open->conn, broken);
  uint8_t *to = challenged ? half_open->proof : half_open->hello;
  size_t whole = challenged ? sizeof half_open->proof : sizeof half_open->hello;
  ssize_t got = gli_conn_read(half_open->conn, to + half_open->bytes,
                              whole - half_open->bytes);
  if (got < 0 && gli_would_block(errno) && !broken) return true;
  if (got <= 0) {
    half_open_refuse(
        half_open,
        challenged ? "it closed the connection without proving the job secret"
                   : "it closed the connection without a greeting");
    return false;
  }
  half_open->bytes += (size_t)got;
  if (!challenged && gli_tcp_hello_is_other(to, half_open->bytes)) {
    half_open_refuse_politely(half_open, GLI_TCP_OTHER_VERSION,
                              "it uses another version of the protocol");
    return false;
  }
  if (half_open->bytes < whole) return true;
  if (challenged)
    half_open_answered(half_open);
  else
    half_open_introduced(half_open);
  return false;
}

static void half_open_ready(void *owner, int events) {
  (void)half_open_read(owner, (events & GLI_BROKEN) != 0);
}

static void half_open_ended(void *owner, int code) {
  gli_tcp_half_open *half_open = owner;
  const gli_conn *conn = half_open->conn;
  if (gli_is_exhaustion(code))
    gli_tcp_listener_fail_resource(half_open->t, code);
  half_open_refuse(half_open,
                   code == EBADMSG && conn->tls != NULL ? gli_tls_why(conn->tls)
                   : gli_is_exhaustion(code) ? gli_exhaustion_text(code)
                                             : "it closed the connection");
}

static const gli_conn_calls half_open_calls = {.greets = half_open_secured,
                                               .ready = half_open_ready,
                                               .ended = half_open_ended};

/* ---- timeouts ------------------------------------------------------------ */

/* Refuses the connection, unless it has just sent input that suffices. */
static void half_open_give_way(gli_tcp_half_open *half_open) {
  static const char *const whys[] = {
      [HALF_OPEN_HELLO] = "it did not send its rank in time",
      [HALF_OPEN_SECURING] = "it did not finish the TLS handshake in time",
      [HALF_OPEN_PROOF] = "it did not prove the job secret in time"};
  half_open_state state = half_open->state;
  if (half_open_read(half_open, false))
    half_open_refuse(half_open, whys[state]);
}

void gli_tcp_half_open_expire(gli_tcp *t, uint64_t now_ns) {
  gli_tcp_half_open *next;
  for (gli_tcp_half_open *half_open = t->half_opens; half_open != NULL;
       half_open = next) {
    next = half_open->next;
    uint64_t until_ns =
        half_open->since_ns + (half_open->state != HALF_OPEN_HELLO
                                   ? half_open_named_limit_ns
                                   : half_open_silent_limit_ns);
    if (now_ns >= until_ns)
      half_open_give_way(half_open);
    else
      gli_peers_schedule(&t->peers, until_ns);
  }
}

/* Returns true if both name the same stream, of which a peer needs only one. */
static bool half_open_twins(const gli_tcp_half_open *a,
                            const gli_tcp_half_open *b) {
  return a != b && a->state != HALF_OPEN_HELLO && b->state != HALF_OPEN_HELLO &&
         a->said.key == b->said.key && a->said.from == b->said.from &&
         a->said.stream == b->said.stream;
}

/* Order of closing, the first to be closed first. */
typedef enum half_open_worth {
  HALF_OPEN_UNNAMED, /* no hello received */
  HALF_OPEN_TWIN,    /* another connection names the same stream */
  HALF_OPEN_ALONE
} half_open_worth;

static half_open_worth half_open_value(const gli_tcp_half_open *half_open) {
  if (half_open->state == HALF_OPEN_HELLO) return HALF_OPEN_UNNAMED;
  for (const gli_tcp_half_open *g = half_open->t->half_opens; g != NULL;
       g = g->next)
    if (half_open_twins(g, half_open)) return HALF_OPEN_TWIN;
  return HALF_OPEN_ALONE;
}

/* Returns the first connection to close: the oldest of the least worth. */
static gli_tcp_half_open *half_open_last(const gli_tcp *t) {
  gli_tcp_half_open *last = t->half_opens;
  half_open_worth worth = half_open_value(last);
  for (gli_tcp_half_open *g = last->next; g != NULL; g = g->next) {
    half_open_worth other = half_open_value(g);
    if (other > worth || (other == worth && g->since_ns > last->since_ns))
      continue;
    last = g;
    worth = other;
  }
  return last;
}

static bool half_open_may_go(const gli_tcp_half_open *half_open) {
  return half_open_value(half_open) != HALF_OPEN_ALONE ||
         uv_hrtime() >= half_open->since_ns + half_open_full_limit_ns;
}

/* Returns true if there is room for another, or a connection may be closed. */
static bool half_open_may_welcome(const gli_tcp *t) {
  return t->half_open_count < HALF_OPEN_MAX ||
         half_open_may_go(half_open_last(t));
}

/* Makes room for the accepted connection `fd`. */
static void half_open_make_room(gli_tcp *t, int fd) {
  int highest = fd;
  for (const gli_tcp_half_open *g = t->half_opens; g != NULL; g = g->next)
    if (g->conn->watch.fd > highest) highest = g->conn->watch.fd;
  if (t->half_open_count >= GLI_STRANGERS_FEW && gli_fd_is_scarce(highest) &&
      half_open_may_go(half_open_last(t)))
    half_open_give_way(half_open_last(t));
  while (t->half_open_count >= HALF_OPEN_MAX &&
         half_open_may_go(half_open_last(t)))
    half_open_give_way(half_open_last(t));
}

/* ---- the listener -------------------------------------------------------- */

static void tcp_accept_welcome(gli_tcp *t, int fd) {
  gli_tcp_socket_tune(fd);
  gli_tcp_half_open *half_open = calloc(1, sizeof *half_open);
  gli_conn *conn = gli_conn_new(&half_open_calls, half_open);
  int code = half_open != NULL && conn != NULL ? 0 : ENOMEM;
  if (code != 0) gli_fd_close(fd);
  if (code == 0) code = gli_conn_adopt(conn, t->events, fd);
  if (code != 0) {
    gli_conn_free(conn);
    free(half_open);
    gli_tcp_listener_fail_resource(t, code);
    return;
  }
  half_open->t = t;
  half_open->conn = conn;
  half_open->since_ns = uv_hrtime();
  half_open_add(t, half_open);
  gli_conn_for(conn, GLI_READABLE);
  gli_peers_schedule(&t->peers,
                     half_open->since_ns + half_open_silent_limit_ns);
  (void)half_open_read(half_open, false); /* most hellos are here */
}

void gli_tcp_listener_ready(void *owner, int events) {
  gli_tcp *t = owner;
  if ((events & GLI_UNWATCHED) != 0) {
    gli_tcp_listener_fail_resource(t, t->listener.code);
    return;
  }
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    if (!half_open_may_welcome(t)) {
      gli_tcp_listener_pause(t);
      t->listener_full = true;
      return;
    }
    int fd = gli_socket_accept(t->listener.fd);
    if (fd >= 0) {
      t->lacking_since_ns = 0;
      t->lack = 0;
      half_open_make_room(t, fd);
      tcp_accept_welcome(t, fd);
      continue;
    }
    if (gli_would_block(errno)) return;
    if (errno == ECONNABORTED || errno == EINTR) continue;
    gli_tcp_listener_fail_resource(t, errno);
    return;
  }
}
