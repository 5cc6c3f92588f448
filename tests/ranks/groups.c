#include "groups.h"

#include <stdlib.h>

enum { COUNT = 3000 };

static int world_of(const gloo_context *group, int rank) {
  return gloo_context_world_rank(group, rank);
}

int64_t group_sum_of_worlds(const gloo_context *group) {
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
                                GLOO_INT64, GLOO_SUM, NULL, NULL));
    int64_t n = gloo_context_size(group), sum = group_sum_of_worlds(group);
    for (size_t i = 0; i < counts[c]; i++) {
      RANK_CHECK(env, data[i] == sum + n * (int64_t)i);
    }
  }
  free(data);
}

static void gather_all(rank_env *env, gloo_context *group) {
  int n = gloo_context_size(group);
  int32_t own = env->rank, all[32], there[32];
  RANK_OK(env, gloo_allgather(group, &own, all, 1, GLOO_INT32, NULL, NULL));
  for (int i = 0; i < n; i++) RANK_CHECK(env, all[i] == world_of(group, i));
  RANK_OK(env, gloo_alltoall(group, all, there, 1, GLOO_INT32, NULL, NULL));
  for (int i = 0; i < n; i++) {
    RANK_CHECK(env, there[i] == world_of(group, gloo_context_rank(group)));
  }
  int32_t last = own;
  RANK_OK(env, gloo_broadcast(group, GLOO_IN_PLACE, &last, 1, GLOO_INT32, n - 1,
                              NULL, NULL));
  RANK_CHECK(env, last == world_of(group, n - 1));
}

/* Passes messages around a ring, which includes a message to self in a group of
 * one; the second receive accepts any source. */
static void pass_messages(rank_env *env, gloo_context *group) {
  int n = gloo_context_size(group), rank = gloo_context_rank(group);
  int next = (rank + 1) % n, before = (rank + n - 1) % n, source = -1;
  int32_t own = env->rank, got = -1;
  RANK_OK(env, gloo_sendrecv(group, &own, 1, next, &got, 1, before, GLOO_INT32,
                             NULL, NULL));
  RANK_CHECK(env, got == world_of(group, before));
  gloo_request *op = NULL;
  gloo_options tagged = GLOO_OPTIONS_INIT;
  tagged.tag = 9;
  RANK_OK(env, gloo_send_start(group, &own, 1, GLOO_INT32, next, &tagged, &op,
                               NULL));
  RANK_OK(env, gloo_recv_any(group, &got, 1, GLOO_INT32, NULL, 0, &tagged,
                             &source, NULL));
  RANK_CHECK(env, source == before && got == world_of(group, before));
  RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(op);
}

void group_all_works(rank_env *env, gloo_context *group) {
  if (env->failure[0]) return;
  reduce_all(env, group);
  gather_all(env, group);
  pass_messages(env, group);
  RANK_OK(env, gloo_barrier(group, NULL, NULL));
}

gloo_context *group_split(rank_env *env, gloo_context *context, int color,
                          int key) {
  gloo_context *group = NULL;
  gloo_error error;
  if (gloo_context_split(context, color, key, NULL, &group, &error) !=
      GLOO_OK) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  }
  return group;
}

gloo_context *group_subset(rank_env *env, gloo_context *context,
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
