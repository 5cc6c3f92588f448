/* Operations of every kind of store. The program's argument is the kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "battery.h"

/* Returns `bytes` bytes that differ from block to block. */
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
  store_set(store, "key", "first", 5);
  store_expect(store, "key", "first", 5);
  store_set(store, "key", "\0\xff\n%s\0", 6);
  store_expect(store, "key", "\0\xff\n%s\0", 6);
  store_set(store, "key", NULL, 0);
  store_expect(store, "key", NULL, 0);
}

static void values_of_8_mib_survive(void **state) {
  test_store *t = *state;
  gloo_store *store = t->store;
  gloo_error e;
  size_t most = t->compare_max - 1;
  char *data = pattern(GLOO_STORE_VALUE_MAX, 1);
  store_set(store, "big", data, GLOO_STORE_VALUE_MAX);
  store_expect(store, "big", data, GLOO_STORE_VALUE_MAX);
  if (t->compare_max < GLOO_STORE_VALUE_MAX) {
    assert_int_equal(
        gloo_store_compare_and_set(store, "big", data, GLOO_STORE_VALUE_MAX,
                                   data, t->compare_max + 1, NULL, &e),
        GLOO_ERR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "can compare and set at most"));
  }
  assert_ok(gloo_store_compare_and_set(store, "big", data, GLOO_STORE_VALUE_MAX,
                                       data + 1, most, NULL, error));
  store_expect(store, "big", data + 1, most);
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
    store_set(t->store, odd[i], odd[i], strlen(odd[i]));
  for (size_t i = 0; i < n_long; i++) {
    memset(text, 'x', lengths[i]);
    text[lengths[i]] = '\0';
    store_set(t->store, text, &lengths[i], sizeof(lengths[i]));
    text[lengths[i] - 1] = 'X';
    store_set(t->store, text, "X", 1);
  }
  memset(text, '/', t->key_max);
  text[t->key_max] = '\0';
  store_set(t->store, text, "longest", 7);
  store_expect_text(t->store, text, "longest");
  for (size_t i = 0; i < n_odd; i++)
    store_expect_text(t->store, odd[i], odd[i]);
  for (size_t i = 0; i < n_long; i++) {
    memset(text, 'x', lengths[i]);
    text[lengths[i]] = '\0';
    store_expect(t->store, text, &lengths[i], sizeof(lengths[i]));
  }
}

static void expect_invalid(gloo_status status, const gloo_error *error,
                           const char *word) {
  assert_int_equal(status, GLOO_ERR_INVALID);
  assert_int_equal(error->status, GLOO_ERR_INVALID);
  if (strstr(error->message, word) == NULL)
    fail_msg("'%s' is not in: %s", word, error->message);
}

/* A host program's store returns a status only, without a reason. */
static const char *reason(const char *word) {
  return strcmp(store_kind, "callbacks") == 0 ? "host program" : word;
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
  expect_invalid(gloo_store_get(store, key, GLOO_TIMEOUT_NOW, &value, &e), &e,
                 "1024");
  expect_invalid(gloo_store_wait(store, keys, 2, GLOO_TIMEOUT_NOW, &e), &e,
                 "1024");
  expect_invalid(gloo_store_add(store, key, 1, &sum, &e), &e, "1024");
  expect_invalid(gloo_store_append(store, key, "x", 1, &e), &e, "1024");
  expect_invalid(gloo_store_delete(store, key, &e), &e, "1024");
  expect_invalid(
      gloo_store_compare_and_set(store, key, "", 0, "x", 1, NULL, &e), &e,
      "1024");
  key[t->key_max] = '\0';
  store_set(store, key, "fits", 4);
  store_expect_text(store, key, "fits");

  expect_invalid(gloo_store_set(store, "", "x", 1, &e), &e, "empty");
  expect_invalid(gloo_store_set(store, NULL, "x", 1, &e), &e, "NULL");
  expect_invalid(gloo_store_set(NULL, "k", "x", 1, &e), &e, "store is NULL");
  expect_invalid(gloo_store_set(store, "k", NULL, 1, &e), &e, "NULL");
  expect_invalid(gloo_store_get(store, "k", GLOO_TIMEOUT_NOW, NULL, &e), &e,
                 "`value` must not be NULL");
  expect_invalid(gloo_store_add(store, "k", 1, NULL, &e), &e,
                 "`result` must not be NULL");
  expect_invalid(gloo_store_wait(store, NULL, 2, GLOO_TIMEOUT_NOW, &e), &e,
                 "2 keys is NULL");
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

/* ---- the other operations ------------------------------------------------ */

static void add_counts_in_decimal(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  int64_t sum = 0;
  assert_ok(gloo_store_add(store, "n", 5, &sum, error));
  assert_int_equal(sum, 5);
  assert_ok(gloo_store_add(store, "n", -47, &sum, error));
  assert_int_equal(sum, -42);
  store_expect_text(store, "n", "-42");
  store_set(store, "n", "9223372036854775806", 19);
  assert_ok(gloo_store_add(store, "n", 1, &sum, error));
  assert_true(sum == INT64_MAX);
  expect_invalid(gloo_store_add(store, "n", 1, &sum, &e), &e,
                 reason("64 bits"));
  assert_true(sum == INT64_MAX);
  assert_ok(gloo_store_add(store, "m", INT64_MIN, &sum, error));
  store_expect_text(store, "m", "-9223372036854775808");
  expect_invalid(gloo_store_add(store, "m", -1, &sum, &e), &e,
                 reason("64 bits"));
  static const char *const no_numbers[] = {"x",   "",
                                           " 1",  "1 ",
                                           "+1",  "-",
                                           "1.0", "9223372036854775808",
                                           "0x1", "11111111111111111111"};
  for (size_t i = 0; i < sizeof(no_numbers) / sizeof(no_numbers[0]); i++) {
    store_set(store, "text", no_numbers[i], strlen(no_numbers[i]));
    expect_invalid(gloo_store_add(store, "text", 1, &sum, &e), &e, "text");
    store_expect_text(store, "text", no_numbers[i]);
  }
}

static void compare_and_set_needs_what_it_expects(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  gloo_value now = {(void *)1, 9};
  /* Absent, but a value is expected. */
  assert_int_equal(
      gloo_store_compare_and_set(store, "k", "old", 3, "new", 3, &now, &e),
      GLOO_ERR_COMPARE);
  assert_int_equal(e.status, GLOO_ERR_COMPARE);
  assert_non_null(strstr(e.message, "'"));
  assert_null(now.data);
  assert_int_equal(now.bytes, 0);
  assert_int_equal(gloo_store_get(store, "k", GLOO_TIMEOUT_NOW, &now, NULL),
                   GLOO_ERR_TIMEOUT);
  /* Absent, as expected. */
  assert_ok(
      gloo_store_compare_and_set(store, "k", NULL, 0, "one", 3, &now, error));
  assert_int_equal(now.bytes, 3);
  assert_memory_equal(now.data, "one", 3);
  free(now.data);
  /* The value differs: `current` returns it. */
  assert_int_equal(
      gloo_store_compare_and_set(store, "k", NULL, 0, "two", 3, &now, NULL),
      GLOO_ERR_COMPARE);
  assert_memory_equal(now.data, "one", 3);
  free(now.data);
  assert_int_equal(
      gloo_store_compare_and_set(store, "k", "ona", 3, "two", 3, NULL, NULL),
      GLOO_ERR_COMPARE);
  store_expect_text(store, "k", "one");
  assert_ok(
      gloo_store_compare_and_set(store, "k", "one", 3, NULL, 0, &now, error));
  assert_null(now.data);
  store_expect(store, "k", NULL, 0);
  /* An empty value also equals an empty expectation. */
  assert_ok(
      gloo_store_compare_and_set(store, "k", NULL, 0, "x", 1, NULL, error));
  store_expect_text(store, "k", "x");
}

static void append_joins_up_to_the_cap(void **state) {
  gloo_store *store = store_of(state);
  gloo_error e;
  assert_ok(gloo_store_append(store, "k", NULL, 0, error));
  store_expect(store, "k", NULL, 0);
  assert_ok(gloo_store_append(store, "k", "ab", 2, error));
  assert_ok(gloo_store_append(store, "k", "", 0, error));
  assert_ok(gloo_store_append(store, "k", "\0c", 2, error));
  store_expect(store, "k", "ab\0c", 4);
  char *big = pattern(GLOO_STORE_VALUE_MAX, 3);
  expect_invalid(
      gloo_store_append(store, "k", big, GLOO_STORE_VALUE_MAX - 3, &e), &e,
      reason("8388608"));
  store_expect(store, "k", "ab\0c", 4);
  memcpy(big, "ab\0c", 4);
  assert_ok(
      gloo_store_append(store, "k", big + 4, GLOO_STORE_VALUE_MAX - 4, error));
  store_expect(store, "k", big, GLOO_STORE_VALUE_MAX);
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
  assert_ok(gloo_store_multi_get(store, keys, N, GLOO_TIMEOUT_NOW, out, error));
  for (int i = 0; i < N; i++) {
    assert_int_equal(out[i].bytes, in[i].bytes);
    if (out[i].bytes > 0)
      assert_memory_equal(out[i].data, in[i].data, out[i].bytes);
    free(in[i].data);
    free(out[i].data);
  }
  assert_ok(
      gloo_store_multi_get(store, NULL, 0, GLOO_TIMEOUT_NOW, NULL, error));
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
    store_set(store, keys[i], "v", 1);
    assert_ok(gloo_store_delete(store, keys[i], error));
    assert_int_equal(
        gloo_store_get(store, keys[i], GLOO_TIMEOUT_NOW, &value, NULL),
        GLOO_ERR_TIMEOUT);
    assert_int_equal(gloo_store_delete(store, keys[i], NULL),
                     GLOO_ERR_NOT_FOUND);
    store_set(store, keys[i], "w", 1);
    store_expect_text(store, keys[i], "w");
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(set_replaces_and_get_returns_any_bytes),
      STORE_TEST(values_of_8_mib_survive),
      STORE_TEST(keys_never_meet_each_other),
      STORE_TEST(what_is_too_long_or_missing_is_refused),
      STORE_TEST(add_counts_in_decimal),
      STORE_TEST(compare_and_set_needs_what_it_expects),
      STORE_TEST(append_joins_up_to_the_cap),
      STORE_TEST(multi_set_and_multi_get_take_many),
      STORE_TEST(thousands_of_keys_are_fetched_at_once),
      STORE_TEST(delete_forgets),
  };
  return store_run(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
