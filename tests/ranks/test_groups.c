/* Groups: split and subset of a context, over every transport. */
#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

#include "groups.h"

static const char *transport;

enum { MANY = 50, PER_RANK = 4 };

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* ---- split --------------------------------------------------------------- */

static void even_and_odd(rank_env *env) {
  gloo_context *group = group_split(env, env->context, env->rank % 2, 0);
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
  group_all_works(env, group);
  group_all_works(env, env->context);
  gloo_context_destroy(group);
  group_all_works(env, env->context);
}

static void even_and_odd_ranks_work_apart(void **state) {
  (void)state;
  for (int size = 1; size <= 5; size++) run(size, even_and_odd);
}

static void reversed(rank_env *env) {
  gloo_context *group = group_split(env, env->context, 7, -env->rank);
  if (!group) return;
  RANK_CHECK(env, gloo_context_size(group) == env->size);
  RANK_CHECK(env, gloo_context_rank(group) == env->size - 1 - env->rank);
  group_all_works(env, group);
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
    group_all_works(env, group);
  }
  gloo_context_destroy(group);
  group_all_works(env, env->context);
}

static void rank_without_a_color_gets_no_group(void **state) {
  (void)state;
  run(2, some_without);
  run(4, some_without);
}

static void three_deep(rank_env *env) {
  gloo_context *half = group_split(env, env->context, env->rank / 4, env->rank);
  gloo_context *pair =
      half ? group_split(env, half, env->rank % 4 / 2, 0) : NULL;
  gloo_context *one = pair ? group_split(env, pair, env->rank % 2, 0) : NULL;
  gloo_context *turned = pair ? group_split(env, pair, 0, -env->rank) : NULL;
  if (env->failure[0]) return;
  RANK_CHECK(env, gloo_context_size(half) == 4);
  RANK_CHECK(env, gloo_context_size(pair) == 2);
  RANK_CHECK(env, gloo_context_size(one) == 1);
  RANK_CHECK(env, gloo_context_rank(turned) == 1 - env->rank % 2);
  RANK_CHECK(env, gloo_context_translate(half, gloo_context_rank(half), pair) ==
                      gloo_context_rank(pair));
  group_all_works(env, half);
  group_all_works(env, turned);
  gloo_context_destroy(half); /* before groups made from it */
  group_all_works(env, one);
  group_all_works(env, pair);
  gloo_context_destroy(pair);
  group_all_works(env, turned);
  gloo_context_destroy(turned);
  gloo_context_destroy(one);
}

static void groups_of_groups_work(void **state) {
  (void)state;
  run(8, three_deep);
}

/* ---- many ---------------------------------------------------------------- */

/* All groups run operations concurrently. */
static void fifty(rank_env *env) {
  gloo_context *groups[MANY];
  gloo_request *ops[MANY];
  int64_t data[MANY];
  for (int i = 0; i < MANY; i++) {
    groups[i] =
        group_split(env, env->context, env->rank * i % 3, env->rank % (i + 1));
    if (!groups[i]) return;
  }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < MANY; i++) {
      int k = (i * 7 + round) % MANY;
      data[k] = env->rank;
      RANK_OK(env,
              gloo_allreduce_start(groups[k], GLOO_IN_PLACE, &data[k], 1,
                                   GLOO_INT64, GLOO_SUM, NULL, &ops[k], NULL));
    }
    for (int i = 0; i < MANY; i++) {
      RANK_OK(env, gloo_request_wait(ops[i], GLOO_TIMEOUT_DEFAULT, NULL));
      RANK_CHECK(env, data[i] == group_sum_of_worlds(groups[i]));
      gloo_request_destroy(ops[i]);
    }
  }
  group_all_works(env, groups[MANY / 2]);
  for (int i = 0; i < MANY; i++) gloo_context_destroy(groups[i * 3 % MANY]);
  group_all_works(env, env->context);
}

static void fifty_groups_at_once(void **state) {
  (void)state;
  run(4, fifty);
}

/* ---- several threads ----------------------------------------------------- */

typedef struct worker {
  rank_env env; /* records this thread's failures */
  uv_thread_t thread;
  int first;
} worker;

/* Ranks r and r + 1 make a group and work in it, while r and r - 1 do the
 * same. */
static void worker_main(void *argument) {
  worker *w = argument;
  rank_env *env = &w->env;
  int members[2] = {w->first, (w->first + 1) % env->size};
  for (int i = 0; i < 10 && !env->failure[0]; i++) {
    gloo_context *group =
        group_subset(env, env->context, members, 2, (uint32_t)w->first);
    if (!group) return;
    group_all_works(env, group);
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
  group_all_works(env, env->context);
}

static void overlapping_groups_work_in_several_threads(void **state) {
  (void)state;
  run(4, overlapping);
}

/* ---- destruction --------------------------------------------------------- */

/* Destroys contexts in every order, including the root first. */
static void any_order(rank_env *env) {
  const int *order = env->user;
  gloo_context *c[PER_RANK] = {env->context, NULL, NULL, NULL};
  c[1] = group_split(env, c[0], 0, -env->rank);
  c[2] = c[1] ? group_split(env, c[1], env->rank % 2, 0) : NULL;
  c[3] = c[2] ? group_split(env, c[0], env->rank / 2, 0) : NULL;
  env->context = NULL;
  for (int i = 0; i < PER_RANK && !env->failure[0]; i++) {
    for (int k = i; k < PER_RANK; k++) {
      env->context = c[order[k]];
      group_all_works(env, c[order[k]]);
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

/* Each rank destroys its groups at its own time. */
static void at_any_time(rank_env *env) {
  gloo_context *last = NULL;
  for (int i = 0; i < 40 && !env->failure[0]; i++) {
    gloo_context *group =
        group_split(env, env->context, i % 3 ? 0 : env->rank % 2, i);
    if (!group) break;
    int64_t data = 1;
    RANK_OK(env, gloo_allreduce(group, GLOO_IN_PLACE, &data, 1, GLOO_INT64,
                                GLOO_SUM, NULL, NULL));
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

/* ---- hosts --------------------------------------------------------------- */

static void over_hosts(rank_env *env) {
  gloo_options two_level = GLOO_OPTIONS_INIT;
  two_level.algorithm = "two_level";
  gloo_context *group =
      group_split(env, env->context, env->rank == 3, -env->rank);
  if (!group) return;
  int64_t data = env->rank;
  RANK_OK(env, gloo_allreduce(group, GLOO_IN_PLACE, &data, 1, GLOO_INT64,
                              GLOO_SUM, &two_level, NULL));
  RANK_CHECK(env, data == group_sum_of_worlds(group));
  group_all_works(env, group);
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
      cmocka_unit_test(groups_know_hosts),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
