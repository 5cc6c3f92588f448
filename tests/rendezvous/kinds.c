#define _XOPEN_SOURCE 700 /* nftw */
#include "kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>
#include <uv.h>

#include "redis_server.h"
#include "remove_tree.h"
#include "rendezvous/store/store_url.h"

/* libuv closes descriptors by a bare system call, which the thread sanitizer
 * does not see: it takes the next descriptor with the same number for one still
 * in use by another thread. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(UNDER_THREAD_SANITIZER)
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
  return "race:epoll_create1\nrace:pipe2\nrace:eventfd\nrace:socket\n"
         "race:accept4\n";
}
#endif

/* ---- a host program's store: an inner store behind callbacks ------------- */

static gloo_status lent_set(void *user, const char *key, const void *data,
                            size_t bytes) {
  return gloo_store_set(user, key, data, bytes, NULL);
}

static gloo_status lent_get(void *user, const char *key, int64_t timeout_ns,
                            gloo_value *value) {
  return gloo_store_get(user, key, timeout_ns, value, NULL);
}

static gloo_status lent_wait(void *user, const char *const *keys, size_t n_keys,
                             int64_t timeout_ns) {
  return gloo_store_wait(user, keys, n_keys, timeout_ns, NULL);
}

static gloo_status lent_add(void *user, const char *key, int64_t amount,
                            int64_t *result) {
  return gloo_store_add(user, key, amount, result, NULL);
}

static gloo_status lent_compare(void *user, const char *key,
                                const void *expected, size_t expected_bytes,
                                const void *desired, size_t desired_bytes,
                                gloo_value *current) {
  return gloo_store_compare_and_set(user, key, expected, expected_bytes,
                                    desired, desired_bytes, current, NULL);
}

static gloo_status lent_append(void *user, const char *key, const void *data,
                               size_t bytes) {
  return gloo_store_append(user, key, data, bytes, NULL);
}

static gloo_status lent_remove(void *user, const char *key) {
  return gloo_store_delete(user, key, NULL);
}

static gloo_status lent_multi_get(void *user, const char *const *keys,
                                  size_t n_keys, int64_t timeout_ns,
                                  gloo_value *values) {
  return gloo_store_multi_get(user, keys, n_keys, timeout_ns, values, NULL);
}

static gloo_status lent_multi_set(void *user, const char *const *keys,
                                  const gloo_value *values, size_t n_keys) {
  return gloo_store_multi_set(user, keys, values, n_keys, NULL);
}

static void lent_destroy(void *user) {
  gloo_store_destroy(user);
}

static void open_callbacks(test_store *t) {
  gloo_store *memory;
  assert_int_equal(gloo_store_memory_create(&memory, NULL), GLOO_OK);
  gloo_store_callbacks callbacks = {
      .struct_size = sizeof(callbacks),
      .user = memory,
      .set = lent_set,
      .get = lent_get,
      .wait = lent_wait,
      .add = lent_add,
      .compare_and_set = lent_compare,
      .append = lent_append,
      .remove = lent_remove,
      .destroy = lent_destroy,
      .multi_get = lent_multi_get,
      .multi_set = lent_multi_set,
  };
  assert_int_equal(gloo_store_callbacks_create(&callbacks, &t->store, NULL),
                   GLOO_OK);
}

/* ---- other kinds --------------------------------------------------------- */

static gloo_status open_tcp(const char *host, gloo_store **store) {
  gloo_error error;
  gloo_store_tcp_options options = GLOO_STORE_TCP_OPTIONS_INIT;
  options.host = host;
  options.serve = 1;
  options.job = "battery";
  gloo_status status = gloo_store_tcp_create(&options, store, &error);
  if (status != GLOO_OK) print_message("# %s\n", error.message);
  return status;
}

static void open_file(test_store *t) {
  gloo_store_file_options options = GLOO_STORE_FILE_OPTIONS_INIT;
  test_directory_name(t->directory);
  options.directory = t->directory;
  assert_int_equal(gloo_store_file_create(&options, &t->store, NULL), GLOO_OK);
}

static void open_prefix(test_store *t) {
  assert_int_equal(
      gloo_store_prefix_create(t->inner, "some/prefix/", &t->store, NULL),
      GLOO_OK);
  t->key_max = GLOO_STORE_KEY_MAX - strlen("some/prefix/");
}

/* The program has one server for all its stores, which ends with the
 * program. */
static void open_redis(test_store *t) {
  static redis_server server;
  static int opened;
  if (server.pid == 0) server = redis_server_start(NULL);
  snprintf(t->redis_path, sizeof(t->redis_path), "tests/%d", opened++);
  t->redis_port = server.port;
  t->store = redis_open(server.port, t->redis_path);
}

/* GLOO_TEST_C10D names the server, as host:port. Each store has separate keys
 * there. */
static void open_c10d(test_store *t) {
  static unsigned opened;
  const char *server = getenv("GLOO_TEST_C10D");
  gli_store_url *url = calloc(1, sizeof(*url));
  char path[64];
  gloo_error e;
  assert_non_null(server);
  assert_non_null(url);
  const char *colon = strrchr(server, ':');
  assert_non_null(colon);
  snprintf(url->text, sizeof(url->text), "%.*s", (int)(colon - server), server);
  snprintf(path, sizeof(path), "test %ld.%u", (long)getpid(), opened++);
  url->scheme = "c10d";
  url->user = url->password = "";
  url->host = url->text;
  url->path = path;
  url->port = (uint16_t)atoi(colon + 1);
  if (gli_store_c10d_open(url, LONG_TIME, &t->store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  free(url);
  t->compare_max = GLOO_STORE_VALUE_MAX - 32;
}

const char *test_kind_missing(const char *kind) {
  gloo_store *store;
  if (strcmp(kind, "redis") == 0)
    return redis_server_installed() ? NULL : "no Redis server is installed";
  if (strcmp(kind, "tcp6") != 0) return NULL;
  if (open_tcp("::1", &store) != GLOO_OK)
    return "this machine has no IPv6 loopback address";
  gloo_store_destroy(store);
  return NULL;
}

gloo_store *test_store_join(const test_store *t) {
  if (t->redis_port != 0) return redis_open(t->redis_port, t->redis_path);
  uint16_t port = gloo_store_tcp_port(t->store);
  if (port == 0) return NULL;
  gloo_store *store;
  gloo_store_tcp_options options = GLOO_STORE_TCP_OPTIONS_INIT;
  options.host = "127.0.0.1";
  options.port = port;
  options.job = "battery";
  assert_int_equal(gloo_store_tcp_create(&options, &store, NULL), GLOO_OK);
  return store;
}

void test_store_open(const char *kind, test_store *t) {
  *t = (test_store){.key_max = GLOO_STORE_KEY_MAX,
                    .compare_max = GLOO_STORE_VALUE_MAX};
  if (strcmp(kind, "memory") == 0) {
    assert_int_equal(gloo_store_memory_create(&t->store, NULL), GLOO_OK);
  } else if (strcmp(kind, "file") == 0) {
    open_file(t);
  } else if (strcmp(kind, "tcp4") == 0) {
    assert_int_equal(open_tcp("127.0.0.1", &t->store), GLOO_OK);
  } else if (strcmp(kind, "tcp6") == 0) {
    assert_int_equal(open_tcp("::1", &t->store), GLOO_OK);
  } else if (strcmp(kind, "prefix_memory") == 0) {
    assert_int_equal(gloo_store_memory_create(&t->inner, NULL), GLOO_OK);
    open_prefix(t);
  } else if (strcmp(kind, "prefix_tcp") == 0) {
    assert_int_equal(open_tcp("127.0.0.1", &t->inner), GLOO_OK);
    open_prefix(t);
  } else if (strcmp(kind, "callbacks") == 0) {
    open_callbacks(t);
  } else if (strcmp(kind, "redis") == 0) {
    open_redis(t);
  } else if (strcmp(kind, "c10d") == 0) {
    open_c10d(t);
  } else {
    fail_msg("no such kind of store: %s", kind);
  }
}

void test_store_close(test_store *t) {
  gloo_store_destroy(t->store);
  gloo_store_destroy(t->inner);
  if (t->directory[0] != '\0') test_directory_remove(t->directory);
}

/* ---- directories and descriptors ----------------------------------------- */

void test_directory_name(char name[64]) {
  snprintf(name, 64, "/tmp/gloo_c-test-XXXXXX");
  assert_non_null(mkdtemp(name));
  assert_int_equal(rmdir(name), 0);
}

void test_directory_remove(const char *name) {
  (void)remove_tree(name);
}

int test_open_descriptors(void) {
#if defined(_WIN32)
  return test_windows_handles();
#endif
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) != -1;
  return n;
}

void test_warm_up(void) {
  gloo_store *store;
  assert_int_equal(open_tcp("127.0.0.1", &store), GLOO_OK);
  gloo_store_destroy(store);
}
