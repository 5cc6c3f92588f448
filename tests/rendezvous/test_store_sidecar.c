/* The store that rank 0 serves in addition to one without access control. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rendezvous/launch/store_sidecar.h"

#define SECOND INT64_C(1000000000)

static gli_launch launch_of(uint32_t rank) {
  return (gli_launch){.rank = rank, .size = 2, .open_to_all = true};
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
  gli_launch launch = launch_of(0);
  (void)state;
  assert_int_equal(is_wanted(&launch), GLI_LINUX);
  launch.open_to_all = false;
  assert_false(is_wanted(&launch));
  launch.open_to_all = true;
  setenv("GLOO_SECURITY", "off", 1);
  assert_false(is_wanted(&launch));
  unsetenv("GLOO_SECURITY");
}

static void ranks_meet_there(void **state) {
  gloo_store *told = memory(), *stores[2];
  gloo_error e;
  gloo_value value;
  (void)state;
  for (uint32_t rank = 0; rank < 2; rank++) {
    gli_launch launch = launch_of(rank);
    if (gli_store_sidecar_open(&launch, told, 20 * SECOND, &stores[rank], &e) !=
        GLOO_OK)
      fail_msg("%s", e.message);
  }
  assert_int_equal(gloo_store_set(stores[0], "k", "v", 1, NULL), GLOO_OK);
  assert_int_equal(gloo_store_get(stores[1], "k", SECOND, &value, NULL),
                   GLOO_OK);
  free(value.data);
  assert_int_equal(gloo_store_get(told, "k", GLOO_TIMEOUT_NOW, &value, NULL),
                   GLOO_ERR_TIMEOUT);
  gloo_store_destroy(stores[1]);
  gloo_store_destroy(stores[0]);
  gloo_store_destroy(told);
}

static void expect_rank_0_blamed(const char *word, gloo_status status) {
  gloo_store *told = memory(), *store;
  gloo_error e;
  gli_launch launch = launch_of(1);
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
  expect_rank_0_blamed("\033[2J no descriptor", GLOO_ERR_PEER);
  expect_rank_0_blamed("0", GLOO_ERR_PEER);
  expect_rank_0_blamed("65536", GLOO_ERR_PEER);
  expect_rank_0_blamed("-1", GLOO_ERR_PEER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_for_jobs_that_nobody_is_kept_out_of),
      cmocka_unit_test(ranks_meet_there),
      cmocka_unit_test(what_is_told_may_be_anything),
  };
  unsetenv("GLOO_SECURITY");
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
