/* One rank is late. The others wait for it directly, or for a rank that waits
 * for it in another call; all of them must name it. */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks.h"

static const char *transport;

enum { RANKS = 3, LATE = 2 };
#define TIMEOUT_NS INT64_C(1000000000)

static void nap_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* Makes no call until the others have timed out. */
static void stay_away(rank_env *env) {
  gloo_error error;
  for (int i = 0; i < 1000; i++) {
    if (gloo_context_error(env->context, &error) != GLOO_OK) break;
    nap_ms(10);
  }
  RANK_CHECK(env, error.status == GLOO_ERR_TIMEOUT && error.rank == LATE);
}

static void expect_late(rank_env *env, gloo_status status,
                        const gloo_error *error) {
  bool right = status != GLOO_OK && error->cause == GLOO_ERR_TIMEOUT &&
               error->root_rank == LATE;
  if (!right) rank_fail(env, __FILE__, __LINE__, error->message);
}

static void run_late(rank_body body) {
  ranks_options o = {.transport = transport, .timeout_ns = TIMEOUT_NS};
  ranks_run(RANKS, &o, body);
}

/* ---- in messages --------------------------------------------------------- */

static void wait_in_a_chain(rank_env *env) {
  int32_t x = 0;
  gloo_error error;
  if (env->rank == LATE) {
    stay_away(env);
    return;
  }
  if (env->rank == 0) nap_ms(200); /* so that it times out later */
  gloo_status status = gloo_recv(env->context, &x, 1, GLOO_INT32,
                                 env->rank == 0 ? LATE : 0, NULL, &error);
  expect_late(env, status, &error);
}

/* The harness sets two minutes, and the environment one second. */
static void wait_as_the_environment_says(rank_env *env) {
  gloo_error error;
  if (gloo_context_set_timeout(env->context, GLOO_TIMEOUT_DEFAULT, &error) !=
      GLOO_OK)
    rank_fail(env, __FILE__, __LINE__, error.message);
  wait_in_a_chain(env);
}

static void the_environment_sets_the_default(void **state) {
  ranks_options o = {.transport = transport};
  (void)state;
  assert_int_equal(setenv("GLOO_TIMEOUT", "1", 1), 0);
  ranks_run(RANKS, &o, wait_as_the_environment_says);
  assert_int_equal(unsetenv("GLOO_TIMEOUT"), 0);
}

static void chain_of_messages_ends_at_the_late(void **state) {
  (void)state;
  run_late(wait_in_a_chain);
}

static void wait_without_deadline(rank_env *env) {
  int32_t x = 0;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  if (env->rank == LATE) {
    stay_away(env);
    return;
  }
  if (env->rank == 0) o.timeout_ns = -1;
  gloo_status status = gloo_recv(env->context, &x, 1, GLOO_INT32,
                                 env->rank == 0 ? LATE : 0, &o, &error);
  expect_late(env, status, &error);
}

static void rank_without_deadline_asks_on(void **state) {
  (void)state;
  run_late(wait_without_deadline);
}

/* ---- in collectives ------------------------------------------------------ */

/* Rank 0 has completed the first gather, in which it only sends. */
static void gather_twice(rank_env *env) {
  int32_t x = env->rank, all[RANKS];
  gloo_error error;
  if (env->rank == LATE) {
    stay_away(env);
    return;
  }
  if (env->rank == 1) nap_ms(200);
  gloo_status status =
      gloo_gather(env->context, &x, all, 1, GLOO_INT32, 1, NULL, &error);
  if (status == GLOO_OK)
    status = gloo_gather(env->context, &x, all, 1, GLOO_INT32, 0, NULL, &error);
  expect_late(env, status, &error);
}

static void rank_in_an_earlier_call_is_innocent(void **state) {
  (void)state;
  run_late(gather_twice);
}

/* Rank 1 waits in a group. */
static void wait_in_a_group(rank_env *env) {
  gloo_context *group;
  gloo_error error;
  int32_t x = 1;
  RANK_OK(env, gloo_context_split(env->context, env->rank == 0, env->rank, NULL,
                                  &group, NULL));
  if (env->rank == LATE) {
    stay_away(env);
  } else {
    gloo_context *where = env->rank == 1 ? group : env->context;
    if (env->rank == 1) nap_ms(100);
    gloo_status status = gloo_allreduce(where, GLOO_IN_PLACE, &x, 1, GLOO_INT32,
                                        GLOO_SUM, NULL, &error);
    expect_late(env, status, &error);
  }
  gloo_context_destroy(group);
}

static void rank_in_a_group_is_innocent(void **state) {
  (void)state;
  run_late(wait_in_a_group);
}

/* ---- where no rank is late ----------------------------------------------- */

static void expect_no_name(rank_env *env) {
  gloo_error cause;
  RANK_CHECK(env, gloo_context_error(env->context, &cause) == GLOO_ERR_TIMEOUT);
  if (cause.rank != -1) rank_fail(env, __FILE__, __LINE__, cause.message);
}

/* Rank 1 waits for rank 0, and rank 0 for rank 1; the third has no effect. */
static void call_alone(rank_env *env) {
  int32_t x = 1, in[RANKS] = {0}, out[RANKS];
  gloo_error error;
  if (env->rank == LATE) {
    while (gloo_context_error(env->context, &error) == GLOO_OK) nap_ms(10);
  } else if (env->rank == 0) {
    RANK_CHECK(env, gloo_alltoall(env->context, in, out, 1, GLOO_INT32, NULL,
                                  NULL) != GLOO_OK);
  } else {
    RANK_CHECK(env, gloo_recv(env->context, &x, 1, GLOO_INT32, 0, NULL, NULL) !=
                        GLOO_OK);
  }
  expect_no_name(env);
}

static void collective_called_alone_names_no_rank(void **state) {
  (void)state;
  run_late(call_alone);
}

/* Each waits for the other in another call: all report the same error. */
static void cross(rank_env *env) {
  int32_t x = 1;
  gloo_error error, cause;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = (uint32_t)(1 + env->rank);
  gloo_status status = gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1,
                                      GLOO_INT32, GLOO_SUM, &o, &error);
  RANK_CHECK(env, status != GLOO_OK);
  RANK_CHECK(env, gloo_context_error(env->context, &cause) == GLOO_ERR_TIMEOUT);
  const char *wait = strstr(cause.message, "is waiting for rank ");
  RANK_CHECK(env, wait != NULL &&
                      strstr(wait, "which is in a different call") != NULL);
  RANK_CHECK(env, strstr(cause.message,
                         "the library cannot tell which rank is wrong"));
}

static void ranks_that_wait_for_each_other_end(void **state) {
  (void)state;
  ranks_options o = {.transport = transport, .timeout_ns = TIMEOUT_NS};
  ranks_run(2, &o, cross);
}

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "tcp";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_environment_sets_the_default),
      cmocka_unit_test(chain_of_messages_ends_at_the_late),
      cmocka_unit_test(rank_without_deadline_asks_on),
      cmocka_unit_test(rank_in_an_earlier_call_is_innocent),
      cmocka_unit_test(rank_in_a_group_is_innocent),
      cmocka_unit_test(collective_called_alone_names_no_rank),
      cmocka_unit_test(ranks_that_wait_for_each_other_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
