/* The client of c10d stores against faulty servers: short replies, surplus
 * bytes, invalid bytes, silence. tests/python/test_c10d_store.py tests it
 * against a real server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "kinds.h"
#include "raw.h"
#include "rendezvous/store/store_url.h"
#include "tcp_help.h"

/* ---- a server that follows a script -------------------------------------- */

enum { REPLY_BYTES = 64, STEPS_MAX = 12, VISITS_MAX = 8 };

/* One step of the server: reads a request and sends these bytes. */
typedef struct step {
  size_t bytes;
  uint8_t data[REPLY_BYTES];
} step;

/* The steps on one connection. */
typedef struct visit {
  bool greeting_is_mine; /* the first step answers the greeting */
  bool hold;             /* then stay silent until the client closes */
  int n;
  step steps[STEPS_MAX];
} visit;

typedef struct actor {
  uint16_t port;
  int listener;
  int n;
  visit visits[VISITS_MAX];
  int before_listening_ms;
  uv_thread_t thread;
} actor;

static visit *act(actor *a, bool hold) {
  visit *v = &a->visits[a->n++];
  v->hold = hold;
  return v;
}

static step *reply(visit *v) {
  return &v->steps[v->n++];
}

static void put(step *s, const void *data, size_t bytes) {
  assert_true(s->bytes + bytes <= sizeof(s->data));
  memcpy(s->data + s->bytes, data, bytes);
  s->bytes += bytes;
}

static void put_u8(step *s, uint8_t value) {
  put(s, &value, sizeof(value));
}

static void put_u64(step *s, uint64_t value) {
  put(s, &value, sizeof(value));
}

static void put_text(step *s, const char *text) {
  put_u64(s, strlen(text));
  put(s, text, strlen(text));
}

/* Replies to a get that succeeds: WAIT, MULTI_GET and the COUNT after it. */
static void reply_to_get(visit *v, const char *value) {
  put_u8(reply(v), 0);
  step *s = reply(v);
  put_text(s, value);
  put_u64(s, 1);
}

static bool read_all(int fd, uint8_t *to, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = recv(fd, to, bytes, 0);
    if (n <= 0) return false;
    to += n;
    bytes -= (size_t)n;
  }
  return true;
}

static void perform(int fd, const visit *v) {
  uint8_t greeting[10], request[4096];
  int next = 0;
  if (!read_all(fd, greeting, sizeof(greeting))) return;
  if (!v->greeting_is_mine) raw_send(fd, greeting + 6, 4);
  for (; next < v->n; next++) {
    if ((next > 0 || !v->greeting_is_mine) &&
        recv(fd, request, sizeof(request), 0) <= 0)
      return;
    raw_send(fd, v->steps[next].data, v->steps[next].bytes);
  }
  if (!v->hold) return;
  while (recv(fd, request, sizeof(request), 0) > 0) {
  }
}

static void actor_main(void *argument) {
  actor *a = argument;
  if (a->before_listening_ms > 0) {
    uv_sleep((unsigned)a->before_listening_ms);
    listen(a->listener, 8);
  }
  for (int i = 0; i < a->n; i++) {
    int fd = accept(a->listener, NULL, NULL);
    perform(fd, &a->visits[i]);
    close(fd);
  }
}

static void actor_start(actor *a) {
  if (a->listener == 0) a->listener = raw_listen(&a->port);
  assert_int_equal(uv_thread_create(&a->thread, actor_main, a), 0);
}

/* Waits until the server has played all its steps. */
static void actor_end(actor *a) {
  uv_thread_join(&a->thread);
  close(a->listener);
}

/* ---- the client ---------------------------------------------------------- */

static gloo_status open_at(uint16_t port, int64_t timeout_ns,
                           gloo_store **store, gloo_error *error) {
  gli_store_url *url = calloc(1, sizeof(*url));
  assert_non_null(url);
  url->scheme = "c10d";
  url->user = url->password = url->path = "";
  url->host = "127.0.0.1";
  url->port = port;
  gloo_status status = gli_store_c10d_open(url, timeout_ns, store, error);
  free(url);
  return status;
}

static gloo_store *opened(actor *a) {
  gloo_store *store;
  gloo_error e;
  actor_start(a);
  if (open_at(a->port, LONG_TIME, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return store;
}

/* Fails unless the call failed with `wanted` and the message names the
 * store. */
static void expect_failure(gloo_status status, gloo_status wanted,
                           const gloo_error *error, uint16_t port,
                           const char *word) {
  if (status != wanted)
    fail_msg("%s instead of %s: %s", gloo_status_string(status),
             gloo_status_string(wanted),
             status == GLOO_OK ? "" : error->message);
  assert_int_equal(error->status, wanted);
  expect_address(error, port);
  expect_message(error, "c10d");
  expect_message(error, word);
}

static void expect_got(gloo_store *store, const char *text) {
  gloo_value value;
  gloo_error e;
  if (gloo_store_get(store, "k", LONG_TIME, &value, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  assert_int_equal(value.bytes, strlen(text));
  if (value.bytes > 0) assert_memory_equal(value.data, text, value.bytes);
  free(value.data);
}

/* ---- opening ------------------------------------------------------------- */

static void urls_that_cannot_be_are_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  gli_store_url *url = calloc(1, sizeof(*url));
  (void)state;
  assert_non_null(url);
  url->user = url->password = url->path = "";
  url->host = "127.0.0.1";
  assert_int_equal(gli_store_c10d_open(url, LONG_TIME, &store, &e),
                   GLOO_ERR_INVALID);
  expect_message(&e, "needs a host and a port");
  url->port = 1;
  url->password = "secret";
  assert_int_equal(gli_store_c10d_open(url, LONG_TIME, &store, &e),
                   GLOO_ERR_INVALID);
  expect_message(&e, "127.0.0.1");
  assert_null(strstr(e.message, "secret"));
  url->password = "";
  /* A label of more than 63 characters is refused without a DNS query. */
  url->host =
      "a0123456789a0123456789a0123456789a0123456789a0123456789a0123456789a0123"
      ".invalid";
  assert_int_equal(gli_store_c10d_open(url, SHORT_TIME, &store, &e),
                   GLOO_ERR_ADDRESS);
  expect_message(&e, "the c10d store's host 'a0123456789");
  free(url);
}

static void a_server_may_come_later(void **state) {
  struct sockaddr_in address;
  socklen_t bytes = sizeof(address);
  actor a = {.before_listening_ms = 100};
  (void)state;
  memset(&address, 0, sizeof(address));
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(
      bind(a.listener, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(getsockname(a.listener, (struct sockaddr *)&address, &bytes),
                   0);
  a.port = ntohs(address.sin_port);
  gloo_store *store;
  gloo_error e;
  expect_failure(open_at(a.port, SHORT_TIME, &store, &e), GLOO_ERR_TIMEOUT, &e,
                 a.port, "tried for 50 ms");
  reply_to_get(act(&a, true), "late");
  store = opened(&a);
  expect_got(store, "late");
  gloo_store_destroy(store);
  actor_end(&a);
}

/* Opens a store on a server that greets wrongly, and expects a failure. */
static void expect_no_server(const char *answer, size_t bytes, bool hold,
                             gloo_status wanted, const char *word) {
  actor a = {0};
  gloo_store *store;
  gloo_error e;
  visit *v = act(&a, hold);
  v->greeting_is_mine = true;
  if (bytes > 0) put(reply(v), answer, bytes);
  actor_start(&a);
  int64_t timeout_ns = wanted == GLOO_ERR_TIMEOUT ? SHORT_TIME : LONG_TIME;
  expect_failure(open_at(a.port, timeout_ns, &store, &e), wanted, &e, a.port,
                 word);
  actor_end(&a);
}

static void servers_of_something_else_are_recognised(void **state) {
  static const char page[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
  (void)state;
  expect_no_server(page, sizeof(page) - 1, false, GLOO_ERR_PROTOCOL,
                   "is not a server of a c10d store");
  expect_no_server("\0\xce\xf7\x85", 4, true, GLOO_ERR_PROTOCOL,
                   "is not a server of a c10d store");
  expect_no_server("gl", 2, true, GLOO_ERR_TIMEOUT, "did not answer in time");
  expect_no_server("", 0, true, GLOO_ERR_TIMEOUT, "did not answer in time");
}

static void a_server_that_hangs_up_is_tried_again(void **state) {
  actor a = {0};
  (void)state;
  act(&a, false)->greeting_is_mine = true;
  act(&a, false)->greeting_is_mine = true;
  reply_to_get(act(&a, true), "at last");
  gloo_store *store = opened(&a);
  expect_got(store, "at last");
  gloo_store_destroy(store);
  actor_end(&a);
}

/* ---- wrong answers ------------------------------------------------------- */

typedef enum request {
  SET,
  GET,
  WAIT,
  NOW,
  ADD,
  COMPARE,
  APPEND,
  REMOVE
} request;

static gloo_status ask(gloo_store *store, request what, gloo_error *error) {
  const char *key = "k";
  gloo_value value = {NULL, 0};
  int64_t sum;
  gloo_status status = GLOO_OK;
  switch (what) {
    case SET:
      return gloo_store_set(store, key, "v", 1, error);
    case GET:
      status = gloo_store_get(store, key, LONG_TIME, &value, error);
      break;
    case WAIT:
      return gloo_store_wait(store, &key, 1, SHORT_TIME, error);
    case NOW:
      return gloo_store_wait(store, &key, 1, GLOO_TIMEOUT_NOW, error);
    case ADD:
      return gloo_store_add(store, key, 1, &sum, error);
    case COMPARE:
      status = gloo_store_compare_and_set(store, key, NULL, 0, "v", 1, &value,
                                          error);
      break;
    case APPEND:
      return gloo_store_append(store, key, "v", 1, error);
    case REMOVE:
      return gloo_store_delete(store, key, error);
  }
  if (status == GLOO_OK) free(value.data);
  return status;
}

/* Makes one request to a server that plays these steps on its first connection
 * and then ends; expects a failure. */
static void expect_wrong(actor *a, request what, gloo_status wanted,
                         const char *word) {
  gloo_error e;
  gloo_store *store = opened(a);
  expect_failure(ask(store, what, &e), wanted, &e, a->port, word);
  gloo_store_destroy(store);
  actor_end(a);
}

static void replies_that_end_in_the_middle_are_errors(void **state) {
  static const request all[] = {SET, WAIT, NOW, ADD, COMPARE, APPEND, REMOVE};
  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    /* CHECK and WAIT have replies of one byte. */
    size_t most = all[i] == WAIT || all[i] == NOW ? 0 : 7;
    for (size_t bytes = 0; bytes <= most; bytes++) {
      static const uint8_t zeros[8];
      actor a = {0};
      put(reply(act(&a, false)), zeros, bytes);
      expect_wrong(&a, all[i], GLOO_ERR_PEER, "closed");
    }
  }
}

static void values_that_end_in_the_middle_are_errors(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes < 20; bytes++) {
    actor a = {0};
    uint8_t whole[20];
    const uint64_t length = sizeof(whole) - sizeof(length);
    memset(whole, 'v', sizeof(whole));
    memcpy(whole, &length, sizeof(length));
    put(reply(act(&a, false)), whole, bytes);
    expect_wrong(&a, ADD, GLOO_ERR_PEER, "closed");
  }
}

static void lengths_that_cannot_be_are_errors(void **state) {
  static const uint64_t lengths[] = {GLOO_STORE_VALUE_MAX + 1, UINT32_MAX,
                                     UINT64_C(1) << 60, UINT64_MAX};
  (void)state;
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    actor a = {0};
    put_u64(reply(act(&a, true)), lengths[i]);
    expect_wrong(&a, APPEND, GLOO_ERR_INVALID, "the limit is 8388608");
    memset(&a, 0, sizeof(a));
    visit *v = act(&a, true);
    put_u8(reply(v), 0);
    put_u64(reply(v), lengths[i]);
    expect_wrong(&a, GET, GLOO_ERR_INVALID, "the limit is 8388608");
  }
}

static void answers_that_do_not_exist_are_errors(void **state) {
  actor a = {0};
  (void)state;
  put_u8(reply(act(&a, true)), 7);
  expect_wrong(&a, GET, GLOO_ERR_PROTOCOL, "an invalid reply");
  memset(&a, 0, sizeof(a));
  put_u8(reply(act(&a, true)), 1); /* canceled, without a CANCEL_WAIT */
  expect_wrong(&a, GET, GLOO_ERR_PROTOCOL, "an invalid reply");
  memset(&a, 0, sizeof(a));
  put_u8(reply(act(&a, true)), 2);
  expect_wrong(&a, NOW, GLOO_ERR_PROTOCOL, "an invalid reply");
  memset(&a, 0, sizeof(a));
  put_u64(reply(act(&a, true)), 2);
  expect_wrong(&a, REMOVE, GLOO_ERR_PROTOCOL, "an invalid reply");
  memset(&a, 0, sizeof(a));
  put_u64(reply(act(&a, true)), UINT64_MAX);
  expect_wrong(&a, REMOVE, GLOO_ERR_PROTOCOL, "an invalid reply");
  memset(&a, 0, sizeof(a));
  visit *v = act(&a, true); /* WAIT runs out of time; CANCEL_WAIT */
  reply(v);
  put_u8(reply(v), 9);
  expect_wrong(&a, WAIT, GLOO_ERR_PROTOCOL, "an invalid reply");
}

static void an_answer_before_the_request_is_an_error(void **state) {
  actor a = {0};
  gloo_error e;
  (void)state;
  const int little = 4096; /* else the first value may fit */
  a.listener = raw_listen(&a.port);
  assert_int_equal(
      setsockopt(a.listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
  put_u64(reply(act(&a, true)), 1); /* answers the first 4,096 bytes */
  gloo_store *store = opened(&a);
  char *big = calloc(1, GLOO_STORE_VALUE_MAX);
  assert_non_null(big);
  gloo_value values[8];
  const char *keys[8];
  for (int i = 0; i < 8; i++) {
    keys[i] = "k";
    values[i] = (gloo_value){big, GLOO_STORE_VALUE_MAX};
  }
  /* Exceeds all buffers between the client and the server. */
  gloo_status status = gloo_store_multi_set(store, keys, values, 8, &e);
  assert_true(status == GLOO_ERR_PROTOCOL || status == GLOO_ERR_PEER);
  expect_address(&e, a.port);
  free(big);
  gloo_store_destroy(store);
  actor_end(&a);
}

/* Otherwise the surplus would be taken for the reply to the next request. */
static void a_connection_that_says_more_is_not_used_again(void **state) {
  actor a = {0};
  gloo_error e;
  (void)state;
  step *s = reply(act(&a, true));
  put_u64(s, 1);
  put_u64(s, 1);
  put_u64(reply(act(&a, true)), 0);
  gloo_store *store = opened(&a);
  assert_int_equal(gloo_store_set(store, "k", "v", 1, &e), GLOO_OK);
  assert_int_equal(gloo_store_delete(store, "k", &e), GLOO_ERR_NOT_FOUND);
  gloo_store_destroy(store);
  actor_end(&a);
}

static void a_connection_that_has_ended_is_not_used_again(void **state) {
  actor a = {0};
  gloo_error e;
  (void)state;
  put_u64(reply(act(&a, false)), 1);
  reply_to_get(act(&a, true), "again");
  gloo_store *store = opened(&a);
  assert_int_equal(gloo_store_set(store, "k", "v", 1, &e), GLOO_OK);
  uv_sleep(50); /* not needed for success, but makes the connection idle */
  expect_got(store, "again");
  gloo_store_destroy(store);
  actor_end(&a);
}

/* ---- rare behaviour of correct servers ----------------------------------- */

static void keys_that_come_with_the_deadline_are_there(void **state) {
  actor a = {0};
  (void)state;
  visit *v = act(&a, true);
  reply(v); /* WAIT: no reply until CANCEL_WAIT */
  step *s = reply(v);
  put_u8(s, 0);        /* the keys had arrived */
  put_u8(s, 1);        /* canceled */
  put_u8(reply(v), 0); /* CHECK */
  gloo_store *store = opened(&a);
  assert_int_equal(ask(store, WAIT, NULL), GLOO_OK);
  gloo_store_destroy(store);
  actor_end(&a);
}

/* A key is deleted between WAIT and MULTI_GET. One implementation of the server
 * closes the connection; the other replies with an empty value, and the client
 * checks further. */
static void keys_that_go_are_awaited_again(void **state) {
  actor a = {0};
  (void)state;
  visit *v = act(&a, false);
  put_u8(reply(v), 0);
  reply(v);
  v = act(&a, true);
  put_u8(reply(v), 0); /* there */
  step *s = reply(v);
  put_text(s, ""); /* deleted, or empty */
  put_u64(s, 1);
  s = reply(v); /* COMPARE_SET: the key has another value by now */
  put_text(s, "back");
  put_u64(s, 1);
  gloo_store *store = opened(&a);
  expect_got(store, "back");
  gloo_store_destroy(store);
  actor_end(&a);
}

static void a_server_that_always_closes_is_given_up(void **state) {
  actor a = {0};
  gloo_error e;
  (void)state;
  for (int i = 0; i < 3; i++) {
    visit *v = act(&a, false);
    put_u8(reply(v), 0);
    reply(v);
  }
  gloo_store *store = opened(&a);
  expect_failure(ask(store, GET, &e), GLOO_ERR_PEER, &e, a.port, "closed");
  gloo_store_destroy(store);
  actor_end(&a);
}

static void tags_of_others_are_not_seen(void **state) {
  static const uint8_t tag[32] = {0xf1, 0x6d, 0x0b, 0xe4, 0x93, 0x2a,
                                  0x57, 0xc8, 0x1e, 0xb9, 0x70, 0xad,
                                  0x44, 0x8f, 0x35, 0xd2, 'x'};
  actor a = {0};
  gloo_error e;
  (void)state;
  visit *v = act(&a, true);
  put_u8(reply(v), 0);
  step *s = reply(v);
  put_u64(s, sizeof(tag) + 5);
  put(s, tag, sizeof(tag));
  put(s, "value", 5);
  put_u64(s, 1);
  gloo_store *store = opened(&a);
  expect_got(store, "value");
  assert_int_equal(gloo_store_set(store, "k", tag, sizeof(tag), &e),
                   GLOO_ERR_UNSUPPORTED);
  expect_address(&e, a.port);
  gloo_store_destroy(store);
  actor_end(&a);
}

/* ---- forks --------------------------------------------------------------- */

static int use_it_in_a_child(int index, void *argument) {
  gloo_store *store = argument;
  gloo_error e;
  (void)index;
  int wrong = gloo_store_set(store, "k", "v", 1, &e) != GLOO_ERR_FORKED;
  gloo_store_destroy(store);
  return wrong;
}

static void a_child_leaves_the_connections_alone(void **state) {
  actor a = {0};
  (void)state;
  reply_to_get(act(&a, true), "mine");
  gloo_store *store = opened(&a);
  assert_int_equal(child_wait(child_start(use_it_in_a_child, 0, store)), 0);
  expect_got(store, "mine");
  gloo_store_destroy(store);
  actor_end(&a);
}

/* ---- silence ------------------------------------------------------------- */

static void expect_impatience(request what, int64_t timeout_ns) {
  actor a = {0};
  gloo_store *store;
  gloo_error e;
  act(&a, true);
  actor_start(&a);
  if (open_at(a.port, timeout_ns, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  uint64_t before = uv_hrtime();
  expect_failure(ask(store, what, &e), GLOO_ERR_PEER, &e, a.port,
                 "did not answer in time");
  assert_true(uv_hrtime() - before < 30 * (uint64_t)SECOND);
  gloo_store_destroy(store);
  actor_end(&a);
}

/* The test takes the deadline plus the grace period for a slow server. */
static void silence_ends_with_the_deadline(void **state) {
  (void)state;
  expect_impatience(SET, 2 * SECOND);
  expect_impatience(WAIT, LONG_TIME);
  expect_impatience(NOW, LONG_TIME);
}

/* Tests that wait for a deadline of the library run separately, with an
 * argument. */
int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest tests[] = {
      TEST(urls_that_cannot_be_are_refused),
      TEST(a_server_may_come_later),
      TEST(servers_of_something_else_are_recognised),
      TEST(a_server_that_hangs_up_is_tried_again),
      TEST(replies_that_end_in_the_middle_are_errors),
      TEST(values_that_end_in_the_middle_are_errors),
      TEST(lengths_that_cannot_be_are_errors),
      TEST(answers_that_do_not_exist_are_errors),
      TEST(an_answer_before_the_request_is_an_error),
      TEST(a_connection_that_says_more_is_not_used_again),
      TEST(a_connection_that_has_ended_is_not_used_again),
      TEST(keys_that_come_with_the_deadline_are_there),
      TEST(keys_that_go_are_awaited_again),
      TEST(a_server_that_always_closes_is_given_up),
      TEST(tags_of_others_are_not_seen),
      TEST(a_child_leaves_the_connections_alone),
  };
  const struct CMUnitTest patient[] = {
      TEST(silence_ends_with_the_deadline),
  };
  test_warm_up();
  if (argc > 1) return cmocka_run_group_tests(patient, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
