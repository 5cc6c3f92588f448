/* Clients and servers of a TCP store that start late, end early or are
 * unreachable. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "gloo_c/log.h"
#include "kinds.h"
#include "raw.h"
#include "tcp_help.h"

/* ---- options ------------------------------------------------------------- */

static void bad_options_are_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  struct {
    gloo_store_tcp_options known;
    uint64_t newer;
  } long_options = {options_for(1), 0};
  (void)state;
  gloo_store_tcp_options options = options_for(0);
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_INVALID);
  expect_message(&e, "port");
  options = options_for(1);
  options.host = NULL;
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_INVALID);
  expect_message(&e, "host");
  assert_int_equal(gloo_store_tcp_create(NULL, &store, &e), GLOO_ERR_INVALID);
  assert_int_equal(gloo_store_tcp_create(&options, NULL, &e), GLOO_ERR_INVALID);
  options.struct_size = 3;
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_INVALID);
  long_options.known.struct_size = sizeof(long_options);
  long_options.newer = 1;
  assert_int_equal(gloo_store_tcp_create(&long_options.known, &store, &e),
                   GLOO_ERR_UNSUPPORTED);
}

static void the_port_is_told(void **state) {
  gloo_store *memory, *prefix;
  (void)state;
  gloo_store *store = serve(0);
  uint16_t port = gloo_store_tcp_port(store);
  assert_int_not_equal(port, 0);
  gloo_store *client = join(port);
  assert_int_equal(gloo_store_tcp_port(client), port);
  gloo_store_destroy(client);
  assert_int_equal(gloo_store_memory_create(&memory, NULL), GLOO_OK);
  assert_int_equal(gloo_store_tcp_port(memory), 0);
  assert_int_equal(gloo_store_prefix_create(store, "p", &prefix, NULL),
                   GLOO_OK);
  assert_int_equal(gloo_store_tcp_port(prefix), 0);
  assert_int_equal(gloo_store_tcp_port(NULL), 0);
  gloo_store_destroy(prefix);
  gloo_store_destroy(memory);
  gloo_store_destroy(store);
}

/* A minimal root file system has no /etc/hosts. */
static bool resolves(const char *name) {
  struct addrinfo *list = NULL;
  if (getaddrinfo(name, NULL, NULL, &list) != 0) return false;
  freeaddrinfo(list);
  return true;
}

static void names_and_wildcards_are_served(void **state) {
  static const char *const hosts[] = {"localhost", "0.0.0.0"};
  (void)state;
  if (!resolves("localhost")) {
    print_message("# skipped: localhost does not resolve here\n");
    skip();
  }
  for (int i = 0; i < 2; i++) {
    gloo_store *server, *client;
    gloo_error e;
    gloo_store_tcp_options options = options_for(0);
    options.host = hosts[i];
    options.serve = 1;
    if (gloo_store_tcp_create(&options, &server, &e) != GLOO_OK)
      fail_msg("%s", e.message);
    options.serve = 0;
    options.host = "localhost";
    options.port = gloo_store_tcp_port(server);
    if (gloo_store_tcp_create(&options, &client, &e) != GLOO_OK)
      fail_msg("%s", e.message);
    expect_served(client);
    gloo_store_destroy(client);
    gloo_store_destroy(server);
  }
}

/* ---- addresses that cannot be used --------------------------------------- */

static void a_port_in_use_is_named(void **state) {
  gloo_store *second;
  gloo_error e;
  (void)state;
  gloo_store *store = serve(0);
  gloo_store_tcp_options options = options_for(gloo_store_tcp_port(store));
  options.serve = 1;
  assert_int_equal(gloo_store_tcp_create(&options, &second, &e),
                   GLOO_ERR_ADDRESS);
  expect_address(&e, options.port);
  expect_message(&e, "the port is in use, perhaps by an earlier run");
  expect_served(store);
  gloo_store_destroy(store);
}

/* Resolves two names to two addresses each: "2.1.localhost" to 127.0.0.2 and
 * 127.0.0.1, "1.2.localhost" to the same in reverse order. */
int getaddrinfo(const char *name, const char *service,
                const struct addrinfo *hints, struct addrinfo **result) {
  int (*real)(const char *, const char *, const struct addrinfo *,
              struct addrinfo **);
  *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
  bool up = name != NULL && strcmp(name, "1.2.localhost") == 0;
  bool down = name != NULL && strcmp(name, "2.1.localhost") == 0;
  if (!up && !down) return real(name, service, hints, result);
  const char *first = up ? "127.0.0.1" : "127.0.0.2";
  const char *second = up ? "127.0.0.2" : "127.0.0.1";
  int rc = real(first, service, hints, result);
  if (rc != 0) return rc;
  struct addrinfo *last = *result;
  while (last->ai_next != NULL) last = last->ai_next;
  return real(second, service, hints, &last->ai_next);
}

/* Otherwise clients would meet another program at the second address. */
static void a_port_in_use_at_any_address_is_refused(void **state) {
  static const char *const hosts[] = {"1.2.localhost", "2.1.localhost"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    gloo_store *store;
    gloo_error e;
    uint16_t port;
    int stranger = raw_listen(&port); /* at 127.0.0.1 */
    gloo_store_tcp_options options = options_for(port);
    options.host = hosts[i];
    options.serve = 1;
    assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                     GLOO_ERR_ADDRESS);
    expect_address(&e, port);
    expect_message(&e, "the port is in use, perhaps by an earlier run");
    close(stranger);
    if (gloo_store_tcp_create(&options, &store, &e) != GLOO_OK)
      fail_msg("%s", e.message);
    expect_served(store);
    gloo_store_destroy(store);
  }
}

static void an_address_of_another_machine_is_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  gloo_store_tcp_options options = options_for(0);
  (void)state;
  options.host = "192.0.2.1"; /* reserved for documentation, RFC 5737 */
  options.serve = 1;
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_ADDRESS);
  expect_message(&e, "192.0.2.1");
  expect_message(&e, "not an address of this machine");
}

static void a_host_that_does_not_resolve_is_named(void **state) {
  gloo_store *store;
  gloo_error e;
  gloo_store_tcp_options options = options_for(1);
  /* A label of more than 63 characters is refused without a DNS query. */
  char host[] =
      "a0123456789a0123456789a0123456789a0123456789a0123456789a0123456789a0123"
      ".invalid";
  (void)state;
  options.host = host;
  options.timeout_ns = SHORT_TIME;
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_ADDRESS);
  expect_message(&e, "a0123456789");
  expect_message(&e, "does not resolve");
  options.serve = 1;
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_ADDRESS);
  expect_message(&e, "does not resolve");
}

static uint16_t free_port(void) {
  uint16_t port;
  int fd = raw_listen(&port);
  close(fd);
  return port;
}

static void a_server_that_never_comes_is_named(void **state) {
  gloo_store *store;
  gloo_error e;
  gloo_store_tcp_options options = options_for(free_port());
  (void)state;
  options.timeout_ns = SHORT_TIME;
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_TIMEOUT);
  expect_address(&e, options.port);
  expect_message(&e, "connection refused");
  expect_message(&e, "50 ms");
}

static void serve_late(void *argument) {
  uint16_t *port = argument;
  uv_sleep(100);
  gloo_store *store = serve(*port);
  gloo_value value;
  assert_int_equal(gloo_store_get(store, "bye", LONG_TIME, &value, NULL),
                   GLOO_OK);
  gloo_store_destroy(store);
}

static void a_server_may_come_later(void **state) {
  uint16_t port = free_port();
  uv_thread_t thread;
  (void)state;
  assert_int_equal(uv_thread_create(&thread, serve_late, &port), 0);
  gloo_store *client = join(port);
  expect_served(client);
  assert_int_equal(gloo_store_set(client, "bye", NULL, 0, NULL), GLOO_OK);
  uv_thread_join(&thread);
  gloo_store_destroy(client);
}

/* With few descriptors left, creating a store succeeds or fails, and leaks
 * none. */
static int create_with_few_descriptors(int left, void *argument) {
  struct rlimit limit;
  gloo_store *store;
  gloo_error e;
  gloo_store_tcp_options options = options_for(0);
  (void)argument;
  options.serve = 1;
  gloo_log_set_level(GLOO_LOG_OFF);
  int before = dup(0);
  close(before);
  left += before;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 90;
  limit.rlim_cur = (rlim_t)left;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 91;
  gloo_status status = gloo_store_tcp_create(&options, &store, &e);
  if (status == GLOO_OK) gloo_store_destroy(store);
  int next = dup(0);
  if (next != before) return 93;
  if (status == GLOO_OK) return 0;
  return status == GLOO_ERR_IO && e.rank == -1 &&
                 strstr(e.message, "ulimit -n") != NULL
             ? 1
             : 92;
}

static void too_few_descriptors_are_an_error(void **state) {
  int outcomes[2] = {0, 0};
  (void)state;
  if (!GLI_LINUX) {
    print_message("# libuv's loop may end the program then\n");
    skip();
  }
  for (int left = 1; left < 12; left++) {
    int outcome =
        child_wait(child_start(create_with_few_descriptors, left, NULL));
    assert_in_range(outcome, 0, 1);
    outcomes[outcome]++;
  }
  assert_true(outcomes[0] > 0);
  assert_true(outcomes[1] > 0);
}

/* A server with descriptors for `clients` clients and no more. */
static int serve_few(int clients, void *argument) {
  go_signal *go = argument;
  struct rlimit limit;
  gloo_store *store;
  gloo_store_tcp_options options = options_for(0);
  options.serve = 1;
  gloo_log_set_level(GLOO_LOG_OFF);
  if (gloo_store_tcp_create(&options, &store, NULL) != GLOO_OK) return 1;
  uint16_t port = gloo_store_tcp_port(store);
  int next = dup(0);
  close(next);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  limit.rlim_cur = (rlim_t)(next + clients);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 3;
  if (write(go->write_end, &port, sizeof(port)) != sizeof(port)) return 4;
  for (;;) pause();
}

/* A client that cannot be accepted gets the reason, and so does an
 * accepted one whose wait times out; otherwise accepted clients are served. */
static void a_server_without_descriptors_says_so(void **state) {
  enum { CLIENTS = 2 };
  gloo_store *clients[CLIENTS], *another;
  gloo_value value;
  go_signal go;
  gloo_error e;
  (void)state;
  go_open(&go);
  pid_t pid = child_start(serve_few, CLIENTS, &go);
  uint16_t port = go_await(&go);
  for (int i = 0; i < CLIENTS; i++) clients[i] = join(port);
  gloo_store_tcp_options options = options_for(port);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(gloo_store_tcp_create(&options, &another, &e),
                     GLOO_ERR_IO);
    assert_int_equal(e.rank, -1);
    expect_address(&e, port);
    expect_message(&e, "out of file descriptors");
    expect_message(&e, "ulimit -n");
  }
  expect_served(clients[0]);
  assert_int_equal(gloo_store_get(clients[0], "k", SHORT_TIME, &value, &e),
                   GLOO_ERR_IO);
  expect_message(&e, "out of file descriptors");
  /* The server works again when a descriptor is free. */
  gloo_store_destroy(clients[1]);
  another = join(port);
  expect_served(another);
  assert_int_equal(gloo_store_get(clients[0], "k", SHORT_TIME, &value, &e),
                   GLOO_ERR_TIMEOUT);
  gloo_store_destroy(another);
  gloo_store_destroy(clients[0]);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(child_wait(pid), 1000 + SIGKILL);
  go_close(&go);
}

static void wait_for_key(void *argument) {
  gloo_store *store = argument;
  if (gloo_store_wait(store, (const char *const[]){"k"}, 1, LONG_TIME, NULL) !=
      GLOO_OK)
    _exit(4);
}

/* One thread waits while another writes. */
static int serve_oneself(int unused, void *argument) {
  struct rlimit limit;
  gloo_store *store;
  gloo_value value;
  uv_thread_t thread;
  gloo_store_tcp_options options = options_for(0);
  (void)unused;
  (void)argument;
  options.serve = 1;
  gloo_log_set_level(GLOO_LOG_OFF);
  if (gloo_store_tcp_create(&options, &store, NULL) != GLOO_OK) return 1;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  limit.rlim_cur = 0;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 3;
  if (uv_thread_create(&thread, wait_for_key, store) != 0) return 5;
  uv_sleep(20);
  if (gloo_store_get(store, "k", SHORT_TIME, &value, NULL) != GLOO_ERR_TIMEOUT)
    return 6;
  if (gloo_store_set(store, "k", "v", 1, NULL) != GLOO_OK) return 7;
  uv_thread_join(&thread);
  gloo_store_destroy(store);
  return 0;
}

static void a_server_needs_no_descriptor_for_its_own_requests(void **state) {
  (void)state;
  assert_int_equal(child_wait(child_start(serve_oneself, 0, NULL)), 0);
}

/* ---- a server that goes away --------------------------------------------- */

typedef struct waiter {
  gloo_store *store;
  gloo_status status;
  gloo_error error;
} waiter;

static void wait_for_ever(void *argument) {
  waiter *w = argument;
  const char *key = "never";
  w->status = gloo_store_wait(w->store, &key, 1, -1, &w->error);
}

static void destroying_the_server_ends_all_waits(void **state) {
  enum { N = 8 };
  waiter waiters[N];
  uv_thread_t threads[N];
  gloo_error e;
  (void)state;
  gloo_store *store = serve(0);
  uint16_t port = gloo_store_tcp_port(store);
  for (int i = 0; i < N; i++) {
    waiters[i].store = join(port);
    assert_int_equal(uv_thread_create(&threads[i], wait_for_ever, &waiters[i]),
                     0);
  }
  uv_sleep(50);
  gloo_store_destroy(store);
  for (int i = 0; i < N; i++) {
    uv_thread_join(&threads[i]);
    assert_int_equal(waiters[i].status, GLOO_ERR_PEER);
    expect_address(&waiters[i].error, port);
    assert_int_equal(gloo_store_set(waiters[i].store, "k", "v", 1, &e),
                     GLOO_ERR_PEER);
    expect_address(&e, port);
    gloo_store_destroy(waiters[i].store);
  }
}

static int serve_until_killed(int index, void *argument) {
  go_signal *go = argument;
  (void)index;
  gloo_store *store;
  gloo_store_tcp_options options = options_for(0);
  options.serve = 1;
  if (gloo_store_tcp_create(&options, &store, NULL) != GLOO_OK) return 1;
  uint16_t port = gloo_store_tcp_port(store);
  if (write(go->write_end, &port, sizeof(port)) != sizeof(port)) return 2;
  for (;;) pause();
}

static void a_killed_server_ends_all_waits(void **state) {
  go_signal go;
  gloo_error e;
  uv_thread_t thread;
  (void)state;
  go_open(&go);
  pid_t pid = child_start(serve_until_killed, 0, &go);
  uint16_t port = go_await(&go);
  waiter w = {.store = join(port)};
  assert_int_equal(uv_thread_create(&thread, wait_for_ever, &w), 0);
  expect_served(w.store);
  uv_sleep(20);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(child_wait(pid), 1000 + SIGKILL);
  uv_thread_join(&thread);
  assert_int_equal(w.status, GLOO_ERR_PEER);
  expect_address(&w.error, port);
  assert_int_equal(gloo_store_set(w.store, "k", "v", 1, &e), GLOO_ERR_PEER);
  assert_int_equal(gloo_store_set(w.store, "k", "v", 1, &e), GLOO_ERR_PEER);
  expect_address(&e, port);
  gloo_store_destroy(w.store);
  go_close(&go);
}

static void a_stopped_server_is_no_hang(void **state) {
  go_signal go;
  gloo_error e;
  gloo_value value;
  (void)state;
  go_open(&go);
  pid_t pid = child_start(serve_until_killed, 0, &go);
  uint16_t port = go_await(&go);
  gloo_store *client = join(port);
  assert_int_equal(kill(pid, SIGSTOP), 0);
  assert_int_equal(gloo_store_get(client, "k", SHORT_TIME, &value, &e),
                   GLOO_ERR_PEER);
  expect_address(&e, port);
  expect_message(&e, "did not answer");
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(child_wait(pid), 1000 + SIGKILL);
  gloo_store_destroy(client);
  go_close(&go);
}

/* Tests that wait for a deadline of the library run separately, with an
 * argument. */
int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest tests[] = {
      TEST(a_killed_server_ends_all_waits),
      TEST(bad_options_are_refused),
      TEST(the_port_is_told),
      TEST(names_and_wildcards_are_served),
      TEST(a_port_in_use_is_named),
      TEST(a_port_in_use_at_any_address_is_refused),
      TEST(an_address_of_another_machine_is_refused),
      TEST(a_host_that_does_not_resolve_is_named),
      TEST(a_server_that_never_comes_is_named),
      TEST(a_server_may_come_later),
      TEST(too_few_descriptors_are_an_error),
      TEST(a_server_needs_no_descriptor_for_its_own_requests),
      TEST(destroying_the_server_ends_all_waits),
  };
  const struct CMUnitTest patient[] = {
      TEST(a_stopped_server_is_no_hang),
      TEST(a_server_without_descriptors_says_so),
  };
  test_warm_up();
  if (argc > 1) return cmocka_run_group_tests(patient, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
