/* Clients and servers of a TCP store that come late, leave early or are not
 * what they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "gloo_c/log.h"
#include "kinds.h"
#include "raw.h"
#include "rendezvous/tcp_protocol.h"

static int descriptors_before;

static int setup(void **state) {
  (void)state;
  descriptors_before = test_open_descriptors();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  return test_open_descriptors() == descriptors_before ? 0 : -1;
}

static gloo_store_tcp_options options_for(uint16_t port) {
  gloo_store_tcp_options options = GLOO_STORE_TCP_OPTIONS_INIT;
  options.host = "127.0.0.1";
  options.port = port;
  options.job = "job";
  options.epoch = 7;
  options.timeout_ns = LONG_TIME;
  return options;
}

static gloo_store *serve(uint16_t port) {
  gloo_store *store;
  gloo_error error;
  gloo_store_tcp_options options = options_for(port);
  options.serve = 1;
  if (gloo_store_tcp_create(&options, &store, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return store;
}

static gloo_store *join(uint16_t port) {
  gloo_store *store;
  gloo_error error;
  gloo_store_tcp_options options = options_for(port);
  if (gloo_store_tcp_create(&options, &store, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return store;
}

static void expect_message(const gloo_error *error, const char *word) {
  if (strstr(error->message, word) == NULL)
    fail_msg("'%s' is not in: %s", word, error->message);
}

static void expect_address(const gloo_error *error, uint16_t port) {
  char address[32];
  snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)port);
  expect_message(error, address);
}

static void expect_served(gloo_store *store) {
  gloo_error error;
  gloo_value value;
  if (gloo_store_set(store, "still", "here", 4, &error) != GLOO_OK ||
      gloo_store_get(store, "still", 0, &value, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  free(value.data);
}

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

static void names_and_wildcards_are_served(void **state) {
  static const char *const hosts[] = {"localhost", "0.0.0.0"};
  (void)state;
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
  expect_message(&e, "address already in use");
  expect_served(store);
  gloo_store_destroy(store);
}

static void an_address_of_another_machine_is_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  gloo_store_tcp_options options = options_for(0);
  (void)state;
  options.host = "192.0.2.1"; /* for documentation, RFC 5737 */
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
  /* A label of more than 63 characters: refused without asking any server. */
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
  options.timeout_ns = LONG_TIME;
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

/* With any number of descriptors left, creating a store works or fails. */
static void too_few_descriptors_are_an_error(void **state) {
  struct rlimit before, limit;
  gloo_store *store;
  gloo_error e;
  int failures = 0, successes = 0;
  (void)state;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  gloo_store_tcp_options options = options_for(0);
  options.serve = 1;
  options.timeout_ns = SHORT_TIME;
  gloo_log_set_level(GLOO_LOG_OFF);
  for (rlim_t n = 0; n < 20; n++) {
    limit = before;
    limit.rlim_cur = (rlim_t)descriptors_before + n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    gloo_status status = gloo_store_tcp_create(&options, &store, &e);
    if (status == GLOO_OK) gloo_store_destroy(store);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (status == GLOO_OK) successes++;
    if (status != GLOO_OK) failures++;
    if (status != GLOO_OK) assert_true(strlen(e.message) > 0);
  }
  gloo_log_set_level(GLOO_LOG_WARN);
  assert_true(failures > 0);
  assert_true(successes > 0);
}

/* ---- strangers ----------------------------------------------------------- */

static void another_job_or_epoch_is_refused(void **state) {
  gloo_store *client;
  gloo_error e;
  (void)state;
  gloo_store *store = serve(0);
  gloo_store_tcp_options options = options_for(gloo_store_tcp_port(store));
  options.job = "other";
  assert_int_equal(gloo_store_tcp_create(&options, &client, &e),
                   GLOO_ERR_STALE);
  expect_address(&e, options.port);
  expect_message(&e, "job 'job', epoch 7");
  expect_message(&e, "job 'other', epoch 7");
  options = options_for(options.port);
  options.epoch = 6;
  assert_int_equal(gloo_store_tcp_create(&options, &client, &e),
                   GLOO_ERR_STALE);
  expect_message(&e, "job 'job', epoch 6");
  expect_served(store);
  gloo_store_destroy(store);
}

static void answer_nonsense(void *argument) {
  static const char page[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
  int listener = *(int *)argument;
  int fd = accept(listener, NULL, NULL);
  raw_send(fd, page, sizeof(page) - 1);
  raw_expect_closed(fd);
}

static void a_server_of_something_else_is_recognised(void **state) {
  gloo_store *store;
  gloo_error e;
  uint16_t port;
  uv_thread_t thread;
  int listener = raw_listen(&port);
  (void)state;
  assert_int_equal(uv_thread_create(&thread, answer_nonsense, &listener), 0);
  gloo_store_tcp_options options = options_for(port);
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e),
                   GLOO_ERR_PROTOCOL);
  expect_address(&e, port);
  uv_thread_join(&thread);
  close(listener);
}

static uv_mutex_t log_lock;
static int log_lines;

static void count_lines(gloo_log_level level, const char *line, void *user) {
  (void)level;
  (void)user;
  uv_mutex_lock(&log_lock);
  if (strstr(line, "dropped") != NULL) log_lines++;
  uv_mutex_unlock(&log_lock);
}

static void make_hello(gli_frame *frame, uint64_t magic, const char *job) {
  gli_frame_begin(frame, 64);
  gli_frame_put_u64(frame, magic);
  gli_frame_put_u32(frame, GLI_TCP_VERSION);
  gli_frame_put_u64(frame, 7);
  gli_frame_put_key(frame, job);
}

/* Send a frame after a good hello, or in its place. */
static void expect_dropped(uint16_t port, gli_frame *frame, uint32_t op,
                           int greet) {
  gli_frame hello;
  int fd = raw_connect(port);
  make_hello(&hello, GLI_TCP_MAGIC, "job");
  gli_frame_end(&hello, GLI_TCP_HELLO);
  if (greet) raw_send(fd, hello.data, hello.bytes);
  gli_frame_end(frame, op);
  raw_send(fd, frame->data, frame->bytes);
  raw_expect_closed(fd);
  free(hello.data);
  free(frame->data);
}

static void expect_garbage_dropped(uint16_t port) {
  static const char *const garbage[] = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\n\n\n\n\n\n\n\n\n\n\n\n",
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
      "SSH-2.0-OpenSSH_9.2\r\n"};
  static const char zeros[64];
  for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
    int fd = raw_connect(port);
    raw_send(fd, garbage[i], strlen(garbage[i]));
    raw_expect_closed(fd);
  }
  int fd = raw_connect(port);
  raw_send(fd, zeros, sizeof(zeros));
  raw_expect_closed(fd);
  fd = raw_connect(port); /* half of a head */
  raw_send(fd, zeros, 4);
  shutdown(fd, SHUT_WR);
  raw_expect_closed(fd);
}

static void expect_broken_hellos_dropped(uint16_t port) {
  gli_frame frame;
  make_hello(&frame, 12345, "job");
  expect_dropped(port, &frame, GLI_TCP_HELLO, 0);
  make_hello(&frame, GLI_TCP_MAGIC, "job"); /* another operation */
  expect_dropped(port, &frame, GLI_TCP_SET, 0);
  make_hello(&frame, GLI_TCP_MAGIC, "job"); /* twice */
  expect_dropped(port, &frame, GLI_TCP_HELLO, 1);
  make_hello(&frame, GLI_TCP_MAGIC, "job"); /* bytes after the end */
  gli_frame_put_u32(&frame, 0);
  expect_dropped(port, &frame, GLI_TCP_HELLO, 0);
}

static void expect_broken_requests_dropped(uint16_t port) {
  gli_frame frame;
  gli_frame_begin(&frame, 64); /* an operation that does not exist */
  expect_dropped(port, &frame, 99, 1);
  gli_frame_begin(&frame, 64); /* nothing in it */
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* an empty key */
  gli_frame_put_key(&frame, "");
  gli_frame_put_blob(&frame, "x", 1);
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* a key without its end */
  gli_frame_put_blob(&frame, "key", 3);
  gli_frame_put_blob(&frame, "x", 1);
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* a key with an end in the middle */
  gli_frame_put_blob(&frame, "k\0y", 4);
  gli_frame_put_blob(&frame, "x", 1);
  expect_dropped(port, &frame, GLI_TCP_APPEND, 1);
  gli_frame_begin(&frame, 64); /* a value longer than the request */
  gli_frame_put_key(&frame, "key");
  gli_frame_put_u32(&frame, 1000000);
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* more keys than there are */
  gli_frame_put_u64(&frame, 0);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_u32(&frame, UINT32_MAX);
  gli_frame_put_key(&frame, "key");
  expect_dropped(port, &frame, GLI_TCP_FETCH, 1);
  gli_frame_begin(&frame, 64); /* no keys */
  gli_frame_put_u64(&frame, 0);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_u32(&frame, 0);
  expect_dropped(port, &frame, GLI_TCP_FETCH, 1);
  gli_frame_begin(&frame, 64); /* cut short */
  gli_frame_put_key(&frame, "key");
  gli_frame_put_u32(&frame, 1);
  expect_dropped(port, &frame, GLI_TCP_ADD, 1);
}

/* A client that talks on while it should wait for a reply. */
static void expect_impatience_dropped(uint16_t port) {
  gli_frame hello, fetch;
  int fd = raw_connect(port);
  make_hello(&hello, GLI_TCP_MAGIC, "job");
  gli_frame_end(&hello, GLI_TCP_HELLO);
  raw_send(fd, hello.data, hello.bytes);
  gli_frame_begin(&fetch, 64);
  gli_frame_put_u64(&fetch, (uint64_t)-1);
  gli_frame_put_u32(&fetch, 1);
  gli_frame_put_u32(&fetch, 1);
  gli_frame_put_key(&fetch, "never");
  gli_frame_end(&fetch, GLI_TCP_FETCH);
  raw_send(fd, fetch.data, fetch.bytes);
  raw_send(fd, fetch.data, fetch.bytes);
  raw_expect_closed(fd);
  free(hello.data);
  free(fetch.data);
}

static void strangers_are_dropped_and_the_job_goes_on(void **state) {
  (void)state;
  gloo_store *store = serve(0);
  uint16_t port = gloo_store_tcp_port(store);
  uv_mutex_init(&log_lock);
  log_lines = 0;
  gloo_log_set_sink(count_lines, NULL);
  expect_garbage_dropped(port);
  expect_served(store);
  expect_broken_hellos_dropped(port);
  expect_served(store);
  expect_broken_requests_dropped(port);
  expect_impatience_dropped(port);
  expect_served(store);
  gloo_store_destroy(store);
  gloo_log_set_sink(NULL, NULL);
  uv_mutex_destroy(&log_lock);
  assert_int_equal(log_lines, 6 + 4 + 9 + 1);
}

static void silent_clients_are_dropped(void **state) {
  (void)state;
  gloo_store *store = serve(0);
  gloo_log_set_level(GLOO_LOG_OFF);
  int fd = raw_connect(gloo_store_tcp_port(store));
  raw_send(fd, "\x1f", 1);
  expect_served(store);
  raw_expect_closed(fd);
  expect_served(store);
  gloo_log_set_level(GLOO_LOG_WARN);
  gloo_store_destroy(store);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Those that wait for a deadline of the library run apart, with an argument. */
int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest tests[] = {
      TEST(a_killed_server_ends_all_waits),
      TEST(bad_options_are_refused),
      TEST(the_port_is_told),
      TEST(names_and_wildcards_are_served),
      TEST(a_port_in_use_is_named),
      TEST(an_address_of_another_machine_is_refused),
      TEST(a_host_that_does_not_resolve_is_named),
      TEST(a_server_that_never_comes_is_named),
      TEST(a_server_may_come_later),
      TEST(too_few_descriptors_are_an_error),
      TEST(another_job_or_epoch_is_refused),
      TEST(a_server_of_something_else_is_recognised),
      TEST(strangers_are_dropped_and_the_job_goes_on),
      TEST(destroying_the_server_ends_all_waits),
  };
  const struct CMUnitTest patient[] = {
      TEST(a_stopped_server_is_no_hang),
      TEST(silent_clients_are_dropped),
  };
  test_warm_up();
  if (argc > 1) return cmocka_run_group_tests(patient, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
