/* The store that rank 0 serves in addition to one without access control. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "rendezvous/launch/store_sidecar.h"

#define SECOND INT64_C(1000000000)

static gli_launch launch_of(uint32_t rank, bool here) {
  return (gli_launch){.rank = rank, .size = 2, .agent = true, .here = here};
}

static gloo_store *memory(void) {
  gloo_store *store;
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  return store;
}

static bool is_wanted(const gli_launch *launch) {
  bool wanted;
  assert_int_equal(gli_store_sidecar_wanted(launch, &wanted, NULL), GLOO_OK);
  return wanted;
}

static void it_is_for_jobs_that_nobody_is_kept_out_of(void **state) {
  gli_launch launch = launch_of(0, true), other = launch_of(0, false);
  (void)state;
  assert_int_equal(is_wanted(&launch), GLI_LINUX);
  setenv("GLOO_SECURITY", "off", 1);
  assert_false(is_wanted(&launch));
  assert_true(is_wanted(&other));
  unsetenv("GLOO_SECURITY");
  launch.agent = other.agent = false;
  assert_false(is_wanted(&launch));
  assert_false(is_wanted(&other));
}

static gloo_store *open_as(uint32_t rank, bool here, gloo_store *told) {
  gli_launch launch = launch_of(rank, here);
  gloo_error e;
  gloo_store *store;
  if (gli_store_sidecar_open(&launch, told, 20 * SECOND, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return store;
}

static void expect_same(gloo_store *first, gloo_store *second, const char *k) {
  gloo_value value;
  assert_int_equal(gloo_store_set(first, k, "v", 1, NULL), GLOO_OK);
  assert_int_equal(gloo_store_get(second, k, SECOND, &value, NULL), GLOO_OK);
  free(value.data);
}

static void ranks_meet_there(void **state) {
  (void)state;
  for (int here = 0; here < 2; here++) {
    gloo_store *told = memory(), *stores[2];
    gloo_value value;
    for (uint32_t rank = 0; rank < 2; rank++)
      stores[rank] = open_as(rank, here, told);
    expect_same(stores[0], stores[1], "k");
    assert_int_equal(gloo_store_get(told, "k", GLOO_TIMEOUT_NOW, &value, NULL),
                     GLOO_ERR_TIMEOUT);
    gloo_store_destroy(stores[1]);
    gloo_store_destroy(stores[0]);
    gloo_store_destroy(told);
  }
}

static void start_again(void *told) {
  uv_sleep(300);
  gloo_store *store = open_as(0, false, told);
  assert_int_equal(gloo_store_set(store, "again", "v", 1, NULL), GLOO_OK);
  gloo_value value;
  assert_int_equal(gloo_store_get(store, "done", 20 * SECOND, &value, NULL),
                   GLOO_OK);
  free(value.data);
  gloo_store_destroy(store);
}

/* Rank 1 starts again before rank 0 and reads the record of the first start.
 * That record may report an error. */
static void the_record_may_be_an_earlier_one(void **state) {
  const char *failed = "failed no descriptor is left";
  (void)state;
  for (int i = 0; i < 2; i++) {
    gloo_store *told = memory(), *store;
    gloo_value value;
    uv_thread_t thread;
    gloo_store_destroy(open_as(0, false, told));
    if (i == 1)
      assert_int_equal(
          gloo_store_set(told, "gloo/beside", failed, strlen(failed), NULL),
          GLOO_OK);
    assert_int_equal(uv_thread_create(&thread, start_again, told), 0);
    store = open_as(1, false, told);
    assert_int_equal(gloo_store_get(store, "again", SECOND, &value, NULL),
                     GLOO_OK);
    free(value.data);
    assert_int_equal(gloo_store_set(store, "done", "v", 1, NULL), GLOO_OK);
    uv_thread_join(&thread);
    gloo_store_destroy(store);
    gloo_store_destroy(told);
  }
}

static void expect_rank_0_blamed(const char *word, gloo_status status) {
  gloo_store *told = memory(), *store;
  gloo_error e;
  gli_launch launch = launch_of(1, true);
  if (word != NULL)
    assert_int_equal(
        gloo_store_set(told, "gloo/beside", word, strlen(word), NULL), GLOO_OK);
  assert_int_equal(
      gli_store_sidecar_open(&launch, told, SECOND / 20, &store, &e), status);
  assert_int_equal(e.rank, 0);
  assert_null(strchr(e.message, '\033'));
  gloo_store_destroy(told);
}

static void what_is_told_may_be_anything(void **state) {
  (void)state;
  expect_rank_0_blamed(NULL, GLOO_ERR_TIMEOUT);
  expect_rank_0_blamed("failed \033[2J no descriptor", GLOO_ERR_PEER);
  expect_rank_0_blamed("\033[2J", GLOO_ERR_PROTOCOL);
  expect_rank_0_blamed("", GLOO_ERR_PROTOCOL);
  expect_rank_0_blamed("served j - 0 127.0.0.1", GLOO_ERR_PROTOCOL);
  expect_rank_0_blamed("served j - 65536 127.0.0.1", GLOO_ERR_PROTOCOL);
}

/* Any client of the agent's store can write the record: neither a secret in it
 * nor, on one host, an address counts. */
static void the_record_brings_neither_secret_nor_address(void **state) {
  const char *digits =
      "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
  char word[200], port[8];
  (void)state;
  gloo_store *told = memory(), *served = open_as(0, true, told);
  snprintf(port, sizeof port, "%u", (unsigned)gloo_store_tcp_port(served));
  gloo_value value;
  assert_int_equal(gloo_store_get(told, "gloo/beside", SECOND, &value, NULL),
                   GLOO_OK);
  assert_true(value.bytes > 40);
  snprintf(word, sizeof word, "%.39s %s %s 192.0.2.1", (char *)value.data,
           digits, port);
  free(value.data);
  assert_int_equal(
      gloo_store_set(told, "gloo/beside", word, strlen(word), NULL), GLOO_OK);
  gloo_store *store = open_as(1, true, told);
  expect_same(served, store, "k");
  gloo_store_destroy(store);
  gloo_store_destroy(served);
  gloo_store_destroy(told);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_for_jobs_that_nobody_is_kept_out_of),
      cmocka_unit_test(ranks_meet_there),
      cmocka_unit_test(the_record_may_be_an_earlier_one),
      cmocka_unit_test(what_is_told_may_be_anything),
      cmocka_unit_test(the_record_brings_neither_secret_nor_address),
  };
  unsetenv("GLOO_SECURITY");
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
