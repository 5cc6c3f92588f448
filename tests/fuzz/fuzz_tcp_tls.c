/* Both ends of a TCP connection of two ranks with TLS. The peer sends anything
 * before TLS, in place of it and inside it. The first byte selects which end
 * the library is, how the two authenticate, whether the peer is a stranger, and
 * whether the correct greetings come first. The steps follow, each with a byte
 * that selects one of two connections and the kind. Inside TLS the peer is an
 * end of src/net/tls.c; fuzz_tls covers OpenSSL itself.
 *
 * A stranger gets no connection, whatever it sends. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "tls_keys.h"
#include "tls_papers.h"
#include "transport_tcp/handshake.h"
#include "transport_tcp/tcp.h"
#include "transport_use.h"

enum { CONNECTIONS = 2, STEPS_MAX = 40, POLLS = 3 };
enum {
  CONNECTS = 1,       /* the library connects; else it accepts */
  BY_CERTIFICATE = 2, /* else by the secret */
  ASKS = 4,           /* there is a secret; always set without certificates */
  STRANGER = 8,
  AGREES = 16
};

typedef struct tls_connection {
  int fd; /* -1: closed */
  gli_tls *tls;
  bool shaken;
  uint8_t hello[GLI_TCP_HELLO_BYTES]; /* as it was sent */
  bool greeted;
} tls_connection;

typedef struct tls_peer {
  transport_use use;
  int listener; /* the peer's */
  gli_tcp_contact contact;
  uint8_t how;
  tls_connection c[CONNECTIONS];
} tls_peer;

static tls_papers papers;

/* ---- the peer's sockets -------------------------------------------------- */

static void peer_listen(tls_peer *p) {
  socklen_t bytes = sizeof p->contact.at[0];
  gli_endpoint *at = &p->contact.at[0];
  *at = papers.at;
  p->listener = gli_socket_open(AF_INET, SOCK_STREAM);
  fuzz_check(p->listener >= 0 &&
                 bind(p->listener, &at->any, gli_endpoint_bytes(at)) == 0 &&
                 listen(p->listener, 16) == 0 &&
                 getsockname(p->listener, &at->any, &bytes) == 0,
             "the peer listens");
  p->contact.n = 1;
  p->contact.port = gli_endpoint_port(at);
}

/* Closes the connection and leaves no state in the system (TIME_WAIT). */
static void peer_hang_up(tls_connection *c) {
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  if (c->fd >= 0) {
    gli_tls_destroy(c->tls);
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(c->fd);
  }
  *c = (tls_connection){.fd = -1};
}

static void peer_connect(const tls_peer *p, tls_connection *c) {
  const gli_tcp *t = (const gli_tcp *)p->use.t;
  if (c->fd >= 0 || (p->how & CONNECTS) != 0) return;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  fuzz_check(
      c->fd >= 0 &&
          connect(c->fd, &t->local.any, gli_endpoint_bytes(&t->local)) == 0 &&
          fcntl(c->fd, F_SETFL, O_NONBLOCK) == 0,
      "the peer connects");
}

static void peer_say(const tls_peer *p, tls_connection *c, const void *data,
                     size_t bytes) {
  peer_connect(p, c);
  if (c->fd >= 0 && bytes > 0)
    (void)send(c->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void peer_say_inside(tls_connection *c, const void *data, size_t bytes) {
  struct iovec part = {(void *)(uintptr_t)data, bytes};
  if (!c->shaken || bytes == 0) return;
  if (gli_tls_send(c->tls, &part, 1) < 0) peer_hang_up(c);
}

/* Checks that a stranger never gets far enough to agree on a stream. */
static void peer_check(const tls_peer *p) {
  const gli_tcp_pair *pair = (const gli_tcp_pair *)p->use.pair;
  if ((p->how & STRANGER) != 0 && pair != NULL)
    fuzz_check(pair->streams == 0, "a stranger gets no connection");
}

static void peer_turn(tls_peer *p) {
  uint8_t said[4096];
  struct iovec room = {said, sizeof said};
  for (int i = 0; i < POLLS; i++) {
    p->use.ops->poll(p->use.t);
    for (int k = 0; k < CONNECTIONS && (p->how & CONNECTS) != 0; k++)
      if (p->c[k].fd < 0) p->c[k].fd = gli_socket_accept(p->listener);
  }
  for (int k = 0; k < CONNECTIONS; k++)
    while (p->c[k].shaken && gli_tls_receive(p->c[k].tls, &room, 1) > 0)
      continue;
  peer_check(p);
}

/* ---- the right greetings ------------------------------------------------- */

/* Changes one of the hello's numbers, or none. */
static void hello_spoil(uint8_t hello[GLI_TCP_HELLO_BYTES], uint8_t how) {
  static const uint8_t at[] = {0, 8, 12, 16, 20, 24, 28, 32, 40, 44, 48};
  if (how > 0 && how <= sizeof at) hello[at[how - 1]] ^= how % 3 + 1;
}

/* Sends the peer's hello, or receives the library's. */
static void peer_greet(tls_peer *p, tls_connection *c, uint32_t stream,
                       uint8_t spoil) {
  bool certified = (p->how & BY_CERTIFICATE) != 0;
  gli_tcp_hello hello = {
      .version = GLI_TCP_VERSION,
      .stream = stream,
      .streams = 2,
      .from = 1,
      .to = 0,
      .key = USE_KEY_OWN,
      .asks = (p->how & ASKS) != 0,
      .tls = certified ? GLI_TLS_BY_CERTIFICATE : GLI_TLS_BY_SECRET};
  if ((p->how & CONNECTS) != 0) {
    if (c->fd >= 0 && !c->greeted)
      c->greeted = recv(c->fd, c->hello, sizeof c->hello, MSG_DONTWAIT) ==
                   (ssize_t)sizeof c->hello;
    return;
  }
  memset(hello.nonce, 0x5a, sizeof hello.nonce);
  gli_tcp_hello_encode(&hello, c->hello);
  hello_spoil(c->hello, spoil);
  peer_say(p, c, c->hello, sizeof c->hello);
  c->greeted = true;
}

/* Sets the job's key of the peer; a stranger has another one. */
static bool peer_key(const tls_peer *p, gli_key *key) {
  gloo_error error;
  memset(key, 0, sizeof *key);
  bool good = p->use.config.job_key == NULL ||
              gli_peer_key(&p->use.config, key, &error) == GLOO_OK;
  if ((p->how & STRANGER) != 0) key->bytes[5] ^= 1;
  return good;
}

static gli_tls_settings *peer_settings(const tls_peer *p, uint8_t which) {
  bool stranger = (p->how & STRANGER) != 0;
  bool certified = (p->how & BY_CERTIFICATE) != 0;
  if (which % 4 == 3) certified = !certified;
  if (!certified) return papers.secret;
  /* A stranger with a rank's certificate lacks the secret. */
  if (stranger && ((p->how & ASKS) == 0 || which % 4 != 0))
    return which % 4 == 1 ? papers.other_rank : papers.stranger[1];
  return which % 4 == 2 ? papers.other_rank : papers.rank[1];
}

static void peer_shake_hands(tls_peer *p, tls_connection *c) {
  for (int i = 0; i < POLLS && c->tls != NULL && !c->shaken; i++) {
    gli_tls_step step = gli_tls_shake_hands(c->tls);
    c->shaken = step == GLI_TLS_DONE;
    if (step == GLI_TLS_FAILED) peer_hang_up(c);
    peer_turn(p);
  }
}

static void peer_secure(tls_peer *p, tls_connection *c, uint8_t which) {
  gli_key key, tls_key;
  gloo_error error;
  if (c->fd < 0 || c->tls != NULL || !c->greeted || !peer_key(p, &key)) return;
  if (gli_tcp_handshake_tls_key(&key, c->hello, &tls_key, &error) != GLOO_OK)
    return;
  fuzz_check(
      gli_tls_open(peer_settings(p, which), c->fd, (p->how & CONNECTS) != 0,
                   &tls_key, &c->tls, &error) == GLOO_OK,
      error.message);
  peer_shake_hands(p, c);
}

/* Computes the tags; fuzz.c fixes the nonces of both ends. */
static bool peer_tags(const tls_peer *p, const tls_connection *c,
                      gli_proofs *tags) {
  uint8_t nonce[GLI_NONCE_BYTES];
  gli_key key;
  gloo_error error;
  memset(nonce, 0x5a, sizeof nonce);
  bool good = peer_key(p, &key);
  if (good && (p->how & ASKS) == 0)
    good = gli_tls_key(c->tls, &key, &error) == GLOO_OK;
  return good && gli_tcp_handshake_proofs(&key, c->hello, nonce, tags,
                                          &error) == GLOO_OK;
}

static void peer_answer(const tls_peer *p, tls_connection *c, uint32_t answer,
                        uint32_t streams, bool in_clear) {
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  const gli_tcp_reply reply = {.version = GLI_TCP_VERSION,
                               .answer = answer,
                               .streams = streams,
                               .key = USE_KEY_OWN};
  gli_tcp_reply_encode(&reply, bytes);
  if (in_clear)
    peer_say(p, c, bytes, sizeof bytes);
  else
    peer_say_inside(c, bytes, sizeof bytes);
}

/* Sends the proof; `in_clear`: outside TLS, `other`: with a wrong tag. */
static void peer_prove(tls_peer *p, tls_connection *c, bool in_clear,
                       bool other) {
  uint8_t bytes[GLI_TCP_CHALLENGE_BYTES];
  gli_tcp_challenge challenge;
  gli_proofs tags;
  if (!c->shaken || !peer_tags(p, c, &tags)) return;
  tags.initiator[3] ^= other;
  tags.acceptor[3] ^= other;
  size_t n = sizeof tags.initiator;
  memcpy(bytes, tags.initiator, n);
  if ((p->how & CONNECTS) != 0) {
    memset(challenge.nonce, 0x5a, sizeof challenge.nonce);
    memcpy(challenge.tag, tags.acceptor, sizeof challenge.tag);
    gli_tcp_challenge_encode(&challenge, bytes);
    n = sizeof bytes;
  }
  if (in_clear)
    peer_say(p, c, bytes, n);
  else
    peer_say_inside(c, bytes, n);
  peer_turn(p);
}

/* Runs a whole handshake on one connection. */
static void peer_agree(tls_peer *p, int k) {
  tls_connection *c = &p->c[k];
  peer_greet(p, c, (uint32_t)k, 0);
  peer_turn(p);
  peer_secure(p, c, 0);
  peer_prove(p, c, false, false);
  if ((p->how & CONNECTS) == 0) return;
  peer_answer(p, c, GLI_TCP_ACCEPTED, 2, false);
  peer_turn(p);
}

/* ---- one input ----------------------------------------------------------- */

static void peer_send(tls_connection *c, fuzz_input *input) {
  uint8_t bytes[GLI_HEADER_BYTES];
  fuzz_input start = *input;
  (void)fuzz_take_u16(input); /* of the header */
  fuzz_input payload = fuzz_take_piece(input);
  gli_header header = use_make_header(&start, payload.left);
  gli_header_encode(&header, bytes);
  peer_say_inside(c, bytes, sizeof bytes);
  peer_say_inside(c, payload.at, payload.left);
}

static void peer_step(tls_peer *p, fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input), variant = what >> 4, with;
  int k = what % CONNECTIONS;
  tls_connection *c = &p->c[k];
  fuzz_input piece;
  switch (what >> 1 & 7) {
    case 0:
      peer_greet(p, c, (uint32_t)k, variant);
      break;
    case 1:
      peer_secure(p, c, variant);
      break;
    case 2:
      if (variant >= 8)
        peer_agree(p, k);
      else
        peer_shake_hands(p, c);
      break;
    case 3:
      piece = fuzz_take_piece(input);
      peer_say(p, c, piece.at, piece.left);
      break;
    case 4:
      piece = fuzz_take_piece(input);
      peer_say_inside(c, piece.at, piece.left);
      break;
    case 5:
      peer_prove(p, c, (variant & 1) != 0, (variant & 2) != 0);
      break;
    case 6:
      with = fuzz_take_u8(input);
      if (variant == 15)
        peer_hang_up(c);
      else if (variant == 14 && c->tls != NULL)
        gli_tls_shut(c->tls);
      else
        peer_answer(p, c, 1 + with % (GLI_TCP_ANSWERS - 1), with >> 4,
                    (variant & 1) != 0);
      break;
    default:
      peer_send(c, input);
  }
  peer_turn(p);
}

static void peer_begin(tls_peer *p, uint8_t how) {
  gli_address address;
  p->how = how;
  if ((how & BY_CERTIFICATE) == 0) p->how |= ASKS;
  for (int k = 0; k < CONNECTIONS; k++) p->c[k] = (tls_connection){.fd = -1};
  gli_tcp_contact_encode(&p->contact, &address);
  use_expect(&p->use, &address, (p->how & ASKS) != 0);
  if ((how & CONNECTS) != 0) {
    (void)use_connect(&p->use);
    peer_turn(p);
  }
  if ((how & AGREES) == 0) return;
  peer_agree(p, 0);
  const gli_tcp_pair *pair = (const gli_tcp_pair *)p->use.pair;
  if ((how & STRANGER) == 0)
    fuzz_check(pair != NULL && pair->streams == 2,
               "the right greetings make a connection");
}

static void peer_end(tls_peer *p) {
  gli_tcp *t = (gli_tcp *)p->use.t;
  tls_connection more = {.fd = -1};
  use_close_pair(&p->use);
  for (int k = 0; k < CONNECTIONS; k++) peer_hang_up(&p->c[k]);
  while (t->peers.leaving != NULL)
    gli_tcp_pair_dispose((gli_tcp_pair *)t->peers.leaving);
  while ((more.fd = gli_socket_accept(p->listener)) >= 0) peer_hang_up(&more);
  p->use.ops->poll(p->use.t);
  gli_tcp_half_open_close(t);
  p->use.ops->poll(p->use.t);
  fuzz_check(
      t->peers.pairs == NULL && t->half_opens == NULL && p->use.owed == 0,
      "nothing is left of the pair");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static tls_peer peers[2]; /* by secret, by certificate */
  fuzz_input input = {data, bytes};
  keys_draw_again();
  if (papers.secret == NULL) {
    tls_papers_make(&papers);
    for (int i = 0; i < 2; i++) {
      use_open(&peers[i].use, &gli_transport_tcp,
               i == 0 ? papers.secret : papers.rank[0]);
      peer_listen(&peers[i]);
    }
    keys_draw_again();
  }
  uint8_t how = fuzz_take_u8(&input);
  tls_peer *p = &peers[(how & BY_CERTIFICATE) != 0];
  peer_begin(p, how);
  for (int i = 0; i < STEPS_MAX && input.left > 0; i++) peer_step(p, &input);
  peer_end(p);
  return 0;
}
