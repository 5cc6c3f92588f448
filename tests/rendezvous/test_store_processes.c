/* Several processes that change the same keys of one store at the same time.
 * The program's argument is the kind of store: "file", "tcp" or "redis". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "kinds.h"
#include "redis_server.h"

enum { ROUNDS = 50, RECORD = 8 };

static const char *kind;
static char directory[64];
static go_signal go;
static redis_server server; /* for kind "redis" */

static gloo_status open_shared(uint16_t port, int serve, gloo_store **store,
                               gloo_error *error) {
  if (strcmp(kind, "file") == 0) {
    gloo_store_file_options options = GLOO_STORE_FILE_OPTIONS_INIT;
    options.directory = directory;
    options.job = "processes";
    return gloo_store_file_create(&options, store, error);
  }
  if (strcmp(kind, "redis") == 0) {
    if (serve) server = redis_server_start(NULL);
    gli_store_url url = redis_url(serve ? server.port : port, "", "", "");
    return gli_store_redis_open(&url, false, LONG_TIME, store, error);
  }
  gloo_store_tcp_options options = GLOO_STORE_TCP_OPTIONS_INIT;
  options.host = "127.0.0.1";
  options.port = port;
  options.serve = serve;
  options.job = "processes";
  options.timeout_ns = LONG_TIME;
  return gloo_store_tcp_create(&options, store, error);
}

/* Returns the port at which other processes find the shared store. */
static uint16_t shared_port(const gloo_store *store) {
  return server.port != 0 ? server.port : gloo_store_tcp_port(store);
}

/* Closes the shared store and ends its server. */
static void close_shared(gloo_store *store) {
  gloo_store_destroy(store);
  test_directory_remove(directory);
  redis_server_signal(&server, SIGKILL);
}

static int report(const gloo_error *error) {
  fprintf(stderr, "# %s\n", error->message);
  return 1;
}

static int count_up(gloo_store *store, gloo_error *error) {
  char seen[24] = "", next[24];
  for (;;) {
    gloo_value now = {NULL, 0};
    int n = snprintf(next, sizeof(next), "%ld", strtol(seen, NULL, 10) + 1);
    gloo_status status = gloo_store_compare_and_set(
        store, "counter", seen, strlen(seen), next, (size_t)n, &now, error);
    if (status != GLOO_OK && status != GLOO_ERR_COMPARE) return report(error);
    if (now.bytes >= sizeof(seen)) return 2;
    memcpy(seen, now.data, now.bytes);
    seen[now.bytes] = '\0';
    free(now.data);
    if (status == GLOO_OK) return 0;
  }
}

static int change_often(int index, void *argument) {
  gloo_store *store;
  gloo_error error;
  int64_t sum;
  char record[RECORD];
  (void)argument;
  memset(record, 'a' + index, RECORD);
  uint16_t port = go_await(&go);
  if (open_shared(port, 0, &store, &error) != GLOO_OK) return report(&error);
  for (int i = 0; i < ROUNDS; i++) {
    if (gloo_store_add(store, "sum", index + 1, &sum, &error) != GLOO_OK)
      return report(&error);
    if (gloo_store_append(store, "log", record, RECORD, &error) != GLOO_OK)
      return report(&error);
    if (i % 2 == 0 && count_up(store, &error) != 0) return 3;
  }
  gloo_store_destroy(store);
  return 0;
}

static void expect_whole_records(const gloo_value *log) {
  int seen[CHILDREN] = {0};
  const char *data = log->data;
  assert_int_equal(log->bytes, CHILDREN * ROUNDS * RECORD);
  for (size_t i = 0; i < log->bytes; i += RECORD) {
    assert_in_range(data[i], 'a', 'a' + CHILDREN - 1);
    for (size_t k = 1; k < RECORD; k++) assert_int_equal(data[i], data[i + k]);
    seen[data[i] - 'a']++;
  }
  for (int i = 0; i < CHILDREN; i++) assert_int_equal(seen[i], ROUNDS);
}

static void processes_lose_no_update(void **state) {
  pid_t pids[CHILDREN];
  gloo_store *store;
  gloo_error error;
  gloo_value log, counter;
  int64_t sum;
  (void)state;
  test_directory_name(directory);
  go_open(&go);
  /* The processes start before the server's thread. All open the file store at
   * the same moment. */
  for (int i = 0; i < CHILDREN; i++)
    pids[i] = child_start(change_often, i, NULL);
  int is_file = strcmp(kind, "file") == 0;
  if (is_file) go_send(&go, 0);
  if (open_shared(0, 1, &store, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  if (!is_file) go_send(&go, shared_port(store));
  for (int i = 0; i < CHILDREN; i++) assert_int_equal(child_wait(pids[i]), 0);
  go_close(&go);
  assert_int_equal(gloo_store_add(store, "sum", 0, &sum, NULL), GLOO_OK);
  assert_int_equal(sum, ROUNDS * CHILDREN * (CHILDREN + 1) / 2);
  assert_int_equal(gloo_store_get(store, "log", GLOO_TIMEOUT_NOW, &log, NULL),
                   GLOO_OK);
  expect_whole_records(&log);
  free(log.data);
  assert_int_equal(
      gloo_store_get(store, "counter", GLOO_TIMEOUT_NOW, &counter, NULL),
      GLOO_OK);
  assert_int_equal(counter.bytes, 3);
  assert_memory_equal(counter.data, "100", 3);
  free(counter.data);
  close_shared(store);
}

/* ---- readers see whole values -------------------------------------------- */

enum { BIG = 1 << 20 };

static int rewrite_until_told(int index, void *argument) {
  gloo_store *store;
  gloo_error error;
  gloo_value stop;
  char *data = malloc(BIG);
  (void)argument;
  uint16_t port = go_await(&go);
  if (data == NULL) return 2;
  if (open_shared(port, 0, &store, &error) != GLOO_OK) return report(&error);
  for (unsigned i = 0;; i++) {
    size_t bytes = BIG - (i % 7) * 1000;
    memset(data, 'A' + (int)((i + (unsigned)index) % 26), bytes);
    if (gloo_store_set(store, "big", data, bytes, &error) != GLOO_OK)
      return report(&error);
    if (gloo_store_get(store, "stop", GLOO_TIMEOUT_NOW, &stop, NULL) == GLOO_OK)
      break;
  }
  free(stop.data);
  free(data);
  gloo_store_destroy(store);
  return 0;
}

static void readers_see_whole_values(void **state) {
  pid_t pids[CHILDREN];
  gloo_store *store;
  gloo_error error;
  (void)state;
  test_directory_name(directory);
  go_open(&go);
  for (int i = 0; i < CHILDREN; i++)
    pids[i] = child_start(rewrite_until_told, i, NULL);
  assert_int_equal(open_shared(0, 1, &store, &error), GLOO_OK);
  go_send(&go, shared_port(store));
  for (int i = 0; i < 50; i++) {
    gloo_value value;
    assert_int_equal(gloo_store_get(store, "big", LONG_TIME, &value, &error),
                     GLOO_OK);
    const char *data = value.data;
    assert_int_equal((BIG - value.bytes) % 1000, 0);
    assert_int_equal(memcmp(data, data + 1, value.bytes - 1), 0);
    free(value.data);
  }
  assert_int_equal(gloo_store_set(store, "stop", "x", 1, &error), GLOO_OK);
  for (int i = 0; i < CHILDREN; i++) assert_int_equal(child_wait(pids[i]), 0);
  go_close(&go);
  close_shared(store);
}

/* ---- a process that is killed in the middle ------------------------------ */

static int add_for_ever(int index, void *argument) {
  gloo_store *store;
  gloo_error error;
  int64_t sum;
  (void)index;
  (void)argument;
  uint16_t port = go_await(&go);
  if (open_shared(port, 0, &store, &error) != GLOO_OK) return report(&error);
  for (;;)
    if (gloo_store_add(store, "sum", 1, &sum, &error) != GLOO_OK) return 1;
}

static void a_killed_process_leaves_the_store_usable(void **state) {
  pid_t pids[CHILDREN];
  gloo_store *store;
  gloo_error error;
  int64_t sum, after;
  (void)state;
  test_directory_name(directory);
  go_open(&go);
  for (int i = 0; i < CHILDREN; i++)
    pids[i] = child_start(add_for_ever, i, NULL);
  assert_int_equal(open_shared(0, 1, &store, &error), GLOO_OK);
  go_send(&go, shared_port(store));
  for (int i = 0; i < CHILDREN; i++) {
    do {
      assert_int_equal(gloo_store_add(store, "sum", 0, &sum, &error), GLOO_OK);
    } while (sum < 50 * (i + 1));
    assert_int_equal(kill(pids[i], SIGKILL), 0);
    assert_int_equal(child_wait(pids[i]), 1000 + SIGKILL);
    assert_int_equal(gloo_store_add(store, "sum", 1, &after, &error), GLOO_OK);
    assert_true(after > sum);
  }
  go_close(&go);
  close_shared(store);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_lose_no_update),
      cmocka_unit_test(readers_see_whole_values),
      cmocka_unit_test(a_killed_process_leaves_the_store_usable),
  };
  if (argc != 2) return 2;
  kind = argv[1];
  const char *missing = test_kind_missing(kind);
  if (missing != NULL) return printf("1..0 # SKIP %s\n", missing), 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
