/* Failures to make a group, and failures of groups: the named rank, and the
 * ranks that report it. */
#include <stdbool.h>
#include <string.h>

#include "groups.h"

static const char *transport;

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* Calls that still need a rank that has left fail everywhere with an error that
 * names it. */
static void leaves(rank_env *env) {
  gloo_context *group = group_split(env, env->context, 0, -env->rank);
  if (!group) return;
  gloo_error error;
  gloo_barrier(env->context, NULL, NULL); /* all ranks have the group now */
  if (env->rank == 1) {
    gloo_context_destroy(group);
    int32_t data = 0;
    gloo_recv(env->context, &data, 1, GLOO_INT32, 0, NULL, NULL);
    gloo_context_error(env->context, &error);
  } else {
    gloo_barrier(group, NULL, NULL);
    gloo_context_error(group, &error);
    gloo_context_destroy(group);
  }
  RANK_CHECK(env, error.status == GLOO_ERR_PEER);
  RANK_CHECK(env, error.root_rank == 1);
  RANK_CHECK(env, error.rank == (env->rank == 1 ? 1 : env->size - 2));
  RANK_CHECK(env, strstr(error.message, "rank 1") != NULL);
}

static void who_leaves_a_group_too_early_is_named(void **state) {
  (void)state;
  run(2, leaves);
  run(4, leaves);
}

/* Returns true if the call reports the cause, or a failure that arrived before
 * it. */
static bool hears_of(gloo_status status, gloo_status cause) {
  return status == cause || status == GLOO_ERR_POISONED;
}

static void other_lists(rank_env *env) {
  static const int two[] = {0, 1}, three[] = {0, 1, 2}, other[] = {1, 0, 2};
  gloo_context *group = NULL;
  gloo_error error;
  const int *lists[] = {three, env->user ? other : two, three};
  size_t n = env->rank == 1 && !env->user ? 2 : 3;
  RANK_CHECK(
      env, gloo_context_subset(env->context, three, (size_t)env->size + 1, NULL,
                               &group, &error) == GLOO_ERR_RANK);
  RANK_CHECK(
      env, strstr(error.message, " ranks, but the context has only ") != NULL);
  gloo_status status = gloo_context_subset(env->context, lists[env->rank], n,
                                           NULL, &group, &error);
  RANK_CHECK(env, hears_of(status, GLOO_ERR_MISMATCH) && group == NULL);
  gloo_context_error(env->context, &error);
  RANK_CHECK(env, error.status == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "gloo_context_subset") != NULL);
  RANK_CHECK(env, strstr(error.message, "rank 1") != NULL);
}

/* Ranks 1 and 2 make a group while rank 0 waits for rank 1, which may be
 * correct; then rank 1 calls with another list. */
static void lists_that_cross(rank_env *env) {
  static const int first[] = {0, 1}, second[] = {1, 2}, all[] = {0, 1, 2};
  gloo_context *group = NULL, *next = NULL;
  gloo_error error;
  if (env->rank == 0) {
    gloo_status status =
        gloo_context_subset(env->context, first, 2, NULL, &group, &error);
    RANK_CHECK(env, hears_of(status, GLOO_ERR_MISMATCH) && group == NULL);
  } else {
    gloo_context_subset(env->context, second, 2, NULL, &group, &error);
    gloo_status status =
        gloo_context_subset(env->context, all, 3, NULL, &next, &error);
    RANK_CHECK(env, hears_of(status, GLOO_ERR_MISMATCH) && next == NULL);
  }
  gloo_context_error(env->context, &error);
  RANK_CHECK(env, error.status == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "gloo_context_subset") != NULL);
  gloo_context_destroy(group);
}

static void crossing_lists_are_a_mismatch_when_their_ranks_meet(void **state) {
  (void)state;
  run(3, lists_that_cross);
}

static void different_lists_name_a_rank_that_differs(void **state) {
  (void)state;
  run(3, other_lists);
  ranks_options o = {.transport = transport, .user = &o};
  ranks_run(3, &o, other_lists);
}

static void split_or_subset(rank_env *env) {
  static const int all[] = {0, 1, 2, 3};
  gloo_context *group = NULL;
  gloo_status status =
      env->rank == 2
          ? gloo_context_subset(env->context, all, 4, NULL, &group, NULL)
          : gloo_context_split(env->context, 0, 0, NULL, &group, NULL);
  RANK_CHECK(env, hears_of(status, GLOO_ERR_MISMATCH) && group == NULL);
}

static void split_here_and_subset_there_is_a_mismatch(void **state) {
  (void)state;
  run(4, split_or_subset);
}

/* All ranks wait for one another; only one is missing. */
static void missing(rank_env *env) {
  gloo_context *group = NULL;
  gloo_error error;
  if (env->rank == 5) {
    int32_t data = 0;
    gloo_recv(env->context, &data, 1, GLOO_INT32, 0, NULL, NULL);
  } else {
    gloo_group_options o = GLOO_GROUP_OPTIONS_INIT;
    o.timeout_ns = INT64_C(1000000000);
    gloo_status status =
        gloo_context_split(env->context, 0, 0, &o, &group, &error);
    RANK_CHECK(env, hears_of(status, GLOO_ERR_TIMEOUT) && group == NULL);
  }
  gloo_context_error(env->context, &error);
  RANK_CHECK(env, error.status == GLOO_ERR_TIMEOUT);
  RANK_CHECK(env, strstr(error.message, "is waiting for rank 5") != NULL);
  RANK_CHECK(env, error.rank == 5);
}

static void missing_rank_is_named_by_all(void **state) {
  (void)state;
  run(7, missing);
}

static void refusals(rank_env *env) {
  gloo_context *group = NULL;
  gloo_error error;
  int twice[] = {0, 1, 0}, far[] = {0, 2}, others[] = {1 - env->rank};
  gloo_context *c = env->context;
  RANK_CHECK(env, gloo_context_subset(c, twice, 3, NULL, &group, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, gloo_context_subset(c, twice, 2 + 1, NULL, &group, NULL) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, gloo_context_subset(c, far, 2, NULL, &group, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, gloo_context_subset(c, others, 1, NULL, &group, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, strstr(error.message, "not in its own list") != NULL);
  RANK_CHECK(env, gloo_context_subset(c, NULL, 1, NULL, &group, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, gloo_context_subset(c, far, 0, NULL, &group, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, gloo_context_split(NULL, 0, 0, NULL, &group, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(
      env, gloo_context_split(c, 0, 0, NULL, NULL, &error) == GLOO_ERR_INVALID);
  RANK_CHECK(env, group == NULL);
  RANK_CHECK(env, gloo_context_world_rank(c, 2) == -1);
  RANK_CHECK(env, gloo_context_world_rank(c, -1) == -1);
  RANK_CHECK(env, gloo_context_translate(c, 0, NULL) == -1);
  group_all_works(env, c); /* the context is still usable */
}

static void unusable_arguments_are_refused(void **state) {
  (void)state;
  run(2, refusals);
}

/* A failure in one context fails all related ones, and the error names its
 * origin. */
static void poisoned(rank_env *env) {
  gloo_context *group = group_split(env, env->context, env->rank / 2, 0);
  gloo_context *other = group ? group_split(env, env->context, 0, 0) : NULL;
  gloo_context *never = NULL;
  if (!other) return;
  gloo_barrier(env->context, NULL, NULL); /* all ranks have the groups now */
  int32_t data[2] = {0};
  if (env->rank < 2) {
    gloo_status status =
        gloo_allreduce(group, GLOO_IN_PLACE, data, (size_t)env->rank + 1,
                       GLOO_INT32, GLOO_SUM, NULL, NULL);
    RANK_CHECK(env, hears_of(status, GLOO_ERR_MISMATCH));
  } else {
    RANK_CHECK(env,
               hears_of(gloo_barrier(other, NULL, NULL), GLOO_ERR_MISMATCH));
  }
  gloo_error error;
  RANK_CHECK(env,
             gloo_context_error(env->context, &error) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "in a group of 2 ranks") != NULL);
  gloo_options o = GLOO_OPTIONS_INIT;
  RANK_CHECK(env, gloo_barrier(other, &o, &error) == GLOO_ERR_POISONED);
  RANK_CHECK(env, error.cause == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, gloo_context_split(other, 0, 0, NULL, &never, &error) ==
                      GLOO_ERR_POISONED);
  RANK_CHECK(env, error.cause == GLOO_ERR_MISMATCH);
  gloo_context_destroy(other);
  gloo_context_destroy(group);
}

static void failure_in_a_group_reaches_the_whole_family(void **state) {
  (void)state;
  run(4, poisoned);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_leaves_a_group_too_early_is_named),
      cmocka_unit_test(different_lists_name_a_rank_that_differs),
      cmocka_unit_test(crossing_lists_are_a_mismatch_when_their_ranks_meet),
      cmocka_unit_test(split_here_and_subset_there_is_a_mismatch),
      cmocka_unit_test(missing_rank_is_named_by_all),
      cmocka_unit_test(unusable_arguments_are_refused),
      cmocka_unit_test(failure_in_a_group_reaches_the_whole_family),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
