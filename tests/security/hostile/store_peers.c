/* Strangers and misbehaving members at the port of the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "core/bytes.h"
#include "hostile.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/tcp/tcp_auth.h"

enum {
  HELLO_BYTES = 8 + 16 + GLI_NONCE_BYTES,
  CHALLENGE_BYTES = 8 + GLI_NONCE_BYTES + GLI_TAG_BYTES
};

/* ---- messages ------------------------------------------------------------ */

static void make_hello(gli_frame *frame, uint64_t magic, uint32_t version) {
  static const uint8_t nonce[GLI_NONCE_BYTES] = "drawn by nobody";
  gli_frame_begin(frame, 64);
  gli_frame_put_u64(frame, magic);
  gli_frame_put_u32(frame, version);
  gli_frame_put_u32(frame, GLI_TCP_BY_KEY);
  gli_frame_put_bytes(frame, nonce, sizeof nonce);
  gli_frame_end(frame, GLI_TCP_HELLO);
}

static void make_hello_by_name(gli_frame *frame, const char *job) {
  gli_frame_begin(frame, 64);
  gli_frame_put_u64(frame, GLI_TCP_MAGIC);
  gli_frame_put_u32(frame, GLI_TCP_VERSION);
  gli_frame_put_u32(frame, GLI_TCP_BY_NAME);
  gli_frame_put_u64(frame, JOB_EPOCH);
  gli_frame_put_key(frame, job);
  gli_frame_end(frame, GLI_TCP_HELLO);
}

static void make_fetch(gli_frame *frame, const char *key) {
  gli_frame_begin(frame, 64);
  gli_frame_put_u64(frame, 0);
  gli_frame_put_u32(frame, 1);
  gli_frame_put_key(frame, "");
  gli_frame_put_u32(frame, 1);
  gli_frame_put_key(frame, key);
  gli_frame_end(frame, GLI_TCP_FETCH);
}

static void say(int fd, gli_frame *frame) {
  hostile_send(fd, frame->data, frame->bytes);
  free(frame->data);
}

static int challenged(hostile *h, uint8_t challenge[CHALLENGE_BYTES]) {
  gli_frame hello;
  int fd = hostile_connect_tcp(h->port);
  make_hello(&hello, GLI_TCP_MAGIC, GLI_TCP_VERSION);
  say(fd, &hello);
  hostile_demand(h, hostile_read(fd, challenge, CHALLENGE_BYTES),
                 "the store does not challenge");
  return fd;
}

/* ---- clients without the secret ------------------------------------------ */

/* Says hello by the job's name, which suffices in jobs without a secret. */
static void asks_by_name(hostile *h) {
  static const char *const names[] = {JOB_NAME, "", "?"};
  char text[1024], key[64];
  snprintf(key, sizeof key, JOB_PREFIX "gloo/rank/0", 0);
  while (hostile_goes_on(h)) {
    gli_frame frame;
    int fd = hostile_connect_tcp(h->port);
    make_hello_by_name(&frame, names[job_rounds(h->job) % 3]);
    say(fd, &frame);
    make_fetch(&frame, key);
    say(fd, &frame);
    hostile_demand(h, hostile_is_closed_saying(fd, text, sizeof text),
                   "it was not hung up on");
    hostile_demand(h, strstr(text + 8, "requires the job secret") != NULL,
                   "it was not told why");
    hostile_demand(h, strstr(text + 8, JOB_NAME) == NULL,
                   "it was told the job's name");
  }
}

typedef enum proof_kind { NO_PROOF, ZEROS, SERVERS_OWN, LONGER } proof_kind;

/* Sends something else in place of the proof. */
static void proves_wrongly(hostile *h) {
  uint8_t challenge[CHALLENGE_BYTES], tag[GLI_TAG_BYTES] = {0};
  char key[64];
  snprintf(key, sizeof key, JOB_PREFIX "gloo/rank/0", 0);
  while (hostile_goes_on(h)) {
    gli_frame frame;
    int fd = challenged(h, challenge);
    if (h->peer->number == SERVERS_OWN)
      memcpy(tag, challenge + 8 + GLI_NONCE_BYTES, sizeof tag);
    if (h->peer->number == NO_PROOF) {
      make_fetch(&frame, key);
    } else {
      gli_frame_begin(&frame, 64);
      if (h->peer->number == LONGER) gli_frame_put_bytes(&frame, challenge, 40);
      gli_frame_end(&frame, GLI_TCP_PROVE);
      gli_frame_put_bytes(&frame, tag, sizeof tag);
    }
    say(fd, &frame);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void comes_with(hostile *h, const char *secret, const char *name,
                       uint64_t epoch) {
  while (hostile_goes_on(h)) {
    gloo_store *store;
    gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
    o.host = "127.0.0.1";
    o.port = h->port;
    o.job = name;
    o.epoch = epoch;
    o.secret = secret;
    o.secret_bytes = secret != NULL ? strlen(secret) : 0;
    o.timeout_ns = INT64_C(20000000000);
    hostile_demand(h, gloo_store_tcp_create(&o, &store, NULL) == GLOO_ERR_AUTH,
                   "it was not refused");
  }
}

static void has_another_secret(hostile *h) {
  comes_with(h, HOSTILE_OTHER, JOB_NAME, JOB_EPOCH);
}
static void is_of_another_job(hostile *h) {
  comes_with(h, HOSTILE_SECRET, "another-job", JOB_EPOCH);
}
static void is_of_another_epoch(hostile *h) {
  comes_with(h, HOSTILE_SECRET, JOB_NAME, JOB_EPOCH - 1);
}
static void has_no_secret(hostile *h) {
  comes_with(h, NULL, JOB_NAME, JOB_EPOCH);
}

/* ---- invalid hellos ------------------------------------------------------ */

typedef enum hello_kind {
  OTHER_MAGIC,
  OTHER_VERSION,
  OTHER_HOW,
  OTHER_OP
} hello_kind;

static void says_another_hello(hostile *h) {
  while (hostile_goes_on(h)) {
    gli_frame hello;
    int fd = hostile_connect_tcp(h->port);
    make_hello(
        &hello,
        h->peer->number == OTHER_MAGIC ? GLI_TCP_MAGIC + 1 : GLI_TCP_MAGIC,
        h->peer->number == OTHER_VERSION ? GLI_TCP_VERSION - 1
                                         : GLI_TCP_VERSION);
    if (h->peer->number == OTHER_HOW) hello.data[8 + 12] = 9;
    if (h->peer->number == OTHER_OP) hello.data[4] = GLI_TCP_FETCH;
    say(fd, &hello);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void says_half_a_hello(hostile *h) {
  for (size_t n = 0; hostile_goes_on(h); n = (n + 1) % HELLO_BYTES) {
    gli_frame hello;
    int fd = hostile_connect_tcp(h->port);
    make_hello(&hello, GLI_TCP_MAGIC, GLI_TCP_VERSION);
    hello.bytes = n;
    say(fd, &hello);
    shutdown(fd, SHUT_WR);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

/* The peer's number is the length in the header. */
static void says_a_long_hello(hostile *h) {
  static uint8_t junk[1 << 16];
  gli_put_u32(junk, (uint32_t)h->peer->number);
  gli_put_u32(junk + 4, GLI_TCP_HELLO);
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_tcp(h->port);
    hostile_send(fd, junk, sizeof junk);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void says_garbage(hostile *h) {
  uint8_t garbage[512];
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_tcp(h->port);
    hostile_garbage(garbage, sizeof garbage);
    hostile_send(fd, garbage, sizeof garbage);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

/* Sends the beginning of a TLS handshake. */
static void speaks_tls(hostile *h) {
  static const uint8_t hello[200] = {0x16, 3, 1, 0, 195, 1, 0, 0, 191, 3, 3};
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_tcp(h->port);
    hostile_send(fd, hello, sizeof hello);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void speaks_http(hostile *h) {
  static const char text[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_tcp(h->port);
    hostile_send(fd, text, sizeof text - 1);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

/* ---- crowds -------------------------------------------------------------- */

static int open_silent(hostile *h, size_t i) {
  (void)i;
  return hostile_connect_tcp(h->port);
}

static void are_silent(hostile *h) {
  hostile_crowd(h, h->peer->number, open_silent);
}

static void come_and_go(hostile *h) {
  hostile_churn(h, open_silent);
}

/* Clients send a byte of a hello at a time. */
static void are_slow(hostile *h) {
  enum { N = 200 };
  int fds[N];
  gli_frame hello;
  make_hello(&hello, GLI_TCP_MAGIC, GLI_TCP_VERSION);
  for (int i = 0; i < N; i++) fds[i] = hostile_connect_tcp(h->port);
  for (size_t at = 0; hostile_goes_on(h); at = (at + 1) % HELLO_BYTES) {
    for (int i = 0; i < N; i++) hostile_send(fds[i], hello.data + at, 1);
    uv_sleep(5);
  }
}

/* Each has announced a long request, or requested replies that it never
 * reads. */
static int open_greedy(hostile *h, size_t i) {
  static uint8_t head[3000];
  gli_frame hello;
  int few = 1024, fd = hostile_connect_tcp(h->port);
  if (fd < 0) return fd;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
  make_hello(&hello, GLI_TCP_MAGIC, GLI_TCP_VERSION);
  say(fd, &hello);
  gli_put_u32(head, (uint32_t)GLI_TCP_FRAME_MAX);
  gli_put_u32(head + 4, i % 2 ? GLI_TCP_SET : GLI_TCP_PROVE);
  (void)send(fd, head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
  return fd;
}

static void are_greedy(hostile *h) {
  hostile_crowd(h, h->peer->number, open_greedy);
}

static int open_challenged(hostile *h, size_t i) {
  gli_frame hello;
  int fd = hostile_connect_tcp(h->port);
  (void)i;
  make_hello(&hello, GLI_TCP_MAGIC, GLI_TCP_VERSION);
  say(fd, &hello);
  return fd;
}

/* Clients are challenged and then stay silent. */
static void are_challenged(hostile *h) {
  hostile_crowd(h, h->peer->number, open_challenged);
}

/* Each refusal adds a line to the log. */
static void flood_the_log(hostile *h) {
  for (int i = 0; i < 4000 && !job_ended(h->job); i++) {
    gli_frame hello;
    int fd = hostile_connect_tcp(h->port);
    make_hello_by_name(&hello, "\033[2J\007a line\nof its own");
    say(fd, &hello);
    if (fd >= 0) close(fd);
  }
}

/* ---- replay, reflection, relay ------------------------------------------- */

#define LONG_TIME INT64_C(20000000000)
#define SHORT_TIME INT64_C(100000000) /* a changed length may stall a peer */

static gloo_status set_through(hostile *h, hostile_relay *relay,
                               int64_t timeout_ns) {
  gloo_store *store;
  job_options o = h->job->options;
  relay->store = h->port;
  hostile_relay_start(relay);
  gloo_store_tcp_options t = GLOO_STORE_TCP_OPTIONS_INIT;
  t.host = "127.0.0.1";
  t.port = relay->port;
  t.job = JOB_NAME;
  t.epoch = JOB_EPOCH;
  t.secret = o.secret;
  t.secret_bytes = strlen(o.secret);
  t.timeout_ns = timeout_ns;
  gloo_status status = gloo_store_tcp_create(&t, &store, NULL);
  if (status == GLOO_OK) {
    status = gloo_store_set(store, "k", "v", 1, NULL);
    gloo_store_destroy(store);
  }
  hostile_relay_join(relay);
  return status;
}

static bool holds_key(hostile *h, const char *key) {
  gloo_store *store;
  gloo_value value = {NULL, 0};
  hostile_demand(
      h,
      job_open_store(&h->job->options, h->port, false, &store, NULL) == GLOO_OK,
      "a member is refused");
  gloo_status status =
      gloo_store_get(store, key, GLOO_TIMEOUT_NOW, &value, NULL);
  free(value.data);
  (void)gloo_store_delete(store, key, NULL);
  gloo_store_destroy(store);
  return status == GLOO_OK;
}

static void replays(hostile *h) {
  hostile_relay relay = {.changed = SIZE_MAX};
  hostile_demand(h, set_through(h, &relay, LONG_TIME) == GLOO_OK,
                 "the relay is broken");
  hostile_demand(h, holds_key(h, "k"), "the relay has passed nothing on");
  while (hostile_goes_on(h)) {
    int fd = hostile_connect_tcp(h->port);
    hostile_send(fd, relay.said, relay.n_said);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
  hostile_demand(h, !holds_key(h, "k"), "what was heard was done again");
}

/* Changes bytes of the hello, the proof and the request, and of the replies. */
static void changes_bytes(hostile *h) {
  static const size_t bytes[2][4] = {{12, 24, 50, 80}, {9, 30, 44, 60}};
  for (int i = 0; i < 8; i++) {
    hostile_relay relay = {.from = i / 4, .changed = bytes[i / 4][i % 4]};
    hostile_demand(h, set_through(h, &relay, SHORT_TIME) != GLOO_OK,
                   "what was changed was taken");
    if (i < 4)
      hostile_demand(h, !holds_key(h, "k"), "what was changed was done");
  }
  while (hostile_goes_on(h)) uv_sleep(1);
}

/* Acts as a squatter on the port that forwards to the store, and changes the
 * tag in its reply. */
static void reflects(hostile *h) {
  while (hostile_goes_on(h)) {
    hostile_relay relay = {.from = 1, .changed = 8 + GLI_NONCE_BYTES};
    hostile_demand(h, set_through(h, &relay, LONG_TIME) == GLOO_ERR_AUTH,
                   "it was believed");
  }
}

/* ---- members, with the secret -------------------------------------------- */

static gloo_store *member(hostile *h) {
  gloo_store *store;
  gloo_error error;
  if (job_open_store(&h->job->options, h->port, false, &store, &error) !=
      GLOO_OK)
    hostile_demand(h, false, error.message);
  return store;
}

/* Sets a key of the next round, while all ranks are held in this one. */
static void set_next(hostile *h, const char *key, const void *data,
                     size_t bytes) {
  char name[64];
  gloo_store *store = member(h);
  snprintf(name, sizeof name, JOB_PREFIX "%s", JOB_QUIET + 1, key);
  hostile_await_held(h);
  (void)gloo_store_set(store, name, data, bytes, NULL);
  hostile_release(h);
  gloo_store_destroy(store);
}

/* A member sets the outcome of a rendezvous. */
static void poisons(hostile *h) {
  static const char text[] = "all ok\033[2J\033]0;title\007\nRESULT: 0.01";
  uint8_t note[12 + sizeof text];
  gli_put_u32(note, -GLOO_ERR_IO);
  gli_put_u32(note + 4, 2);
  gli_put_u32(note + 8, 2);
  memcpy(note + 12, text, sizeof text);
  set_next(h, GLI_OUTCOME_KEY, note, sizeof note);
}

static void publishes_garbage(hostile *h) {
  static const uint8_t record[200];
  set_next(h, "gloo/rank/3", record, sizeof record);
}

/* Publishes the record of rank 3 in this round for the next. */
static void takes_a_rank(hostile *h) {
  char name[64];
  gloo_value value;
  gloo_store *store = member(h);
  snprintf(name, sizeof name, JOB_PREFIX "gloo/rank/3", JOB_QUIET);
  hostile_await_held(h);
  hostile_demand(
      h, gloo_store_get(store, name, GLOO_TIMEOUT_NOW, &value, NULL) == GLOO_OK,
      "rank 3 has not published");
  gloo_store_destroy(store);
  set_next(h, "gloo/rank/3", value.data, value.bytes);
  free(value.data);
}

/* Sets keys that would collide in an unseeded hash table. */
static void sets_many_keys(hostile *h) {
  gloo_store *store = member(h);
  char key[32];
  for (int i = 0; i < 4000 && !job_ended(h->job); i++) {
    snprintf(key, sizeof key, "many %d", i);
    (void)gloo_store_set(store, key, "v", 1, NULL);
  }
  gloo_store_destroy(store);
}

/* Members authenticate and then stay silent. */
static void members_are_silent(hostile *h) {
  enum { N = 300 };
  gloo_store *stores[N];
  size_t n = 0;
  while (n < N && !job_ended(h->job) &&
         job_open_store(&h->job->options, h->port, false, &stores[n], NULL) ==
             GLOO_OK)
    n++;
  h->began = job_rounds(h->job);
  while (hostile_goes_on(h)) uv_sleep(1);
  while (n > 0) gloo_store_destroy(stores[--n]);
}

/* ---- the list ------------------------------------------------------------ */

static const hostile_peer peers[] = {
    PEER("stranger asks by the job's name", asks_by_name),
    PEER("stranger has no secret", has_no_secret),
    PEER("stranger has another secret", has_another_secret),
    PEER("stranger is of another job", is_of_another_job),
    PEER("stranger is of another epoch", is_of_another_epoch),
    PEER("request without a proof", proves_wrongly, .number = NO_PROOF),
    PEER("proof of zeros", proves_wrongly, .number = ZEROS),
    PEER("the store's own tag as a proof", proves_wrongly,
         .number = SERVERS_OWN),
    PEER("proof with a body", proves_wrongly, .number = LONGER),
    PEER("another protocol", says_another_hello, .number = OTHER_MAGIC),
    PEER("another version", says_another_hello, .number = OTHER_VERSION),
    PEER("another way to say hello", says_another_hello, .number = OTHER_HOW),
    PEER("request in place of a hello", says_another_hello, .number = OTHER_OP),
    PEER("truncated hello", says_half_a_hello),
    PEER("hello longer than they are", says_a_long_hello,
         .number = GLI_TCP_HELLO_MAX + 1),
    PEER("hello of 4 GiB", says_a_long_hello, .number = UINT32_MAX),
    PEER("hello as long as a frame", says_a_long_hello,
         .number = GLI_TCP_FRAME_MAX),
    PEER("garbage", says_garbage),
    PEER("TLS to a job without", speaks_tls),
    PEER("HTTP", speaks_http),
    PEER("slowloris", are_slow),
    PEER("2,000 silent connections", are_silent, .number = 2000),
    PEER("connections that come and go", come_and_go),
    PEER("600 challenged connections", are_challenged, .number = 600),
    PEER("unfinished requests and unread replies", are_greedy, .number = 300),
    PEER("descriptors used up", are_silent, .number = 100, .files = 40),
    PEER("log flood, with control characters", flood_the_log),
    PEER("replay", replays),
    PEER("relay that changes bytes", changes_bytes),
    PEER("reflection", reflects),
    PEER("member poisons a meeting", poisons, .flags = HOSTILE_HOLDS,
         .status = HOSTILE_ANY, .blames = 2, .words = "rank 2"),
    PEER("member publishes garbage as rank 3", publishes_garbage,
         .flags = HOSTILE_HOLDS, .status = HOSTILE_ANY, .blames = 3,
         .words = "rank 3"),
    PEER("member takes rank 3's place", takes_a_rank, .flags = HOSTILE_HOLDS,
         .status = HOSTILE_ANY, .blames = 3, .words = "rank 3"),
    PEER("member sets 4,000 keys", sets_many_keys),
    PEER("300 members are silent", members_are_silent),
};

const hostile_list hostile_store_list = {HOSTILE_STORE, peers,
                                         sizeof peers / sizeof *peers};
