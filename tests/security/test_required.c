/* GLOO_SECURITY=required: a rank of a job without a secret is refused on every
 * path, before it listens, connects or writes to a store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "gloo_c/gloo_c.h"
#include "security/keys.h"

static const char *word; /* value of GLOO_SECURITY */
static gloo_error e;

static int ask(void **state) {
  static const char *const all[] = {"GLOO_RANK",
                                    "GLOO_SIZE",
                                    "GLOO_STORE",
                                    "GLOO_JOB_SECRET",
                                    "GLOO_JOB_SECRET_FILE",
                                    "GLOO_PORT_RANGE"};
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
  setenv("GLOO_SECURITY", word, 1);
  setenv("HOME", "/nonexistent", 1);
  memset(&e, 0, sizeof e);
  return 0;
}

static void assert_refused(gloo_status status) {
  if (status != GLOO_ERR_AUTH) fail_msg("%d: %s", (int)status, e.message);
  assert_non_null(strstr(e.message, "GLOO_SECURITY=required"));
  assert_non_null(strstr(e.message, "GLOO_JOB_SECRET"));
}

/* Occupies a port of 127.0.0.1 with a listener that sees connections. */
static int listen_here(uint16_t *port) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 8), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
  *port = ntohs(at.sin_port);
  return fd;
}

/* No wait is needed: a client has connected when its call returns. */
static void assert_nothing_came(int fd) {
  assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  assert_int_equal(accept(fd, NULL, NULL), -1);
  assert_true(errno == EAGAIN || errno == EWOULDBLOCK);
  close(fd);
}

/* Occupies the only port allowed to devices, so that a rank that tries to
 * listen gets GLOO_ERR_ADDRESS. */
static int occupy_ports(void) {
  char text[16];
  uint16_t port;
  int fd = listen_here(&port);
  snprintf(text, sizeof text, "%u-%u", (unsigned)port, (unsigned)port);
  setenv("GLOO_PORT_RANGE", text, 1);
  setenv("GLOO_BIND_ADDR", "127.0.0.1", 1);
  gloo_device *device;
  assert_int_equal(gloo_device_create(NULL, &device, &e), GLOO_ERR_ADDRESS);
  return fd;
}

static void release_ports(int fd) {
  unsetenv("GLOO_PORT_RANGE");
  unsetenv("GLOO_BIND_ADDR");
  assert_nothing_came(fd);
}

/* ---- gloo_init ----------------------------------------------------------- */

static void no_rank_starts_at(const char *scheme, const char *path) {
  char url[256];
  uint16_t port;
  gloo_context *context;
  for (int rank = 0; rank < 2; rank++) {
    int store = listen_here(&port), device = occupy_ports();
    if (strcmp(scheme, "file") == 0) {
      snprintf(url, sizeof url, "file://%s", path);
    } else {
      snprintf(url, sizeof url, "%s://127.0.0.1:%u%s", scheme, (unsigned)port,
               path);
    }
    setenv("GLOO_STORE", url, 1);
    setenv("GLOO_SIZE", "2", 1);
    setenv("GLOO_RANK", rank == 0 ? "0" : "1", 1);
    assert_refused(gloo_init(NULL, &context, &e));
    release_ports(device);
    assert_nothing_came(store);
  }
}

static void no_rank_starts_at_a_tcp_store(void **state) {
  (void)state;
  no_rank_starts_at("tcp", "");
}

static void no_rank_starts_at_a_c10d_store(void **state) {
  (void)state;
  no_rank_starts_at("c10d", "/prefix");
}

static void no_rank_starts_at_a_redis_store(void **state) {
  (void)state;
  no_rank_starts_at("redis", "/prefix");
}

static int files_in(const char *directory) {
  int n = 0;
  DIR *d = opendir(directory);
  assert_non_null(d);
  while (readdir(d) != NULL) n++;
  closedir(d);
  return n - 2;
}

static void no_rank_starts_at_a_file_store(void **state) {
  char directory[] = "/tmp/gloo_c-required-XXXXXX";
  (void)state;
  assert_non_null(mkdtemp(directory));
  no_rank_starts_at("file", directory);
  assert_int_equal(files_in(directory), 0);
  assert_int_equal(rmdir(directory), 0);
}

/* torchrun states that all ranks are local, and rank 0 would serve a second
 * store. */
static void no_rank_of_torchrun_starts(void **state) {
  char text[16];
  uint16_t port;
  gloo_context *context;
  (void)state;
  int store = listen_here(&port);
  snprintf(text, sizeof text, "%u", (unsigned)port);
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", text, 1);
  for (int agent = 0; agent < 2; agent++) {
    if (agent) setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    assert_refused(gloo_init(NULL, &context, &e));
  }
  static const char *const set[] = {
      "RANK",        "WORLD_SIZE",  "LOCAL_WORLD_SIZE",
      "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"};
  for (size_t i = 0; i < sizeof set / sizeof *set; i++) unsetenv(set[i]);
  assert_nothing_came(store);
}

/* ---- stores of the program ----------------------------------------------- */

static int calls;

static gloo_status count_set(void *user, const char *key, const void *data,
                             size_t bytes) {
  (void)user, (void)key, (void)data, (void)bytes;
  calls++;
  return GLOO_ERR_IO;
}

static gloo_status count_get(void *user, const char *key, int64_t timeout_ns,
                             gloo_value *value) {
  (void)user, (void)key, (void)timeout_ns, (void)value;
  calls++;
  return GLOO_ERR_TIMEOUT;
}

static gloo_status count_wait(void *user, const char *const *keys,
                              size_t n_keys, int64_t timeout_ns) {
  (void)user, (void)keys, (void)n_keys, (void)timeout_ns;
  calls++;
  return GLOO_ERR_TIMEOUT;
}

static gloo_status count_add(void *user, const char *key, int64_t amount,
                             int64_t *result) {
  (void)user, (void)key, (void)amount;
  calls++;
  *result = 1;
  return GLOO_OK;
}

static gloo_store *own_store(void) {
  gloo_store *store;
  gloo_store_callbacks c = {.struct_size = sizeof c};
  c.set = count_set;
  c.get = count_get;
  c.wait = count_wait;
  c.add = count_add;
  calls = 0;
  assert_int_equal(gloo_store_callbacks_create(&c, &store, &e), GLOO_OK);
  return store;
}

static void no_context_is_made(void **state) {
  gloo_context *context;
  (void)state;
  gloo_store *store = own_store(), *part;
  assert_int_equal(gloo_store_prefix_create(store, "part/", &part, &e),
                   GLOO_OK);
  int device = occupy_ports();
  assert_refused(gloo_context_create(0, 2, store, NULL, NULL, &context, &e));
  assert_refused(gloo_context_create(1, 2, part, NULL, NULL, &context, &e));
  release_ports(device);
  assert_int_equal(calls, 0);
  gloo_store_destroy(part);
  gloo_store_destroy(store);
}

static void no_store_is_served_or_reached(void **state) {
  uint16_t port;
  char url[64];
  gloo_store *store;
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  (void)state;
  int fd = listen_here(&port);
  o.host = "127.0.0.1";
  o.port = port;
  assert_refused(gloo_store_tcp_create(&o, &store, &e));
  snprintf(url, sizeof url, "tcp://127.0.0.1:%u", (unsigned)port);
  assert_refused(gloo_store_open(url, 0, &store, &e));
  assert_nothing_came(fd);
  o.port = 0;
  o.serve = 1;
  assert_refused(gloo_store_tcp_create(&o, &store, &e));
}

static void no_rank_joins(void **state) {
  gloo_context *context;
  (void)state;
  gloo_store *store = own_store();
  int device = occupy_ports();
  assert_refused(gloo_context_join(store, NULL, NULL, 0, &context, &e));
  release_ports(device);
  assert_int_equal(calls, 0);
  gloo_store_destroy(store);
}

/* A single rank needs no secret until others are to join. */
static void no_rank_takes_others_in(void **state) {
  gloo_context *context, *more = NULL;
  (void)state;
  gloo_store *store = own_store();
  assert_int_equal(gloo_context_create(0, 1, NULL, NULL, NULL, &context, &e),
                   GLOO_OK);
  assert_refused(gloo_context_grow(context, store, NULL, &more, &e));
  assert_null(more);
  assert_int_equal(calls, 0);
  gloo_context_destroy(context);
  gloo_store_destroy(store);
}

/* ---- with a secret ------------------------------------------------------- */

static void a_secret_is_all_that_it_takes(void **state) {
  gloo_context *context;
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_store *store = own_store();
  o.secret = "sixteen bytes ..";
  o.secret_bytes = 16;
  o.timeout_ns = 1000000;
  assert_int_not_equal(gloo_context_create(1, 2, store, NULL, &o, &context, &e),
                       GLOO_ERR_AUTH);
  assert_true(calls > 0);
  gloo_store_destroy(store);
}

#define CASE(name) cmocka_unit_test_setup(name, ask)

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      CASE(no_rank_starts_at_a_tcp_store),
      CASE(no_rank_starts_at_a_c10d_store),
      CASE(no_rank_starts_at_a_redis_store),
      CASE(no_rank_starts_at_a_file_store),
      CASE(no_rank_of_torchrun_starts),
      CASE(no_context_is_made),
      CASE(no_store_is_served_or_reached),
      CASE(no_rank_joins),
      CASE(no_rank_takes_others_in),
      CASE(a_secret_is_all_that_it_takes),
  };
  word = argc > 1 ? argv[1] : "required";
  return cmocka_run_group_tests_name(word, tests, NULL, NULL);
}
