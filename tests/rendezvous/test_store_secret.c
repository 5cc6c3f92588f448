/* A TCP store whose clients need a secret: clients with and without it, and a
 * man in the middle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/gloo_c.h"
#include "raw.h"
#include "rendezvous/store/tcp/tcp_auth.h"

#define SECOND INT64_C(1000000000)
#define JOB "job-of-this-test"

static const char secret[16] = "0123456789abcde", other[16] = "123456789abcdef";

/* ---- stores -------------------------------------------------------------- */

static int64_t patience_ns = 20 * SECOND;

static gloo_status open_store(const char *its, const char *job, uint16_t port,
                              gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = "127.0.0.1";
  o.port = port;
  o.serve = port == 0;
  o.job = job;
  o.timeout_ns = patience_ns;
  o.secret = its;
  o.secret_bytes = its != NULL ? sizeof secret : 0;
  return gloo_store_tcp_create(&o, store, error);
}

static gloo_store *store_of(const char *its, uint16_t port) {
  gloo_error e;
  gloo_store *store;
  if (open_store(its, JOB, port, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return store;
}

static void expect_refused(const char *its, const char *job, uint16_t port,
                           const char *why) {
  gloo_error e;
  gloo_store *store;
  assert_int_equal(open_store(its, job, port, &store, &e), GLOO_ERR_AUTH);
  if (strstr(e.message, why) == NULL) fail_msg("%s", e.message);
  assert_null(strstr(e.message, secret));
}

static void expect_holds(gloo_store *store, const char *key, const char *text) {
  gloo_value value;
  assert_int_equal(gloo_store_get(store, key, SECOND, &value, NULL), GLOO_OK);
  assert_int_equal(value.bytes, strlen(text));
  assert_memory_equal(value.data, text, value.bytes);
  free(value.data);
}

static void expect_absent(gloo_store *store, const char *key) {
  gloo_value value;
  assert_int_equal(gloo_store_get(store, key, GLOO_TIMEOUT_NOW, &value, NULL),
                   GLOO_ERR_TIMEOUT);
}

static void who_knows_it_comes_in(void **state) {
  (void)state;
  gloo_store *server = store_of(secret, 0);
  gloo_store *client = store_of(secret, gloo_store_tcp_port(server));
  assert_int_equal(gloo_store_set(client, "k", "v", 1, NULL), GLOO_OK);
  expect_holds(server, "k", "v");
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

static void long_values_have_tags_as_well(void **state) {
  (void)state;
  gloo_value value;
  gloo_store *server = store_of(secret, 0);
  gloo_store *client = store_of(secret, gloo_store_tcp_port(server));
  uint8_t *data = calloc(1, GLOO_STORE_VALUE_MAX);
  assert_non_null(data);
  data[GLOO_STORE_VALUE_MAX - 1] = 7;
  assert_int_equal(
      gloo_store_set(client, "k", data, GLOO_STORE_VALUE_MAX, NULL), GLOO_OK);
  assert_int_equal(gloo_store_get(client, "k", SECOND, &value, NULL), GLOO_OK);
  assert_int_equal(value.bytes, GLOO_STORE_VALUE_MAX);
  assert_memory_equal(value.data, data, value.bytes);
  free(value.data);
  free(data);
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

static atomic_int wrong_secrets;

static void count_wrong_secrets(gloo_log_level level, const char *line,
                                void *user) {
  (void)level;
  (void)user;
  if (strstr(line, "wrong job secret (or a rank of another job)") != NULL)
    atomic_fetch_add(&wrong_secrets, 1);
}

static void who_does_not_stays_outside(void **state) {
  (void)state;
  gloo_log_set_level(GLOO_LOG_DEBUG);
  gloo_log_set_sink(count_wrong_secrets, NULL);
  gloo_store *server = store_of(secret, 0), *open = store_of(NULL, 0);
  uint16_t port = gloo_store_tcp_port(server);
  expect_refused(NULL, JOB, port, "requires the job secret");
  expect_refused(other, JOB, port, "a different secret");
  expect_refused(secret, "job", port, "another job");
  expect_refused(secret, JOB, gloo_store_tcp_port(open), "did not prove");
  gloo_store_destroy(open);
  gloo_store_destroy(server);
  gloo_log_set_sink(NULL, NULL);
  gloo_log_set_level(GLOO_LOG_WARN);
  assert_true(atomic_load(&wrong_secrets) > 0);
}

static void the_environment_has_one_as_well(void **state) {
  (void)state;
  setenv("GLOO_JOB_SECRET", "30313233343536373839616263646500", 1);
  gloo_store *server = store_of(NULL, 0);
  unsetenv("GLOO_JOB_SECRET");
  gloo_store *client = store_of(secret, gloo_store_tcp_port(server));
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

static void it_can_be_required(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  setenv("GLOO_SECURITY", "require", 1);
  gloo_status status = open_store(NULL, JOB, 0, &store, &e);
  unsetenv("GLOO_SECURITY");
  assert_int_equal(status, GLOO_ERR_AUTH);
}

/* ---- strangers ----------------------------------------------------------- */

enum {
  HELLO_BYTES = 8 + 16 + GLI_NONCE_BYTES,
  CHALLENGE_BYTES = 8 + GLI_NONCE_BYTES + GLI_TAG_BYTES,
  PROOF_BYTES = 8 + GLI_TAG_BYTES
};

static void raw_read(int fd, void *to, size_t bytes) {
  uint8_t *at = to;
  while (bytes > 0) {
    ssize_t n = read(fd, at, bytes);
    assert_true(n > 0);
    at += n;
    bytes -= (size_t)n;
  }
}

static void make_hello(gli_frame *frame) {
  static const uint8_t nonce[GLI_NONCE_BYTES];
  gli_frame_begin(frame, 64);
  gli_frame_put_u64(frame, GLI_TCP_MAGIC);
  gli_frame_put_u32(frame, GLI_TCP_VERSION);
  gli_frame_put_u32(frame, GLI_TCP_BY_KEY);
  gli_frame_put_bytes(frame, nonce, sizeof nonce);
  gli_frame_end(frame, GLI_TCP_HELLO);
}

/* Returns a connection that has received its challenge. */
static int greeted(uint16_t port, uint8_t challenge[CHALLENGE_BYTES]) {
  gli_frame hello;
  int fd = raw_connect(port);
  make_hello(&hello);
  raw_send(fd, hello.data, hello.bytes);
  raw_read(fd, challenge, CHALLENGE_BYTES);
  free(hello.data);
  return fd;
}

/* Sends this in place of the proof, and expects to be dropped. */
static void expect_dropped(uint16_t port, uint32_t op, const void *body,
                           size_t bytes, const void *tag) {
  uint8_t challenge[CHALLENGE_BYTES];
  gli_frame frame;
  int fd = greeted(port, challenge);
  gli_frame_begin(&frame, 64);
  gli_frame_put_bytes(&frame, body, bytes);
  gli_frame_end(&frame, op);
  gli_frame_put_bytes(&frame,
                      tag != NULL ? tag : challenge + 8 + GLI_NONCE_BYTES,
                      GLI_TAG_BYTES);
  raw_send(fd, frame.data, frame.bytes);
  raw_expect_closed(fd);
  free(frame.data);
}

static void a_stranger_is_dropped(void **state) {
  static const uint8_t zeros[200];
  (void)state;
  gloo_store *server = store_of(secret, 0);
  uint16_t port = gloo_store_tcp_port(server);
  gloo_log_set_level(GLOO_LOG_OFF);
  expect_dropped(port, GLI_TCP_PROVE, NULL, 0, zeros);  /* a tag of zeros */
  expect_dropped(port, GLI_TCP_PROVE, NULL, 0, NULL);   /* reflected */
  expect_dropped(port, GLI_TCP_PROVE, zeros, 16, NULL); /* surplus bytes */
  expect_dropped(port, GLI_TCP_HELLO, zeros, 32, NULL);
  expect_dropped(port, GLI_TCP_SET, "\2\0\0\0k\0\1\0\0\0v", 11, NULL);
  expect_dropped(port, GLI_TCP_PROVE, zeros, sizeof zeros, NULL);
  gloo_log_set_level(GLOO_LOG_WARN);
  expect_absent(server, "k");
  gloo_store *client = store_of(secret, port);
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

/* ---- a squatter on the server's port ------------------------------------- */

typedef struct squatter {
  int listener;
  const void *answer;
  size_t bytes;
  bool reflects; /* sends the client's nonce and tag back */
  uint8_t heard[256];
  ssize_t heard_bytes;
} squatter;

static void squat(void *argument) {
  squatter *s = argument;
  int fd = accept(s->listener, NULL, NULL);
  raw_read(fd, s->heard, HELLO_BYTES);
  if (s->reflects) {
    uint8_t reply[CHALLENGE_BYTES] = {GLI_NONCE_BYTES + GLI_TAG_BYTES};
    memcpy(reply + 8, s->heard + 24, GLI_NONCE_BYTES);
    memcpy(reply + 24, s->heard + 24, GLI_TAG_BYTES);
    raw_send(fd, reply, sizeof reply);
  } else {
    raw_send(fd, s->answer, s->bytes);
  }
  s->heard_bytes = recv(fd, s->heard + HELLO_BYTES,
                        sizeof s->heard - HELLO_BYTES, MSG_WAITALL);
  close(fd);
}

static void expect_nothing_told(squatter s) {
  uv_thread_t thread;
  uint16_t port;
  s.listener = raw_listen(&port);
  assert_int_equal(uv_thread_create(&thread, squat, &s), 0);
  expect_refused(secret, JOB, port, "secret");
  uv_thread_join(&thread);
  close(s.listener);
  assert_int_equal(s.heard_bytes, 0);
  for (size_t i = 0; i + sizeof JOB - 1 <= HELLO_BYTES; i++)
    assert_memory_not_equal(s.heard + i, JOB, sizeof JOB - 1);
}

static void a_squatter_is_told_nothing(void **state) {
  static const uint8_t yes[8],
      challenge[CHALLENGE_BYTES] = {GLI_NONCE_BYTES + GLI_TAG_BYTES};
  static const uint8_t no[8] = {0, 0, 0, 0, -GLOO_ERR_AUTH};
  (void)state;
  expect_nothing_told((squatter){.answer = yes, .bytes = sizeof yes});
  expect_nothing_told((squatter){.answer = no, .bytes = sizeof no});
  expect_nothing_told(
      (squatter){.answer = challenge, .bytes = sizeof challenge});
  expect_nothing_told((squatter){.reflects = true});
}

/* ---- a man in the middle ------------------------------------------------- */

/* Forwards between a client and the server, but flips a bit in one byte of the
 * client (`from` 0) or of the server (1). */
typedef struct between {
  uint16_t server;
  int listener;
  int from;
  size_t changed; /* index of the byte to change; SIZE_MAX: none */
  uint8_t said[1024];
  size_t n_said; /* bytes from the client */
} between;

static bool pass_on(between *b, int from, const int fds[2], size_t *passed) {
  uint8_t bytes[512];
  ssize_t n = read(fds[from], bytes, sizeof bytes);
  if (n <= 0) return false;
  size_t end = *passed + (size_t)n;
  if (b->from == from && b->changed >= *passed && b->changed < end)
    bytes[b->changed - *passed] ^= 1;
  *passed = end;
  if (from == 0 && b->n_said + (size_t)n <= sizeof b->said) {
    memcpy(b->said + b->n_said, bytes, (size_t)n);
    b->n_said += (size_t)n;
  }
  return send(fds[1 - from], bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void stand_between(void *argument) {
  between *b = argument;
  size_t passed[2] = {0, 0};
  int fds[2] = {accept(b->listener, NULL, NULL), raw_connect(b->server)};
  for (bool on = true; on;) {
    struct pollfd ready[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    if (poll(ready, 2, 30000) <= 0) break;
    for (int i = 0; i < 2 && on; i++)
      if (ready[i].revents != 0) on = pass_on(b, i, fds, &passed[i]);
  }
  close(fds[0]);
  close(fds[1]);
}

/* Sets a key through the man in the middle and returns the status. */
static gloo_status set_through(between *b) {
  uv_thread_t thread;
  uint16_t port;
  gloo_store *client;
  b->listener = raw_listen(&port);
  patience_ns = b->changed == SIZE_MAX ? 20 * SECOND : SECOND / 5;
  assert_int_equal(uv_thread_create(&thread, stand_between, b), 0);
  gloo_status status = open_store(secret, JOB, port, &client, NULL);
  if (status == GLOO_OK) {
    status = gloo_store_set(client, "k", "v", 1, NULL);
    gloo_store_destroy(client);
  }
  uv_thread_join(&thread);
  close(b->listener);
  patience_ns = 20 * SECOND;
  return status;
}

static void what_is_changed_is_not_taken(void **state) {
  (void)state;
  gloo_store *server = store_of(secret, 0);
  between b = {.server = gloo_store_tcp_port(server), .changed = SIZE_MAX};
  assert_int_equal(set_through(&b), GLOO_OK);
  expect_holds(server, "k", "v");
  assert_int_equal(gloo_store_delete(server, "k", NULL), GLOO_OK);
  size_t said = b.n_said;
  gloo_log_set_level(GLOO_LOG_OFF);
  /* A larger length makes the receiver wait, so bytes of lengths are
   * skipped. */
  for (size_t i = 8; i < said; i++) {
    size_t in_set = i - HELLO_BYTES - PROOF_BYTES;
    if ((i >= HELLO_BYTES && i < HELLO_BYTES + 4) ||
        (i >= HELLO_BYTES + PROOF_BYTES && in_set < 4))
      continue;
    b.changed = i;
    b.n_said = 0;
    assert_int_not_equal(set_through(&b), GLOO_OK);
    expect_absent(server, "k");
  }
  b.from = 1;
  for (size_t i = 4; i < CHALLENGE_BYTES + PROOF_BYTES + 8; i++) {
    if (i >= CHALLENGE_BYTES && (i - CHALLENGE_BYTES) % PROOF_BYTES < 4)
      continue;
    b.changed = i;
    assert_int_not_equal(set_through(&b), GLOO_OK);
    if (i < CHALLENGE_BYTES + PROOF_BYTES) expect_absent(server, "k");
    (void)gloo_store_delete(server, "k", NULL);
  }
  gloo_log_set_level(GLOO_LOG_WARN);
  gloo_store_destroy(server);
}

/* A recording of a whole conversation is replayed on another connection. */
static void what_was_heard_is_of_no_use(void **state) {
  (void)state;
  gloo_store *server = store_of(secret, 0);
  between b = {.server = gloo_store_tcp_port(server), .changed = SIZE_MAX};
  assert_int_equal(set_through(&b), GLOO_OK);
  assert_int_equal(gloo_store_delete(server, "k", NULL), GLOO_OK);
  gloo_log_set_level(GLOO_LOG_OFF);
  int fd = raw_connect(b.server);
  raw_send(fd, b.said, b.n_said);
  raw_expect_closed(fd);
  gloo_log_set_level(GLOO_LOG_WARN);
  expect_absent(server, "k");
  gloo_store_destroy(server);
}

/* ---- frames -------------------------------------------------------------- */

static void make_frame(gli_frame *frame, const char *text) {
  gli_frame_begin(frame, 64);
  gli_frame_put_key(frame, text);
  gli_frame_end(frame, GLI_TCP_REMOVE);
}

static bool frame_holds(gli_tcp_seal *seal, const gli_frame *frame) {
  return gli_tcp_seal_holds(seal, frame->data, frame->data + GLI_TCP_HEAD_BYTES,
                            frame->bytes - GLI_TCP_HEAD_BYTES - GLI_TAG_BYTES);
}

static void frames_come_once_and_in_order(void **state) {
  static const gli_key key = {{1}};
  static const gli_tcp_nonces nonces = {{2}, {3}};
  gli_tcp_seal *client, *server, *late;
  gli_frame one, two;
  (void)state;
  assert_int_equal(gli_tcp_seal_create(&key, false, &nonces, &client, NULL),
                   GLOO_OK);
  assert_int_equal(gli_tcp_seal_create(&key, true, &nonces, &server, NULL),
                   GLOO_OK);
  assert_int_equal(gli_tcp_seal_create(&key, true, &nonces, &late, NULL),
                   GLOO_OK);
  make_frame(&one, "one");
  make_frame(&two, "two");
  gli_tcp_seal_frame(client, &one);
  gli_tcp_seal_frame(client, &two);
  assert_true(frame_holds(server, &one));
  assert_false(frame_holds(client, &one)); /* reflected */
  assert_false(frame_holds(server, &one)); /* twice */
  assert_false(frame_holds(late, &two));   /* the previous frame is missing */
  free(one.data);
  free(two.data);
  gli_tcp_seal_destroy(client);
  gli_tcp_seal_destroy(server);
  gli_tcp_seal_destroy(late);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_knows_it_comes_in),
      cmocka_unit_test(long_values_have_tags_as_well),
      cmocka_unit_test(who_does_not_stays_outside),
      cmocka_unit_test(the_environment_has_one_as_well),
      cmocka_unit_test(it_can_be_required),
      cmocka_unit_test(a_stranger_is_dropped),
      cmocka_unit_test(a_squatter_is_told_nothing),
      cmocka_unit_test(what_is_changed_is_not_taken),
      cmocka_unit_test(what_was_heard_is_of_no_use),
      cmocka_unit_test(frames_come_once_and_in_order),
  };
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  if (gli_openssl_version() == NULL) {
    print_message("1..0 # SKIP this build has no OpenSSL\n");
    return 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
