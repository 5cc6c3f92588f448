/* What every kind of store does. Its name is the program's argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "kinds.h"

static const char *kind;
static int descriptors_before;

static int setup(void **state) {
  test_store *t = calloc(1, sizeof(*t));
  descriptors_before = test_open_descriptors();
  test_store_open(kind, t);
  *state = t;
  return 0;
}

static int teardown(void **state) {
  test_store *t = *state;
  test_store_close(t);
  free(t);
  return test_open_descriptors() == descriptors_before ? 0 : -1;
}

static gloo_store *store_of(void **state) {
  return ((test_store *)*state)->store;
}

#define assert_ok(call)                                                \
  do {                                                                 \
    gloo_error error_ = {0};                                           \
    gloo_error *error = &error_;                                       \
    gloo_status status_ = (call);                                      \
    if (status_ != GLOO_OK)                                            \
      fail_msg("%s: %s", gloo_status_string(status_), error->message); \
  } while (0)

static void set(gloo_store *store, const char *key, const void *data,
                size_t bytes) {
  assert_ok(gloo_store_set(store, key, data, bytes, error));
}

static void expect(gloo_store *store, const char *key, const void *data,
                   size_t bytes) {
  gloo_value value = {(void *)1, 1};
  assert_ok(gloo_store_get(store, key, LONG_TIME, &value, error));
  assert_int_equal(value.bytes, bytes);
  if (bytes > 0) assert_memory_equal(value.data, data, bytes);
  if (bytes == 0) assert_null(value.data);
  free(value.data);
}

static void expect_text(gloo_store *store, const char *key, const char *text) {
  expect(store, key, text, strlen(text));
}

/* `bytes` bytes that differ from block to block. */
static char *pattern(size_t bytes, unsigned seed) {
  char *data = malloc(bytes + 1);
  assert_non_null(data);
  for (size_t i = 0; i < bytes; i++)
    data[i] = (char)((i * 2654435761u + seed) >> 13);
  data[bytes] = '\0';
  return data;
}

/* ---- values and keys ----------------------------------------------------- */

static void set_replaces_and_get_returns_any_bytes(void **state) {
  gloo_store *store = store_of(state);
  set(store, "key", "first", 5);
  expect(store, "key", "first", 5);
  set(store, "key", "\0\xff\n%s\0", 6);
  expect(store, "key", "\0\xff\n%s\0", 6);
  set(store, "key", NULL, 0);
  expect(store, "key", NULL, 0);
}

static void values_of_8_mib_survive(void **state) {
  gloo_store *store = store_of(state);
  char *data = pattern(GLOO_STORE_VALUE_MAX, 1);
  set(store, "big", data, GLOO_STORE_VALUE_MAX);
  expect(store, "big", data, GLOO_STORE_VALUE_MAX);
  assert_ok(gloo_store_compare_and_set(store, "big", data, GLOO_STORE_VALUE_MAX,
                                       data + 1, GLOO_STORE_VALUE_MAX - 1, NULL,
                                       error));
  expect(store, "big", data + 1, GLOO_STORE_VALUE_MAX - 1);
  free(data);
}

static void keys_never_meet_each_other(void **state) {
  test_store *t = *state;
  static const char *const odd[] = {
      "a",  "A",    "a/b",      "a%2fb", "a%2Fb", "../a",       "..",   ".",
      "/",  "//",   " ",        "lock",  "temp",  "gloo-store", "k-a",  "d-a",
      "\n", "\x01", "\xc3\xa4", "\xff",  "%",     "%00",        "a\\b", "a:b",
      "~",  "-",    "con",      "$(x)",  "a b",   "'",
  };
  const size_t n_odd = sizeof(odd) / sizeof(odd[0]);
  static const size_t lengths[] = {199, 200, 201, 399, 400, 401, 600, 1000};
  const size_t n_long = sizeof(lengths) / sizeof(lengths[0]);
  char text[1025];
  for (size_t i = 0; i < n_odd; i++)
    set(t->store, odd[i], odd[i], strlen(odd[i]));
  for (size_t i = 0; i < n_long; i++) {
    memset(text, 'x', lengths[i]);
    text[lengths[i]] = '\0';
    set(t->store, text, &lengths[i], sizeof(lengths[i]));
    text[lengths[i] - 1] = 'X';
    set(t->store, text, "X", 1);
  }
  memset(text, '/', t->key_max);
  text[t->key_max] = '\0';
  set(t->store, text, "longest", 7);
  expect_text(t->store, text, "longest");
  for (size_t i = 0; i < n_odd; i++) expect_text(t->store, odd[i], odd[i]);
  for (size_t i = 0; i < n_long; i++) {
    memset(text, 'x', lengths[i]);
    text[lengths[i]] = '\0';
    expect(t->store, text, &lengths[i], sizeof(lengths[i]));
  }
}

static void expect_invalid(gloo_status status, const gloo_error *error,
                           const char *word) {
  assert_int_equal(status, GLOO_ERR_INVALID);
  assert_int_equal(error->status, GLOO_ERR_INVALID);
  if (strstr(error->message, word) == NULL)
    fail_msg("'%s' is not in: %s", word, error->message);
}

/* A host program's store tells its status only, no reason. */
static const char *reason(const char *word) {
  return strcmp(kind, "callbacks") == 0 ? "host program" : word;
}

static void what_is_too_long_or_missing_is_refused(void **state) {
  test_store *t = *state;
  gloo_store *store = t->store;
  gloo_error e;
  gloo_value value;
  int64_t sum;
  char *key = pattern(0, 0);
  char *big = calloc(1, GLOO_STORE_VALUE_MAX + 1);
  key = realloc(key, t->key_max + 2);
  memset(key, 'k', t->key_max + 1);
  key[t->key_max + 1] = '\0';
  const char *keys[] = {"fine", key};

  expect_invalid(gloo_store_set(store, key, "x", 1, &e), &e, "1024");
  expect_invalid(gloo_store_get(store, key, 0, &value, &e), &e, "1024");
  expect_invalid(gloo_store_wait(store, keys, 2, 0, &e), &e, "1024");
  expect_invalid(gloo_store_add(store, key, 1, &sum, &e), &e, "1024");
  expect_invalid(gloo_store_append(store, key, "x", 1, &e), &e, "1024");
  expect_invalid(gloo_store_delete(store, key, &e), &e, "1024");
  expect_invalid(
      gloo_store_compare_and_set(store, key, "", 0, "x", 1, NULL, &e), &e,
      "1024");
  key[t->key_max] = '\0';
  set(store, key, "fits", 4);
  expect_text(store, key, "fits");

  expect_invalid(gloo_store_set(store, "", "x", 1, &e), &e, "empty");
  expect_invalid(gloo_store_set(store, NULL, "x", 1, &e), &e, "NULL");
  expect_invalid(gloo_store_set(NULL, "k", "x", 1, &e), &e, "store is NULL");
  expect_invalid(gloo_store_set(store, "k", NULL, 1, &e), &e, "NULL");
  expect_invalid(gloo_store_get(store, "k", 0, NULL, &e), &e, "value is NULL");
  expect_invalid(gloo_store_add(store, "k", 1, NULL, &e), &e, "result is NULL");
  expect_invalid(gloo_store_wait(store, NULL, 2, 0, &e), &e, "2 keys is NULL");
  expect_invalid(gloo_store_set(store, "k", big, GLOO_STORE_VALUE_MAX + 1, &e),
                 &e, "8388608");
  expect_invalid(
      gloo_store_append(store, "k", big, GLOO_STORE_VALUE_MAX + 1, &e), &e,
      "8388608");
  expect_invalid(
      gloo_store_compare_and_set(store, "k", big, GLOO_STORE_VALUE_MAX + 1, "x",
                                 1, NULL, &e),
      &e, "8388608");
  assert_int_equal(gloo_store_set(store, "", "x", 1, NULL), GLOO_ERR_INVALID);
  free(key);
  free(big);
}

/* ---- waiting ------------------------------------------------------------- */

static void expect_timeout(gloo_status status, const gloo_error *error,
                           const char *word) {
  assert_int_equal(status, GLOO_ERR_TIMEOUT);
  assert_int_equal(error->status, GLOO_ERR_TIMEOUT);
  if (strstr(error->message, word) == NULL)
    fail_msg("'%s' is not in: %s", word, error->message);
}

static void timeouts_name_the_missing_keys_only(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  gloo_value value = {NULL, 7};
  const char *keys[] = {"here", "gone 1", "there", "gone 2"};
  gloo_value values[4];
  set(store, "here", "1", 1);
  set(store, "there", "2", 1);
  expect_timeout(gloo_store_get(store, "gone 1", SHORT_TIME, &value, &e), &e,
                 "'gone 1'");
  assert_int_equal(value.bytes, 7); /* left alone */
  expect_timeout(gloo_store_get(store, "gone 1", 0, &value, &e), &e,
                 "'gone 1'");
  expect_timeout(gloo_store_wait(store, keys, 4, SHORT_TIME, &e), &e,
                 "'gone 1', 'gone 2'");
  assert_null(strstr(e.message, "here'"));
  expect_timeout(gloo_store_multi_get(store, keys, 4, SHORT_TIME, values, &e),
                 &e, "'gone 1', 'gone 2'");
  for (int i = 0; i < 4; i++) {
    assert_null(values[i].data);
    assert_int_equal(values[i].bytes, 0);
  }
  assert_int_equal(gloo_store_wait(store, keys, 4, 0, NULL), GLOO_ERR_TIMEOUT);
  keys[1] = "there";
  assert_ok(gloo_store_wait(store, keys, 3, 0, error));
  assert_ok(gloo_store_wait(store, NULL, 0, 0, error));
}

static void timeouts_count_the_keys_that_do_not_fit(void **state) {
  enum { N = 3000 };
  gloo_store *store = store_of(state);
  gloo_error e;
  static char texts[N][16];
  static const char *keys[N];
  for (int i = 0; i < N; i++) {
    snprintf(texts[i], sizeof(texts[i]), "key %04d", i);
    keys[i] = texts[i];
  }
  set(store, keys[5], "x", 1);
  expect_timeout(gloo_store_wait(store, keys, N, 0, &e), &e, "'key 0000', ");
  unsigned more = 0;
  int named = 0;
  for (const char *at = e.message; (at = strstr(at, "'key ")) != NULL; at++)
    named++;
  const char *and = strstr(e.message, " and ");
  assert_non_null(and);
  assert_int_equal(sscanf(and, " and %u more", &more), 1);
  assert_int_equal(named + (int)more, N - 1);
}

typedef struct waiter {
  gloo_store *store;
  gloo_status status;
  gloo_error error;
  char result[8];
} waiter;

static void wait_for_three(void *argument) {
  waiter *w = argument;
  const char *keys[] = {"one", "two", "three"};
  gloo_value values[3];
  w->status =
      gloo_store_multi_get(w->store, keys, 3, LONG_TIME, values, &w->error);
  if (w->status != GLOO_OK) return;
  for (int i = 0; i < 3; i++) {
    w->result[i] = ((char *)values[i].data)[0];
    free(values[i].data);
  }
}

static void waiters_wake_when_their_keys_are_set(void **state) {
  gloo_store *store = store_of(state);
  waiter waiters[4] = {
      {.store = store}, {.store = store}, {.store = store}, {.store = store}};
  uv_thread_t threads[4];
  int64_t sum;
  for (int i = 0; i < 4; i++)
    assert_int_equal(uv_thread_create(&threads[i], wait_for_three, &waiters[i]),
                     0);
  /* While they wait, others are served: every way of making a key is used. */
  assert_ok(gloo_store_append(store, "three", "3", 1, error));
  assert_ok(gloo_store_add(store, "one", 1, &sum, error));
  uv_sleep(20);
  assert_ok(
      gloo_store_compare_and_set(store, "two", NULL, 0, "2", 1, NULL, error));
  for (int i = 0; i < 4; i++) {
    uv_thread_join(&threads[i]);
    if (waiters[i].status != GLOO_OK) fail_msg("%s", waiters[i].error.message);
    assert_string_equal(waiters[i].result, "123");
  }
}

static void wait_for_ping_pong(void *argument) {
  waiter *w = argument;
  char key[16];
  for (int i = 0; i < 50; i++) {
    gloo_value value;
    snprintf(key, sizeof(key), "ping %d", i);
    w->status = gloo_store_get(w->store, key, -1, &value, &w->error);
    if (w->status != GLOO_OK) return;
    free(value.data);
    snprintf(key, sizeof(key), "pong %d", i);
    w->status = gloo_store_set(w->store, key, NULL, 0, &w->error);
    if (w->status != GLOO_OK) return;
  }
}

static void waits_without_limit_end_with_the_key(void **state) {
  gloo_store *store = store_of(state);
  waiter w = {.store = store};
  uv_thread_t thread;
  char key[16];
  assert_int_equal(uv_thread_create(&thread, wait_for_ping_pong, &w), 0);
  for (int i = 0; i < 50; i++) {
    snprintf(key, sizeof(key), "ping %d", i);
    set(store, key, "x", 1);
    snprintf(key, sizeof(key), "pong %d", i);
    expect(store, key, NULL, 0);
  }
  uv_thread_join(&thread);
  assert_int_equal(w.status, GLOO_OK);
}

/* ---- the other operations ------------------------------------------------ */

static void add_counts_in_decimal(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  int64_t sum = 0;
  assert_ok(gloo_store_add(store, "n", 5, &sum, error));
  assert_int_equal(sum, 5);
  assert_ok(gloo_store_add(store, "n", -47, &sum, error));
  assert_int_equal(sum, -42);
  expect_text(store, "n", "-42");
  set(store, "n", "9223372036854775806", 19);
  assert_ok(gloo_store_add(store, "n", 1, &sum, error));
  assert_true(sum == INT64_MAX);
  expect_invalid(gloo_store_add(store, "n", 1, &sum, &e), &e,
                 reason("64 bits"));
  assert_true(sum == INT64_MAX);
  assert_ok(gloo_store_add(store, "m", INT64_MIN, &sum, error));
  expect_text(store, "m", "-9223372036854775808");
  expect_invalid(gloo_store_add(store, "m", -1, &sum, &e), &e,
                 reason("64 bits"));
  static const char *const no_numbers[] = {"x",   "",
                                           " 1",  "1 ",
                                           "+1",  "-",
                                           "1.0", "9223372036854775808",
                                           "0x1", "11111111111111111111"};
  for (size_t i = 0; i < sizeof(no_numbers) / sizeof(no_numbers[0]); i++) {
    set(store, "text", no_numbers[i], strlen(no_numbers[i]));
    expect_invalid(gloo_store_add(store, "text", 1, &sum, &e), &e, "text");
    expect_text(store, "text", no_numbers[i]);
  }
}

static void compare_and_set_needs_what_it_expects(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  gloo_value now = {(void *)1, 9};
  /* Absent, but something is expected. */
  assert_int_equal(
      gloo_store_compare_and_set(store, "k", "old", 3, "new", 3, &now, &e),
      GLOO_ERR_COMPARE);
  assert_int_equal(e.status, GLOO_ERR_COMPARE);
  assert_non_null(strstr(e.message, "'"));
  assert_null(now.data);
  assert_int_equal(now.bytes, 0);
  assert_int_equal(gloo_store_get(store, "k", 0, &now, NULL), GLOO_ERR_TIMEOUT);
  /* Absent, as expected. */
  assert_ok(
      gloo_store_compare_and_set(store, "k", NULL, 0, "one", 3, &now, error));
  assert_int_equal(now.bytes, 3);
  assert_memory_equal(now.data, "one", 3);
  free(now.data);
  /* Other value: current tells which. */
  assert_int_equal(
      gloo_store_compare_and_set(store, "k", NULL, 0, "two", 3, &now, NULL),
      GLOO_ERR_COMPARE);
  assert_memory_equal(now.data, "one", 3);
  free(now.data);
  assert_int_equal(
      gloo_store_compare_and_set(store, "k", "ona", 3, "two", 3, NULL, NULL),
      GLOO_ERR_COMPARE);
  expect_text(store, "k", "one");
  assert_ok(
      gloo_store_compare_and_set(store, "k", "one", 3, NULL, 0, &now, error));
  assert_null(now.data);
  expect(store, "k", NULL, 0);
  /* An empty value is what an empty expectation means, too. */
  assert_ok(
      gloo_store_compare_and_set(store, "k", NULL, 0, "x", 1, NULL, error));
  expect_text(store, "k", "x");
}

static void append_joins_up_to_the_cap(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  assert_ok(gloo_store_append(store, "k", NULL, 0, error));
  expect(store, "k", NULL, 0);
  assert_ok(gloo_store_append(store, "k", "ab", 2, error));
  assert_ok(gloo_store_append(store, "k", "", 0, error));
  assert_ok(gloo_store_append(store, "k", "\0c", 2, error));
  expect(store, "k", "ab\0c", 4);
  char *big = pattern(GLOO_STORE_VALUE_MAX, 3);
  expect_invalid(
      gloo_store_append(store, "k", big, GLOO_STORE_VALUE_MAX - 3, &e), &e,
      reason("8388608"));
  expect(store, "k", "ab\0c", 4);
  memcpy(big, "ab\0c", 4);
  assert_ok(
      gloo_store_append(store, "k", big + 4, GLOO_STORE_VALUE_MAX - 4, error));
  expect(store, "k", big, GLOO_STORE_VALUE_MAX);
  free(big);
}

static void multi_set_and_multi_get_take_many(void **state) {
  enum { N = 5 };
  gloo_store *store = store_of(state);
  const char *keys[N] = {"a", "b", "c", "d", "a"};
  const size_t bytes = (size_t)6 << 20;
  gloo_value in[N], out[N];
  for (unsigned i = 0; i < N; i++) {
    in[i].data = pattern(bytes + i % 4, i % 4);
    in[i].bytes = i == 2 ? 0 : bytes + i % 4;
  }
  assert_ok(gloo_store_multi_set(store, keys, in, N, error));
  assert_ok(gloo_store_multi_get(store, keys, N, 0, out, error));
  for (int i = 0; i < N; i++) {
    assert_int_equal(out[i].bytes, in[i].bytes);
    if (out[i].bytes > 0)
      assert_memory_equal(out[i].data, in[i].data, out[i].bytes);
    free(in[i].data);
    free(out[i].data);
  }
  assert_ok(gloo_store_multi_get(store, NULL, 0, 0, NULL, error));
  assert_ok(gloo_store_multi_set(store, NULL, NULL, 0, error));
}

static void thousands_of_keys_are_fetched_at_once(void **state) {
  enum { N = 2000 };
  gloo_store *store = store_of(state);
  char(*texts)[600] = calloc(N, sizeof(*texts));
  const char **keys = calloc(N, sizeof(*keys));
  gloo_value *values = calloc(N, sizeof(*values));
  for (int i = 0; i < N; i++) {
    memset(texts[i], 'p', 500);
    snprintf(texts[i] + 500, 100, "%d", i);
    keys[i] = texts[i];
    values[i] = (gloo_value){texts[i] + 500, strlen(texts[i] + 500)};
  }
  assert_ok(gloo_store_multi_set(store, keys, values, N, error));
  assert_ok(gloo_store_multi_get(store, keys, N, LONG_TIME, values, error));
  for (int i = 0; i < N; i++) {
    assert_int_equal(values[i].bytes, strlen(texts[i] + 500));
    assert_memory_equal(values[i].data, texts[i] + 500, values[i].bytes);
    free(values[i].data);
  }
  free(texts);
  free(keys);
  free(values);
}

static void delete_forgets(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  gloo_value value;
  char long_key[700];
  memset(long_key, 'l', sizeof(long_key) - 1);
  long_key[sizeof(long_key) - 1] = '\0';
  const char *keys[] = {"k", long_key};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(gloo_store_delete(store, keys[i], &e), GLOO_ERR_NOT_FOUND);
    assert_non_null(strchr(e.message, '\''));
    set(store, keys[i], "v", 1);
    assert_ok(gloo_store_delete(store, keys[i], error));
    assert_int_equal(gloo_store_get(store, keys[i], 0, &value, NULL),
                     GLOO_ERR_TIMEOUT);
    assert_int_equal(gloo_store_delete(store, keys[i], NULL),
                     GLOO_ERR_NOT_FOUND);
    set(store, keys[i], "w", 1);
    expect_text(store, keys[i], "w");
  }
}

/* ---- many threads -------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 100 };

static void add_often(void *argument) {
  waiter *w = argument;
  for (int i = 0; i < ROUNDS && w->status == GLOO_OK; i++) {
    int64_t sum;
    w->status = gloo_store_add(w->store, "sum", 1, &sum, &w->error);
    if (w->status == GLOO_OK)
      w->status = gloo_store_append(w->store, "log", "x", 1, &w->error);
  }
}

/* One step of a counter by compare-and-set, until it succeeds. */
static void count_up(waiter *w) {
  char seen[24] = "", next[24];
  for (;;) {
    gloo_value now;
    int n = snprintf(next, sizeof(next), "%ld", strtol(seen, NULL, 10) + 1);
    w->status =
        gloo_store_compare_and_set(w->store, "counter", seen, strlen(seen),
                                   next, (size_t)n, &now, &w->error);
    if (w->status != GLOO_OK && w->status != GLOO_ERR_COMPARE) return;
    memcpy(seen, now.data, now.bytes);
    seen[now.bytes] = '\0';
    free(now.data);
    if (w->status == GLOO_OK) return;
  }
}

static void compare_often(void *argument) {
  waiter *w = argument;
  for (int i = 0; i < 25 && w->status == GLOO_OK; i++) count_up(w);
}

static void run_threads(gloo_store *store, uv_thread_cb body) {
  uv_thread_t threads[THREADS];
  waiter waiters[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) {
    waiters[i].store = store;
    assert_int_equal(uv_thread_create(&threads[i], body, &waiters[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) uv_thread_join(&threads[i]);
  for (int i = 0; i < THREADS; i++)
    if (waiters[i].status != GLOO_OK) fail_msg("%s", waiters[i].error.message);
}

static void threads_lose_no_update(void **state) {
  gloo_store *store = store_of(state);
  int64_t sum;
  gloo_value log;
  run_threads(store, add_often);
  assert_ok(gloo_store_add(store, "sum", 0, &sum, error));
  assert_int_equal(sum, THREADS * ROUNDS);
  assert_ok(gloo_store_get(store, "log", 0, &log, error));
  assert_int_equal(log.bytes, THREADS * ROUNDS);
  free(log.data);
  run_threads(store, compare_often);
  expect_text(store, "counter", "200");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      TEST(set_replaces_and_get_returns_any_bytes),
      TEST(values_of_8_mib_survive),
      TEST(keys_never_meet_each_other),
      TEST(what_is_too_long_or_missing_is_refused),
      TEST(timeouts_name_the_missing_keys_only),
      TEST(timeouts_count_the_keys_that_do_not_fit),
      TEST(waiters_wake_when_their_keys_are_set),
      TEST(waits_without_limit_end_with_the_key),
      TEST(add_counts_in_decimal),
      TEST(compare_and_set_needs_what_it_expects),
      TEST(append_joins_up_to_the_cap),
      TEST(multi_set_and_multi_get_take_many),
      TEST(thousands_of_keys_are_fetched_at_once),
      TEST(delete_forgets),
      TEST(threads_lose_no_update),
  };
  if (argc != 2) return 2;
  kind = argv[1];
  if (!test_kind_available(kind)) {
    printf("1..0 # SKIP this machine has no IPv6 loopback address\n");
    return 0;
  }
  test_warm_up();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
