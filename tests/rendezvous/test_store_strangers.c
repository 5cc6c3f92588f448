/* Strangers at a TCP store's port, and servers of other protocols that a client
 * meets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/log.h"
#include "kinds.h"
#include "raw.h"
#include "rendezvous/store/tcp/tcp_protocol.h"
#include "rendezvous/store/tcp/tcp_strangers.h"
#include "tcp_help.h"

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
  expect_message(&e, "another job or epoch");
  expect_message(&e, "job 'other', epoch 7"); /* the server's own */
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

/* Sends a refusal without a text, first in place of a greeting, then after
 * one. */
static void refuse_without_a_word(void *argument) {
  static const uint8_t replies[16] = {[12] = (uint8_t)-GLOO_ERR_BUSY};
  for (int greets = 0; greets < 2; greets++) {
    int fd = accept(*(int *)argument, NULL, NULL);
    raw_send(fd, replies + (greets ? 0 : 8), greets ? 16 : 8);
    raw_expect_closed(fd);
  }
}

static void a_refusal_without_a_word_is_told(void **state) {
  gloo_store *store;
  gloo_error e;
  uint16_t port;
  uv_thread_t thread;
  int listener = raw_listen(&port);
  (void)state;
  uv_thread_create(&thread, refuse_without_a_word, &listener);
  gloo_store_tcp_options options = options_for(port);
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e), GLOO_ERR_BUSY);
  expect_address(&e, port);
  expect_message(&e, "without giving a reason");
  assert_int_equal(gloo_store_tcp_create(&options, &store, &e), GLOO_OK);
  assert_int_equal(gloo_store_set(store, "k", "v", 1, &e), GLOO_ERR_BUSY);
  expect_address(&e, port);
  expect_message(&e, "without giving a reason");
  gloo_store_destroy(store);
  uv_thread_join(&thread);
  close(listener);
}

static uv_mutex_t log_lock;
static int log_lines, log_warnings;
static char log_last[256];

static void count_lines(gloo_log_level level, const char *line, void *user) {
  (void)user;
  uv_mutex_lock(&log_lock);
  if (strstr(line, "dropped the client") != NULL) {
    log_lines++;
    if (level == GLOO_LOG_WARN) log_warnings++;
  }
  if (level == GLOO_LOG_WARN) snprintf(log_last, sizeof(log_last), "%s", line);
  uv_mutex_unlock(&log_lock);
}

/* The job's name protects the keys of all ranks from strangers, so no reply
 * contains it. */
static void strangers_are_not_told_the_job(void **state) {
  static const char all[] = "another job or epoch";
  char reply[512];
  gli_frame hello;
  (void)state;
  gloo_store *store = serve(0);
  gloo_log_set_level(GLOO_LOG_OFF);
  int fd = raw_connect(gloo_store_tcp_port(store));
  raw_make_hello(&hello, GLI_TCP_MAGIC, 7, "guess");
  gli_frame_end(&hello, GLI_TCP_HELLO);
  raw_send(fd, hello.data, hello.bytes);
  size_t got = raw_read_all(fd, reply, sizeof(reply));
  assert_int_equal(got, GLI_TCP_HEAD_BYTES + sizeof(all) - 1);
  assert_memory_equal(reply + GLI_TCP_HEAD_BYTES, all, sizeof(all) - 1);
  close(fd);
  free(hello.data);
  gloo_log_set_level(GLOO_LOG_WARN);
  gloo_store_destroy(store);
}

/* Sends a frame after a valid hello, or in its place. */
static void expect_dropped(uint16_t port, gli_frame *frame, uint32_t op,
                           int greet) {
  gli_frame hello;
  int fd = raw_connect(port);
  raw_make_hello(&hello, GLI_TCP_MAGIC, 7, "job");
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
  fd = raw_connect(port); /* half of a header */
  raw_send(fd, zeros, 4);
  shutdown(fd, SHUT_WR);
  raw_expect_closed(fd);
}

static void expect_broken_hellos_dropped(uint16_t port) {
  gli_frame frame;
  raw_make_hello(&frame, 12345, 7, "job");
  expect_dropped(port, &frame, GLI_TCP_HELLO, 0);
  raw_make_hello(&frame, GLI_TCP_MAGIC, 7, "job"); /* another operation */
  expect_dropped(port, &frame, GLI_TCP_SET, 0);
  raw_make_hello(&frame, GLI_TCP_MAGIC, 7, "job"); /* twice */
  expect_dropped(port, &frame, GLI_TCP_HELLO, 1);
  raw_make_hello(&frame, GLI_TCP_MAGIC, 7, "job"); /* bytes after the end */
  gli_frame_put_u32(&frame, 0);
  expect_dropped(port, &frame, GLI_TCP_HELLO, 0);
}

static void expect_broken_requests_dropped(uint16_t port) {
  gli_frame frame;
  gli_frame_begin(&frame, 64); /* an unknown operation */
  expect_dropped(port, &frame, 99, 1);
  gli_frame_begin(&frame, 64); /* empty body */
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* an empty key */
  gli_frame_put_key(&frame, "");
  gli_frame_put_blob(&frame, "x", 1);
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* a key without its terminating 0 */
  gli_frame_put_blob(&frame, "key", 3);
  gli_frame_put_blob(&frame, "x", 1);
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* a key with a 0 in the middle */
  gli_frame_put_blob(&frame, "k\0y", 4);
  gli_frame_put_blob(&frame, "x", 1);
  expect_dropped(port, &frame, GLI_TCP_APPEND, 1);
  gli_frame_begin(&frame, 64); /* a value longer than the request */
  gli_frame_put_key(&frame, "key");
  gli_frame_put_u32(&frame, 1000000);
  expect_dropped(port, &frame, GLI_TCP_SET, 1);
  gli_frame_begin(&frame, 64); /* more keys than follow */
  gli_frame_put_u64(&frame, 0);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_key(&frame, "");
  gli_frame_put_u32(&frame, UINT32_MAX);
  gli_frame_put_key(&frame, "key");
  expect_dropped(port, &frame, GLI_TCP_FETCH, 1);
  gli_frame_begin(&frame, 64); /* no keys */
  gli_frame_put_u64(&frame, 0);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_key(&frame, "");
  gli_frame_put_u32(&frame, 0);
  expect_dropped(port, &frame, GLI_TCP_FETCH, 1);
  gli_frame_begin(&frame, 64); /* an alarm without its terminating 0 */
  gli_frame_put_u64(&frame, 0);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_blob(&frame, "alarm", 5);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_key(&frame, "key");
  expect_dropped(port, &frame, GLI_TCP_FETCH, 1);
  gli_frame_begin(&frame, 64); /* a will longer than the request */
  gli_frame_put_u32(&frame, UINT32_MAX);
  gli_frame_put_u32(&frame, 1);
  gli_frame_put_key(&frame, "key");
  gli_frame_put_blob(&frame, "x", 1);
  expect_dropped(port, &frame, GLI_TCP_WILL, 1);
  gli_frame_begin(&frame, 64); /* a condition longer than the request */
  gli_frame_put_u32(&frame, 0);
  gli_frame_put_u32(&frame, 1);
  expect_dropped(port, &frame, GLI_TCP_WILL, 1);
  gli_frame_begin(&frame, 64); /* truncated */
  gli_frame_put_key(&frame, "key");
  gli_frame_put_u32(&frame, 1);
  expect_dropped(port, &frame, GLI_TCP_ADD, 1);
}

/* Expects the server to drop a client that sends more while a reply is due. */
static void expect_impatience_dropped(uint16_t port) {
  gli_frame hello, fetch;
  int fd = raw_connect(port);
  raw_make_hello(&hello, GLI_TCP_MAGIC, 7, "job");
  gli_frame_end(&hello, GLI_TCP_HELLO);
  raw_send(fd, hello.data, hello.bytes);
  gli_frame_begin(&fetch, 64);
  gli_frame_put_u64(&fetch, (uint64_t)-1);
  gli_frame_put_u32(&fetch, 1);
  gli_frame_put_key(&fetch, "");
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
  log_lines = log_warnings = 0;
  gloo_log_set_level(GLOO_LOG_DEBUG);
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
  gloo_log_set_level(GLOO_LOG_WARN);
  uv_mutex_destroy(&log_lock);
  assert_int_equal(log_lines, 6 + 4 + 12 + 1);
  /* Strangers cannot fill the log. */
  assert_int_equal(log_warnings, GLI_TCP_LINES_MAX);
  assert_non_null(strstr(log_last, "rejected 13 more clients"));
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

/* The test that waits for a deadline of the library runs separately, with an
 * argument. */
int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest tests[] = {
      TEST(another_job_or_epoch_is_refused),
      TEST(strangers_are_not_told_the_job),
      TEST(a_server_of_something_else_is_recognised),
      TEST(a_refusal_without_a_word_is_told),
      TEST(strangers_are_dropped_and_the_job_goes_on),
  };
  const struct CMUnitTest patient[] = {
      TEST(silent_clients_are_dropped),
  };
  /* Allows raw sockets as clients. */
  setenv("GLOO_SECURITY", "off", 1);
  test_warm_up();
  if (argc > 1) return cmocka_run_group_tests(patient, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
