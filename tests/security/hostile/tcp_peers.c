/* Strangers and misbehaving members at the ranks' TCP listeners. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "core/bytes.h"
#include "hostile.h"
#include "security/trust.h"
#include "transport/header.h"
#include "transport/peer.h"
#include "transport_tcp/contact.h"
#include "transport_tcp/handshake.h"

/* ---- connections --------------------------------------------------------- */

static uint16_t port_of(const hostile *h, int rank) {
  gli_tcp_contact contact;
  if (!gli_tcp_contact_decode(&h->job->ranks[rank].address, &contact)) abort();
  return contact.port;
}

static int open_silent(hostile *h, size_t i) {
  return hostile_connect_tcp(port_of(h, (int)(i % JOB_RANKS)));
}

/* Returns the hello of one rank to another in the current context. */
static gli_tcp_hello hello_of(const hostile *h, uint32_t from, uint32_t to) {
  return (gli_tcp_hello){.version = GLI_TCP_VERSION,
                         .streams = 1,
                         .from = from,
                         .to = to,
                         .key = h->job->ranks[to].key,
                         .asks = true,
                         .nonce = "drawn by nobody"};
}

/* Computes the proofs of a rank with this secret. */
static gli_proofs tags_by(hostile *h, const char *secret,
                          const gli_tcp_hello *hello,
                          const uint8_t nonce[GLI_NONCE_BYTES]) {
  gli_trust trust = {.asks = false};
  gli_key key;
  gli_proofs tags = {{0}, {0}};
  gloo_error error;
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_pair_config config = {.self_rank = hello->to,
                            .peer_rank = hello->from,
                            .local_key = hello->key,
                            .remote_key = h->job->ranks[hello->from].key};
  gli_tcp_hello_encode(hello, bytes);
  hostile_demand(
      h,
      gli_trust_read(secret, strlen(secret), &trust, &error) == GLOO_OK &&
          (config.job_key = trust.key.bytes) != NULL &&
          gli_peer_key(&config, &key, &error) == GLOO_OK &&
          gli_tcp_handshake_proofs(&key, bytes, nonce, &tags, &error) ==
              GLOO_OK,
      "no tags");
  return tags;
}

static int say_hello(hostile *h, const gli_tcp_hello *hello, uint32_t to) {
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  int fd = hostile_connect_tcp(port_of(h, (int)to));
  gli_tcp_hello_encode(hello, bytes);
  if (fd >= 0) hostile_send(fd, bytes, sizeof bytes);
  return fd;
}

static gli_tcp_challenge challenge_on(hostile *h, int fd) {
  uint8_t bytes[GLI_TCP_CHALLENGE_BYTES];
  gli_tcp_challenge challenge = {{0}, {0}};
  hostile_demand(h,
                 hostile_read(fd, bytes, sizeof bytes) &&
                     gli_tcp_challenge_decode(bytes, &challenge),
                 "it is not challenged");
  return challenge;
}

static uint32_t answer_on(hostile *h, int fd) {
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  gli_tcp_reply reply = {0};
  hostile_demand(h,
                 hostile_read(fd, bytes, sizeof bytes) &&
                     gli_tcp_reply_decode(bytes, &reply),
                 "there is no answer");
  return reply.answer;
}

static void demand_denied(hostile *h, int fd) {
  hostile_demand(h, answer_on(h, fd) == GLI_TCP_DENIED, "it was not denied");
  hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
}

/* ---- silent clients and other protocols ---------------------------------- */

static void are_silent(hostile *h) {
  hostile_crowd(h, h->peer->number, open_silent);
}

static void come_and_go(hostile *h) {
  hostile_churn(h, open_silent);
}

/* Clients send a byte of their hello at a time. */
static void are_slow(hostile *h) {
  enum { N = 200 };
  int fds[N];
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello hello = hello_of(h, 3, 1);
  gli_tcp_hello_encode(&hello, bytes);
  for (size_t i = 0; i < N; i++) fds[i] = open_silent(h, i);
  for (size_t at = 0; hostile_goes_on(h); at = (at + 1) % sizeof bytes) {
    for (int i = 0; i < N; i++) hostile_send(fds[i], bytes + at, 1);
    uv_sleep(5);
  }
}

/* Sends the beginning of a TLS handshake. */
static void speaks_tls(hostile *h) {
  static const uint8_t hello[200] = {0x16, 3, 1, 0, 195, 1, 0, 0, 191, 3, 3};
  for (size_t i = 0; hostile_goes_on(h); i++) {
    int fd = open_silent(h, i);
    hostile_send(fd, hello, sizeof hello);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void says_half_a_hello(hostile *h) {
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello hello = hello_of(h, 3, 1);
  gli_tcp_hello_encode(&hello, bytes);
  for (size_t n = 0; hostile_goes_on(h); n = (n + 1) % sizeof bytes) {
    int fd = open_silent(h, n);
    hostile_send(fd, bytes, n);
    shutdown(fd, SHUT_WR);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

/* Sends a hello with an unknown key, and much more data after it. */
static void says_a_long_hello(hostile *h) {
  static uint8_t bytes[1 << 20];
  gli_tcp_hello hello = hello_of(h, 3, 1);
  hello.key ^= 1;
  gli_tcp_hello_encode(&hello, bytes);
  for (size_t i = 0; hostile_goes_on(h); i++) {
    int fd = open_silent(h, i);
    hostile_send(fd, bytes, sizeof bytes);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void says_garbage(hostile *h) {
  uint8_t garbage[512];
  for (size_t i = 0; hostile_goes_on(h); i++) {
    int fd = open_silent(h, i);
    hostile_garbage(garbage, sizeof garbage);
    hostile_send(fd, garbage, sizeof garbage);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void speaks_http(hostile *h) {
  static const char text[] =
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a scanner\r\n"
      "Accept: text/html\r\n\r\n";
  for (size_t i = 0; hostile_goes_on(h); i++) {
    int fd = open_silent(h, i);
    hostile_send(fd, text, sizeof text - 1);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void flood_the_log(hostile *h) {
  for (size_t i = 0; i < 4000 && !job_ended(h->job); i++) {
    int fd = open_silent(h, i);
    hostile_send(fd, "\033[2J\n", 5);
    if (fd >= 0) close(fd);
  }
}

/* ---- wrong hellos -------------------------------------------------------- */

typedef enum wrong {
  WRONG_VERSION,
  WRONG_KEY,
  WRONG_FROM,
  WRONG_TO,
  WRONG_SELF,
  WRONG_ROUND
} wrong;

/* A hello that names no valid context and rank must not be challenged. */
static void says_a_wrong_hello(hostile *h) {
  hostile_await_held(h);
  for (int i = 0; i < 50; i++) {
    gli_tcp_hello hello = hello_of(h, 3, 1);
    if (h->peer->number == WRONG_VERSION) hello.version--;
    if (h->peer->number == WRONG_KEY) hello.key ^= 1;
    if (h->peer->number == WRONG_FROM) hello.from = 9;
    if (h->peer->number == WRONG_TO) hello.to = 2;
    if (h->peer->number == WRONG_SELF) hello.from = 1;
    if (h->peer->number == WRONG_ROUND) hello.key = h->job->ranks[1].first_key;
    int fd = say_hello(h, &hello, 1);
    uint32_t right = h->peer->number == WRONG_VERSION ? GLI_TCP_OTHER_VERSION
                                                      : GLI_TCP_UNKNOWN;
    /* A hello from a rank to itself gets no reply. */
    if (h->peer->number != WRONG_SELF)
      hostile_demand(h, answer_on(h, fd) == right, "it was not refused");
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
  hostile_release(h);
}

/* ---- wrong proofs -------------------------------------------------------- */

typedef enum proof_kind {
  ZEROS,
  REFLECTED,
  OTHER_SECRET,
  REPLAYED,
  OTHER_HELLO
} proof_kind;

static void proves_wrongly(hostile *h) {
  gli_proofs tags = {.initiator = {0}};
  hostile_await_held(h);
  for (int i = 0; i < 50; i++) {
    gli_tcp_hello hello = hello_of(h, 3, 1), other = hello;
    int fd = say_hello(h, &hello, 1);
    gli_tcp_challenge challenge = challenge_on(h, fd);
    other.streams = 2;
    switch ((proof_kind)h->peer->number) {
      case ZEROS:
        break;
      case REFLECTED:
        memcpy(tags.initiator, challenge.tag, sizeof challenge.tag);
        break;
      case OTHER_SECRET:
        tags = tags_by(h, HOSTILE_OTHER, &hello, challenge.nonce);
        break;
      case REPLAYED: /* the right proof of the previous connection */
        break;
      case OTHER_HELLO: /* proof of another hello */
        tags = tags_by(h, HOSTILE_SECRET, &other, challenge.nonce);
        break;
    }
    hostile_send(fd, tags.initiator, sizeof tags.initiator);
    demand_denied(h, fd);
    if (h->peer->number == REPLAYED)
      tags = tags_by(h, HOSTILE_SECRET, &hello, challenge.nonce);
  }
  hostile_release(h);
}

/* Obtains from rank 3 the answer to rank 1's challenge, by sending rank 3 the
 * same nonce in a hello of rank 1. */
static void relays_a_challenge(hostile *h) {
  hostile_await_held(h);
  for (int i = 0; i < 50; i++) {
    gli_tcp_hello hello = hello_of(h, 3, 1), back = hello_of(h, 1, 3);
    int fd = say_hello(h, &hello, 1);
    gli_tcp_challenge challenge = challenge_on(h, fd);
    memcpy(back.nonce, challenge.nonce, sizeof back.nonce);
    int far = say_hello(h, &back, 3);
    gli_tcp_challenge answer = challenge_on(h, far);
    hostile_send(fd, answer.tag, sizeof answer.tag);
    demand_denied(h, fd);
    close(far);
  }
  hostile_release(h);
}

static void asks_without_a_secret(hostile *h) {
  hostile_await_held(h);
  for (int i = 0; i < 50; i++) {
    gli_tcp_hello hello = hello_of(h, 3, 1);
    hello.asks = false;
    memset(hello.nonce, 0, sizeof hello.nonce);
    int fd = say_hello(h, &hello, 1);
    (void)challenge_on(h, fd);
    hostile_send(fd, hello.nonce, sizeof hello.nonce);
    demand_denied(h, fd);
  }
  hostile_release(h);
}

/* An eavesdropper knows which hellos are challenged. */
static int open_challenged(hostile *h, size_t i) {
  uint32_t to = (uint32_t)i % JOB_RANKS;
  gli_tcp_hello hello = hello_of(h, (to + 1) % JOB_RANKS, to);
  return say_hello(h, &hello, to);
}

static void are_challenged(hostile *h) {
  hostile_await_held(h);
  hostile_crowd(h, h->peer->number, open_challenged);
}

/* ---- members ------------------------------------------------------------- */

/* Connects as rank 3 to rank 1, before these two connect. */
static int joined(hostile *h) {
  hostile_await_held(h);
  gli_tcp_hello hello = hello_of(h, 3, 1);
  int fd = say_hello(h, &hello, 1);
  gli_tcp_challenge challenge = challenge_on(h, fd);
  gli_proofs tags = tags_by(h, HOSTILE_SECRET, &hello, challenge.nonce);
  hostile_demand(
      h, memcmp(tags.acceptor, challenge.tag, sizeof challenge.tag) == 0,
      "rank 1 does not prove itself");
  hostile_send(fd, tags.initiator, sizeof tags.initiator);
  hostile_demand(h, answer_on(h, fd) == GLI_TCP_ACCEPTED, "it was refused");
  return fd;
}

static void member_says_garbage(hostile *h) {
  uint8_t garbage[GLI_HEADER_BYTES];
  int fd = joined(h);
  hostile_garbage(garbage, sizeof garbage);
  hostile_send(fd, garbage, sizeof garbage);
  hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  hostile_release(h);
}

/* A message of 2^60 bytes for an operation that does not exist. */
static void member_says_too_much(hostile *h) {
  uint8_t bytes[GLI_HEADER_BYTES];
  const gli_header header = {.type = GLI_MESSAGE_DATA,
                             .length = UINT64_C(1) << 60};
  int fd = joined(h);
  gli_header_encode(&header, bytes);
  hostile_send(fd, bytes, sizeof bytes);
  hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  hostile_release(h);
}

static void member_hangs_up(hostile *h) {
  close(joined(h));
  uv_sleep(50);
  hostile_release(h);
}

static void member_comes_twice(hostile *h) {
  int fd = joined(h);
  for (int i = 0; i < 50; i++) {
    gli_tcp_hello hello = hello_of(h, 3, 1);
    int again = say_hello(h, &hello, 1);
    gli_tcp_challenge challenge = challenge_on(h, again);
    gli_proofs tags = tags_by(h, HOSTILE_SECRET, &hello, challenge.nonce);
    hostile_send(again, tags.initiator, sizeof tags.initiator);
    hostile_demand(h, answer_on(h, again) == GLI_TCP_TAKEN, "it was taken");
    hostile_demand(h, hostile_is_closed(again), "it was not hung up on");
  }
  close(fd);
  uv_sleep(50);
  hostile_release(h);
}

/* ---- the list ------------------------------------------------------------ */

#define HELD .flags = HOSTILE_HOLDS | HOSTILE_QUIET
#define NAMES_RANK_3 \
  .flags = HOSTILE_HOLDS, .status = HOSTILE_ANY, .blames = 3, .words = "rank 3"

static const hostile_peer peers[] = {
    PEER("256 silent connections", are_silent, .number = 256),
    PEER("2,000 silent connections", are_silent, .number = 2000),
    PEER("connections that come and go", come_and_go, .flags = HOSTILE_QUIET),
    PEER("slowloris", are_slow),
    PEER("truncated hello", says_half_a_hello, .flags = HOSTILE_QUIET),
    PEER("oversized hello", says_a_long_hello, .flags = HOSTILE_QUIET),
    PEER("garbage", says_garbage, .flags = HOSTILE_QUIET),
    PEER("TLS to a job without", speaks_tls, .flags = HOSTILE_QUIET),
    PEER("HTTP", speaks_http, .flags = HOSTILE_QUIET),
    PEER("log flood", flood_the_log, .flags = HOSTILE_QUIET),
    PEER("descriptors used up", are_silent, .number = 300, .files = 40),
    PEER("another version", says_a_wrong_hello, .number = WRONG_VERSION, HELD),
    PEER("wrong number", says_a_wrong_hello, .number = WRONG_KEY, HELD),
    PEER("number of the first round", says_a_wrong_hello, .number = WRONG_ROUND,
         HELD),
    PEER("from a rank that is none", says_a_wrong_hello, .number = WRONG_FROM,
         HELD),
    PEER("for another rank", says_a_wrong_hello, .number = WRONG_TO, HELD),
    PEER("from the rank itself", says_a_wrong_hello, .number = WRONG_SELF,
         HELD),
    PEER("without a secret", asks_without_a_secret, HELD),
    PEER("proof of zeros", proves_wrongly, .number = ZEROS, HELD),
    PEER("reflection", proves_wrongly, .number = REFLECTED, HELD),
    PEER("another secret", proves_wrongly, .number = OTHER_SECRET, HELD),
    PEER("replay", proves_wrongly, .number = REPLAYED, HELD),
    PEER("proof of another hello", proves_wrongly, .number = OTHER_HELLO, HELD),
    PEER("relay", relays_a_challenge, HELD),
    PEER("400 challenged connections", are_challenged, .number = 400, HELD),
    PEER("member says garbage as rank 3", member_says_garbage, NAMES_RANK_3),
    PEER("member says 2^60 bytes are to come", member_says_too_much,
         NAMES_RANK_3),
    PEER("member hangs up as rank 3", member_hangs_up, NAMES_RANK_3),
    PEER("member comes twice as rank 3", member_comes_twice, NAMES_RANK_3),
};

const hostile_list hostile_tcp_list = {HOSTILE_TCP, peers,
                                       sizeof peers / sizeof *peers};
