/* The rendezvous, successful and failing. Ranks are threads, each with a
 * separate store where that is possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "kinds.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/store/store.h"

enum { RANKS_MAX = 8, BLOB_MAX = 100 };

typedef struct rank_run {
  gloo_store *store; /* the others depend on rank 0's */
  int owned;         /* destroy the store at once, like a program that exits */
  uint32_t rank, size;
  size_t blob_bytes, max_bytes;
  int64_t timeout_ns;
  unsigned delay_ms;
  gloo_value blobs[RANKS_MAX * 8];
  gli_attempt attempt;
  gloo_status status;
  gloo_error error;
} rank_run;

static const char *kind;

static void run_rank(void *argument) {
  rank_run *r = argument;
  char blob[2 * BLOB_MAX];
  memset(blob, 'a' + (int)r->rank, sizeof(blob));
  uv_sleep(r->delay_ms);
  r->status = gli_bootstrap_exchange(r->store, r->rank, r->size, blob,
                                     r->blob_bytes, r->max_bytes, r->timeout_ns,
                                     r->blobs, &r->attempt, &r->error);
  if (r->status == GLOO_OK)
    r->status = gli_bootstrap_finish(r->store, r->rank, r->size, r->timeout_ns,
                                     &r->error);
  if (r->owned) gloo_store_destroy(r->store);
}

/* Runs n ranks, with run[i].rank and the other inputs set; the first has the
 * server. */
static void run_all(rank_run *runs, int n) {
  test_store t;
  uv_thread_t threads[RANKS_MAX];
  test_store_open(kind, &t);
  runs[0].store = t.store;
  for (int i = 1; i < n; i++) {
    runs[i].store = test_store_join(&t);
    runs[i].owned = runs[i].store != NULL;
    if (!runs[i].owned) runs[i].store = t.store;
    runs[0].owned = runs[i].owned;
  }
  for (int i = 0; i < n; i++)
    assert_int_equal(uv_thread_create(&threads[i], run_rank, &runs[i]), 0);
  for (int i = 0; i < n; i++) uv_thread_join(&threads[i]);
  if (runs[0].owned) t.store = NULL;
  test_store_close(&t);
}

static void prepare(rank_run *runs, int n, uint32_t size, int64_t timeout_ns) {
  memset(runs, 0, (size_t)n * sizeof(*runs));
  for (int i = 0; i < n; i++) {
    runs[i].rank = (uint32_t)i;
    runs[i].size = size;
    runs[i].blob_bytes = (size_t)i * 7;
    runs[i].max_bytes = BLOB_MAX;
    runs[i].timeout_ns = timeout_ns;
  }
}

/* The rank at fault depends on the order of arrival. */
enum { SOME_RANK = -2 };

static void expect_failure(const rank_run *r, gloo_status status, int rank,
                           const char *word) {
  if (r->status != status)
    fail_msg("rank %u: %s: %s", (unsigned)r->rank,
             gloo_status_string(r->status), r->error.message);
  assert_int_equal(r->error.status, status);
  if (rank != SOME_RANK) assert_int_equal(r->error.rank, rank);
  if (strstr(r->error.message, word) == NULL)
    fail_msg("'%s' is not in: %s", word, r->error.message);
  for (uint32_t i = 0; i < r->size; i++) assert_null(r->blobs[i].data);
}

static void expect_met(rank_run *r) {
  if (r->status != GLOO_OK) fail_msg("%s", r->error.message);
  for (uint32_t i = 0; i < r->size; i++) {
    const char *data = r->blobs[i].data;
    assert_int_equal(r->blobs[i].bytes, i * 7);
    for (uint32_t k = 0; k < i * 7; k++)
      assert_int_equal(data[k], 'a' + (int)i);
    free(r->blobs[i].data);
  }
}

static void all_ranks_get_all_blobs(void **state) {
  rank_run runs[RANKS_MAX];
  (void)state;
  for (int n = 1; n <= RANKS_MAX; n += n < 3 ? 1 : 5) {
    prepare(runs, n, (uint32_t)n, LONG_TIME);
    run_all(runs, n);
    for (int i = 0; i < n; i++) expect_met(&runs[i]);
  }
}

static void late_ranks_are_waited_for(void **state) {
  rank_run runs[3];
  (void)state;
  prepare(runs, 3, 3, LONG_TIME);
  runs[1].delay_ms = 300;
  run_all(runs, 3);
  for (int i = 0; i < 3; i++) expect_met(&runs[i]);
}

static void missing_ranks_are_named_on_every_rank(void **state) {
  rank_run runs[3];
  (void)state;
  prepare(runs, 3, 8, SECOND); /* long enough for all three to arrive */
  runs[2].rank = 6;
  run_all(runs, 3);
  for (int i = 0; i < 3; i++) {
    expect_failure(&runs[i], GLOO_ERR_TIMEOUT, -1, "ranks 2-5, 7 of 8 did not");
    expect_failure(&runs[i], GLOO_ERR_TIMEOUT, -1, "within 1 s (3 ranks did)");
  }
}

static void one_missing_rank_is_named(void **state) {
  rank_run runs[2];
  (void)state;
  prepare(runs, 2, 3, SECOND);
  run_all(runs, 2);
  for (int i = 0; i < 2; i++)
    expect_failure(&runs[i], GLOO_ERR_TIMEOUT, 2, "rank 2 of 3 did not");
}

/* The other ranks have a timeout of two minutes. */
static void the_first_that_gives_up_ends_it_for_all(void **state) {
  rank_run runs[3];
  (void)state;
  uint64_t began_ns = uv_hrtime();
  prepare(runs, 3, 4, LONG_TIME);
  runs[1].timeout_ns = 4 * SHORT_TIME;
  run_all(runs, 3);
  for (int i = 0; i < 3; i++)
    expect_failure(&runs[i], GLOO_ERR_TIMEOUT, 3,
                   "within 200 ms (3 ranks did)");
  assert_true(uv_hrtime() - began_ns < (uint64_t)LONG_TIME / 4);
}

static void a_failure_wakes_those_that_wait(void **state) {
  rank_run runs[3];
  (void)state;
  uint64_t began_ns = uv_hrtime();
  prepare(runs, 3, 4, LONG_TIME);
  runs[2].blob_bytes = BLOB_MAX + 1;
  runs[2].delay_ms = 300;
  run_all(runs, 3);
  for (int i = 0; i < 3; i++)
    expect_failure(&runs[i], GLOO_ERR_INVALID, 2, "101 bytes");
  assert_true(uv_hrtime() - began_ns < (uint64_t)LONG_TIME / 4);
}

static void two_processes_of_one_rank_are_found(void **state) {
  rank_run runs[4];
  (void)state;
  prepare(runs, 4, 4, LONG_TIME);
  runs[3].rank = 2;
  run_all(runs, 4);
  for (int i = 0; i < 4; i++)
    expect_failure(&runs[i], GLOO_ERR_BUSY, 2,
                   "two processes claim rank 2 of 4");
}

static void different_sizes_are_found_on_every_rank(void **state) {
  rank_run runs[3];
  (void)state;
  prepare(runs, 3, 4, LONG_TIME);
  runs[1].size = 5;
  run_all(runs, 3);
  for (int i = 0; i < 3; i++) {
    expect_failure(&runs[i], GLOO_ERR_MISMATCH, SOME_RANK, "4");
    expect_failure(&runs[i], GLOO_ERR_MISMATCH, SOME_RANK, "5");
    expect_failure(&runs[i], GLOO_ERR_MISMATCH, SOME_RANK, "WORLD_SIZE");
  }
}

/* The other ranks never look for a rank beyond the size of their world. */
static void a_rank_beyond_the_others_size_is_found(void **state) {
  rank_run runs[2];
  (void)state;
  prepare(runs, 2, 2, LONG_TIME);
  runs[1].rank = 6;
  runs[1].size = 7;
  runs[0].delay_ms = 100;
  run_all(runs, 2);
  for (int i = 0; i < 2; i++)
    expect_failure(&runs[i], GLOO_ERR_MISMATCH, SOME_RANK, "WORLD_SIZE");
}

static void blobs_that_are_too_long_are_named(void **state) {
  rank_run runs[3];
  (void)state;
  prepare(runs, 3, 3, LONG_TIME);
  runs[1].blob_bytes = BLOB_MAX + 1; /* exceeds the limit of rank 1 itself */
  run_all(runs, 3);
  for (int i = 0; i < 3; i++)
    expect_failure(&runs[i], GLOO_ERR_INVALID, 1, "101 bytes");
  prepare(runs, 3, 3, LONG_TIME);
  runs[1].blob_bytes = BLOB_MAX + 1;
  runs[1].max_bytes = 2 * BLOB_MAX; /* exceeds the limit of the other ranks */
  run_all(runs, 3);
  expect_failure(&runs[0], GLOO_ERR_INVALID, 1, "101 bytes");
  expect_failure(&runs[2], GLOO_ERR_INVALID, 1, "101 bytes");
  for (int i = 0; i < 3; i++) free(runs[1].blobs[i].data); /* may have met */
}

static void bad_ranks_are_refused(void **state) {
  gloo_value blobs[2];
  gloo_store *store;
  (void)state;
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  assert_int_equal(
      gli_bootstrap_exchange(store, 2, 2, "", 0, 1, 0, blobs, NULL, NULL),
      GLOO_ERR_INVALID);
  assert_int_equal(
      gli_bootstrap_exchange(store, 0, 0, "", 0, 1, 0, blobs, NULL, NULL),
      GLOO_ERR_INVALID);
  assert_int_equal(
      gli_bootstrap_exchange(NULL, 0, 1, "", 0, 1, 0, blobs, NULL, NULL),
      GLOO_ERR_INVALID);
  assert_int_equal(gli_bootstrap_finish(NULL, 0, 1, 0, NULL), GLOO_ERR_INVALID);
  gloo_store_destroy(store);
}

static void strange_values_are_refused(void **state) {
  static const char *const strange[] = {"", "short",
                                        "0123456789012345678901234"};
  (void)state;
  for (int i = 0; i < 3; i++) {
    gloo_value blobs[2] = {{NULL, 0}, {NULL, 0}};
    gloo_store *store;
    gloo_error e;
    assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
    gloo_store_set(store, "gloo/rank/1", strange[i], strlen(strange[i]), NULL);
    assert_int_equal(gli_bootstrap_exchange(store, 0, 2, "", 0, 1, LONG_TIME,
                                            blobs, NULL, &e),
                     GLOO_ERR_PROTOCOL);
    assert_int_equal(e.rank, 1);
    gloo_store_destroy(store);
  }
}

/* ---- a host program's store without compare-and-set ---------------------- */

static gloo_status plain_set(void *user, const char *key, const void *data,
                             size_t bytes) {
  return gloo_store_set(user, key, data, bytes, NULL);
}
static gloo_status plain_get(void *user, const char *key, int64_t timeout_ns,
                             gloo_value *value) {
  return gloo_store_get(user, key, timeout_ns, value, NULL);
}
static gloo_status plain_wait(void *user, const char *const *keys,
                              size_t n_keys, int64_t timeout_ns) {
  return gloo_store_wait(user, keys, n_keys, timeout_ns, NULL);
}

static void a_store_that_cannot_compare_will_do(void **state) {
  gloo_store *memory, *store;
  gloo_error e;
  int64_t sum;
  rank_run runs[3];
  uv_thread_t threads[3];
  (void)state;
  assert_int_equal(gloo_store_memory_create(&memory, NULL), GLOO_OK);
  gloo_store_callbacks callbacks = {.struct_size = sizeof(callbacks),
                                    .user = memory,
                                    .set = plain_set,
                                    .get = plain_get,
                                    .wait = plain_wait};
  assert_int_equal(gloo_store_callbacks_create(&callbacks, &store, NULL),
                   GLOO_OK);
  assert_int_equal(gloo_store_add(store, "n", 1, &sum, &e),
                   GLOO_ERR_UNSUPPORTED);
  assert_non_null(strstr(e.message, "does not support add"));
  assert_int_equal(gloo_store_append(store, "n", "", 0, NULL),
                   GLOO_ERR_UNSUPPORTED);
  assert_int_equal(gloo_store_delete(store, "n", NULL), GLOO_ERR_UNSUPPORTED);
  prepare(runs, 3, 3, LONG_TIME);
  for (int i = 0; i < 3; i++) {
    runs[i].store = store;
    assert_int_equal(uv_thread_create(&threads[i], run_rank, &runs[i]), 0);
  }
  for (int i = 0; i < 3; i++) uv_thread_join(&threads[i]);
  for (int i = 0; i < 3; i++) expect_met(&runs[i]);
  gloo_store_destroy(store);
  gloo_store_destroy(memory);
}

static void callbacks_that_misbehave_are_named(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  gloo_store_callbacks callbacks = {
      .struct_size = sizeof(callbacks), .set = plain_set, .get = plain_get};
  assert_int_equal(gloo_store_callbacks_create(&callbacks, &store, &e),
                   GLOO_ERR_INVALID);
  assert_non_null(strstr(e.message, "'wait'"));
}

/* Calls and replies of a store that supports several keys at once. */
typedef struct several {
  int gets, sets;
  gloo_status status;
  size_t bytes; /* length of the last value, whose data is NULL */
} several;

static gloo_status several_get(void *user, const char *const *keys,
                               size_t n_keys, int64_t timeout_ns,
                               gloo_value *values) {
  several *asked = user;
  (void)keys, (void)timeout_ns;
  asked->gets++;
  for (size_t i = 0; i + 1 < n_keys; i++) {
    values[i] = (gloo_value){.data = malloc(2), .bytes = 2};
    assert_non_null(values[i].data);
    memcpy(values[i].data, "ab", 2);
  }
  values[n_keys - 1].bytes = asked->bytes;
  return asked->status;
}

static gloo_status several_set(void *user, const char *const *keys,
                               const gloo_value *values, size_t n_keys) {
  several *asked = user;
  (void)keys, (void)values, (void)n_keys;
  asked->sets++;
  return asked->status;
}

static gloo_status no_wait(void *user, const char *const *keys, size_t n_keys,
                           int64_t timeout_ns) {
  (void)user, (void)keys, (void)n_keys, (void)timeout_ns;
  return GLOO_ERR_INTERNAL;
}

/* Behaves as after a failed start, which marks the key that holds the size. */
static gloo_status marked_compare(void *user, const char *key,
                                  const void *expected, size_t expected_bytes,
                                  const void *desired, size_t desired_bytes,
                                  gloo_value *current) {
  static const char mark[] = "failed";
  (void)user, (void)expected, (void)expected_bytes;
  (void)desired, (void)desired_bytes;
  if (strcmp(key, "gloo/size") != 0) return GLOO_OK;
  current->bytes = strlen(mark);
  current->data = malloc(current->bytes);
  assert_non_null(current->data);
  memcpy(current->data, mark, current->bytes);
  return GLOO_ERR_COMPARE;
}

static gloo_status ended_get(void *user, const char *key, int64_t timeout_ns,
                             gloo_value *value) {
  (void)user, (void)key, (void)timeout_ns, (void)value;
  return GLOO_ERR_PEER;
}

static gloo_status ended_wait(void *user, const char *const *keys,
                              size_t n_keys, int64_t timeout_ns) {
  (void)user, (void)keys, (void)n_keys, (void)timeout_ns;
  return GLOO_ERR_PEER;
}

static void a_store_that_ends_before_it_tells_the_failure_is_named(
    void **state) {
  gloo_store *store;
  gloo_error e;
  gloo_value blobs[2] = {{NULL, 0}};
  gli_attempt attempt = {.again = false};
  (void)state;
  gloo_store_callbacks callbacks = {.struct_size = sizeof(callbacks),
                                    .set = plain_set,
                                    .get = ended_get,
                                    .wait = ended_wait,
                                    .compare_and_set = marked_compare};
  assert_int_equal(gloo_store_callbacks_create(&callbacks, &store, NULL),
                   GLOO_OK);
  assert_int_equal(gli_bootstrap_exchange(store, 1, 2, "", 0, 1, LONG_TIME,
                                          blobs, &attempt, &e),
                   GLOO_ERR_PEER);
  gloo_store_destroy(store);
}

static void several_keys_are_one_callback(void **state) {
  several asked = {.status = GLOO_OK};
  gloo_store *store, *prefixed;
  gloo_error e;
  gloo_value values[3];
  const char *const keys[] = {"a", "b", "c"};
  (void)state;
  gloo_store_callbacks callbacks = {.struct_size = sizeof(callbacks),
                                    .user = &asked,
                                    .set = plain_set,
                                    .get = plain_get,
                                    .wait = no_wait,
                                    .multi_get = several_get,
                                    .multi_set = several_set};
  assert_int_equal(gloo_store_callbacks_create(&callbacks, &store, NULL),
                   GLOO_OK);
  assert_int_equal(gloo_store_prefix_create(store, "p/", &prefixed, NULL),
                   GLOO_OK);
  assert_int_equal(gloo_store_multi_get(prefixed, keys, 3, 1, values, &e),
                   GLOO_OK);
  assert_memory_equal(values[1].data, "ab", 2);
  assert_null(values[2].data);
  assert_int_equal(gloo_store_multi_set(prefixed, keys, values, 3, &e),
                   GLOO_OK);
  for (int i = 0; i < 3; i++) free(values[i].data);
  assert_int_equal(asked.gets, 1);
  assert_int_equal(asked.sets, 1);

  asked.bytes = 5; /* with data NULL */
  assert_int_equal(gloo_store_multi_get(store, keys, 3, 1, values, &e),
                   GLOO_ERR_INVALID);
  assert_non_null(strstr(e.message, "5 bytes at NULL from 'multi_get'"));
  asked.status = GLOO_ERR_IO; /* the values that it returned are freed */
  assert_int_equal(gloo_store_multi_get(store, keys, 3, 1, values, &e),
                   GLOO_ERR_IO);
  assert_non_null(strstr(e.message, "'multi_get' for key 'a'"));
  assert_int_equal(gloo_store_multi_set(store, keys, values, 3, &e),
                   GLOO_ERR_IO);
  assert_non_null(strstr(e.message, "'multi_set' for key 'a'"));
  gloo_store_destroy(prefixed);
  gloo_store_destroy(store);
}

/* ---- leaving ------------------------------------------------------------- */

typedef struct leaving {
  gloo_store *store;
  uint32_t rank, size;
  int64_t timeout_ns;
  gloo_status status;
  gloo_error error;
} leaving;

static void leave(void *argument) {
  leaving *l = argument;
  l->status = gli_bootstrap_finish(l->store, l->rank, l->size, l->timeout_ns,
                                   &l->error);
}

/* Makes ranks `first` to 2 of 3 leave. */
static void leave_all(test_store *t, leaving all[3], int first,
                      int64_t timeout_ns) {
  uv_thread_t threads[3];
  for (int i = first; i < 3; i++) {
    all[i] = (leaving){t->store, (uint32_t)i, 3, timeout_ns, GLOO_OK, {0}};
    assert_int_equal(uv_thread_create(&threads[i], leave, &all[i]), 0);
  }
  for (int i = first; i < 3; i++) uv_thread_join(&threads[i]);
}

static void no_rank_leaves_before_all_have_finished(void **state) {
  leaving all[3];
  test_store t;
  (void)state;
  test_store_open(kind, &t);
  leave_all(&t, all, 1, SHORT_TIME);
  for (int i = 1; i < 3; i++) {
    assert_int_equal(all[i].status, GLOO_ERR_TIMEOUT);
    assert_int_equal(all[i].error.rank, 0);
  }
  test_store_close(&t);
  test_store_open(kind, &t);
  leave_all(&t, all, 0, LONG_TIME);
  for (int i = 0; i < 3; i++)
    if (all[i].status != GLOO_OK) fail_msg("%s", all[i].error.message);
  test_store_close(&t);
}

static void rank_0_names_those_that_have_not_finished(void **state) {
  test_store t;
  gloo_error e;
  (void)state;
  test_store_open(kind, &t);
  assert_int_equal(gloo_store_set(t.store, "gloo/done/1", "1", 1, NULL),
                   GLOO_OK);
  assert_int_equal(gli_bootstrap_finish(t.store, 0, 3, SHORT_TIME, &e),
                   GLOO_ERR_TIMEOUT);
  assert_int_equal(e.rank, 2);
  assert_non_null(strstr(e.message, "rank 2 of 3 did not finish"));
  test_store_close(&t);
}

/* ---- ranks that arrive after the end ------------------------------------- */

/* Returns true if the store keeps its contents for good, so that the next start
 * also finds the ended rendezvous. */
static bool lasts(const char *name) {
  return strcmp(name, "file") == 0 || strcmp(name, "redis") == 0 ||
         strcmp(name, "c10d") == 0;
}

/* The ranks of the next start arrive while rank 0 still holds the store. */
static void late_comers_are_told_to_try_again(void **state) {
  static const uint32_t late[][2] = {{1, 3}, {0, 3}, {3, 4}}; /* rank, size */
  leaving all[3];
  test_store t;
  (void)state;
  test_store_open(kind, &t);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(gloo_store_set(t.store, gli_bootstrap_key("rank", i).text,
                                    "card", 4, NULL),
                     GLOO_OK);
  assert_int_equal(
      gloo_store_set(t.store, "gloo/size", "\3\0\0\0\0\0\0\0", 8, NULL),
      GLOO_OK);
  leave_all(&t, all, 0, LONG_TIME);
  for (int i = 0; i < 3; i++) {
    gloo_value blobs[4] = {{NULL, 0}};
    gloo_error e;
    gli_attempt attempt = {.again = false};
    assert_int_equal(
        gli_bootstrap_exchange(t.store, late[i][0], late[i][1], "", 0, 1,
                               LONG_TIME, blobs, &attempt, &e),
        GLOO_ERR_STALE);
    /* A persistent store keeps the outcome, so another attempt cannot
     * succeed. */
    assert_int_equal(attempt.again, !lasts(kind));
    assert_non_null(strstr(e.message, "started too late"));
    assert_int_equal(gli_bootstrap_outcome(t.store, 0, &e), GLI_OUTCOME_OVER);
  }
  test_store_close(&t);
}

static void a_server_that_goes_before_one_is_in_is_no_end(void **state) {
  test_store t;
  gloo_value blobs[2] = {{NULL, 0}};
  gloo_error e;
  gli_attempt attempt = {.again = false};
  (void)state;
  test_store_open("tcp4", &t);
  gloo_store *client = test_store_join(&t);
  test_store_close(&t);
  assert_int_equal(gli_bootstrap_exchange(client, 1, 2, "", 0, 1, LONG_TIME,
                                          blobs, &attempt, &e),
                   GLOO_ERR_PEER);
  assert_true(attempt.again);
  gloo_store_destroy(client);
}

/* Happens after a server lacked the memory for a reply: the record in the store
 * is this rank's own. */
static void a_rank_that_tries_again_finds_itself(void **state) {
  test_store t;
  gloo_value blobs[2] = {{NULL, 0}};
  gli_attempt attempt = {.again = false};
  gloo_error e;
  (void)state;
  test_store_open(kind, &t);
  assert_int_equal(gli_bootstrap_exchange(t.store, 0, 1, "a", 1, 1, LONG_TIME,
                                          blobs, &attempt, &e),
                   GLOO_OK);
  free(blobs[0].data);
  assert_int_equal(gli_bootstrap_exchange(t.store, 0, 1, "a", 1, 1, LONG_TIME,
                                          blobs, &attempt, &e),
                   GLOO_OK);
  free(blobs[0].data);
  assert_int_equal(gli_bootstrap_exchange(t.store, 0, 1, "a", 1, 1, LONG_TIME,
                                          blobs, NULL, &e),
                   GLOO_ERR_BUSY);
  test_store_close(&t);
}

/* ---- two jobs ------------------------------------------------------------ */

static void a_contender_ends_the_meeting_and_what_comes_of_it(void **state) {
  test_store t;
  gloo_error e;
  (void)state;
  for (int met = 0; met < 2; met++) {
    gloo_value blobs[2] = {{NULL, 0}};
    gli_attempt attempt = {.again = true};
    test_store_open(kind, &t);
    if (met) assert_int_equal(gli_bootstrap_end(t.store, &e), GLI_OUTCOME_OVER);
    assert_int_equal(gli_bootstrap_watch(t.store, 0, &e), GLOO_OK);
    assert_int_equal(gli_bootstrap_contend(t.store, 0, &e), GLOO_ERR_BUSY);
    assert_non_null(strstr(e.message, "two jobs"));
    assert_int_equal(gli_bootstrap_watch(t.store, GLI_NEVER, &e),
                     GLOO_ERR_BUSY);
    assert_int_equal(e.rank, 0);
    assert_non_null(strstr(e.message, "two jobs"));
    /* A rank that arrives later gets the same error. */
    assert_int_equal(gli_bootstrap_exchange(t.store, 1, 2, "", 0, 1, LONG_TIME,
                                            blobs, &attempt, &e),
                     GLOO_ERR_BUSY);
    assert_false(attempt.again);
    assert_non_null(strstr(e.message, "two jobs"));
    test_store_close(&t);
  }
}

static void watching_can_be_ended(void **state) {
  test_store t;
  gloo_error e;
  (void)state;
  test_store_open(kind, &t);
  gli_bootstrap_stop_watching(t.store);
  assert_int_equal(gli_bootstrap_watch(t.store, GLI_NEVER, &e), GLOO_OK);
  test_store_close(&t);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ranks_get_all_blobs),
      cmocka_unit_test(late_ranks_are_waited_for),
      cmocka_unit_test(missing_ranks_are_named_on_every_rank),
      cmocka_unit_test(one_missing_rank_is_named),
      cmocka_unit_test(the_first_that_gives_up_ends_it_for_all),
      cmocka_unit_test(a_failure_wakes_those_that_wait),
      cmocka_unit_test(two_processes_of_one_rank_are_found),
      cmocka_unit_test(different_sizes_are_found_on_every_rank),
      cmocka_unit_test(a_rank_beyond_the_others_size_is_found),
      cmocka_unit_test(blobs_that_are_too_long_are_named),
      cmocka_unit_test(bad_ranks_are_refused),
      cmocka_unit_test(strange_values_are_refused),
      cmocka_unit_test(a_store_that_cannot_compare_will_do),
      cmocka_unit_test(callbacks_that_misbehave_are_named),
      cmocka_unit_test(a_store_that_ends_before_it_tells_the_failure_is_named),
      cmocka_unit_test(several_keys_are_one_callback),
      cmocka_unit_test(no_rank_leaves_before_all_have_finished),
      cmocka_unit_test(rank_0_names_those_that_have_not_finished),
      cmocka_unit_test(late_comers_are_told_to_try_again),
      cmocka_unit_test(a_rank_that_tries_again_finds_itself),
      cmocka_unit_test(a_server_that_goes_before_one_is_in_is_no_end),
      cmocka_unit_test(a_contender_ends_the_meeting_and_what_comes_of_it),
      cmocka_unit_test(watching_can_be_ended),
  };
  kind = argc > 1 ? argv[1] : "memory";
  const char *missing = test_kind_missing(kind);
  if (missing != NULL) return printf("1..0 # SKIP %s\n", missing), 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
