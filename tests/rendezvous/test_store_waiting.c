/* Waiting for keys, and concurrent threads, in every kind of store. The
 * program's argument is the kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "battery.h"

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
  store_set(store, "here", "1", 1);
  store_set(store, "there", "2", 1);
  expect_timeout(gloo_store_get(store, "gone 1", SHORT_TIME, &value, &e), &e,
                 "'gone 1'");
  assert_int_equal(value.bytes, 7); /* unchanged */
  expect_timeout(gloo_store_get(store, "gone 1", GLOO_TIMEOUT_NOW, &value, &e),
                 &e, "'gone 1'");
  expect_timeout(gloo_store_wait(store, keys, 4, SHORT_TIME, &e), &e,
                 "'gone 1', 'gone 2'");
  assert_null(strstr(e.message, "here'"));
  expect_timeout(gloo_store_multi_get(store, keys, 4, SHORT_TIME, values, &e),
                 &e, "'gone 1', 'gone 2'");
  for (int i = 0; i < 4; i++) {
    assert_null(values[i].data);
    assert_int_equal(values[i].bytes, 0);
  }
  assert_int_equal(gloo_store_wait(store, keys, 4, GLOO_TIMEOUT_NOW, NULL),
                   GLOO_ERR_TIMEOUT);
  keys[1] = "there";
  assert_ok(gloo_store_wait(store, keys, 3, GLOO_TIMEOUT_NOW, error));
  assert_ok(gloo_store_wait(store, NULL, 0, GLOO_TIMEOUT_NOW, error));
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
  store_set(store, keys[5], "x", 1);
  expect_timeout(gloo_store_wait(store, keys, N, GLOO_TIMEOUT_NOW, &e), &e,
                 "'key 0000', ");
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
  /* Other calls are served during the waits; each operation that creates a key
   * is used. */
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
  char key[24];
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
  char key[24];
  assert_int_equal(uv_thread_create(&thread, wait_for_ping_pong, &w), 0);
  for (int i = 0; i < 50; i++) {
    snprintf(key, sizeof(key), "ping %d", i);
    store_set(store, key, "x", 1);
    snprintf(key, sizeof(key), "pong %d", i);
    store_expect(store, key, NULL, 0);
  }
  uv_thread_join(&thread);
  assert_int_equal(w.status, GLOO_OK);
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

/* Increments a counter by compare-and-set, with retries until it succeeds. */
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
  assert_ok(gloo_store_get(store, "log", GLOO_TIMEOUT_NOW, &log, error));
  assert_int_equal(log.bytes, THREADS * ROUNDS);
  free(log.data);
  run_threads(store, compare_often);
  store_expect_text(store, "counter", "200");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(timeouts_name_the_missing_keys_only),
      STORE_TEST(timeouts_count_the_keys_that_do_not_fit),
      STORE_TEST(waiters_wake_when_their_keys_are_set),
      STORE_TEST(waits_without_limit_end_with_the_key),
      STORE_TEST(threads_lose_no_update),
  };
  return store_run(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
