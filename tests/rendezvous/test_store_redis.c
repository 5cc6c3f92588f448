/* Conditions of a store on a Redis server: passwords, servers that start late,
 * end, stop or reply with invalid bytes, and keys that disappear. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "kinds.h"
#include "raw.h"
#include "redis_server.h"
#include "rendezvous/store/redis_client.h"
#include "tcp_help.h"
#if WITH_PKI
#include "../security/pki.h"
#endif

#define PASSWORD "correct horse"

static double seconds_since(uint64_t begun) {
  return (double)(uv_hrtime() - begun) / 1e9;
}

static void expect_store_named(const gloo_error *e, uint16_t port) {
  char name[64];
  snprintf(name, sizeof(name), "the Redis store at 127.0.0.1:%u",
           (unsigned)port);
  expect_message(e, name);
}

/* Fails unless opening fails with this status, in a message without the
 * password. */
static void expect_refused(uint16_t port, const char *user,
                           const char *password, gloo_status status,
                           const char *word) {
  gloo_store *store;
  gloo_error e;
  gli_store_url url = redis_url(port, user, password, "p");
  uint64_t begun = uv_hrtime();
  gloo_status got = gli_store_redis_open(&url, false, LONG_TIME, &store, &e);
  if (got != status)
    fail_msg("%s: %s", gloo_status_string(got),
             got == GLOO_OK ? "opened" : e.message);
  expect_store_named(&e, port);
  expect_message(&e, word);
  if (password[0] != '\0') assert_null(strstr(e.message, password));
  assert_true(seconds_since(begun) < 60); /* no retry */
}

static gloo_store *open_as(uint16_t port, const char *user,
                           const char *password, const char *path,
                           int64_t timeout_ns) {
  gloo_store *store;
  gloo_error e;
  gli_store_url url = redis_url(port, user, password, path);
  if (gli_store_redis_open(&url, false, timeout_ns, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return store;
}

/* Calls every operation once. */
static void expect_all_operations(gloo_store *store) {
  gloo_error e = {0};
  int64_t sum = 0;
  const char *keys[] = {"still"};
  expect_served(store);
  if (gloo_store_add(store, "n", 3, &sum, &e) != GLOO_OK ||
      gloo_store_append(store, "log", "x", 1, &e) != GLOO_OK ||
      gloo_store_compare_and_set(store, "c", "", 0, "1", 1, NULL, &e) !=
          GLOO_OK ||
      gloo_store_wait(store, keys, 1, GLOO_TIMEOUT_NOW, &e) != GLOO_OK ||
      gloo_store_delete(store, "n", &e) != GLOO_OK)
    fail_msg("%s", e.message);
  assert_int_equal(sum, 3);
}

/* ---- passwords ----------------------------------------------------------- */

static void a_password_is_needed_and_not_told(void **state) {
  static const char *const settings[] = {"--requirepass", PASSWORD, NULL};
  (void)state;
  redis_server server = redis_server_start(settings);
  gloo_store *store = open_as(server.port, "", PASSWORD, "p", LONG_TIME);
  expect_all_operations(store);
  gloo_store_destroy(store);
  expect_refused(server.port, "", "wrong horse", GLOO_ERR_INVALID, "password");
  expect_refused(server.port, "bob", PASSWORD, GLOO_ERR_INVALID,
                 "user or password");
  expect_refused(server.port, "", "", GLOO_ERR_INVALID, "NOAUTH");
  redis_server_signal(&server, SIGKILL);
  server = redis_server_start(NULL);
  expect_refused(server.port, "", PASSWORD, GLOO_ERR_INVALID, "password");
  redis_server_signal(&server, SIGKILL);
}

static void a_user_needs_these_commands_and_its_keys_only(void **state) {
  static const char *const settings[] = {
      "--user",  "alice",     "on",      ">" PASSWORD, "~jobs/1/*", "+auth",
      "+exists", "+get",      "+set",    "+del",       "+eval",     "+incrby",
      "+strlen", "+append",   "+expire", "--user",     "carol",     "on",
      "nopass",  "~jobs/2/*", "+exists", "+get",       "+set",      NULL};
  gloo_error e;
  int64_t sum;
  gloo_value value;
  (void)state;
  redis_server server = redis_server_start(settings);
  gloo_store *store =
      open_as(server.port, "alice", PASSWORD, "jobs/1", LONG_TIME);
  expect_all_operations(store);
  gloo_store_destroy(store);
  expect_refused(server.port, "alice", PASSWORD, GLOO_ERR_INVALID, "NOPERM");
  store = open_as(server.port, "carol", "", "jobs/2", LONG_TIME);
  expect_served(store);
  assert_int_equal(gloo_store_add(store, "n", 1, &sum, &e), GLOO_ERR_INVALID);
  expect_message(&e, "NOPERM");
  expect_store_named(&e, server.port);
  /* The failure does not affect operations that the user may call. */
  assert_int_equal(gloo_store_get(store, "still", GLOO_TIMEOUT_NOW, &value, &e),
                   GLOO_OK);
  free(value.data);
  gloo_store_destroy(store);
  redis_server_signal(&server, SIGKILL);
}

/* ---- keys ---------------------------------------------------------------- */

/* Returns the reply to a command of two words. */
static long long ask_number(uint16_t port, const char *command,
                            const char *key) {
  gli_redis_client *client;
  gli_redis_connection *connection;
  gloo_error e;
  redisReply *reply;
  gli_store_url url = redis_url(port, "", "", "");
  gli_redis_command words = {0};
  assert_int_equal(gli_redis_client_create(&url, false, "the server", key,
                                           LONG_TIME, &client, &e),
                   GLOO_OK);
  assert_int_equal(gli_redis_client_take(client, UINT64_MAX, &connection, &e),
                   GLOO_OK);
  gli_redis_put_text(&words, command);
  gli_redis_put_text(&words, key);
  assert_int_equal(gli_redis_connection_send(connection, &words, &e), GLOO_OK);
  assert_int_equal(
      gli_redis_connection_receive(connection, UINT64_MAX, &reply, &e),
      GLOO_OK);
  assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
  long long number = reply->integer;
  freeReplyObject(reply);
  gli_redis_client_give(client, connection, true);
  gli_redis_client_destroy(client);
  return number;
}

static void expect_day(uint16_t port, const char *key) {
  assert_in_range(ask_number(port, "TTL", key), 86000, 86400);
}

static void keys_go_away_a_day_after_the_last_write(void **state) {
  gloo_value values[] = {{(void *)(uintptr_t) "1", 1}, {NULL, 0}};
  const char *keys[] = {"m1", "m2"};
  int64_t sum;
  (void)state;
  redis_server server = redis_server_start(NULL);
  gloo_store *store = redis_open(server.port, "a/b");
  for (int again = 0; again < 2; again++) {
    gloo_store_set(store, "set", "x", 1, NULL);
    gloo_store_multi_set(store, keys, values, 2, NULL);
    gloo_store_add(store, "add", 1, &sum, NULL);
    gloo_store_append(store, "append", "x", 1, NULL);
    gloo_store_compare_and_set(store, "compare", again ? "1" : "",
                               again ? 1 : 0, "1", 1, NULL, NULL);
    expect_day(server.port, "a/b/set");
    expect_day(server.port, "a/b/m1");
    expect_day(server.port, "a/b/m2");
    expect_day(server.port, "a/b/add");
    expect_day(server.port, "a/b/append");
    expect_day(server.port, "a/b/compare");
    ask_number(server.port, "PERSIST", "a/b/set");
    ask_number(server.port, "PERSIST", "a/b/add");
    ask_number(server.port, "PERSIST", "a/b/append");
    ask_number(server.port, "PERSIST", "a/b/compare");
    assert_int_equal(ask_number(server.port, "TTL", "a/b/add"), -1);
  }
  gloo_store_destroy(store);
  redis_server_signal(&server, SIGKILL);
}

static void other_paths_are_other_stores(void **state) {
  gloo_value value;
  (void)state;
  redis_server server = redis_server_start(NULL);
  gloo_store *one = redis_open(server.port, "one");
  gloo_store *two = redis_open(server.port, "two");
  gloo_store *none = redis_open(server.port, "");
  assert_int_equal(gloo_store_set(one, "k", "x", 1, NULL), GLOO_OK);
  assert_int_equal(gloo_store_get(two, "k", GLOO_TIMEOUT_NOW, &value, NULL),
                   GLOO_ERR_TIMEOUT);
  assert_int_equal(
      gloo_store_get(none, "one/k", GLOO_TIMEOUT_NOW, &value, NULL), GLOO_OK);
  free(value.data);
  gloo_store_destroy(one);
  gloo_store_destroy(two);
  gloo_store_destroy(none);
  redis_server_signal(&server, SIGKILL);
}

/* A key of another program: a list. */
static void keys_of_another_type_are_refused(void **state) {
  gloo_error e;
  gloo_value value;
  (void)state;
  redis_server server = redis_server_start(NULL);
  gloo_store *store = redis_open(server.port, "");
  const char push[] = "RPUSH list x\r\n";
  int fd = raw_connect(server.port);
  char answer[8];
  raw_send(fd, push, sizeof(push) - 1);
  assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
  close(fd);
  assert_int_equal(gloo_store_get(store, "list", LONG_TIME, &value, &e),
                   GLOO_ERR_IO);
  expect_message(&e, "WRONGTYPE");
  assert_int_equal(gloo_store_append(store, "list", "x", 1, &e), GLOO_ERR_IO);
  expect_served(store);
  gloo_store_destroy(store);
  redis_server_signal(&server, SIGKILL);
}

/* ---- unreachable servers ------------------------------------------------- */

static void what_cannot_be_reached_is_named(void **state) {
  gloo_store *store;
  gloo_error e;
  uint16_t port;
  (void)state;
  close(raw_listen(&port));
  gli_store_url url = redis_url(port, "", "", "");
  assert_int_equal(gli_store_redis_open(&url, false, SHORT_TIME, &store, &e),
                   GLOO_ERR_TIMEOUT);
  expect_store_named(&e, port);
  expect_message(&e, "connection refused");
  expect_message(&e, "tried for 50 ms");
  url.host = "no.such.host.invalid";
  assert_int_equal(gli_store_redis_open(&url, false, SHORT_TIME, &store, &e),
                   GLOO_ERR_ADDRESS);
  expect_message(&e, "the Redis store's host 'no.such.host.invalid'");
  expect_message(&e, "tried for 50 ms");
  url.host = "::1";
  assert_true(gli_store_redis_open(&url, false, SHORT_TIME, &store, &e) !=
              GLOO_OK);
  char name[64];
  snprintf(name, sizeof(name), "the Redis store at [::1]:%u", (unsigned)port);
  expect_message(&e, name);
  url.host = "";
  assert_int_equal(gli_store_redis_open(&url, false, SHORT_TIME, &store, &e),
                   GLOO_ERR_INVALID);
}

static void a_server_without_tls_is_not_spoken_to(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  redis_server server = redis_server_start(NULL);
  gli_store_url url = redis_url(server.port, "", "", "");
  assert_true(gli_store_redis_open(&url, true, SECOND, &store, &e) != GLOO_OK);
  redis_server_signal(&server, SIGKILL);
}

#if WITH_PKI
/* Starts a server with TLS. The test is skipped if the server was built without
 * it. */
static redis_server start_with_tls(const char *folder) {
  char paths[3][256], number[8];
  redis_server server;
  close(raw_listen(&server.port));
  snprintf(number, sizeof number, "%u", (unsigned)server.port);
  static const char *const names[] = {"server.pem", "server.pem", "ca.pem"};
  for (int i = 0; i < 3; i++)
    snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
  const char *const settings[] = {"--port",
                                  "0",
                                  "--tls-port",
                                  number,
                                  "--tls-cert-file",
                                  paths[0],
                                  "--tls-key-file",
                                  paths[1],
                                  "--tls-ca-cert-file",
                                  paths[2],
                                  NULL};
  if (!redis_server_start_at(&server, settings)) skip();
  return server;
}

static void expect_tls_refused(uint16_t port, const char *why) {
  gloo_store *store;
  gloo_error e;
  gli_store_url url = redis_url(port, "", "", "");
  assert_int_equal(gli_store_redis_open(&url, true, LONG_TIME, &store, &e),
                   GLOO_ERR_AUTH);
  expect_message(&e, why);
}

static void with_tls_both_ends_show_who_they_are(void **state) {
  const pki_paper here = {.names = "IP:127.0.0.1"};
  const pki_paper elsewhere = {.names = "IP:127.0.0.9"};
  const char *folder = pki_folder();
  char path[3][256];
  gloo_store *store;
  gloo_error e;
  (void)state;
  pki_authority *ca = pki_authority_new("ca");
  pki_authority *other = pki_authority_new("other");
  static const char *const names[] = {"ca.pem", "other.pem", "server.pem"};
  for (int i = 0; i < 3; i++)
    snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
  pki_authority_write(ca, path[0]);
  pki_authority_write(other, path[1]);
  pki_issue(ca, &here, path[2], NULL);
  redis_server server = start_with_tls(folder);
  setenv("GLOO_TLS_AUTHORITY", path[0], 1);
  expect_tls_refused(server.port, "certificate required");
  setenv("GLOO_TLS_CERTIFICATE", path[2], 1);
  gli_store_url url = redis_url(server.port, "", "", "p");
  if (gli_store_redis_open(&url, true, LONG_TIME, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  expect_all_operations(store);
  gloo_store_destroy(store);
  setenv("GLOO_TLS_AUTHORITY", path[1], 1);
  expect_tls_refused(server.port, "is not trusted");
  redis_server_signal(&server, SIGKILL);
  pki_issue(ca, &elsewhere, path[2], NULL);
  setenv("GLOO_TLS_AUTHORITY", path[0], 1);
  server = start_with_tls(folder);
  expect_tls_refused(server.port, "for another rank");
  redis_server_signal(&server, SIGKILL);
  unsetenv("GLOO_TLS_AUTHORITY");
  unsetenv("GLOO_TLS_CERTIFICATE");
  pki_authority_free(ca);
  pki_authority_free(other);
  pki_folder_remove(folder);
}
#endif

typedef struct opening {
  uint16_t port;
  gloo_store *store;
} opening;

static void open_late(void *argument) {
  opening *o = argument;
  gli_store_url url = redis_url(o->port, "", "", "");
  gloo_error e;
  if (gli_store_redis_open(&url, false, LONG_TIME, &o->store, &e) != GLOO_OK)
    o->store = NULL;
}

static void a_server_that_comes_late_is_waited_for(void **state) {
  uv_thread_t thread;
  (void)state;
  redis_server server = redis_server_start(NULL);
  redis_server_signal(&server, SIGKILL);
  opening o = {server.port, NULL};
  assert_int_equal(uv_thread_create(&thread, open_late, &o), 0);
  uv_sleep(200);
  assert_true(redis_server_start_at(&server, NULL));
  uv_thread_join(&thread);
  assert_non_null(o.store);
  expect_served(o.store);
  gloo_store_destroy(o.store);
  redis_server_signal(&server, SIGKILL);
}

/* ---- servers that end or stop -------------------------------------------- */

typedef struct fetching {
  gloo_store *store;
  int64_t timeout_ns;
  gloo_status status;
  gloo_error error;
  uint64_t ended;
} fetching;

static void fetch_missing(void *argument) {
  fetching *f = argument;
  gloo_value value;
  f->status =
      gloo_store_get(f->store, "missing", f->timeout_ns, &value, &f->error);
  f->ended = uv_hrtime();
}

static void a_server_that_is_killed_is_named_at_once(void **state) {
  uv_thread_t thread;
  gloo_error e;
  (void)state;
  redis_server server = redis_server_start(NULL);
  uint16_t port = server.port;
  gloo_store *store = redis_open(port, "");
  expect_served(store);
  fetching f = {.store = store, .timeout_ns = LONG_TIME};
  assert_int_equal(uv_thread_create(&thread, fetch_missing, &f), 0);
  uv_sleep(300);
  uint64_t begun = uv_hrtime();
  redis_server_signal(&server, SIGKILL);
  uv_thread_join(&thread);
  assert_int_equal(f.status, GLOO_ERR_PEER);
  expect_store_named(&f.error, port);
  expect_message(&f.error, "closed the connection");
  assert_true((double)(f.ended - begun) < 5e9);
  begun = uv_hrtime();
  assert_int_equal(gloo_store_set(store, "k", "v", 1, &e), GLOO_ERR_PEER);
  expect_store_named(&e, port);
  assert_true(seconds_since(begun) < 5);
  gloo_store_destroy(store);
}

static void a_server_that_is_stopped_is_named_at_the_deadline(void **state) {
  uv_thread_t thread;
  gloo_error e;
  (void)state;
  redis_server server = redis_server_start(NULL);
  gloo_store *store = open_as(server.port, "", "", "", 3 * SECOND);
  fetching f = {.store = store, .timeout_ns = 5 * SECOND / 2};
  uint64_t begun = uv_hrtime();
  assert_int_equal(uv_thread_create(&thread, fetch_missing, &f), 0);
  uv_sleep(100);
  redis_server_signal(&server, SIGSTOP);
  uv_thread_join(&thread);
  assert_int_equal(f.status, GLOO_ERR_PEER);
  expect_store_named(&f.error, server.port);
  expect_message(&f.error, "did not answer in time");
  assert_in_range((f.ended - begun) / 1000000, 2400, 10000);
  begun = uv_hrtime();
  assert_int_equal(gloo_store_set(store, "k", "v", 1, &e), GLOO_ERR_PEER);
  expect_store_named(&e, server.port);
  assert_true(seconds_since(begun) < 10);
  /* The store recovers. */
  redis_server_signal(&server, SIGCONT);
  expect_served(store);
  gloo_store_destroy(store);
  redis_server_signal(&server, SIGKILL);
}

static void connections_that_the_server_closed_are_made_anew(void **state) {
  (void)state;
  redis_server server = redis_server_start(NULL);
  gloo_store *store = redis_open(server.port, "");
  expect_served(store);
  const char drop[] = "CLIENT KILL TYPE normal SKIPME yes\r\n";
  char answer[8];
  int fd = raw_connect(server.port);
  raw_send(fd, drop, sizeof(drop) - 1);
  assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
  assert_int_equal(answer[0], ':');
  close(fd);
  uv_sleep(20);
  expect_served(store);
  gloo_store_destroy(store);
  redis_server_signal(&server, SIGKILL);
}

/* ---- a server that replies with invalid bytes ---------------------------- */

/* Answers the first commands of each connection with `first`, one after the
 * other, and all others with `then`; NULL closes the connection. A text that
 * begins with "flood" is followed by megabytes. */
typedef struct fake_server {
  int listener;
  uint16_t port;
  const char *first[4], *then;
  int dribble; /* sends single bytes slowly, without end */
  int connections;
  uv_thread_t thread;
} fake_server;

static int fake_read_command(int fd) {
  char buffer[65536];
  return recv(fd, buffer, sizeof(buffer), 0) > 0;
}

static void fake_flood(int fd, const char *text) {
  size_t bytes = strlen(text);
  for (int i = 0; i < 4000; i++)
    if (send(fd, text, bytes, MSG_NOSIGNAL) < 0) return;
}

static void fake_serve_one(fake_server *s, int fd) {
  for (int i = 0; i < 4 && s->first[i] != NULL; i++) {
    if (!fake_read_command(fd)) return;
    raw_send(fd, s->first[i], strlen(s->first[i]));
  }
  while (s->then != NULL && fake_read_command(fd)) {
    if (strncmp(s->then, "flood", 5) == 0) {
      static char junk[16384];
      memset(junk, 'x', sizeof(junk) - 1);
      raw_send(fd, s->then + 5, strlen(s->then) - 5);
      fake_flood(fd, junk);
      return;
    }
    if (s->dribble) {
      while (send(fd, "+", 1, MSG_NOSIGNAL) == 1) uv_sleep(20);
      return;
    }
    raw_send(fd, s->then, strlen(s->then));
  }
}

static void fake_serve(void *argument) {
  fake_server *s = argument;
  for (;;) {
    int fd = accept(s->listener, NULL, NULL);
    if (fd < 0) return;
    s->connections++;
    fake_serve_one(s, fd);
    close(fd);
  }
}

static void fake_start(fake_server *s) {
  s->listener = raw_listen(&s->port);
  assert_int_equal(uv_thread_create(&s->thread, fake_serve, s), 0);
}

static void fake_stop(fake_server *s) {
  shutdown(s->listener, SHUT_RDWR);
  uv_thread_join(&s->thread);
  close(s->listener);
}

static void nonsense_instead_of_a_greeting_is_refused(void **state) {
  static const char *const nonsense[] = {
      "HTTP/1.1 400 Bad Request\r\n\r\n",
      "*2147483647\r\n",
      "*1\r\n:0\r\n",
      "*99999999999999999999\r\n",
      "$-5\r\n",
      "$99999999999999999999\r\n",
      ":abc\r\n",
      ":\r\n",
      "+OK\r\n",
      "$1\r\n0\r\n",
      "\r\n",
      "%1\r\n+a\r\n+b\r\n",
      ">2\r\n+a\r\n+b\r\n",
      "flood",
      "flood+",
      "flood$99999999999\r\n",
      "flood*99999999\r\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
    fake_server s = {.then = nonsense[i]};
    fake_start(&s);
    expect_refused(s.port, "", "", GLOO_ERR_PROTOCOL, "Redis");
    fake_stop(&s);
    assert_int_equal(s.connections, 1);
  }
}

static void nonsense_instead_of_a_reply_is_refused(void **state) {
  static const char *const nonsense[] = {
      "+what\r\n",         "$3\r\nabc\r\n", ":-7\r\n",
      "*-1\r\n",           "*0\r\n",        "-ODD \x1b[2J thing\r\n",
      "flood$8400000\r\n", ":5\r\n:6\r\n",  NULL};
  (void)state;
  for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
    for (int what = 0; what < 6; what++) {
      fake_server s = {.first = {":0\r\n"}, .then = nonsense[i]};
      gloo_error e = {.status = GLOO_OK};
      gloo_value value = {NULL, 0};
      const char *key = "k";
      int64_t sum;
      fake_start(&s);
      gloo_store *store = open_as(s.port, "", "", "", 2 * SECOND);
      gloo_status status;
      switch (what) {
        case 0:
          status = gloo_store_get(store, "k", SHORT_TIME, &value, &e);
          break;
        case 1:
          status = gloo_store_wait(store, &key, 1, SHORT_TIME, &e);
          break;
        case 2:
          status = gloo_store_add(store, "k", 1, &sum, &e);
          break;
        case 3:
          status = gloo_store_compare_and_set(store, "k", "a", 1, "b", 1,
                                              &value, &e);
          break;
        case 4:
          status = gloo_store_append(store, "k", "a", 1, &e);
          break;
        default:
          status = gloo_store_set(store, "k", "a", 1, &e);
      }
      /* A reply of the right type is accepted, others are not, and no message
       * contains control characters for a terminal. */
      if (status != GLOO_OK) {
        assert_int_equal(e.status, status);
        assert_null(strchr(e.message, '\x1b'));
        assert_true(e.message[0] != '\0');
      } else {
        bool text = nonsense[i] != NULL && nonsense[i][0] == '$';
        bool line = nonsense[i] != NULL && nonsense[i][0] == '+';
        bool number = nonsense[i] != NULL && nonsense[i][0] == ':';
        assert_true((what == 0 && text) || (what == 1 && number) ||
                    (what == 5 && line));
      }
      free(value.data);
      gloo_store_destroy(store);
      fake_stop(&s);
    }
  }
}

/* The surplus reply is not taken for the reply to the next request. */
static void replies_that_nobody_asked_for_are_dropped(void **state) {
  fake_server s = {.first = {":0\r\n", "$1\r\nA\r\n$1\r\nB\r\n"},
                   .then = "$1\r\nC\r\n"};
  (void)state;
  fake_start(&s);
  gloo_store *store = open_as(s.port, "", "", "", SECOND);
  for (int i = 0; i < 3; i++) {
    gloo_value value;
    gloo_error e;
    if (gloo_store_get(store, "k", SECOND, &value, &e) != GLOO_OK)
      fail_msg("%s", e.message);
    assert_int_equal(((char *)value.data)[0], 'A');
    free(value.data);
  }
  gloo_store_destroy(store);
  fake_stop(&s);
}

static void half_a_reply_is_an_error(void **state) {
  fake_server s = {.first = {":0\r\n", "$8\r\n12"}, .then = NULL};
  gloo_value value;
  gloo_error e;
  (void)state;
  fake_start(&s);
  gloo_store *store = open_as(s.port, "", "", "", SECOND);
  uint64_t begun = uv_hrtime();
  assert_int_equal(gloo_store_get(store, "k", SHORT_TIME, &value, &e),
                   GLOO_ERR_PEER);
  assert_true(seconds_since(begun) < 20);
  gloo_store_destroy(store);
  fake_stop(&s);
}

/* The deadline applies to a whole reply, not to each byte. */
static void a_reply_byte_by_byte_ends_at_the_deadline(void **state) {
  fake_server s = {.first = {":0\r\n"}, .then = "", .dribble = 1};
  gloo_value value;
  gloo_error e;
  (void)state;
  fake_start(&s);
  gloo_store *store = open_as(s.port, "", "", "", SECOND);
  uint64_t begun = uv_hrtime();
  assert_int_equal(gloo_store_get(store, "k", SECOND / 10, &value, &e),
                   GLOO_ERR_PEER);
  assert_true(seconds_since(begun) < 20);
  expect_store_named(&e, s.port);
  gloo_store_destroy(store);
  fake_stop(&s);
}

static void a_password_that_is_repeated_is_not_shown(void **state) {
  fake_server s = {
      .then =
          "-ERR unknown command `AUTH`, with args beginning with: `" PASSWORD
          "` \r\n"};
  (void)state;
  fake_start(&s);
  expect_refused(s.port, "", PASSWORD, GLOO_ERR_INVALID, "not shown");
  fake_stop(&s);
}

static void a_server_that_is_not_ready_is_waited_for(void **state) {
  static const char *const first[] = {
      "-LOADING Redis is loading the dataset in memory\r\n",
      "-ERR max number of clients reached\r\n"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    gloo_store *store;
    gloo_error e;
    fake_server s = {.then = first[i]};
    fake_start(&s);
    gli_store_url url = redis_url(s.port, "", "", "");
    assert_int_equal(gli_store_redis_open(&url, false, SECOND / 4, &store, &e),
                     GLOO_ERR_TIMEOUT);
    expect_message(&e, "is not ready");
    expect_message(&e, "tried for 250 ms");
    fake_stop(&s);
    assert_true(s.connections > 1);
  }
}

/* ---- this process -------------------------------------------------------- */

static int use_in_child(int index, void *argument) {
  gloo_store *store = argument;
  gloo_error e;
  (void)index;
  if (gloo_store_set(store, "k", "child", 5, &e) != GLOO_ERR_FORKED) return 1;
  gloo_store_destroy(store);
  return 0;
}

static void a_forked_child_leaves_the_store_alone(void **state) {
  (void)state;
  redis_server server = redis_server_start(NULL);
  gloo_store *store = redis_open(server.port, "");
  expect_served(store);
  assert_int_equal(child_wait(child_start(use_in_child, 0, store)), 0);
  long long before = ask_number(server.port, "EXISTS", "k");
  assert_int_equal(before, 0);
  expect_served(store);
  gloo_store_destroy(store);
  redis_server_signal(&server, SIGKILL);
}

static void descriptors_are_not_inherited(void **state) {
  int before[1024];
  (void)state;
  redis_server server = redis_server_start(NULL);
  for (int fd = 0; fd < 1024; fd++) before[fd] = fcntl(fd, F_GETFD);
  gloo_store *store = redis_open(server.port, "");
  int found = 0;
  for (int fd = 0; fd < 1024; fd++) {
    int flags = fcntl(fd, F_GETFD);
    if (flags == -1 || before[fd] != -1) continue;
    assert_true(flags & FD_CLOEXEC);
    found++;
  }
  assert_true(found > 0);
  gloo_store_destroy(store);
  redis_server_signal(&server, SIGKILL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_password_is_needed_and_not_told),
    TEST(a_user_needs_these_commands_and_its_keys_only),
    TEST(keys_go_away_a_day_after_the_last_write),
    TEST(other_paths_are_other_stores),
    TEST(keys_of_another_type_are_refused),
    TEST(what_cannot_be_reached_is_named),
    TEST(a_server_without_tls_is_not_spoken_to),
#if WITH_PKI
    TEST(with_tls_both_ends_show_who_they_are),
#endif
    TEST(a_server_that_comes_late_is_waited_for),
    TEST(a_server_that_is_killed_is_named_at_once),
    TEST(a_server_that_is_stopped_is_named_at_the_deadline),
    TEST(connections_that_the_server_closed_are_made_anew),
    TEST(nonsense_instead_of_a_greeting_is_refused),
    TEST(nonsense_instead_of_a_reply_is_refused),
    TEST(replies_that_nobody_asked_for_are_dropped),
    TEST(half_a_reply_is_an_error),
    TEST(a_reply_byte_by_byte_ends_at_the_deadline),
    TEST(a_password_that_is_repeated_is_not_shown),
    TEST(a_server_that_is_not_ready_is_waited_for),
    TEST(a_forked_child_leaves_the_store_alone),
    TEST(descriptors_are_not_inherited),
  };
  const char *missing = test_kind_missing("redis");
  if (missing != NULL) return printf("1..0 # SKIP %s\n", missing), 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
