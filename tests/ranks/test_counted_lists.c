/* Lists of counts that differ between ranks, or are invalid. */
#include <stdio.h>
#include <string.h>

#include "ranks.h"

static const char *transport;

static void run_on(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* ---- lists that differ --------------------------------------------------- */

/* Checks that the context fails with this mismatch on every rank. The rank's
 * own call may have completed before the failure arrived. */
static void expect_mismatch(rank_env *env, const char *a, const char *b) {
  gloo_error error;
  for (int i = 0; i < 3; i++) {
    if (gloo_barrier(env->context, NULL, NULL) != GLOO_OK) break;
  }
  gloo_status status = gloo_context_error(env->context, &error);
  if (status == GLOO_ERR_MISMATCH && strstr(error.message, a) != NULL &&
      strstr(error.message, b) != NULL) {
    return;
  }
  rank_fail(env, __FILE__, __LINE__, error.message);
}

/* Lists with equal sums, but different counts. */
static void other_list(rank_env *env) {
  size_t counts[3] = {4, 4, 4};
  int32_t in[12] = {0}, out[12];
  if (env->rank == 2) counts[0] = 3, counts[1] = 5;
  (void)gloo_allgatherv(env->context, in, out, counts, NULL, GLOO_INT32, NULL,
                        NULL);
  expect_mismatch(env, "rank 2 called allgatherv",
                  "with different counts for some ranks");
}

static void other_sum(rank_env *env) {
  size_t counts[3] = {4, 4, 4};
  int32_t in[13] = {0}, out[13];
  if (env->rank == 1) counts[1] = 5;
  (void)gloo_reduce_scatterv(env->context, in, out, counts, GLOO_INT32,
                             GLOO_SUM, NULL, NULL);
  expect_mismatch(env, "12 x int32", "13 x int32");
}

/* Rank 1 sends `sent` elements to rank 2, which expects `expected`. */
static void other_pair(rank_env *env, size_t sent, size_t expected) {
  size_t in_counts[3] = {2, 2, 2}, out_counts[3] = {2, 2, 2};
  static int32_t in[3][3000000], out[3][3000000];
  if (env->rank == 1) in_counts[2] = sent;
  if (env->rank == 2) out_counts[1] = expected;
  (void)gloo_alltoallv(env->context, in[env->rank], in_counts, NULL,
                       out[env->rank], out_counts, NULL, GLOO_INT32, NULL,
                       NULL);
  char sends[80], expects[80];
  snprintf(sends, sizeof sends, "rank 1 sends %zu elements to rank 2", sent);
  snprintf(expects, sizeof expects, "expects %zu", expected);
  expect_mismatch(env, sends, expects);
}

static void pair_more(rank_env *env) {
  other_pair(env, 7, 2);
}
static void pair_nothing_sent(rank_env *env) {
  other_pair(env, 0, 2);
}
static void pair_nothing_expected(rank_env *env) {
  other_pair(env, 5, 0);
}
static void pair_fewer_segments(rank_env *env) {
  other_pair(env, 1000000, 2000000);
}

static void gather_pair(rank_env *env) {
  size_t counts[3] = {1, 2, 3};
  int32_t in[4] = {0}, out[6];
  size_t own = (size_t)env->rank + (env->rank == 2 ? 2 : 1);
  (void)gloo_gatherv(env->context, in, own, out, counts, NULL, GLOO_INT32, 0,
                     NULL, NULL);
  expect_mismatch(env, "rank 2 sends 4 elements to rank 0", "expects 3");
}

/* Repeated matching calls; then rank 1 sends more than rank 0 expects. */
static void gather_after_others(rank_env *env) {
  size_t counts[2] = {1, 2};
  int32_t in[3] = {5, 6, 7}, out[3];
  for (int i = 0; i < 50; i++) {
    out[1] = out[2] = 0;
    size_t own = counts[env->rank];
    RANK_OK(env, gloo_gatherv(env->context, in, own, out, counts, NULL,
                              GLOO_INT32, 0, NULL, NULL));
    if (env->rank == 0) RANK_CHECK(env, out[1] == 5 && out[2] == 6);
  }
  (void)gloo_gatherv(env->context, in, env->rank == 1 ? 3 : 1, out, counts,
                     NULL, GLOO_INT32, 0, NULL, NULL);
  expect_mismatch(env, "rank 1 sends 3 elements to rank 0", "expects 2");
}

static void lists_that_differ_are_errors(void **state) {
  (void)state;
  run_on(3, other_list);
  run_on(3, other_sum);
  run_on(3, pair_more);
  run_on(3, pair_nothing_sent);
  run_on(3, pair_nothing_expected);
  run_on(3, pair_fewer_segments);
  run_on(3, gather_pair);
  run_on(2, gather_after_others);
}

/* ---- invalid lists ------------------------------------------------------- */

static void bad_lists(rank_env *env) {
  int32_t in[8] = {0}, out[8];
  size_t two[2] = {2, 2}, huge[2] = {SIZE_MAX, 2}, over[2] = {1, 0};
  size_t five[2] = {5, 5};
  gloo_context *c = env->context;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_dtype t = GLOO_INT32;
  rank_expect_invalid(env,
                      gloo_allgatherv(c, in, out, NULL, NULL, t, &o, &error),
                      &error, "is NULL");
  rank_expect_invalid(env,
                      gloo_allgatherv(c, in, out, huge, NULL, t, &o, &error),
                      &error, "exceeds the address space");
  rank_expect_invalid(env,
                      gloo_allgatherv(c, in, out, two, over, t, &o, &error),
                      &error, "overlap");
  rank_expect_invalid(
      env, gloo_allgatherv(c, out, out + 1, two, NULL, t, &o, &error), &error,
      "overlap");
  size_t mine[2] = {2, 2};
  mine[env->rank] = 3;
  rank_expect_invalid(
      env, gloo_alltoallv(c, in, mine, NULL, out, two, NULL, t, &o, &error),
      &error, "for itself");
  rank_expect_invalid(
      env, gloo_alltoallv(c, out, two, NULL, out, two, NULL, t, &o, &error),
      &error, "overlap");
  if (env->rank == 0) {
    rank_expect_invalid(
        env, gloo_gatherv(c, in, 3, out, five, NULL, t, 0, &o, &error), &error,
        "room for 5");
  } else {
    rank_expect_invalid(
        env,
        gloo_gatherv(c, GLOO_IN_PLACE, 3, out, five, NULL, t, 0, &o, &error),
        &error, "only the root");
    rank_expect_invalid(env,
                        gloo_gather(c, GLOO_IN_PLACE, out, 3, t, 0, &o, &error),
                        &error, "only the root");
  }
  o.algorithm = "bruck";
  RANK_CHECK(env, gloo_alltoallv(c, in, two, NULL, out, two, NULL, t, &o,
                                 &error) == GLOO_ERR_NOT_FOUND);
  RANK_OK(env, gloo_barrier(c, NULL, NULL)); /* the context is still usable */
}

static void lists_that_cannot_be_are_refused(void **state) {
  (void)state;
  run_on(2, bad_lists);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_that_differ_are_errors),
      cmocka_unit_test(lists_that_cannot_be_are_refused),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
