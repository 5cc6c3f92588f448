/* Both ends of a TCP connection of two ranks whose peer sends anything. The
 * first byte selects whether the library connects or accepts, whether there is
 * a secret, and whether messages have checksums. The steps follow, each with a
 * byte that selects one of two connections and the kind: the right greeting, a
 * message with the right header, raw bytes, the end of the connection. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/crc32c.h"
#include "core/descriptor.h"
#include "transport_tcp/handshake.h"
#include "transport_tcp/tcp.h"
#include "transport_use.h"

enum { CONNECTIONS = 2, STEPS_MAX = 60, POLLS = 3 };
enum { CONNECTS = 1, ASKS = 2, CHECKED = 4 };

typedef struct tcp_peer {
  transport_use use;
  int listener; /* the peer's */
  gli_tcp_contact contact;
  uint8_t how;
  int fd[CONNECTIONS]; /* -1: closed */
  gli_header last;
} tcp_peer;

/* ---- the peer's sockets -------------------------------------------------- */

static void peer_listen(tcp_peer *p) {
  socklen_t bytes = sizeof p->contact.at[0];
  gli_endpoint *at = &p->contact.at[0];
  (void)gli_endpoint_from_text("127.0.0.1", at);
  p->listener = gli_socket_open(AF_INET, SOCK_STREAM);
  fuzz_check(p->listener >= 0 &&
                 bind(p->listener, &at->any, gli_endpoint_bytes(at)) == 0 &&
                 listen(p->listener, 16) == 0 &&
                 getsockname(p->listener, &at->any, &bytes) == 0,
             "the peer listens");
  p->contact.n = 1;
  p->contact.port = gli_endpoint_port(at);
}

static int peer_connect(const tcp_peer *p) {
  const gli_tcp *t = (const gli_tcp *)p->use.t;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  fuzz_check(
      fd >= 0 && connect(fd, &t->local.any, gli_endpoint_bytes(&t->local)) == 0,
      "the peer connects");
  (void)fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

/* Closes the connection and leaves no state in the system (TIME_WAIT). */
static void peer_hang_up(int *fd) {
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  if (*fd < 0) return;
  (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(*fd);
  *fd = -1;
}

static void peer_turn(tcp_peer *p) {
  char said[4096];
  for (int i = 0; i < POLLS; i++) {
    p->use.ops->poll(p->use.t);
    for (int c = 0; c < CONNECTIONS; c++) {
      if (p->fd[c] < 0 && (p->how & CONNECTS) != 0)
        p->fd[c] = accept(p->listener, NULL, NULL);
      (void)fcntl(p->fd[c], F_SETFL, O_NONBLOCK);
    }
  }
  for (int c = 0; c < CONNECTIONS; c++)
    while (p->fd[c] >= 0 && recv(p->fd[c], said, sizeof said, MSG_DONTWAIT) > 0)
      continue;
}

static void peer_say(tcp_peer *p, int c, const void *data, size_t bytes) {
  if (p->fd[c] < 0 && (p->how & CONNECTS) == 0) p->fd[c] = peer_connect(p);
  if (p->fd[c] >= 0 && bytes > 0)
    (void)send(p->fd[c], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- the right greetings ------------------------------------------------- */

/* Computes the tags; fuzz.c fixes the nonces of both ends. */
static bool peer_tags(const tcp_peer *p, const uint8_t *hello,
                      gli_proofs *tags) {
  uint8_t nonce[GLI_NONCE_BYTES];
  gli_key key;
  gloo_error error;
  memset(nonce, 0x5a, sizeof nonce);
  return gli_peer_key(&p->use.config, &key, &error) == GLOO_OK &&
         gli_tcp_handshake_proofs(&key, hello, nonce, tags, &error) == GLOO_OK;
}

static void peer_make_hello(const tcp_peer *p, int c, bool from_peer,
                            uint8_t out[GLI_TCP_HELLO_BYTES]) {
  gli_tcp_hello hello = {.version = GLI_TCP_VERSION,
                         .stream = (uint32_t)c,
                         .streams = 2,
                         .from = from_peer,
                         .to = !from_peer,
                         .key = from_peer ? USE_KEY_OWN : USE_KEY_PEER,
                         .asks = (p->how & ASKS) != 0};
  if (hello.asks) memset(hello.nonce, 0x5a, sizeof hello.nonce);
  gli_tcp_hello_encode(&hello, out);
}

/* Changes one of the hello's numbers, as if it came from another rank. */
static void hello_spoil(uint8_t hello[GLI_TCP_HELLO_BYTES], int how) {
  static const struct {
    uint8_t at, value;
  } spoils[] = {{8, 9},  {12, 7}, {16, 0},  {20, 2}, {24, 1},
                {28, 1}, {28, 0}, {32, 99}, {40, 1}, {0, 0}};
  enum { SPOILS = sizeof spoils / sizeof *spoils };
  if (how == SPOILS + 1 || how == SPOILS + 2) /* come later, or wrong
                                                 direction */
    gli_put_u64(hello + 32, (uint64_t)(how - SPOILS - 1));
  else if (how > 0 && how <= SPOILS)
    hello[spoils[how - 1].at] = spoils[how - 1].value;
}

static void peer_greet(tcp_peer *p, int c, int how) {
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  gli_proofs tags;
  peer_make_hello(p, c, true, hello);
  hello_spoil(hello, how);
  peer_say(p, c, hello, sizeof hello);
  if ((p->how & ASKS) == 0 || !peer_tags(p, hello, &tags)) return;
  peer_turn(p);
  if (how == 31) tags.initiator[3] ^= 1;
  peer_say(p, c, tags.initiator, sizeof tags.initiator);
}

static void peer_answer(tcp_peer *p, int c, uint32_t answer) {
  uint8_t hello[GLI_TCP_HELLO_BYTES], bytes[GLI_TCP_CHALLENGE_BYTES];
  gli_proofs tags;
  const gli_tcp_reply reply = {.version = GLI_TCP_VERSION,
                               .answer = answer % GLI_TCP_ANSWERS,
                               .streams = 2,
                               .key = USE_KEY_OWN};
  peer_make_hello(p, c, false, hello);
  if ((p->how & ASKS) != 0 && peer_tags(p, hello, &tags)) {
    gli_tcp_challenge challenge;
    memset(challenge.nonce, 0x5a, sizeof challenge.nonce);
    memcpy(challenge.tag, tags.acceptor, sizeof challenge.tag);
    gli_tcp_challenge_encode(&challenge, bytes);
    peer_say(p, c, bytes, GLI_TCP_CHALLENGE_BYTES);
    peer_turn(p);
  }
  gli_tcp_reply_encode(&reply, bytes);
  peer_say(p, c, bytes, GLI_TCP_REPLY_BYTES);
}

/* ---- messages ------------------------------------------------------------ */

static void peer_send(tcp_peer *p, int c, bool damaged, fuzz_input *input) {
  uint8_t bytes[GLI_HEADER_BYTES];
  fuzz_input start = *input;
  (void)fuzz_take_u16(input); /* of the header */
  fuzz_input payload = fuzz_take_piece(input);
  p->last = use_make_header(&start, payload.left);
  if ((p->how & CHECKED) != 0)
    gli_header_encode_checked(
        &p->last, gli_crc32c(0, payload.at, payload.left) + damaged, bytes);
  else
    gli_header_encode(&p->last, bytes);
  peer_say(p, c, bytes, sizeof bytes);
  peer_say(p, c, payload.at, payload.left);
}

static void peer_take_now(tcp_peer *p) {
  gli_taken taken;
  uint8_t room[GLI_TAKE_BYTES];
  if (p->use.pair == NULL || p->use.pair->ops->take_now == NULL) return;
  if (p->last.type != GLI_MESSAGE_DATA || p->last.form != GLI_FORM_BYTES)
    return;
  if (p->use.pair->ops->take_now(p->use.pair, &p->last, &taken) &&
      p->last.length > 0)
    memcpy(room, taken.payload, (size_t)p->last.length);
}

/* ---- one input ----------------------------------------------------------- */

static void peer_begin(tcp_peer *p, uint8_t how) {
  gli_address address;
  p->how = how;
  if (gli_openssl_version() == NULL) p->how &= (uint8_t)~ASKS;
  for (int c = 0; c < CONNECTIONS; c++) p->fd[c] = -1;
  p->contact.checksum = (how & CHECKED) != 0;
  gli_tcp_contact_encode(&p->contact, &address);
  use_expect(&p->use, &address, (p->how & ASKS) != 0);
  if ((how & CONNECTS) == 0) return;
  (void)use_connect(&p->use);
  peer_turn(p);
}

static void peer_end(tcp_peer *p) {
  gli_tcp *t = (gli_tcp *)p->use.t;
  int more;
  use_close_pair(&p->use);
  for (int c = 0; c < CONNECTIONS; c++) peer_hang_up(&p->fd[c]);
  while (t->peers.leaving != NULL)
    gli_tcp_pair_dispose((gli_tcp_pair *)t->peers.leaving);
  while ((more = accept(p->listener, NULL, NULL)) >= 0) peer_hang_up(&more);
  p->use.ops->poll(p->use.t);
  gli_tcp_half_open_close(t);
  p->use.ops->poll(p->use.t);
  fuzz_check(
      t->peers.pairs == NULL && t->half_opens == NULL && p->use.owed == 0,
      "nothing is left of the pair");
}

static void peer_step(tcp_peer *p, fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input);
  int c = what % CONNECTIONS;
  fuzz_input piece;
  switch (what / CONNECTIONS % 4) {
    case 0:
      if ((p->how & CONNECTS) != 0)
        peer_answer(p, c, what >> 3);
      else
        peer_greet(p, c, what >> 3);
      break;
    case 1:
      peer_send(p, c, (what & 16) != 0, input);
      if ((what & 8) != 0) peer_take_now(p);
      break;
    case 2:
      piece = fuzz_take_piece(input);
      peer_say(p, c, piece.at, piece.left);
      break;
    default:
      peer_hang_up(&p->fd[c]);
  }
  peer_turn(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static tcp_peer p;
  fuzz_input input = {data, bytes};
  if (p.use.t == NULL) {
    use_open(&p.use, &gli_transport_tcp, NULL);
    peer_listen(&p);
  }
  peer_begin(&p, fuzz_take_u8(&input));
  for (int i = 0; i < STEPS_MAX && input.left > 0; i++) peer_step(&p, &input);
  peer_end(&p);
  return 0;
}
