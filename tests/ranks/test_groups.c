/* Groups: split and subset of a context, over every transport. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ranks.h"

static const char *transport;

enum { COUNT = 3000, MANY = 50, PER_RANK = 4 };

/* ---- what must work in a group ------------------------------------------- */

static int world_of(const gloo_context *group, int rank) {
  return gloo_context_world_rank(group, rank);
}

static int64_t sum_of_worlds(const gloo_context *group) {
  int64_t sum = 0;
  for (int i = 0; i < gloo_context_size(group); i++) sum += world_of(group, i);
  return sum;
}

static void reduce_all(rank_env *env, gloo_context *group) {
  static const size_t counts[] = {1, 100, COUNT, 40000};
  int64_t *data = malloc(40000 * sizeof *data);
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (size_t i = 0; i < counts[c]; i++) data[i] = env->rank + (int64_t)i;
    RANK_OK(env, gloo_allreduce(group, GLOO_IN_PLACE, data, counts[c],
                                GLOO_INT64, GLOO_SUM, NULL));
    int64_t n = gloo_context_size(group), sum = sum_of_worlds(group);
    for (size_t i = 0; i < counts[c]; i++) {
      RANK_CHECK(env, data[i] == sum + n * (int64_t)i);
    }
  }
  free(data);
}

static void gather_all(rank_env *env, gloo_context *group) {
  int n = gloo_context_size(group);
  int32_t own = env->rank, all[32], there[32];
  RANK_OK(env, gloo_allgather(group, &own, all, 1, GLOO_INT32, NULL));
  for (int i = 0; i < n; i++) RANK_CHECK(env, all[i] == world_of(group, i));
  RANK_OK(env, gloo_alltoall(group, all, there, 1, GLOO_INT32, NULL));
  for (int i = 0; i < n; i++) {
    RANK_CHECK(env, there[i] == world_of(group, gloo_context_rank(group)));
  }
  int32_t last = own;
  RANK_OK(env, gloo_broadcast(group, GLOO_IN_PLACE, &last, 1, GLOO_INT32, n - 1,
                              NULL));
  RANK_CHECK(env, last == world_of(group, n - 1));
}

/* Around a ring, and to itself; and from whoever comes first. */
static void pass_messages(rank_env *env, gloo_context *group) {
  int n = gloo_context_size(group), rank = gloo_context_rank(group);
  int next = (rank + 1) % n, before = (rank + n - 1) % n, source = -1;
  int32_t own = env->rank, got = -1;
  RANK_OK(env, gloo_sendrecv(group, &own, 1, next, &got, 1, before, GLOO_INT32,
                             NULL));
  RANK_CHECK(env, got == world_of(group, before));
  gloo_operation *op = NULL;
  gloo_options tagged = GLOO_OPTIONS_INIT;
  tagged.tag = 9;
  RANK_OK(env, gloo_send_start(group, &own, 1, GLOO_INT32, next, &tagged, &op));
  RANK_OK(env,
          gloo_recv_any(group, &got, 1, GLOO_INT32, NULL, 0, &tagged, &source));
  RANK_CHECK(env, source == before && got == world_of(group, before));
  RANK_OK(env, gloo_operation_wait(op));
  gloo_operation_destroy(op);
}

static void all_works(rank_env *env, gloo_context *group) {
  if (env->failure[0]) return;
  reduce_all(env, group);
  gather_all(env, group);
  pass_messages(env, group);
  RANK_OK(env, gloo_barrier(group, NULL));
}

static gloo_context *split(rank_env *env, gloo_context *context, int color,
                           int key) {
  gloo_context *group = NULL;
  gloo_error error;
  if (gloo_context_split(context, color, key, NULL, &group, &error) !=
      GLOO_OK) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  }
  return group;
}

static gloo_context *subset(rank_env *env, gloo_context *context,
                            const int *ranks, size_t n, uint32_t tag) {
  gloo_context *group = NULL;
  gloo_error error;
  gloo_group_options o = GLOO_GROUP_OPTIONS_INIT;
  o.tag = tag;
  if (gloo_context_subset(context, ranks, n, &o, &group, &error) != GLOO_OK) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  }
  return group;
}

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* ---- split --------------------------------------------------------------- */

static void even_and_odd(rank_env *env) {
  gloo_context *group = split(env, env->context, env->rank % 2, 0);
  if (!group) return;
  RANK_CHECK(env,
             gloo_context_size(group) == (env->size + 1 - env->rank % 2) / 2);
  RANK_CHECK(env, gloo_context_rank(group) == env->rank / 2);
  for (int i = 0; i < gloo_context_size(group); i++) {
    int there = 2 * i + env->rank % 2;
    RANK_CHECK(env, gloo_context_world_rank(group, i) == there);
    RANK_CHECK(env, gloo_context_translate(env->context, there, group) == i);
    RANK_CHECK(env, gloo_context_translate(group, i, env->context) == there);
    RANK_CHECK(env, gloo_context_translate(env->context, there ^ 1, group) < 0);
  }
  all_works(env, group);
  all_works(env, env->context);
  gloo_context_destroy(group);
  all_works(env, env->context);
}

static void even_and_odd_ranks_work_apart(void **state) {
  (void)state;
  for (int size = 1; size <= 5; size++) run(size, even_and_odd);
}

static void reversed(rank_env *env) {
  gloo_context *group = split(env, env->context, 7, -env->rank);
  if (!group) return;
  RANK_CHECK(env, gloo_context_size(group) == env->size);
  RANK_CHECK(env, gloo_context_rank(group) == env->size - 1 - env->rank);
  all_works(env, group);
  gloo_context_destroy(group);
}

static void keys_order_the_ranks(void **state) {
  (void)state;
  run(4, reversed);
  run(3, reversed);
}

static void some_without(rank_env *env) {
  gloo_context *group = env->context;
  int color = env->rank == 1 ? GLOO_NO_COLOR : 0;
  gloo_error error;
  RANK_OK(env,
          gloo_context_split(env->context, color, 0, NULL, &group, &error));
  RANK_CHECK(env, (group == NULL) == (env->rank == 1));
  if (group) {
    RANK_CHECK(env, gloo_context_size(group) == env->size - 1);
    all_works(env, group);
  }
  gloo_context_destroy(group);
  all_works(env, env->context);
}

static void rank_without_a_color_gets_no_group(void **state) {
  (void)state;
  run(2, some_without);
  run(4, some_without);
}

static void three_deep(rank_env *env) {
  gloo_context *half = split(env, env->context, env->rank / 4, env->rank);
  gloo_context *pair = half ? split(env, half, env->rank % 4 / 2, 0) : NULL;
  gloo_context *one = pair ? split(env, pair, env->rank % 2, 0) : NULL;
  gloo_context *turned = pair ? split(env, pair, 0, -env->rank) : NULL;
  if (env->failure[0]) return;
  RANK_CHECK(env, gloo_context_size(half) == 4);
  RANK_CHECK(env, gloo_context_size(pair) == 2);
  RANK_CHECK(env, gloo_context_size(one) == 1);
  RANK_CHECK(env, gloo_context_rank(turned) == 1 - env->rank % 2);
  RANK_CHECK(env, gloo_context_translate(half, gloo_context_rank(half), pair) ==
                      gloo_context_rank(pair));
  all_works(env, half);
  all_works(env, turned);
  gloo_context_destroy(half); /* before what was made of it */
  all_works(env, one);
  all_works(env, pair);
  gloo_context_destroy(pair);
  all_works(env, turned);
  gloo_context_destroy(turned);
  gloo_context_destroy(one);
}

static void groups_of_groups_work(void **state) {
  (void)state;
  run(8, three_deep);
}

/* ---- many ---------------------------------------------------------------- */

/* All of them have operations under way at the same time. */
static void fifty(rank_env *env) {
  gloo_context *groups[MANY];
  gloo_operation *ops[MANY];
  int64_t data[MANY];
  for (int i = 0; i < MANY; i++) {
    groups[i] =
        split(env, env->context, env->rank * i % 3, env->rank % (i + 1));
    if (!groups[i]) return;
  }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < MANY; i++) {
      int k = (i * 7 + round) % MANY;
      data[k] = env->rank;
      RANK_OK(env, gloo_allreduce_start(groups[k], GLOO_IN_PLACE, &data[k], 1,
                                        GLOO_INT64, GLOO_SUM, NULL, &ops[k]));
    }
    for (int i = 0; i < MANY; i++) {
      RANK_OK(env, gloo_operation_wait(ops[i]));
      RANK_CHECK(env, data[i] == sum_of_worlds(groups[i]));
      gloo_operation_destroy(ops[i]);
    }
  }
  all_works(env, groups[MANY / 2]);
  for (int i = 0; i < MANY; i++) gloo_context_destroy(groups[i * 3 % MANY]);
  all_works(env, env->context);
}

static void fifty_groups_at_once(void **state) {
  (void)state;
  run(4, fifty);
}

/* ---- several threads ----------------------------------------------------- */

typedef struct worker {
  rank_env env; /* of its own, for failures */
  uv_thread_t thread;
  int first;
} worker;

/* Ranks r and r + 1 make a group, and work, while r and r - 1 do. */
static void worker_main(void *argument) {
  worker *w = argument;
  rank_env *env = &w->env;
  int members[2] = {w->first, (w->first + 1) % env->size};
  for (int i = 0; i < 10 && !env->failure[0]; i++) {
    gloo_context *group =
        subset(env, env->context, members, 2, (uint32_t)w->first);
    if (!group) return;
    all_works(env, group);
    gloo_context_destroy(group);
  }
}

static void overlapping(rank_env *env) {
  worker workers[2];
  for (int i = 0; i < 2; i++) {
    workers[i].env = *env;
    workers[i].first = (env->rank + env->size - i) % env->size;
    if (uv_thread_create(&workers[i].thread, worker_main, &workers[i]) != 0) {
      abort();
    }
  }
  for (int i = 0; i < 2; i++) {
    uv_thread_join(&workers[i].thread);
    if (workers[i].env.failure[0]) {
      rank_fail(env, __FILE__, __LINE__, workers[i].env.failure);
    }
  }
  all_works(env, env->context);
}

static void overlapping_groups_work_in_several_threads(void **state) {
  (void)state;
  run(4, overlapping);
}

/* ---- the end ------------------------------------------------------------- */

/* In every order, the context that was there first included. */
static void any_order(rank_env *env) {
  const int *order = env->user;
  gloo_context *c[PER_RANK] = {env->context, NULL, NULL, NULL};
  c[1] = split(env, c[0], 0, -env->rank);
  c[2] = c[1] ? split(env, c[1], env->rank % 2, 0) : NULL;
  c[3] = c[2] ? split(env, c[0], env->rank / 2, 0) : NULL;
  env->context = NULL;
  for (int i = 0; i < PER_RANK && !env->failure[0]; i++) {
    for (int k = i; k < PER_RANK; k++) {
      env->context = c[order[k]];
      all_works(env, c[order[k]]);
    }
    env->context = NULL;
    gloo_context_destroy(c[order[i]]);
  }
}

static void groups_end_in_any_order(void **state) {
  (void)state;
  int order[PER_RANK];
  for (int n = 0; n < 256; n++) {
    bool used[PER_RANK] = {false}, all = true;
    for (int i = 0; i < PER_RANK; i++) {
      order[i] = n >> 2 * i & 3;
      all = all && !used[order[i]];
      used[order[i]] = true;
    }
    if (!all) continue;
    ranks_options o = {.transport = transport, .user = order};
    ranks_run(4, &o, any_order);
  }
}

/* Each rank destroys its groups when it likes to. */
static void at_any_time(rank_env *env) {
  gloo_context *last = NULL;
  for (int i = 0; i < 40 && !env->failure[0]; i++) {
    gloo_context *group =
        split(env, env->context, i % 3 ? 0 : env->rank % 2, i);
    if (!group) break;
    int64_t data = 1;
    RANK_OK(env, gloo_allreduce(group, GLOO_IN_PLACE, &data, 1, GLOO_INT64,
                                GLOO_SUM, NULL));
    RANK_CHECK(env, data == gloo_context_size(group));
    bool now = (env->rank + i) % 2 == 0;
    if (now) gloo_context_destroy(group);
    gloo_context_destroy(last);
    last = now ? NULL : group;
  }
  gloo_context_destroy(last);
}

static void ranks_destroy_a_group_at_different_times(void **state) {
  (void)state;
  run(4, at_any_time);
  ranks_options o = {.transport = transport, .streams = 4};
  ranks_run(3, &o, at_any_time);
}

/* What others still need is an error that names who has left, everywhere. */
static void leaves(rank_env *env) {
  gloo_context *group = split(env, env->context, 0, -env->rank);
  if (!group) return;
  gloo_error error;
  gloo_barrier(env->context, NULL); /* all have it when one goes on */
  if (env->rank == 1) {
    gloo_context_destroy(group);
    int32_t data = 0;
    gloo_recv(env->context, &data, 1, GLOO_INT32, 0, NULL);
    gloo_context_error(env->context, &error);
  } else {
    gloo_barrier(group, NULL);
    gloo_context_error(group, &error);
    gloo_context_destroy(group);
  }
  RANK_CHECK(env, error.status == GLOO_ERR_PEER);
  RANK_CHECK(env, error.rank == 1);
  RANK_CHECK(env, strstr(error.message, "rank 1") != NULL);
}

static void who_leaves_a_group_too_early_is_named(void **state) {
  (void)state;
  run(2, leaves);
  run(4, leaves);
}

/* ---- disagreement -------------------------------------------------------- */

/* A rank may hear of it before it calls. */
static bool hears_of(gloo_status status, gloo_status cause) {
  return status == cause || status == GLOO_ERR_POISONED;
}

static void other_lists(rank_env *env) {
  static const int two[] = {0, 1}, three[] = {0, 1, 2}, other[] = {1, 0, 2};
  gloo_context *group = NULL;
  gloo_error error;
  const int *lists[] = {three, env->user ? other : two, three};
  size_t n = env->rank == 1 && !env->user ? 2 : 3;
  gloo_status status = gloo_context_subset(env->context, lists[env->rank], n,
                                           NULL, &group, &error);
  RANK_CHECK(env, hears_of(status, GLOO_ERR_MISMATCH) && group == NULL);
  gloo_context_error(env->context, &error);
  RANK_CHECK(env, error.status == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "gloo_context_subset") != NULL);
  RANK_CHECK(env, strstr(error.message, "rank 1") != NULL);
}

/* Ranks 1 and 2 make a group while rank 0 waits for rank 1, which may be right;
 * until rank 1 comes to it with another list. */
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

/* All wait for one another; only one of them is missing. */
static void missing(rank_env *env) {
  gloo_context *group = NULL;
  gloo_error error;
  if (env->rank == 5) {
    int32_t data = 0;
    gloo_recv(env->context, &data, 1, GLOO_INT32, 0, NULL);
  } else {
    gloo_group_options o = GLOO_GROUP_OPTIONS_INIT;
    o.timeout_ns = INT64_C(1000000000);
    gloo_status status =
        gloo_context_split(env->context, 0, 0, &o, &group, &error);
    RANK_CHECK(env, hears_of(status, GLOO_ERR_TIMEOUT) && group == NULL);
  }
  gloo_context_error(env->context, &error);
  RANK_CHECK(env, error.status == GLOO_ERR_TIMEOUT);
  RANK_CHECK(env, strstr(error.message, "still waits for rank 5") != NULL);
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
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_subset(c, twice, 2 + 1, NULL, &group, NULL) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_subset(c, far, 2, NULL, &group, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_subset(c, others, 1, NULL, &group, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, strstr(error.message, "not in its own list") != NULL);
  RANK_CHECK(env, gloo_context_subset(c, NULL, 1, NULL, &group, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_subset(c, far, 0, NULL, &group, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_split(NULL, 0, 0, NULL, &group, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(
      env, gloo_context_split(c, 0, 0, NULL, NULL, &error) == GLOO_ERR_INVALID);
  RANK_CHECK(env, group == NULL);
  RANK_CHECK(env, gloo_context_world_rank(c, 2) == -1);
  RANK_CHECK(env, gloo_context_world_rank(c, -1) == -1);
  RANK_CHECK(env, gloo_context_translate(c, 0, NULL) == -1);
  all_works(env, c); /* nothing has happened */
}

static void unusable_arguments_are_refused(void **state) {
  (void)state;
  run(2, refusals);
}

/* What fails in one fails in all of the family, and says where. */
static void poisoned(rank_env *env) {
  gloo_context *group = split(env, env->context, env->rank / 2, 0);
  gloo_context *other = group ? split(env, env->context, 0, 0) : NULL;
  gloo_context *never = NULL;
  if (!other) return;
  gloo_barrier(env->context, NULL); /* all have them when one goes on */
  int32_t data[2] = {0};
  if (env->rank < 2) {
    gloo_status status =
        gloo_allreduce(group, GLOO_IN_PLACE, data, (size_t)env->rank + 1,
                       GLOO_INT32, GLOO_SUM, NULL);
    RANK_CHECK(env, hears_of(status, GLOO_ERR_MISMATCH));
  } else {
    RANK_CHECK(env, hears_of(gloo_barrier(other, NULL), GLOO_ERR_MISMATCH));
  }
  gloo_error error;
  RANK_CHECK(env,
             gloo_context_error(env->context, &error) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "in a group of 2 ranks") != NULL);
  RANK_CHECK(env, gloo_barrier(other, NULL) == GLOO_ERR_POISONED);
  RANK_CHECK(env, gloo_context_split(other, 0, 0, NULL, &never, &error) ==
                      GLOO_ERR_POISONED);
  gloo_context_destroy(other);
  gloo_context_destroy(group);
}

static void failure_in_a_group_reaches_the_whole_family(void **state) {
  (void)state;
  run(4, poisoned);
}

/* ---- hosts --------------------------------------------------------------- */

static void over_hosts(rank_env *env) {
  gloo_options two_level = GLOO_OPTIONS_INIT;
  two_level.algorithm = "two_level";
  gloo_context *group = split(env, env->context, env->rank == 3, -env->rank);
  if (!group) return;
  int64_t data = env->rank;
  RANK_OK(env, gloo_allreduce(group, GLOO_IN_PLACE, &data, 1, GLOO_INT64,
                              GLOO_SUM, &two_level));
  RANK_CHECK(env, data == sum_of_worlds(group));
  all_works(env, group);
  gloo_context_destroy(group);
}

static void groups_know_hosts(void **state) {
  (void)state;
  static const char *const ids[] = {"a", "b", "a", "c", "b", "a"};
  ranks_options o = {.transport = transport, .host_ids = ids};
  ranks_run(6, &o, over_hosts);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(even_and_odd_ranks_work_apart),
      cmocka_unit_test(keys_order_the_ranks),
      cmocka_unit_test(rank_without_a_color_gets_no_group),
      cmocka_unit_test(groups_of_groups_work),
      cmocka_unit_test(fifty_groups_at_once),
      cmocka_unit_test(overlapping_groups_work_in_several_threads),
      cmocka_unit_test(groups_end_in_any_order),
      cmocka_unit_test(ranks_destroy_a_group_at_different_times),
      cmocka_unit_test(who_leaves_a_group_too_early_is_named),
      cmocka_unit_test(different_lists_name_a_rank_that_differs),
      cmocka_unit_test(crossing_lists_are_a_mismatch_when_their_ranks_meet),
      cmocka_unit_test(split_here_and_subset_there_is_a_mismatch),
      cmocka_unit_test(missing_rank_is_named_by_all),
      cmocka_unit_test(unusable_arguments_are_refused),
      cmocka_unit_test(failure_in_a_group_reaches_the_whole_family),
      cmocka_unit_test(groups_know_hosts),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
