/* Pairs that use TLS: accepted and rejected peers, the errors that both sides
 * report, and data that TLS reads ahead of the messages that it belongs to. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "../security/pki.h"
#include "gloo_c/log.h"
#include "harness.h"
#include "transport_tcp/handshake.h"

static const uint8_t job_key[GLI_JOB_KEY_BYTES] = "the key of this job";
static const uint8_t other_key[GLI_JOB_KEY_BYTES] = "the key of another job";
static uint8_t large[HAR_BYTES];

/* ---- settings ------------------------------------------------------------ */

static const char *folder;
/* NONE, BY_SECRET; BY_CERTIFICATE with the certificate of rank 0, 1 or 2. */
enum { NONE, SECRET, RANK_0, RANK_1, RANK_2, ADDRESS, SETTINGS };
static gli_tls_settings *settings[SETTINGS];

static gli_tls_settings *make_settings(const char *certificate,
                                       const char *authority) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  gli_tls_settings *made;
  gloo_error e;
  o.use = 1;
  o.certificate = certificate;
  o.authority = authority;
  if (gli_tls_settings_read(&o, &made, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return made;
}

static int set_up_settings(void **state) {
  static const char *const names[] = {"URI:gloo:rank/0", "URI:gloo:rank/1",
                                      "URI:gloo:rank/2", "IP:127.0.0.1,IP:::1"};
  char authority[96], file[96];
  pki_authority *ca = pki_authority_new("the authority");
  (void)state;
  folder = pki_folder();
  snprintf(authority, sizeof authority, "%s/ca.pem", folder);
  pki_authority_write(ca, authority);
  settings[SECRET] = make_settings(NULL, NULL);
  for (int i = 0; i < 4; i++) {
    snprintf(file, sizeof file, "%s/%d.pem", folder, i);
    pki_issue(ca, &(pki_paper){.names = names[i]}, file, NULL);
    settings[RANK_0 + i] = make_settings(file, authority);
  }
  pki_authority_free(ca);
  return 0;
}

static int tear_down_settings(void **state) {
  (void)state;
  for (int i = 0; i < SETTINGS; i++) gli_tls_settings_release(settings[i]);
  pki_folder_remove(folder);
  return 0;
}

/* ---- scenes -------------------------------------------------------------- */

/* Rank 0 at `a`, rank 1 at `b`: introduced, no pair open. */
typedef struct scene {
  har_end a, b;
  har_pair *ab, *ba;
  int listener; /* replaces rank 1's; -1: none */
} scene;

typedef struct setting {
  const char *host;
  int streams;
  int a, b;    /* indices of `settings` */
  bool secret; /* there is a job secret, too */
} setting;

static const setting by_secret = {"127.0.0.1", 1, SECRET, SECRET, true};
static const setting by_certificate = {"127.0.0.1", 1, RANK_0, RANK_1, false};
static const setting by_both = {"127.0.0.1", 1, RANK_0, RANK_1, true};

static scene *scene_open(const setting *x) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  har_open_tls(&s->a, x->host, x->streams, settings[x->a]);
  har_open_tls(&s->b, x->host, x->streams, settings[x->b]);
  har_introduce(&s->a, 0, &s->b, 1, &s->ab, &s->ba);
  if (x->secret) s->ab->config.job_key = s->ba->config.job_key = job_key;
  s->listener = -1;
  return s;
}

static void scene_close(scene *s) {
  if (s->listener >= 0) close(s->listener);
  har_close(&s->a);
  har_close(&s->b);
  free(s);
}

static void assert_failed(const har_pair *pair, gloo_status status,
                          const char *why) {
  if (pair->cause.status != status || strstr(pair->cause.message, why) == NULL)
    fail_msg("%s: %s", gloo_status_string(pair->cause.status),
             pair->cause.message);
  assert_int_equal(pair->cause.rank, pair->config.peer_rank);
}

static int socket_of(const har_pair *pair, int stream) {
  return ((gli_tcp_pair *)pair->pair)->stream[stream].conn->watch.fd;
}

/* ---- two ranks ----------------------------------------------------------- */

static void exchange(scene *s, int streams) {
  gli_send_request there[16], back[16];
  for (int i = 0; i < 16; i++) {
    size_t bytes = i % 4 == 3 ? sizeof large : (size_t)i * 37;
    har_send(s->ab, &there[i], (uint32_t)(i % streams), large, bytes);
    har_until(&s->a, &s->b, &s->ba->received, i + 2);
    assert_int_equal(s->ba->header.length, bytes);
    assert_memory_equal(s->ba->data, large, bytes);
    har_send(s->ba, &back[i], (uint32_t)(i % streams), large + i, bytes / 2);
    har_until(&s->a, &s->b, &s->ab->received, i + 2);
    assert_memory_equal(s->ab->data, large + i, bytes / 2);
  }
  assert_int_equal(s->ab->failed + s->ba->failed, 0);
}

static void ranks_talk_by_all_kinds(void **state) {
  static const setting all[] = {
      {"127.0.0.1", 1, SECRET, SECRET, true},
      {"127.0.0.1", 3, SECRET, SECRET, true},
      {"127.0.0.1", 1, RANK_0, RANK_1, false},
      {"127.0.0.1", 2, RANK_0, RANK_1, true},
      {"127.0.0.1", 1, ADDRESS, ADDRESS, false},
      {"127.0.0.1", 1, RANK_0, ADDRESS, true},
      {"::1", 2, SECRET, SECRET, true},
      {"::1", 2, ADDRESS, RANK_1, false},
      {"::1", 1, ADDRESS, ADDRESS, true},
  };
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    scene *s = scene_open(&all[i]);
    har_connect(s->ab, s->ba);
    exchange(s, all[i].streams);
    scene_close(s);
  }
}

static void both_may_begin_at_once(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    scene *s = scene_open(i % 2 ? &by_secret : &by_both);
    gli_send_request ping, pong;
    har_pair_open(s->ab);
    har_pair_open(s->ba);
    har_send(s->ab, &ping, 0, "ping", 4);
    har_send(s->ba, &pong, 0, "pong", 4);
    if (i % 4 < 2) har_poll(&s->a, NULL, i);
    har_until(&s->a, &s->b, &s->ba->received, 1);
    har_until(&s->b, &s->a, &s->ab->received, 1);
    assert_memory_equal(s->ba->data, "ping", 4);
    assert_memory_equal(s->ab->data, "pong", 4);
    assert_int_equal(s->ab->failed + s->ba->failed, 0);
    scene_close(s);
  }
}

/* ---- who does not come in, and why --------------------------------------- */

static void other_kinds_are_refused_and_told(void **state) {
  static const int kinds[] = {NONE, SECRET, RANK_0};
  (void)state;
  for (int i = 0; i < 9; i++) {
    setting x = {"127.0.0.1", 1, kinds[i / 3], kinds[i % 3], true};
    if (x.a == x.b) continue;
    scene *s = scene_open(&x);
    har_pair_open(s->ab);
    har_until(&s->a, &s->b, &s->ab->failed, 1);
    assert_failed(s->ab, GLOO_ERR_AUTH, "must be the same on all ranks");
    assert_int_equal(s->b.asked, 0);
    har_pair_open(s->ba);
    har_until(&s->a, &s->b, &s->ba->failed, 1);
    assert_failed(s->ba, GLOO_ERR_AUTH, "must be the same on all ranks");
    scene_close(s);
  }
}

static void other_secret_is_refused_and_told(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    scene *s = scene_open(i == 0 ? &by_secret : &by_both);
    s->ba->config.job_key = other_key;
    har_pair_open(s->ab);
    har_until(&s->a, &s->b, &s->ab->failed, 1);
    assert_failed(s->ab, GLOO_ERR_AUTH, "has a different secret");
    assert_null(s->ba->pair);
    assert_int_equal(s->b.asked, 0);
    har_pair_open(s->ba);
    har_until(&s->a, &s->b, &s->ba->failed, 1);
    assert_failed(s->ba, GLOO_ERR_AUTH, "has a different secret");
    scene_close(s);
  }
}

/* The certificate is from the same authority, but rank 0 has that of rank 2. So
 * rank 1 must reject it, and both report an error, whichever connects. */
static void certificate_of_another_rank_is_refused_and_told(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    setting x = {"127.0.0.1", 1, RANK_2, RANK_1, i == 1};
    scene *s = scene_open(&x);
    har_pair_open(s->ab);
    har_until(&s->a, &s->b, &s->ab->failed, 1);
    assert_failed(s->ab, GLOO_ERR_AUTH, "certificate");
    assert_int_equal(s->b.asked, 0);
    assert_null(s->ba->pair);
    har_pair_open(s->ba);
    har_until(&s->a, &s->b, &s->ba->failed, 1);
    assert_failed(s->ba, GLOO_ERR_AUTH, "gloo:rank/0");
    scene_close(s);
  }
}

/* ---- strangers ----------------------------------------------------------- */

static gli_tcp_hello hello_of_rank_1(gli_tls_kind kind) {
  return (gli_tcp_hello){.version = GLI_TCP_VERSION,
                         .streams = 1,
                         .from = 1,
                         .to = 0,
                         .key = har_key(0, 1),
                         .asks = kind == GLI_TLS_BY_SECRET,
                         .tls = kind,
                         .nonce = "drawn by nobody"};
}

static void say(int fd, const void *data, size_t bytes) {
  assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

static int come_to(scene *s, gli_tls_kind kind) {
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello hello = hello_of_rank_1(kind);
  int fd = har_stranger(&s->a);
  gli_tcp_hello_encode(&hello, bytes);
  say(fd, bytes, sizeof bytes);
  return fd;
}

/* The beginning of a handshake, and other bytes. */
static const char *const beginnings[] = {
    "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03",
    "gloo_c> and what else there is",
    "\x17\x03\x03\x00\x04 text",
    "\x15\x03\x03\x00\x02\x02\x28",
};

static void strangers_open_nothing(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    bool paper = i >= 4;
    scene *s = scene_open(paper ? &by_certificate : &by_secret);
    const char *begin = beginnings[i % 4];
    size_t bytes = i % 4 == 1 ? strlen(begin) : i % 4 == 0 ? 11 : 7;
    int fds[2] = {
        come_to(s, paper ? GLI_TLS_BY_CERTIFICATE : GLI_TLS_BY_SECRET),
        har_stranger(&s->a)};
    say(fds[0], begin, bytes);
    say(fds[1], begin, bytes); /* no hello before */
    har_poll(&s->a, NULL, 10);
    for (int k = 0; k < 2; k++) {
      uint8_t heard[64];
      (void)shutdown(fds[k], SHUT_WR);
      /* The reply is TLS, or a refusal. */
      (void)har_read(&s->a, fds[k], heard, sizeof heard);
      close(fds[k]);
    }
    assert_int_equal(s->a.asked, 0);
    assert_null(s->ab->pair);
    har_connect(s->ba, s->ab);
    scene_close(s);
  }
}

static void plain_hello_is_told_of_the_difference(void **state) {
  scene *s = scene_open(&by_secret);
  int fd = come_to(s, GLI_TLS_NONE);
  gli_tcp_reply reply = har_read_reply(&s->a, fd);
  (void)state;
  assert_int_equal(reply.answer, GLI_TCP_OTHER_TLS);
  assert_int_equal(reply.streams, GLI_TLS_BY_SECRET);
  har_assert_hung_up(&s->a, fd);
  scene_close(s);
}

static void silent_crowd_keeps_nobody_out(void **state) {
  enum { CROWD = 150 };
  int fds[CROWD];
  (void)state;
  for (int paper = 0; paper < 2; paper++) {
    scene *s = scene_open(paper ? &by_certificate : &by_secret);
    for (int i = 0; i < CROWD; i++) {
      fds[i] = come_to(s, paper ? GLI_TLS_BY_CERTIFICATE : GLI_TLS_BY_SECRET);
      if (i % 2) say(fds[i], beginnings[0], 11);
      har_poll(&s->a, NULL, 1);
    }
    har_connect(s->ba, s->ab);
    for (int i = 0; i < CROWD; i++) close(fds[i]);
    scene_close(s);
  }
}

/* ---- a stranger that rank 0 connects to, in place of rank 1 -------------- */

static void listen_as_rank_1(scene *s) {
  gli_tcp_contact contact;
  gli_endpoint at;
  socklen_t bytes = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0 && gli_endpoint_from_text("127.0.0.1", &at));
  assert_int_equal(bind(fd, &at.any, gli_endpoint_bytes(&at)), 0);
  assert_int_equal(listen(fd, 8), 0);
  assert_int_equal(getsockname(fd, &at.any, &bytes), 0);
  assert_true(gli_tcp_contact_decode(&s->ab->config.address, &contact));
  contact.port = gli_endpoint_port(&at);
  for (uint32_t i = 0; i < contact.n; i++)
    gli_endpoint_set_port(&contact.at[i], contact.port);
  gli_tcp_contact_encode(&contact, &s->ab->config.address);
  s->listener = fd;
}

static void answer(int fd, gli_tcp_answer what) {
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  const gli_tcp_reply reply = {.version = GLI_TCP_VERSION,
                               .answer = what,
                               .streams = 1,
                               .key = har_key(0, 1)};
  gli_tcp_reply_encode(&reply, bytes);
  say(fd, bytes, sizeof bytes);
}

/* Accepts the next connection of rank 0, before it has sent anything. */
static int next_connection(scene *s) {
  struct pollfd ready = {.fd = s->listener, .events = POLLIN};
  for (int i = 0; poll(&ready, 1, 1) == 0; i++) {
    if (i > 20000) fail_msg("nobody comes");
    har_poll(&s->a, NULL, 1);
  }
  int fd = accept(s->listener, NULL, NULL);
  assert_true(fd >= 0);
  return fd;
}

static int next_hello(scene *s, uint8_t hello[GLI_TCP_HELLO_BYTES]) {
  int fd = next_connection(s);
  assert_int_equal(har_read(&s->a, fd, hello, GLI_TCP_HELLO_BYTES),
                   GLI_TCP_HELLO_BYTES);
  return fd;
}

/* This also holds for an answer that arrives before TLS has begun. */
static void later_in_clear_is_not_final(void **state) {
  static const gli_tcp_answer answers[] = {GLI_TCP_LATER, GLI_TCP_UNKNOWN};
  (void)state;
  for (int paper = 0; paper < 2; paper++) {
    scene *s = scene_open(paper ? &by_certificate : &by_secret);
    uint8_t hello[GLI_TCP_HELLO_BYTES];
    listen_as_rank_1(s);
    har_pair_open(s->ab);
    for (int i = 0; i < 8; i++) {
      int fd = i % 4 < 2 ? next_connection(s) : next_hello(s, hello);
      answer(fd, answers[i % 2]);
      har_poll(&s->a, NULL, 3);
      close(fd);
    }
    close(next_hello(s, hello));
    if (s->ab->failed) fail_msg("%s", s->ab->cause.message);
    scene_close(s);
  }
}

static void rank_that_is_not_ready_is_asked_again(void **state) {
  (void)state;
  for (int paper = 0; paper < 2; paper++) {
    scene *s = scene_open(paper ? &by_certificate : &by_secret);
    gli_send_request request;
    s->b.later = true;
    har_pair_open(s->ab);
    har_send(s->ab, &request, 0, "text", 4);
    har_until(&s->a, &s->b, &s->b.asked, 2);
    s->b.later = false;
    har_until(&s->a, &s->b, &s->ba->received, 1);
    assert_memory_equal(s->ba->data, "text", 4);
    scene_close(s);
  }
}

/* A listener that always answers LATER is skipped if the peer has another
 * address. */
static void later_for_ever_does_not_hide_the_peer(void **state) {
  scene *s = scene_open(&by_secret);
  gli_tcp_contact contact;
  gli_send_request request;
  (void)state;
  gli_endpoint peer = har_listens_at(s->b.t);
  gli_endpoint liar = peer;
  liar.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  s->listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(s->listener, &liar.any, gli_endpoint_bytes(&liar)) != 0) {
    scene_close(s); /* this system has one loopback address */
    skip();
  }
  assert_int_equal(listen(s->listener, 64), 0);
  assert_true(gli_tcp_contact_decode(&s->ab->config.address, &contact));
  contact.n = 2;
  contact.at[0] = liar;
  contact.at[1] = peer;
  gli_tcp_contact_encode(&contact, &s->ab->config.address);
  har_pair_open(s->ab);
  har_send(s->ab, &request, 0, "text", 4);
  int fds[64], n = 0;
  for (int i = 0; i < 5000 && s->ba->received == 0; i++) {
    struct pollfd ready = {.fd = s->listener, .events = POLLIN};
    har_poll(&s->a, &s->b, 1);
    if (poll(&ready, 1, 1) == 0 || n == 64) continue;
    fds[n] = accept(s->listener, NULL, NULL);
    answer(fds[n++], GLI_TCP_LATER);
  }
  assert_int_equal(s->ba->received, 1);
  for (int i = 0; i < n; i++) close(fds[i]);
  scene_close(s);
}

/* A peer with the secret that does not start TLS is rejected. */
static void nothing_but_refusals_is_believed_in_clear(void **state) {
  static const gli_tcp_answer answers[] = {GLI_TCP_ACCEPTED, GLI_TCP_USE_MINE,
                                           GLI_TCP_TAKEN, GLI_TCP_DENIED};
  (void)state;
  for (int i = 0; i < 15; i++) {
    static const setting *const all[] = {&by_secret, &by_certificate, &by_both};
    scene *s = scene_open(all[i / 5]);
    uint8_t hello[GLI_TCP_HELLO_BYTES], bytes[GLI_TCP_CHALLENGE_BYTES];
    listen_as_rank_1(s);
    har_pair_open(s->ab);
    int fd = next_hello(s, hello);
    if (i % 5 < 4) {
      answer(fd, answers[i % 5]);
    } else {
      gli_tcp_challenge c = {.nonce = "drawn by nobody"};
      gli_pair_config config = s->ba->config;
      gli_key key;
      gli_proofs tags;
      config.job_key = job_key;
      assert_int_equal(gli_peer_key(&config, &key, NULL), GLOO_OK);
      assert_int_equal(
          gli_tcp_handshake_proofs(&key, hello, c.nonce, &tags, NULL), GLOO_OK);
      memcpy(c.tag, tags.acceptor, sizeof c.tag);
      gli_tcp_challenge_encode(&c, bytes);
      say(fd, bytes, sizeof bytes);
    }
    har_until(&s->a, NULL, &s->ab->failed, 1);
    if (s->ab->cause.status != GLOO_ERR_AUTH)
      assert_int_equal(s->ab->cause.status, GLOO_ERR_PROTOCOL);
    assert_int_equal(((gli_tcp_pair *)s->ab->pair)->streams, 0);
    close(fd);
    scene_close(s);
  }
}

/* ---- somebody in between ------------------------------------------------- */

/* A relay thread between rank 0, which connects, and rank 1. */
typedef struct relay {
  int listener;
  gli_endpoint to;
  size_t piece;    /* maximum bytes at a time */
  long gap_ns;     /* pause between pieces */
  uint8_t *record; /* bytes that rank 0 sent; may be NULL */
  size_t recorded, room;
  atomic_bool flip[2]; /* flips a bit of the next data from rank 0, 1 */
  atomic_bool stop;
  pthread_t thread;
} relay;

static bool relay_carry(relay *r, int which, int from, int to) {
  uint8_t bytes[65536];
  ssize_t got = recv(from, bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  if (which == 0 && r->record != NULL) {
    size_t n = (size_t)got;
    if (n > r->room - r->recorded) n = r->room - r->recorded;
    memcpy(r->record + r->recorded, bytes, n);
    r->recorded += n;
  }
  if (got > 8 && atomic_exchange(&r->flip[which], false)) bytes[8] ^= 16;
  for (size_t at = 0; at < (size_t)got;) {
    size_t n = (size_t)got - at;
    if (r->piece != 0 && n > r->piece) n = r->piece;
    if (send(to, bytes + at, n, MSG_NOSIGNAL) != (ssize_t)n) return false;
    at += n;
    if (r->gap_ns != 0)
      nanosleep(&(struct timespec){.tv_nsec = r->gap_ns}, NULL);
  }
  return true;
}

static void *relay_run(void *argument) {
  relay *r = argument;
  int ends[2] = {-1, -1}, yes = 1;
  while (!atomic_load(&r->stop)) {
    struct pollfd ready[3] = {{.fd = r->listener, .events = POLLIN},
                              {.fd = ends[0], .events = POLLIN},
                              {.fd = ends[1], .events = POLLIN}};
    if (poll(ready, 3, 20) <= 0) continue;
    if (ready[0].revents != 0) {
      for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
      ends[0] = accept(r->listener, NULL, NULL);
      ends[1] = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(ends[1], &r->to.any, gli_endpoint_bytes(&r->to)) != 0) break;
      for (int i = 0; i < 2; i++)
        (void)setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      continue;
    }
    for (int i = 0; i < 2; i++) {
      if (ends[i] < 0 || ready[1 + i].revents == 0) continue;
      if (relay_carry(r, i, ends[i], ends[1 - i])) continue;
      for (int k = 0; k < 2; k++) {
        close(ends[k]);
        ends[k] = -1;
      }
      break;
    }
  }
  for (int i = 0; i < 2; i++)
    if (ends[i] >= 0) close(ends[i]);
  return NULL;
}

static void relay_begin(relay *r, scene *s) {
  r->to = har_listens_at(s->b.t);
  listen_as_rank_1(s);
  r->listener = s->listener;
  assert_int_equal(pthread_create(&r->thread, NULL, relay_run, r), 0);
}

static void relay_end(relay *r) {
  atomic_store(&r->stop, true);
  assert_int_equal(pthread_join(r->thread, NULL), 0);
}

/* A piece of a handshake is never taken for a reply, whatever its first bytes
 * are. */
static void handshakes_may_come_in_pieces(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    scene *s = scene_open(i % 2 ? &by_secret : &by_both);
    relay r = {.piece = (size_t)(1 + i / 2 * 3), .gap_ns = 20000};
    relay_begin(&r, s);
    har_connect(s->ab, s->ba);
    assert_int_equal(s->ab->failed + s->ba->failed, 0);
    relay_end(&r);
    scene_close(s);
  }
}

static void changed_bits_are_seen_by_who_reads_them(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    scene *s = scene_open(i % 4 < 2 ? &by_secret : &by_certificate);
    relay r = {.piece = 0};
    gli_send_request request;
    relay_begin(&r, s);
    har_connect(s->ab, s->ba);
    int from = i % 2;
    har_pair *teller = from == 0 ? s->ab : s->ba;
    har_pair *reader = from == 0 ? s->ba : s->ab;
    atomic_store(&r.flip[from], true);
    size_t bytes = i >= 4 ? 300000 : 20;
    har_send(teller, &request, 0, large, bytes);
    har_until(&s->a, &s->b, &reader->failed, 1);
    assert_failed(reader, GLOO_ERR_PROTOCOL, "data was modified in transit");
    har_until(&s->a, &s->b, &teller->failed, 1);
    relay_end(&r);
    scene_close(s);
  }
}

/* The bytes of a complete handshake are useless when sent again. */
static void replayed_handshake_opens_nothing(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    static const setting *const all[] = {&by_secret, &by_certificate, &by_both};
    static uint8_t bytes[20000];
    scene *s = scene_open(all[i]);
    relay r = {.record = bytes, .room = sizeof bytes};
    relay_begin(&r, s);
    har_connect(s->ab, s->ba);
    har_pair_close(s->ab, GLI_MESSAGE_BYE);
    har_until(&s->a, &s->b, &s->ba->byes, 1);
    har_pair_close(s->ba, GLI_MESSAGE_BYE);
    har_poll(&s->a, &s->b, 20);
    relay_end(&r);
    assert_true(r.recorded > 300);
    int asked = s->b.asked, fd = har_stranger(&s->b);
    say(fd, bytes, r.recorded);
    uint8_t heard[8192];
    (void)har_read(&s->b, fd, heard, sizeof heard);
    close(fd);
    assert_int_equal(s->b.asked, asked);
    assert_null(s->ba->pair);
    scene_close(s);
  }
}

/* ---- what TLS has read already ------------------------------------------- */

static gli_header expected(uint32_t slot, size_t bytes) {
  return (gli_header){.type = GLI_MESSAGE_DATA, .slot = slot, .length = bytes};
}

static bool take(har_pair *pair, uint32_t slot, size_t bytes) {
  const gli_header header = expected(slot, bytes);
  gli_taken taken;
  return gli_transport_tcp.take_now(pair->pair, &header, &taken);
}

static void wait_readable(int fd) {
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&ready, 1, 20000), 1);
}

/* Expects messages that have arrived already: sleep must return at once for
 * them. */
static void expect_soon(scene *s, const int *counter, int value) {
  for (int i = 0; i < 20 && *counter < value; i++) {
    gli_transport_tcp.sleep(s->a.t, 1000000000);
    har_poll(&s->a, NULL, 1);
  }
  assert_int_equal(*counter, value);
}

static void connect_streams(scene *s, int streams) {
  gli_send_request there[4], back[4];
  har_connect(s->ab, s->ba);
  for (int i = 0; i < streams; i++) {
    har_send(s->ba, &there[i], (uint32_t)i, "x", 1);
    har_until(&s->a, &s->b, &s->ab->received, i + 2);
    har_send(s->ab, &back[i], (uint32_t)i, "x", 1);
    har_until(&s->b, &s->a, &s->ba->received, i + 2);
  }
}

static void messages_behind_one_that_is_taken_come_without_more(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    setting x = i % 2 ? by_secret : by_certificate;
    x.streams = 1 + i / 2;
    scene *s = scene_open(&x);
    gli_send_request requests[20];
    connect_streams(s, x.streams);
    int before = s->ab->received;
    for (int k = 0; k < 20; k++)
      har_send(s->ba, &requests[k], 2, large, (size_t)k);
    wait_readable(socket_of(s->ab, 2 % x.streams));
    uv_sleep(20);
    assert_true(take(s->ab, 2, 0));
    assert_true(take(s->ab, 2, 1));
    assert_false(take(s->ab, 2, 77)); /* not the next message */
    expect_soon(s, &s->ab->received, before + 18);
    scene_close(s);
  }
}

/* An invalid record follows a message, or comes alone. */
static void garbage_is_met_without_more(void **state) {
  static const uint8_t garbage[5 + 32] = {0x17, 3, 3, 0, 32, 'x'};
  (void)state;
  for (int i = 0; i < 8; i++) {
    bool message_first = i % 2 == 0, takes = i % 4 < 2;
    setting x = by_secret;
    gli_send_request request;
    x.streams = 1 + i / 4;
    scene *s = scene_open(&x);
    connect_streams(s, x.streams);
    int before = s->ab->received;
    if (message_first) har_send(s->ba, &request, 2, "text", 4);
    say(socket_of(s->ba, 2 % x.streams), garbage, sizeof garbage);
    wait_readable(socket_of(s->ab, 2 % x.streams));
    uv_sleep(20);
    if (takes) assert_int_equal(take(s->ab, 2, 4), message_first);
    expect_soon(s, &s->ab->failed, 1);
    assert_failed(s->ab, GLOO_ERR_PROTOCOL, "data was modified in transit");
    assert_int_equal(s->ab->received,
                     before + (message_first && !takes ? 1 : 0));
    scene_close(s);
  }
}

/* The queue is longer than one poll reads, and than TLS reads ahead. */
static void long_queues_arrive(void **state) {
  enum { MESSAGES = 24 };
  static gli_send_request requests[MESSAGES];
  (void)state;
  for (int streams = 1; streams <= 2; streams++) {
    setting x = by_secret;
    x.streams = streams;
    scene *s = scene_open(&x);
    connect_streams(s, streams);
    int before = s->ba->received;
    for (int i = 0; i < MESSAGES; i++)
      har_send(s->ab, &requests[i], (uint32_t)i, large,
               i % 3 == 2 ? (size_t)i : HAR_BYTES);
    har_until(&s->b, &s->a, &s->ba->received, before + MESSAGES);
    assert_memory_equal(s->ba->data, large, s->ba->header.length);
    har_until(&s->a, &s->b, &s->ab->sent, 1);
    assert_int_equal(s->ab->failed + s->ba->failed, 0);
    scene_close(s);
  }
}

/* ---- sockets that take little -------------------------------------------- */

static void set_room(har_pair *pair, int streams, int room) {
  for (int i = 0; i < streams; i++) {
    assert_int_equal(setsockopt(socket_of(pair, i), SOL_SOCKET, SO_SNDBUF,
                                &room, sizeof room),
                     0);
  }
}

static void what_a_closed_pair_has_left_arrives(void **state) {
  enum { MESSAGES = 400 };
  static gli_send_request requests[MESSAGES];
  (void)state;
  for (int i = 0; i < 6; i++) {
    setting x = i % 2 ? by_secret : by_certificate;
    x.streams = 1 + i / 2;
    scene *s = scene_open(&x);
    connect_streams(s, x.streams);
    set_room(s->ab, x.streams, 2000);
    int before = s->ba->received, sent = 0;
    for (; sent < MESSAGES; sent++) {
      size_t bytes = (size_t)(sent * 97 % 9000);
      gli_post post =
          har_send(s->ab, &requests[sent], (uint32_t)sent, large, bytes);
      gli_header now = expected(5, 8);
      if (post == GLI_POST_DONE && sent % 3 == 0 &&
          gli_transport_tcp.send_now(s->ab->pair, &now, "send_now"))
        before++;
    }
    har_pair_close(s->ab, GLI_MESSAGE_BYE);
    har_until(&s->b, &s->a, &s->ba->byes, 1);
    assert_int_equal(s->ba->received, before + MESSAGES + 1);
    assert_int_equal(s->ba->failed, 0);
    scene_close(s);
  }
}

static void what_is_kept_is_owed(void **state) {
  enum { MESSAGES = 2000 };
  static gli_send_request requests[MESSAGES];
  scene *s = scene_open(&by_secret);
  int sent = 0, before;
  (void)state;
  connect_streams(s, 1);
  set_room(s->ab, 1, 2000);
  before = s->ba->received;
  assert_int_equal(s->a.owed, 0);
  while (sent < MESSAGES &&
         har_send(s->ab, &requests[sent++], 0, large, 700) == GLI_POST_DONE)
    if (gli_tcp_stream_keeps(&((gli_tcp_pair *)s->ab->pair)->stream[0]))
      assert_int_not_equal(s->a.owed, 0);
  assert_true(sent < MESSAGES);
  har_until(&s->b, &s->a, &s->ba->received, before + sent);
  har_poll(&s->a, &s->b, 5);
  assert_int_equal(s->a.owed, 0);
  scene_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_talk_by_all_kinds),
      cmocka_unit_test(both_may_begin_at_once),
      cmocka_unit_test(other_kinds_are_refused_and_told),
      cmocka_unit_test(other_secret_is_refused_and_told),
      cmocka_unit_test(certificate_of_another_rank_is_refused_and_told),
      cmocka_unit_test(strangers_open_nothing),
      cmocka_unit_test(plain_hello_is_told_of_the_difference),
      cmocka_unit_test(silent_crowd_keeps_nobody_out),
      cmocka_unit_test(later_in_clear_is_not_final),
      cmocka_unit_test(rank_that_is_not_ready_is_asked_again),
      cmocka_unit_test(later_for_ever_does_not_hide_the_peer),
      cmocka_unit_test(nothing_but_refusals_is_believed_in_clear),
      cmocka_unit_test(handshakes_may_come_in_pieces),
      cmocka_unit_test(changed_bits_are_seen_by_who_reads_them),
      cmocka_unit_test(replayed_handshake_opens_nothing),
      cmocka_unit_test(messages_behind_one_that_is_taken_come_without_more),
      cmocka_unit_test(garbage_is_met_without_more),
      cmocka_unit_test(long_queues_arrive),
      cmocka_unit_test(what_a_closed_pair_has_left_arrives),
      cmocka_unit_test(what_is_kept_is_owed),
  };
  gloo_log_set_level(GLOO_LOG_OFF);
  for (size_t i = 0; i < sizeof large; i++)
    large[i] = (uint8_t)(i * 31 + i / 256);
  return cmocka_run_group_tests(tests, set_up_settings, tear_down_settings);
}
