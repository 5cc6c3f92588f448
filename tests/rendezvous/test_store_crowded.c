/* Clients that exhaust a TCP store's server: its memory, time or descriptors.
 * Their hello is valid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "core/bytes.h"
#include "gloo_c/log.h"
#include "kinds.h"
#include "ranks/sanitized.h"
#include "raw.h"
#include "rendezvous/store/tcp/tcp_protocol.h"
#include "rendezvous/store/tcp/tcp_server.h"
#include "tcp_help.h"

#define MIB ((size_t)1 << 20)
/* The most memory that a server may hold: see tcp_budget.h. */
#define BOUND (GLI_TCP_BUDGET + 2 * GLI_TCP_FRAME_MAX + MIB)

static gli_tcp_server *serve_crowd(uint16_t *port) {
  gli_tcp_server *server;
  gloo_error error;
  gloo_store_tcp_options options = options_for(0);
  if (gli_tcp_server_create(&options, NULL, NULL, &server, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  const struct sockaddr_storage *address = gli_tcp_server_address(server);
  *port = ntohs(((const struct sockaddr_in *)address)->sin_port);
  return server;
}

static void expect_bounded(gli_tcp_server *server) {
  gli_tcp_budget budget = gli_tcp_server_budget(server);
  size_t resident;
  assert_true(budget.most <= BOUND);
  assert_true(budget.kept <= GLI_TCP_BUDGET_KEPT);
  /* A sanitizer keeps freed memory for a while. */
  if (!SANITIZED && uv_resident_set_memory(&resident) == 0)
    assert_in_range(resident, 0, 512 * MIB);
}

/* Waits until the server has freed the memory of requests and replies. */
static void await_idle(gli_tcp_server *server) {
  for (int i = 0; gli_tcp_server_budget(server).held > 0; i++) {
    if (i > 6000) fail_msg("the server still holds something");
    uv_sleep(10);
  }
}

static void await_queued(gli_tcp_server *server, size_t n) {
  for (int i = 0; gli_tcp_server_budget(server).queue.n < n; i++) {
    if (i > 6000) fail_msg("no sessions wait for room");
    uv_sleep(10);
  }
}

/* ---- plain connections --------------------------------------------------- */

static void read_all(int fd, uint8_t *to, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = recv(fd, to, bytes, 0);
    assert_true(n > 0);
    to += n;
    bytes -= (size_t)n;
  }
}

/* Returns the status, and the body, which the caller frees. */
static gloo_status read_reply(int fd, uint8_t **body, size_t *bytes) {
  uint8_t head[GLI_TCP_HEAD_BYTES];
  read_all(fd, head, sizeof(head));
  *bytes = gli_get_u32(head);
  *body = malloc(*bytes + 1);
  assert_non_null(*body);
  read_all(fd, *body, *bytes);
  return -(gloo_status)gli_get_u32(head + 4);
}

static int greet(uint16_t port) {
  gli_frame hello;
  uint8_t *body;
  size_t bytes;
  int fd = raw_connect(port);
  raw_make_hello(&hello, GLI_TCP_MAGIC, 7, "job");
  gli_frame_end(&hello, GLI_TCP_HELLO);
  raw_send(fd, hello.data, hello.bytes);
  assert_int_equal(read_reply(fd, &body, &bytes), GLOO_OK);
  free(hello.data);
  free(body);
  return fd;
}

static void begin_fetch(gli_frame *frame, uint64_t timeout, uint32_t want,
                        uint32_t n) {
  gli_frame_begin(frame, 64);
  gli_frame_put_u64(frame, timeout);
  gli_frame_put_u32(frame, want);
  gli_frame_put_key(frame, "");
  gli_frame_put_u32(frame, n);
}

static void send_fetch(int fd, const char *key) {
  gli_frame frame;
  begin_fetch(&frame, 0, 1, 1);
  gli_frame_put_key(&frame, key);
  gli_frame_end(&frame, GLI_TCP_FETCH);
  raw_send(fd, frame.data, frame.bytes);
  free(frame.data);
}

/* MSG_DONTWAIT is a flag that Windows lacks. */
static void set_flags(int fd, int flags) {
  assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

/* Sends `bytes` on each connection, a piece on each in turn, until all are sent
 * or no connection has accepted data for `patience` milliseconds. */
static void send_by_turns(const int *fds, size_t n, const uint8_t *data,
                          size_t bytes, int patience) {
  size_t *sent = calloc(n, sizeof(*sent)), open = n;
  assert_non_null(sent);
  for (size_t i = 0; i < n; i++) set_flags(fds[i], O_NONBLOCK);
  for (int idle = 0; open > 0 && idle < patience; idle++) {
    for (size_t i = 0; i < n; i++) {
      size_t left = bytes - sent[i];
      if (left == 0) continue;
      ssize_t k =
          send(fds[i], data + sent[i], left < MIB ? left : MIB, MSG_NOSIGNAL);
      if (k <= 0) continue;
      sent[i] += (size_t)k;
      if (sent[i] == bytes) open--;
      idle = 0;
    }
    if (open > 0) uv_sleep(1);
  }
  for (size_t i = 0; i < n; i++) set_flags(fds[i], 0);
  free(sent);
}

static void close_all(const int *fds, size_t n) {
  for (size_t i = 0; i < n; i++) close(fds[i]);
}

/* ---- memory -------------------------------------------------------------- */

static void set_big(gloo_store *client, const char *key, size_t bytes) {
  gloo_error e;
  char *value = calloc(1, bytes);
  assert_non_null(value);
  if (gloo_store_set(client, key, value, bytes, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  free(value);
}

enum { READERS = 100 };

/* Connects readers that request 8 MiB each and read none of it. */
static void ask_and_do_not_read(uint16_t port, int *fds, int n) {
  const int few = 4096;
  for (int i = 0; i < n; i++) {
    fds[i] = greet(port);
    setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
    send_fetch(fds[i], "big");
  }
}

static void unread_replies_are_bounded(void **state) {
  int fds[READERS];
  uint16_t port;
  (void)state;
  gli_tcp_server *server = serve_crowd(&port);
  gloo_store *client = join(port);
  set_big(client, "big", GLOO_STORE_VALUE_MAX);
  ask_and_do_not_read(port, fds, READERS);
  await_queued(server, READERS / 2);
  expect_bounded(server);
  expect_served(client);
  close_all(fds, READERS);
  await_idle(server);
  gloo_store_destroy(client);
  gli_tcp_server_destroy(server);
}

static void unfinished_requests_are_bounded(void **state) {
  enum { N = 64 };
  int fds[N];
  uint16_t port;
  (void)state;
  uint8_t *half = calloc(1, GLI_TCP_FRAME_MAX / 2);
  assert_non_null(half);
  gli_put_u32(half, (uint32_t)GLI_TCP_FRAME_MAX);
  gli_put_u32(half + 4, GLI_TCP_SET);
  gli_tcp_server *server = serve_crowd(&port);
  gloo_store *client = join(port);
  for (int i = 0; i < N; i++) fds[i] = greet(port);
  for (int i = 0; i < N; i++) send(fds[i], half, 100, MSG_NOSIGNAL);
  expect_served(client);
  /* The announced bytes are not allocated at once. */
  assert_true(gli_tcp_server_budget(server).most < 2 * N * 4096);
  send_by_turns(fds, N, half + 100, GLI_TCP_FRAME_MAX / 2 - 100, 500);
  await_queued(server, 1);
  expect_bounded(server);
  expect_served(client);
  close_all(fds, N);
  await_idle(server);
  gloo_store_destroy(client);
  gli_tcp_server_destroy(server);
  free(half);
}

typedef struct asker {
  int fd;
  const gli_frame *frame;
  gloo_status status;
  size_t bytes;
} asker;

static void ask_and_read(void *argument) {
  asker *a = argument;
  uint8_t *body;
  raw_send(a->fd, a->frame->data, a->frame->bytes);
  a->status = read_reply(a->fd, &body, &a->bytes);
  free(body);
}

/* Requests that together exceed the budget arrive at the same time, and each is
 * answered. */
static void large_requests_take_turns(void **state) {
  enum { N = 24 };
  asker askers[N];
  uv_thread_t threads[N];
  uint16_t port;
  gli_frame frame;
  (void)state;
  char *value = calloc(1, GLOO_STORE_VALUE_MAX);
  assert_non_null(value);
  gli_tcp_server *server = serve_crowd(&port);
  gloo_store *client = join(port);
  set_big(client, "key", GLOO_STORE_VALUE_MAX - 1);
  gli_frame_begin(&frame, 64);
  gli_frame_put_key(&frame, "key");
  gli_frame_put_blob(&frame, value, GLOO_STORE_VALUE_MAX);
  gli_frame_put_blob(&frame, value, GLOO_STORE_VALUE_MAX);
  gli_frame_put_u32(&frame, 1);
  gli_frame_end(&frame, GLI_TCP_COMPARE);
  assert_false(frame.failed);
  for (int i = 0; i < N; i++) {
    askers[i] = (asker){.fd = greet(port), .frame = &frame};
    assert_int_equal(uv_thread_create(&threads[i], ask_and_read, &askers[i]),
                     0);
  }
  for (int i = 0; i < N; i++) {
    uv_thread_join(&threads[i]);
    assert_int_equal(askers[i].status, GLOO_ERR_COMPARE);
    assert_int_equal(askers[i].bytes, 4 + GLOO_STORE_VALUE_MAX - 1);
    close(askers[i].fd);
  }
  expect_bounded(server);
  await_idle(server);
  free(frame.data);
  gloo_store_destroy(client);
  gli_tcp_server_destroy(server);
  free(value);
}

static void make_long_wait(gli_frame *frame) {
  enum { KEYS = 4375 }; /* a megabyte */
  begin_fetch(frame, (uint64_t)-1, 0, KEYS);
  for (int i = 0; i < KEYS; i++) {
    char key[256];
    snprintf(key, sizeof(key), "%0250d", i);
    gli_frame_put_key(frame, key);
  }
  gli_frame_end(frame, GLI_TCP_FETCH);
  assert_false(frame->failed);
}

static void answer_wait(void *argument) {
  gloo_store *client = argument;
  uv_sleep(50);
  if (gloo_store_set(client, "there", "x", 1, NULL) != GLOO_OK) abort();
}

/* The largest waits are refused; the others stay. */
static void long_waits_are_bounded(void **state) {
  enum { N = 20 };
  static const char *const key[] = {"there"};
  int fds[N], refused = 0;
  uint16_t port;
  gli_frame frame;
  gloo_error e;
  uv_thread_t thread;
  (void)state;
  gli_tcp_server *server = serve_crowd(&port);
  gloo_store *client = join(port);
  make_long_wait(&frame);
  for (int i = 0; i < N; i++) fds[i] = greet(port);
  send_by_turns(fds, N, frame.data, frame.bytes, 60000);
  while (gli_tcp_server_served(server).requests < 1 + 2 * N) uv_sleep(1);
  expect_bounded(server);
  assert_true(gli_tcp_server_budget(server).kept > GLI_TCP_BUDGET_KEPT / 2);
  for (int i = 0; i < N; i++) {
    uint8_t *body;
    size_t bytes;
    char one;
    set_flags(fds[i], O_NONBLOCK);
    ssize_t n = recv(fds[i], &one, 1, MSG_PEEK);
    set_flags(fds[i], 0);
    if (n < 1) continue;
    assert_int_equal(read_reply(fds[i], &body, &bytes), GLOO_ERR_NO_MEMORY);
    free(body);
    refused++;
  }
  assert_in_range(refused, N - 12, N - 8);
  assert_int_equal(uv_thread_create(&thread, answer_wait, client), 0);
  if (gloo_store_wait(client, key, 1, LONG_TIME, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  uv_thread_join(&thread);
  close_all(fds, N);
  await_idle(server);
  free(frame.data);
  gloo_store_destroy(client);
  gli_tcp_server_destroy(server);
}

/* ---- time ---------------------------------------------------------------- */

/* Another client that requests a long value gets it while the readers stay. */
static void readers_that_do_not_read_give_way(void **state) {
  enum { FEW = 12 }; /* three of them are served at the same time */
  int fds[FEW];
  gloo_value value;
  gloo_error e;
  uint16_t port;
  (void)state;
  gli_tcp_server *server = serve_crowd(&port);
  gloo_store *client = join(port);
  set_big(client, "big", GLOO_STORE_VALUE_MAX);
  ask_and_do_not_read(port, fds, FEW);
  await_queued(server, FEW / 2);
  if (gloo_store_get(client, "big", LONG_TIME, &value, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  assert_int_equal(value.bytes, GLOO_STORE_VALUE_MAX);
  free(value.data);
  expect_bounded(server);
  close_all(fds, FEW);
  await_idle(server);
  gloo_store_destroy(client);
  gli_tcp_server_destroy(server);
}

/* Sends a byte now and then, which does not count as progress. */
static void drip(int fd) {
  int i = 0;
  while (i < 1200 && send(fd, "", 1, MSG_NOSIGNAL) == 1) {
    uv_sleep(100);
    i++;
  }
  assert_true(i < 1200);
  close(fd);
}

static void stalled_clients_are_dropped(void **state) {
  static const uint8_t head[GLI_TCP_HEAD_BYTES] = {0, 1, 0, 0, GLI_TCP_SET};
  int fds[5];
  uint16_t port;
  uint8_t *body;
  size_t bytes;
  (void)state;
  gli_tcp_server *server = serve_crowd(&port);
  gloo_store *client = join(port);
  set_big(client, "big", GLOO_STORE_VALUE_MAX);
  for (int i = 0; i < 5; i++) fds[i] = greet(port);
  raw_send(fds[0], head, 3);
  raw_send(fds[1], head, sizeof(head));
  send_fetch(fds[2], "big"); /* the reply exceeds the socket buffers */
  raw_send(fds[3], head, sizeof(head));
  drip(fds[3]);
  raw_expect_closed(fds[0]);
  raw_expect_closed(fds[1]);
  await_idle(server);
  close(fds[2]);
  /* A pause between requests is allowed. */
  send_fetch(fds[4], "big");
  assert_int_equal(read_reply(fds[4], &body, &bytes), GLOO_OK);
  free(body);
  close(fds[4]);
  expect_served(client);
  gloo_store_destroy(client);
  gli_tcp_server_destroy(server);
}

/* A client splits larger requests. */
static void keys_of_a_request_are_bounded(void **state) {
  enum { N = GLI_TCP_KEYS_MAX + 1 };
  static const char *keys[N];
  static gloo_value values[N];
  gli_frame frame;
  gloo_error e;
  uint16_t port;
  (void)state;
  gli_tcp_server *server = serve_crowd(&port);
  gloo_store *client = join(port);
  for (int i = 0; i < N; i++) keys[i] = "k";
  if (gloo_store_set(client, "k", "v", 1, &e) != GLOO_OK ||
      gloo_store_multi_get(client, keys, N, LONG_TIME, values, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  for (int i = 0; i < N; i++) {
    assert_int_equal(values[i].bytes, 1);
    free(values[i].data);
  }
  begin_fetch(&frame, 0, 0, N);
  for (int i = 0; i < N; i++) gli_frame_put_key(&frame, "k");
  gli_frame_end(&frame, GLI_TCP_FETCH);
  int fd = greet(port);
  raw_send(fd, frame.data, frame.bytes);
  assert_true(recv(fd, frame.data, 1, 0) <= 0); /* closed without a reply */
  close(fd);
  expect_served(client);
  free(frame.data);
  gloo_store_destroy(client);
  gli_tcp_server_destroy(server);
}

/* ---- descriptors --------------------------------------------------------- */

static bool limit_descriptors(rlim_t n) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < n) return false;
  limit.rlim_cur = n;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Input and output of a server in a child process. */
typedef struct place {
  go_signal port, end;
  int left; /* descriptors besides those of the process; 0: `limit` in all */
  rlim_t limit;
} place;

/* Returns 0 if connections had to give way, 1 if none had to. */
static int serve_few(int unused, void *argument) {
  place *p = argument;
  gli_tcp_server *server;
  gloo_store_tcp_options options = options_for(0);
  (void)unused;
  alarm(200); /* for a failing test */
  if (gli_tcp_server_create(&options, NULL, NULL, &server, NULL) != GLOO_OK)
    return 2;
  const struct sockaddr_storage *address = gli_tcp_server_address(server);
  uint16_t port = ntohs(((const struct sockaddr_in *)address)->sin_port);
  int next = dup(0);
  close(next);
  if (!limit_descriptors(p->left > 0 ? (rlim_t)(next + p->left) : p->limit))
    return 3;
  if (write(p->port.write_end, &port, sizeof(port)) != sizeof(port)) return 4;
  (void)go_await(&p->end);
  return gli_tcp_server_served(server).gave_way > 0 ? 0 : 1;
}

static pid_t place_open(place *p, uint16_t *port) {
  go_open(&p->port);
  go_open(&p->end);
  pid_t pid = child_start(serve_few, 0, p);
  *port = go_await(&p->port);
  return pid;
}

static int place_close(place *p, pid_t pid) {
  go_send(&p->end, 0);
  int outcome = child_wait(pid);
  go_close(&p->port);
  go_close(&p->end);
  return outcome;
}

static void silent_connections_give_way(void **state) {
  enum { N = 2000 };
  static int fds[N];
  uint16_t port;
  place p = {.limit = 1024};
  struct rlimit before;
  (void)state;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  pid_t pid = place_open(&p, &port);
  if (!limit_descriptors(N + 100)) {
    print_message("# skipped: too few open files are allowed here\n");
    place_close(&p, pid);
    skip();
  }
  gloo_store *first = join(port);
  for (int i = 0; i < N / 2; i++) fds[i] = raw_connect(port);
  gloo_store *second = join(port);
  expect_served(second);
  for (int i = N / 2; i < N; i++) fds[i] = raw_connect(port);
  gloo_store *third = join(port);
  expect_served(third);
  expect_served(first);
  close_all(fds, N);
  gloo_store_destroy(third);
  gloo_store_destroy(second);
  gloo_store_destroy(first);
  assert_int_equal(place_close(&p, pid), 0);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void silent_connections_give_their_descriptors(void **state) {
  enum { LEFT = 4 };
  gloo_store *clients[LEFT];
  int fds[LEFT];
  uint16_t port;
  place p = {.left = LEFT};
  (void)state;
  pid_t pid = place_open(&p, &port);
  for (int i = 0; i < LEFT; i++) fds[i] = raw_connect(port);
  for (int i = 0; i < LEFT; i++) clients[i] = join(port);
  for (int i = 0; i < LEFT; i++) expect_served(clients[i]);
  close_all(fds, LEFT);
  for (int i = 0; i < LEFT; i++) gloo_store_destroy(clients[i]);
  assert_int_equal(place_close(&p, pid), 0);
}

/* Half of the server's descriptors are for clients. */
static void a_full_server_says_so(void **state) {
  enum { LIMIT = 40, CLIENTS = LIMIT / 2 };
  gloo_store *clients[CLIENTS], *another;
  gloo_error e;
  uint16_t port;
  place p = {.limit = LIMIT};
  (void)state;
  pid_t pid = place_open(&p, &port);
  for (int i = 0; i < CLIENTS; i++) clients[i] = join(port);
  gloo_store_tcp_options options = options_for(port);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(gloo_store_tcp_create(&options, &another, &e),
                     GLOO_ERR_IO);
    expect_address(&e, port);
    expect_message(&e, "at most 20");
    expect_message(&e, "ulimit -n), which is 40 now");
  }
  gloo_store_destroy(clients[0]);
  clients[0] = join(port);
  for (int i = 0; i < CLIENTS; i++) expect_served(clients[i]);
  for (int i = 0; i < CLIENTS; i++) gloo_store_destroy(clients[i]);
  assert_int_equal(place_close(&p, pid), 1);
}

/* Tests that wait for a deadline of the library run separately, with an
 * argument. */
int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest tests[] = {
      TEST(unread_replies_are_bounded),
      TEST(unfinished_requests_are_bounded),
      TEST(large_requests_take_turns),
      TEST(long_waits_are_bounded),
      TEST(keys_of_a_request_are_bounded),
      TEST(silent_connections_give_way),
      TEST(silent_connections_give_their_descriptors),
  };
  const struct CMUnitTest patient[] = {
      TEST(readers_that_do_not_read_give_way),
      TEST(stalled_clients_are_dropped),
      TEST(a_full_server_says_so),
  };
  test_warm_up();
  gloo_log_set_level(GLOO_LOG_ERROR);
  if (argc > 1) return cmocka_run_group_tests(patient, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
