/* A TCP store at loopback, in a job without a secret: it is private to this
 * user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "children.h"
#include "gloo_c/gloo_c.h"
#include "raw.h"
#include "rendezvous/store/tcp/tcp_local.h"
#include "rendezvous/store/tcp/tcp_protocol.h"

#define SECOND INT64_C(1000000000)

enum { NOBODY = 65534 };

static gloo_status open_at(const char *host, uint16_t port, gloo_store **store,
                           gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = host;
  o.port = port;
  o.serve = port == 0;
  o.timeout_ns = 5 * SECOND;
  return gloo_store_tcp_create(&o, store, error);
}

static gloo_store *store_at(const char *host, uint16_t port) {
  gloo_error e;
  gloo_store *store;
  if (open_at(host, port, &store, &e) != GLOO_OK) fail_msg("%s", e.message);
  return store;
}

static gloo_store *careless_store_at(const char *host, uint16_t port) {
  setenv("GLOO_SECURITY", "off", 1);
  gloo_store *store = store_at(host, port);
  unsetenv("GLOO_SECURITY");
  return store;
}

/* Expects a refusal of a client that says hello over TCP, with the right job
 * name. */
static void expect_refused_over_tcp(uint16_t port) {
  char reply[512];
  gli_frame hello;
  int fd = raw_connect(port);
  raw_make_hello(&hello, GLI_TCP_MAGIC, 0, "");
  gli_frame_end(&hello, GLI_TCP_HELLO);
  raw_send(fd, hello.data, hello.bytes);
  size_t got = raw_read_all(fd, reply, sizeof reply);
  close(fd);
  free(hello.data);
  assert_true(got > GLI_TCP_HEAD_BYTES);
  assert_non_null(strstr(reply + GLI_TCP_HEAD_BYTES, "own user"));
}

static void tcp_cannot_tell_and_is_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  gloo_store *server = store_at("127.0.0.1", 0);
  uint16_t port = gloo_store_tcp_port(server);
  gloo_log_set_level(GLOO_LOG_OFF);
  expect_refused_over_tcp(port);
  setenv("GLOO_SECURITY", "off", 1);
  gloo_status status = open_at("127.0.0.1", port, &store, &e);
  unsetenv("GLOO_SECURITY");
  gloo_log_set_level(GLOO_LOG_WARN);
  assert_int_equal(status, GLOO_ERR_AUTH);
  assert_non_null(strstr(e.message, "GLOO_JOB_SECRET"));
  gloo_store *client = store_at("127.0.0.1", port);
  assert_int_equal(gloo_store_set(client, "k", "v", 1, NULL), GLOO_OK);
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

static void all_addresses_have_the_same_way_in(void **state) {
  static const char *const hosts[] = {"0.0.0.0", "127.0.0.1"};
  (void)state;
  for (int careless = 0; careless < 2; careless++)
    for (int i = 0; i < 2; i++) {
      gloo_store *server =
          careless ? careless_store_at(hosts[i], 0) : store_at(hosts[i], 0);
      gloo_store *client = store_at("127.0.0.1", gloo_store_tcp_port(server));
      assert_int_equal(gloo_store_set(client, "k", "v", 1, NULL), GLOO_OK);
      gloo_store_destroy(client);
      gloo_store_destroy(server);
    }
}

static void who_is_not_asked_may_use_tcp(void **state) {
  (void)state;
  gloo_store *server = careless_store_at("127.0.0.1", 0);
  gloo_store *client =
      careless_store_at("127.0.0.1", gloo_store_tcp_port(server));
  assert_int_equal(gloo_store_set(client, "k", "v", 1, NULL), GLOO_OK);
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

static int linger(int end, void *unused) {
  char byte;
  (void)unused;
  return read(end, &byte, 1) < 0; /* until the parent writes a byte */
}

static void a_forked_child_does_not_keep_the_way_in(void **state) {
  int ends[2];
  (void)state;
  assert_int_equal(pipe(ends), 0);
  gloo_store *server = store_at("127.0.0.1", 0);
  uint16_t port = gloo_store_tcp_port(server);
  pid_t child = child_start(linger, ends[0], NULL);
  gloo_store_destroy(server);
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = "127.0.0.1";
  o.port = port;
  o.serve = 1;
  gloo_error e;
  gloo_status status = gloo_store_tcp_create(&o, &server, &e);
  /* The child also holds the write end. */
  assert_int_equal(write(ends[1], "", 1), 1);
  assert_int_equal(child_wait(child), 0);
  close(ends[0]);
  close(ends[1]);
  if (status != GLOO_OK) fail_msg("%s", e.message);
  gloo_store_destroy(server);
}

/* ---- other users --------------------------------------------------------- */

static int try_as_nobody(int port, void *unused) {
  gloo_store *store;
  (void)unused;
  if (setuid(NOBODY) != 0) return 2;
  gloo_log_set_level(GLOO_LOG_OFF);
  if (open_at("127.0.0.1", (uint16_t)port, &store, NULL) == GLOO_OK) return 3;
  setenv("GLOO_SECURITY", "off", 1);
  return open_at("127.0.0.1", (uint16_t)port, &store, NULL) == GLOO_ERR_AUTH
             ? 0
             : 4;
}

static void another_user_stays_outside(void **state) {
  (void)state;
  if (geteuid() != 0) return; /* only root can become another user */
  gloo_log_set_level(GLOO_LOG_OFF);
  gloo_store *server = store_at("127.0.0.1", 0);
  pid_t stranger =
      child_start(try_as_nobody, gloo_store_tcp_port(server), NULL);
  assert_int_equal(child_wait(stranger), 0);
  gloo_log_set_level(GLOO_LOG_WARN);
  gloo_store *client = store_at("127.0.0.1", gloo_store_tcp_port(server));
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

typedef struct ways {
  int port[2], done[2]; /* pipes */
} ways;

static int serve_as_nobody(int unused, void *argument) {
  const ways *w = argument;
  char byte;
  (void)unused;
  if (setuid(NOBODY) != 0) return 2;
  gloo_store *server = store_at("127.0.0.1", 0);
  uint16_t port = gloo_store_tcp_port(server);
  close(w->done[1]);
  if (write(w->port[1], &port, sizeof port) != sizeof port) return 3;
  (void)!read(w->done[0], &byte, 1); /* until the parent closes it */
  gloo_store_destroy(server);
  return 0;
}

static void another_users_server_is_not_believed(void **state) {
  gloo_store *store;
  gloo_error e;
  ways w;
  uint16_t port;
  (void)state;
  if (geteuid() != 0) return;
  assert_int_equal(pipe(w.port), 0);
  assert_int_equal(pipe(w.done), 0);
  pid_t squatter = child_start(serve_as_nobody, 0, &w);
  assert_int_equal(read(w.port[0], &port, sizeof port), sizeof port);
  gloo_status status = open_at("127.0.0.1", port, &store, &e);
  close(w.done[1]);
  close(w.done[0]);
  close(w.port[0]);
  close(w.port[1]);
  assert_int_equal(child_wait(squatter), 0);
  assert_int_equal(status, GLOO_ERR_AUTH);
  assert_non_null(strstr(e.message, "another user"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tcp_cannot_tell_and_is_refused),
      cmocka_unit_test(all_addresses_have_the_same_way_in),
      cmocka_unit_test(who_is_not_asked_may_use_tcp),
      cmocka_unit_test(a_forked_child_does_not_keep_the_way_in),
      cmocka_unit_test(another_user_stays_outside),
      cmocka_unit_test(another_users_server_is_not_believed),
  };
  unsetenv("GLOO_SECURITY");
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
