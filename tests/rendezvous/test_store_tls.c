/* A TCP store that uses TLS: accepted and refused clients with their errors,
 * long values, and records that arrive in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "../security/pki.h"
#include "gloo_c/gloo_c.h"
#include "net/tls.h"
#include "raw.h"

#define SECOND INT64_C(1000000000)

static const char secret[16] = "0123456789abcde", other[16] = "123456789abcdef";

/* ---- certificates -------------------------------------------------------- */

static const char *folder;

static const char *path_of(const char *name) {
  enum { PATHS = 4 };
  static char paths[PATHS][96];
  static int next;
  char *path = paths[next++ % PATHS];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static int set_up_files(void **state) {
  static const struct {
    const char *file;
    pki_paper paper;
  } papers[] = {
      {"rank0", {.names = "URI:gloo:rank/0"}},
      {"rank1", {.names = "URI:gloo:rank/1"}},
      {"address", {.names = "IP:127.0.0.1,IP:::1"}},
      {"localhost", {.names = "DNS:localhost,IP:127.0.0.1"}},
      {"job", {.names = "DNS:job.example"}},
      {"stranger", {.names = "DNS:stranger.example,IP:10.9.9.9"}},
      {"expired", {.names = "URI:gloo:rank/1", .from_s = -9, .until_s = -5}},
  };
  pki_authority *ca = pki_authority_new("the authority");
  pki_authority *another = pki_authority_new("another authority");
  (void)state;
  folder = pki_folder();
  pki_authority_write(ca, path_of("ca"));
  for (size_t i = 0; i < sizeof papers / sizeof *papers; i++)
    pki_issue(ca, &papers[i].paper, path_of(papers[i].file), NULL);
  pki_issue(another, &papers[1].paper, path_of("unbelieved"), NULL);
  pki_authority_free(ca);
  pki_authority_free(another);
  return 0;
}

static int tear_down_files(void **state) {
  (void)state;
  pki_folder_remove(folder);
  return 0;
}

/* ---- stores -------------------------------------------------------------- */

typedef struct end {
  const char *certificate; /* NULL: TLS by the secret */
  const char *secret, *host, *name;
  bool plain; /* without TLS */
} end;

static int64_t patience_ns = 20 * SECOND;

static gloo_status open_store(const end *x, uint16_t port, gloo_store **store,
                              gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_tls_options tls = GLOO_TLS_OPTIONS_INIT;
  tls.use = x->plain ? -1 : 1;
  if (x->certificate != NULL) {
    tls.certificate = path_of(x->certificate);
    tls.authority = path_of("ca");
    tls.name = x->name;
  }
  o.host = x->host != NULL ? x->host : "127.0.0.1";
  o.port = port;
  o.serve = port == 0;
  o.timeout_ns = patience_ns;
  o.secret = x->secret;
  o.secret_bytes = x->secret != NULL ? sizeof secret : 0;
  o.tls = &tls;
  return gloo_store_tcp_create(&o, store, error);
}

static gloo_store *store_of(const end *x, uint16_t port) {
  gloo_error e;
  gloo_store *store;
  if (open_store(x, port, &store, &e) != GLOO_OK) fail_msg("%s", e.message);
  return store;
}

static void expect_refused(const end *x, uint16_t port, const char *why) {
  gloo_error e = {.status = GLOO_OK};
  gloo_store *store;
  gloo_status status = open_store(x, port, &store, &e);
  if (status != GLOO_ERR_AUTH || strstr(e.message, why) == NULL)
    fail_msg("%s, %s", gloo_status_string(status), e.message);
}

static void expect_holds(gloo_store *store, const char *key, const void *data,
                         size_t bytes) {
  gloo_value value;
  gloo_error e;
  if (gloo_store_get(store, key, 20 * SECOND, &value, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  assert_int_equal(value.bytes, bytes);
  assert_memory_equal(value.data, data, bytes);
  free(value.data);
}

static const end by_secret = {NULL, secret, NULL, NULL, false};
static const end by_paper_0 = {"rank0", NULL, NULL, NULL, false};
static const end by_paper_1 = {"rank1", NULL, NULL, NULL, false};

/* ---- accepted and refused clients ---------------------------------------- */

static void all_kinds_come_in(void **state) {
  static const end pairs[][2] = {
      {{NULL, secret, NULL, NULL, false}, {NULL, secret, NULL, NULL, false}},
      {{NULL, secret, "::1", NULL, false}, {NULL, secret, "::1", NULL, false}},
      {{"rank0", NULL, NULL, NULL, false}, {"rank1", NULL, NULL, NULL, false}},
      {{"rank0", secret, NULL, NULL, false},
       {"rank1", secret, NULL, NULL, false}},
      {{"rank0", NULL, "::1", NULL, false},
       {"rank1", NULL, "::1", NULL, false}},
      {{"address", NULL, NULL, NULL, false},
       {"address", NULL, NULL, NULL, false}},
      {{"address", NULL, "::1", NULL, false},
       {"address", NULL, "::1", NULL, false}},
      /* A dual-stack socket has IPv4 addresses mapped to IPv6. */
      {{"address", NULL, "::", NULL, false},
       {"address", NULL, "127.0.0.1", NULL, false}},
      {{"localhost", NULL, "localhost", NULL, false},
       {"rank1", NULL, "localhost", NULL, false}},
      {{"job", NULL, NULL, "job.example", false},
       {"job", NULL, NULL, "job.example", false}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    gloo_store *server = store_of(&pairs[i][0], 0);
    gloo_store *client = store_of(&pairs[i][1], gloo_store_tcp_port(server));
    assert_int_equal(gloo_store_set(client, "k", "v", 1, NULL), GLOO_OK);
    expect_holds(server, "k", "v", 1);
    assert_int_equal(gloo_store_set(server, "l", "w", 1, NULL), GLOO_OK);
    expect_holds(client, "l", "w", 1);
    gloo_store_destroy(client);
    gloo_store_destroy(server);
  }
}

static void others_stay_outside_and_are_told(void **state) {
  const end plain = {.plain = true}, plain_secret = {NULL, secret, 0, 0, true};
  const end wrong = {NULL, other, 0, 0, false};
  (void)state;
  gloo_log_set_level(GLOO_LOG_OFF);
  gloo_store *server = store_of(&by_secret, 0);
  uint16_t port = gloo_store_tcp_port(server);
  expect_refused(&plain, port, "uses TLS with the job secret");
  expect_refused(&plain_secret, port, "did not prove");
  expect_refused(&wrong, port, "a different secret");
  expect_refused(&by_paper_1, port, "uses TLS with the job secret");
  gloo_store_destroy(server);

  server = store_of(&by_paper_0, 0);
  port = gloo_store_tcp_port(server);
  expect_refused(&plain, port, "uses TLS with certificates");
  expect_refused(&by_secret, port, "uses TLS with certificates");
  expect_refused(&(end){.certificate = "stranger"}, port,
                 "rejects this client");
  expect_refused(&(end){.certificate = "expired"}, port, "certificate expired");
  expect_refused(&(end){.certificate = "unbelieved"}, port, "unknown ca");
  gloo_store_destroy(server);

  static const char *const no_servers[] = {"rank1", "stranger", "job"};
  for (int i = 0; i < 3; i++) {
    server = store_of(&(end){.certificate = no_servers[i]}, 0);
    expect_refused(&by_paper_1, gloo_store_tcp_port(server), "certificate");
    gloo_store_destroy(server);
  }
  server = store_of(&plain_secret, 0);
  expect_refused(&by_secret, gloo_store_tcp_port(server), "uses no TLS");
  expect_refused(&by_paper_1, gloo_store_tcp_port(server), "uses no TLS");
  gloo_store_destroy(server);
  gloo_log_set_level(GLOO_LOG_WARN);
}

/* ---- long values, and records in pieces ---------------------------------- */

/* A proxy between a client and the server. */
typedef struct between {
  uint16_t server;
  int listener, room;
  size_t piece;
  int from;       /* direction of the changed byte; 0: from the client */
  size_t changed; /* index of the byte to change; SIZE_MAX: none */
  size_t passed[2];
} between;

static bool pass_on(between *b, int from, const int fds[2]) {
  uint8_t bytes[16384];
  ssize_t n = recv(fds[from], bytes, b->piece, 0);
  if (n <= 0) return false;
  size_t begin = b->passed[from];
  b->passed[from] += (size_t)n;
  if (b->from == from && b->changed >= begin && b->changed < b->passed[from])
    bytes[b->changed - begin] ^= 1;
  return send(fds[1 - from], bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void stand_between(void *argument) {
  between *b = argument;
  int fds[2] = {accept(b->listener, NULL, NULL), raw_connect(b->server)};
  for (int i = 0; i < 2 && b->room > 0; i++) {
    (void)setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &b->room, sizeof b->room);
  }
  for (bool on = true; on;) {
    struct pollfd ready[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    if (poll(ready, 2, 30000) <= 0) break;
    for (int i = 0; i < 2 && on; i++)
      if (ready[i].revents != 0) on = pass_on(b, i, fds);
  }
  close(fds[0]);
  close(fds[1]);
}

static void between_begin(between *b, uv_thread_t *thread, uint16_t *port) {
  b->listener = raw_listen(port);
  assert_int_equal(uv_thread_create(thread, stand_between, b), 0);
}

static void between_end(between *b, uv_thread_t *thread) {
  uv_thread_join(thread);
  close(b->listener);
}

static void long_values_pass_narrow_ways(void **state) {
  static const size_t sizes[] = {1, 16383, 16384, 300001, GLOO_STORE_VALUE_MAX};
  enum { MOST = GLOO_STORE_VALUE_MAX };
  uint8_t *data = malloc(MOST);
  (void)state;
  assert_non_null(data);
  for (size_t i = 0; i < MOST; i++) data[i] = (uint8_t)(i * 13 + i / 999);
  for (int kind = 0; kind < 4; kind++) {
    const end *here = kind % 2 ? &by_paper_1 : &by_secret;
    gloo_store *server = store_of(kind % 2 ? &by_paper_0 : &by_secret, 0);
    between b = {.server = gloo_store_tcp_port(server),
                 .changed = SIZE_MAX,
                 .room = kind < 2 ? 65536 : 0,
                 .piece = kind < 2 ? 16384 : 1300};
    uv_thread_t thread;
    uint16_t port;
    between_begin(&b, &thread, &port);
    gloo_store *client = store_of(here, port);
    for (size_t i = 0; i < (kind < 2 ? 5 : 4); i++) {
      assert_int_equal(gloo_store_set(client, "k", data, sizes[i], NULL),
                       GLOO_OK);
      expect_holds(server, "k", data, sizes[i]);
      expect_holds(client, "k", data, sizes[i]);
    }
    gloo_store_destroy(client);
    between_end(&b, &thread);
    gloo_store_destroy(server);
  }
  free(data);
}

static void many_values_come_at_once(void **state) {
  enum { KEYS = 2000 };
  static char names[KEYS][16];
  static const char *keys[KEYS];
  static gloo_value values[KEYS];
  (void)state;
  gloo_store *server = store_of(&by_secret, 0);
  gloo_store *client = store_of(&by_secret, gloo_store_tcp_port(server));
  for (int i = 0; i < KEYS; i++) {
    snprintf(names[i], sizeof names[i], "key%d", i);
    keys[i] = names[i];
    values[i] = (gloo_value){names[i], strlen(names[i])};
  }
  assert_int_equal(gloo_store_multi_set(client, keys, values, KEYS, NULL),
                   GLOO_OK);
  assert_int_equal(
      gloo_store_multi_get(client, keys, KEYS, 20 * SECOND, values, NULL),
      GLOO_OK);
  for (int i = 0; i < KEYS; i++) {
    assert_int_equal(values[i].bytes, strlen(names[i]));
    assert_memory_equal(values[i].data, names[i], values[i].bytes);
    free(values[i].data);
  }
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

/* Whichever byte changes, no other value is set and neither side hangs. */
static void what_is_changed_is_not_taken(void **state) {
  (void)state;
  gloo_log_set_level(GLOO_LOG_OFF);
  gloo_store *server = store_of(&by_secret, 0);
  size_t most[2] = {1, 1};
  patience_ns = SECOND / 5;
  for (int from = 0; from < 2; from++) {
    for (size_t at = 9; at < most[0] || at < 200; at += 41) {
      between b = {.server = gloo_store_tcp_port(server),
                   .from = from,
                   .changed = at,
                   .piece = 16384};
      uv_thread_t thread;
      uint16_t port;
      gloo_store *client;
      gloo_error e;
      between_begin(&b, &thread, &port);
      gloo_status status = open_store(&by_secret, port, &client, &e);
      if (status == GLOO_OK) {
        status = gloo_store_set(client, "k", "v", 1, &e);
        gloo_store_destroy(client);
      }
      between_end(&b, &thread);
      most[from] = b.passed[from] > most[from] ? b.passed[from] : most[from];
      gloo_value value;
      if (gloo_store_get(server, "k", GLOO_TIMEOUT_NOW, &value, NULL) ==
          GLOO_OK) {
        assert_int_equal(value.bytes, 1);
        assert_memory_equal(value.data, "v", 1);
        free(value.data);
        assert_int_equal(gloo_store_delete(server, "k", NULL), GLOO_OK);
      }
      if (b.changed < b.passed[from] && from == 0 && at > 250)
        assert_int_not_equal(status, GLOO_OK);
    }
  }
  patience_ns = 20 * SECOND;
  gloo_store *client = store_of(&by_secret, gloo_store_tcp_port(server));
  gloo_store_destroy(client);
  gloo_store_destroy(server);
  gloo_log_set_level(GLOO_LOG_WARN);
}

/* ---- strangers ----------------------------------------------------------- */

/* Announces TLS and expects the server to agree. */
static int announced(uint16_t port, gli_tls_kind kind) {
  gli_frame hello;
  uint8_t reply[8];
  int fd = raw_connect(port);
  gli_frame_begin(&hello, 64);
  gli_frame_put_u64(&hello, GLI_TCP_MAGIC);
  gli_frame_put_u32(&hello, GLI_TCP_VERSION);
  gli_frame_put_u32(&hello, GLI_TCP_BY_TLS);
  gli_frame_put_u32(&hello, kind);
  gli_frame_end(&hello, GLI_TCP_HELLO);
  raw_send(fd, hello.data, hello.bytes);
  free(hello.data);
  assert_int_equal(recv(fd, reply, sizeof reply, MSG_WAITALL), sizeof reply);
  for (int i = 0; i < 8; i++) assert_int_equal(reply[i], 0);
  return fd;
}

static void strangers_get_no_further(void **state) {
  static const struct {
    const char *text;
    size_t bytes;
  } texts[] = {{"\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03", 11},
               {"\x17\x03\x03\x00\x04text", 9},
               {"GET / HTTP/1.1\r\n\r\n", 18},
               {"\2\0\0\0\1\0\0\0k\0", 10},
               {"", 0}};
  (void)state;
  gloo_log_set_level(GLOO_LOG_OFF);
  for (int kind = 0; kind < 2; kind++) {
    gloo_store *server = store_of(kind ? &by_paper_0 : &by_secret, 0);
    uint16_t port = gloo_store_tcp_port(server);
    for (size_t i = 0; i < 10; i++) {
      int fd =
          announced(port, kind ? GLI_TLS_BY_CERTIFICATE : GLI_TLS_BY_SECRET);
      raw_send(fd, texts[i / 2].text, texts[i / 2].bytes);
      if (i % 2 == 0) (void)shutdown(fd, SHUT_WR);
      if (i % 2 == 0) raw_expect_closed(fd);
      if (i % 2 != 0) close(fd);
    }
    gloo_store *client = store_of(kind ? &by_paper_1 : &by_secret, port);
    gloo_store_destroy(client);
    gloo_store_destroy(server);
  }
  gloo_log_set_level(GLOO_LOG_WARN);
}

static void a_silent_crowd_keeps_nobody_out(void **state) {
  enum { CROWD = 300 };
  int fds[CROWD];
  (void)state;
  gloo_log_set_level(GLOO_LOG_OFF);
  gloo_store *server = store_of(&by_secret, 0);
  uint16_t port = gloo_store_tcp_port(server);
  for (int i = 0; i < CROWD; i++) {
    fds[i] = announced(port, GLI_TLS_BY_SECRET);
    if (i % 2) raw_send(fds[i], "\x16\x03\x01\x00\xf0\x01", 6);
  }
  gloo_store *client = store_of(&by_secret, port);
  assert_int_equal(gloo_store_set(client, "k", "v", 1, NULL), GLOO_OK);
  for (int i = 0; i < CROWD; i++) close(fds[i]);
  gloo_store_destroy(client);
  gloo_store_destroy(server);
  gloo_log_set_level(GLOO_LOG_WARN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_kinds_come_in),
      cmocka_unit_test(others_stay_outside_and_are_told),
      cmocka_unit_test(long_values_pass_narrow_ways),
      cmocka_unit_test(many_values_come_at_once),
      cmocka_unit_test(what_is_changed_is_not_taken),
      cmocka_unit_test(strangers_get_no_further),
      cmocka_unit_test(a_silent_crowd_keeps_nobody_out),
  };
  static const char *const variables[] = {
      "GLOO_JOB_SECRET",      "GLOO_JOB_SECRET_FILE",
      "GLOO_SECURITY",        "GLOO_TLS",
      "GLOO_TLS_KEY",         "GLOO_TLS_NAME",
      "GLOO_TLS_CERTIFICATE", "GLOO_TLS_AUTHORITY"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    unsetenv(variables[i]);
  setenv("HOME", "/nowhere", 1); /* a real home directory may hold a secret */
  return cmocka_run_group_tests(tests, set_up_files, tear_down_files);
}
