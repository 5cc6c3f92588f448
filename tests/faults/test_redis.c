/* A Redis server that ends while ranks start, or afterwards. Ranks are
 * processes. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/gloo_c.h"
#include "rendezvous/children.h"
#include "rendezvous/kinds.h"
#include "rendezvous/redis_server.h"

enum { RANKS = 16 };
static const uint64_t at_once_ns = 5 * (uint64_t)SECOND;

/* State in memory shared by the ranks and the test. */
typedef struct redis_job {
  redis_server server;
  volatile int ready[RANKS], go;
  gloo_status status[RANKS];
  gloo_error error[RANKS];
  uint64_t ended[RANKS];
} redis_job;

static redis_job *job;

/* ---- what a rank does ---------------------------------------------------- */

static gloo_status rank_add_up(gloo_context *context, gloo_error *error) {
  int64_t sum = gloo_context_rank(context) + 1;
  gloo_status status = gloo_allreduce(context, GLOO_IN_PLACE, &sum, 1,
                                      GLOO_INT64, GLOO_SUM, NULL, error);
  if (status == GLOO_OK && sum != RANKS * (RANKS + 1) / 2)
    status = GLOO_ERR_INTERNAL;
  return status;
}

static gloo_status rank_take_part(int rank, gloo_error *error) {
  gloo_store *store;
  gloo_context *context;
  gli_store_url url = redis_url(job->server.port, "", "", "jobs/16");
  gloo_status status =
      gli_store_redis_open(&url, false, LONG_TIME, &store, error);
  if (status != GLOO_OK) return status;
  status = gloo_context_create(rank, RANKS, store, NULL, NULL, &context, error);
  if (status == GLOO_OK) {
    status = rank_add_up(context, error);
    job->ready[rank] = 1;
    while (!job->go) uv_sleep(1);
    if (status == GLOO_OK) status = rank_add_up(context, error);
    gloo_context_destroy(context);
  }
  gloo_store_destroy(store);
  return status;
}

static int rank_run(int rank, void *argument) {
  (void)argument;
  job->status[rank] = rank_take_part(rank, &job->error[rank]);
  job->ended[rank] = uv_hrtime();
  return 0;
}

/* ---- what the test does -------------------------------------------------- */

static int redis_setup(void **state) {
  (void)state;
  job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job == MAP_FAILED) return -1;
  job->server = redis_server_start(NULL);
  return 0;
}

static int redis_teardown(void **state) {
  (void)state;
  redis_server_signal(&job->server, SIGKILL);
  return munmap(job, sizeof(*job));
}

static void expect_all_well(const pid_t *pids) {
  for (int i = 0; i < RANKS; i++) {
    assert_int_equal(child_wait(pids[i]), 0);
    if (job->status[i] != GLOO_OK)
      fail_msg("rank %d: %s: %s", i, gloo_status_string(job->status[i]),
               job->error[i].message);
  }
}

static void sixteen_ranks_meet(void **state) {
  pid_t pids[RANKS];
  (void)state;
  job->go = 1;
  for (int i = 0; i < RANKS; i++) pids[i] = child_start(rank_run, i, NULL);
  expect_all_well(pids);
}

/* The second start finds the keys of the first. */
static void a_path_is_for_one_start(void **state) {
  pid_t pids[RANKS];
  (void)state;
  job->go = 1;
  for (int i = 0; i < RANKS; i++) pids[i] = child_start(rank_run, i, NULL);
  expect_all_well(pids);
  for (int i = 0; i < RANKS; i++) pids[i] = child_start(rank_run, i, NULL);
  for (int i = 0; i < RANKS; i++) {
    assert_int_equal(child_wait(pids[i]), 0);
    if (job->status[i] != GLOO_ERR_BUSY && job->status[i] != GLOO_ERR_STALE)
      fail_msg("rank %d: %s: %s", i, gloo_status_string(job->status[i]),
               job->error[i].message);
  }
}

/* All ranks but rank 0 have published their records and wait for it. */
static void a_server_that_ends_while_ranks_start_is_named_on_all(void **state) {
  pid_t pids[RANKS];
  char name[64];
  (void)state;
  snprintf(name, sizeof(name), "the Redis store at 127.0.0.1:%u",
           (unsigned)job->server.port);
  for (int i = 1; i < RANKS; i++) pids[i] = child_start(rank_run, i, NULL);
  gloo_store *store = redis_open(job->server.port, "jobs/16");
  for (int i = 1; i < RANKS; i++) {
    char key[32];
    gloo_value value;
    snprintf(key, sizeof(key), "gloo/rank/%d", i);
    assert_int_equal(gloo_store_get(store, key, LONG_TIME, &value, NULL),
                     GLOO_OK);
    free(value.data);
  }
  gloo_store_destroy(store);
  uv_sleep(100);
  uint64_t begun = uv_hrtime();
  redis_server_signal(&job->server, SIGKILL);
  uint64_t latest_ns = 0;
  for (int i = 1; i < RANKS; i++) {
    assert_int_equal(child_wait(pids[i]), 0);
    assert_int_equal(job->status[i], GLOO_ERR_PEER);
    if (strstr(job->error[i].message, name) == NULL)
      fail_msg("rank %d does not name %s: %s", i, name, job->error[i].message);
    assert_true(job->ended[i] > begun);
    if (job->ended[i] - begun > latest_ns) latest_ns = job->ended[i] - begun;
  }
  /* The errors take milliseconds, but the machine may be busy. */
  print_message("# all ranks heard of it within %.1f ms\n",
                (double)latest_ns / 1e6);
  assert_true(latest_ns < at_once_ns);
}

static void a_server_that_ends_afterwards_does_no_harm(void **state) {
  pid_t pids[RANKS];
  (void)state;
  for (int i = 0; i < RANKS; i++) pids[i] = child_start(rank_run, i, NULL);
  for (int i = 0; i < RANKS; i++)
    while (!job->ready[i] && job->ended[i] == 0) uv_sleep(1);
  redis_server_signal(&job->server, SIGKILL);
  job->go = 1;
  expect_all_well(pids);
}

int main(int argc, char **argv) {
#define REDIS_TEST(name) \
  cmocka_unit_test_setup_teardown(name, redis_setup, redis_teardown)
  const struct CMUnitTest tests[] = {
      REDIS_TEST(sixteen_ranks_meet),
      REDIS_TEST(a_path_is_for_one_start),
      REDIS_TEST(a_server_that_ends_while_ranks_start_is_named_on_all),
      REDIS_TEST(a_server_that_ends_afterwards_does_no_harm),
  };
  const char *missing = test_kind_missing("redis");
  if (missing != NULL) return printf("1..0 # SKIP %s\n", missing), 0;
  if (argc == 2 && setenv("GLOO_TRANSPORT", argv[1], 1) != 0) return 2;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
