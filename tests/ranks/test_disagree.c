/* Ranks that make different calls report both calls, even if one of them has no
 * elements and so nothing to send. */
#include "ranks.h"

#include <stdio.h>
#include <string.h>

#include "algorithms/registry.h"

enum { ELEMENTS = 10, MOST_RANKS = 5, ROOM = ELEMENTS * MOST_RANKS };

/* The common call, and the deviating call of one or more ranks. */
typedef struct variant {
  const gli_algorithm *algorithm;
  int root;
  bool odd[MOST_RANKS]; /* ranks that use `odd_count` and so on */
  size_t count, odd_count;
  gloo_dtype odd_dtype;
  gloo_op odd_op;
} variant;

static const char *transport;

static gloo_status call(rank_env *env, const variant *v, const gloo_options *o,
                        gloo_error *error) {
  gloo_context *c = env->context;
  bool odd = v->odd[env->rank];
  size_t n = odd ? v->odd_count : v->count, counts[MOST_RANKS];
  gloo_dtype dtype = odd ? v->odd_dtype : GLOO_FLOAT32;
  gloo_op op = odd ? v->odd_op : GLOO_SUM;
  float in[ROOM] = {0}, out[ROOM] = {0};
  for (int i = 0; i < MOST_RANKS; i++) counts[i] = n;
  switch (v->algorithm->collective) {
    case GLI_BROADCAST:
      return gloo_broadcast(c, in, out, n, dtype, v->root, o, error);
    case GLI_ALLREDUCE:
      return gloo_allreduce(c, in, out, n, dtype, op, o, error);
    case GLI_REDUCE_SCATTER:
      return gloo_reduce_scatter(c, in, out, n, dtype, op, o, error);
    case GLI_ALLGATHER:
      return gloo_allgather(c, in, out, n, dtype, o, error);
    case GLI_ALLTOALL:
      return gloo_alltoall(c, in, out, n, dtype, o, error);
    case GLI_REDUCE:
      return gloo_reduce(c, in, out, n, dtype, op, v->root, o, error);
    case GLI_GATHER:
      return gloo_gather(c, in, out, n, dtype, v->root, o, error);
    case GLI_SCATTER:
      return gloo_scatter(c, in, out, n, dtype, v->root, o, error);
    case GLI_SCAN:
      return gloo_scan(c, in, out, n, dtype, op, o, error);
    case GLI_EXSCAN:
      return gloo_exscan(c, in, out, n, dtype, op, o, error);
    case GLI_ALLGATHERV:
      return gloo_allgatherv(c, in, out, counts, NULL, dtype, o, error);
    case GLI_GATHERV:
      return gloo_gatherv(c, in, n, out, counts, NULL, dtype, v->root, o,
                          error);
    case GLI_SCATTERV:
      return gloo_scatterv(c, in, counts, NULL, out, n, dtype, v->root, o,
                           error);
    case GLI_ALLTOALLV:
      return gloo_alltoallv(c, in, counts, NULL, out, counts, NULL, dtype, o,
                            error);
    case GLI_REDUCE_SCATTERV:
      return gloo_reduce_scatterv(c, in, out, counts, dtype, op, o, error);
    case GLI_BARRIER:
    case GLI_SENDRECV:
    case GLI_COLLECTIVES:
      break;
  }
  return GLOO_ERR_INTERNAL;
}

/* Returns the rank that is alone with its call, or -1 if both calls have
 * equally many ranks. */
static int expected_culprit(const rank_env *env) {
  const variant *v = env->user;
  int odd = 0, which[2] = {-1, -1};
  for (int i = 0; i < env->size; i++) {
    odd += v->odd[i];
    which[v->odd[i]] = i;
  }
  if (env->size - odd == odd) return -1;
  return odd == 1 ? which[1] : which[0];
}

/* A rank that has completed its part may see the failure only in its next call,
 * here a barrier, which needs all ranks. No deadline ends these calls. */
static void disagree(rank_env *env) {
  const variant *v = env->user;
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_error error;
  char wrong[600] = "", text[64];
  o.algorithm = v->algorithm->name;
  gloo_status status = call(env, v, &o, &error);
  o.algorithm = NULL;
  if (status == GLOO_OK) status = gloo_barrier(env->context, &o, &error);
  bool known = status == GLOO_ERR_MISMATCH ||
               (status == GLOO_ERR_POISONED && /* before the barrier began */
                error.cause == GLOO_ERR_MISMATCH);
  bool names_it = strstr(error.message,
                         gli_collective_name(v->algorithm->collective)) != NULL;
  int culprit = expected_culprit(env);
  /* Only the two ranks involved know the count between them. */
  if (strstr(error.message, "both counts must match")) culprit = -1;
  if (status == GLOO_OK) {
    snprintf(wrong, sizeof wrong, "nobody noticed");
  } else if (!known || !names_it || error.rank != culprit) {
    snprintf(wrong, sizeof wrong, "rank %d is named, not %d: %s", error.rank,
             culprit, error.message);
  } else if (culprit < 0 && !strstr(error.message, "cannot tell which")) {
    snprintf(wrong, sizeof wrong, "%s", error.message);
  }
  if (!wrong[0]) return;
  snprintf(text, sizeof text, "%s %s, %zu or %zu elements",
           gli_collective_name(v->algorithm->collective), v->algorithm->name,
           v->count, v->odd_count);
  rank_fail(env, text, env->rank, wrong);
}

static void run(int size, variant *v) {
  ranks_options o = {.transport = transport, .timeout_ns = -1, .user = v};
  ranks_run(size, &o, disagree);
}

/* Runs all disagreements of `size` ranks about an algorithm. */
static void run_all(int size, const gli_algorithm *a, size_t count,
                    size_t odd_count, gloo_dtype odd_dtype, gloo_op odd_op) {
  const variant common = {.algorithm = a,
                          .root = size / 2,
                          .count = count,
                          .odd_count = odd_count,
                          .odd_dtype = odd_dtype,
                          .odd_op = odd_op};
  const int places[] = {common.root, 0, size - 1};
  for (int i = 0; i < 3; i++) {
    variant one = common, others = common;
    for (int k = 0; k < size; k++) others.odd[k] = k != places[i];
    one.odd[places[i]] = true;
    run(size, &one);
    if (size > 2) run(size, &others);
  }
}

/* Returns true if the collective has elements. Messages between two ranks have
 * no algorithms. */
static bool has_elements(const gli_algorithm *a) {
  return a->collective != GLI_BARRIER;
}

static void one_rank_or_all_but_one_have_no_elements(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!has_elements(a)) continue;
    run_all(4, a, ELEMENTS, 0, GLOO_FLOAT32, GLOO_SUM);
  }
}

/* Returns true for the first algorithm of each collective: without elements all
 * of them behave alike. */
static bool is_first(const gli_algorithm *a) {
  for (const gli_algorithm *b = gli_algorithms; b < a; b++) {
    if (b->collective == a->collective) return false;
  }
  return has_elements(a);
}

static void no_elements_of_other_types(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!is_first(a)) continue;
    for (int size = 2; size <= 5; size += 3) {
      run_all(size, a, 0, 0, GLOO_INT32, GLOO_SUM);
    }
  }
}

static void no_elements_and_another_operation(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!is_first(a) || !gli_collective_reduces(a->collective)) continue;
    run_all(3, a, 0, 0, GLOO_FLOAT32, GLOO_MAX);
  }
}

static const gli_algorithm *first_of(gli_collective collective) {
  const gli_algorithm *a = gli_algorithms;
  while (a->collective != collective) a++;
  return a;
}

static void nobody_is_named_where_sides_are_equal(void **state) {
  (void)state;
  variant v = {.algorithm = first_of(GLI_ALLREDUCE),
               .count = ELEMENTS,
               .odd_count = ELEMENTS - 1,
               .odd_dtype = GLOO_FLOAT32,
               .odd_op = GLOO_SUM};
  v.odd[1] = v.odd[2] = true;
  run(4, &v);
}

/* Rank 0 makes no call, and so reports none. */
static void disagree_without_one(rank_env *env) {
  gloo_error error;
  if (env->rank != 0) {
    disagree(env);
    return;
  }
  while (gloo_context_error(env->context, &error) == GLOO_OK) continue;
  RANK_CHECK(env, error.status == GLOO_ERR_MISMATCH && error.rank == 2);
}

static void most_of_those_that_came_decide(void **state) {
  (void)state;
  variant v = {.algorithm = first_of(GLI_ALLREDUCE),
               .count = ELEMENTS,
               .odd_count = ELEMENTS - 1,
               .odd_dtype = GLOO_FLOAT32,
               .odd_op = GLOO_SUM};
  v.odd[2] = true;
  ranks_options o = {.transport = transport, .timeout_ns = -1, .user = &v};
  ranks_run(4, &o, disagree_without_one);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rank_or_all_but_one_have_no_elements),
      cmocka_unit_test(no_elements_of_other_types),
      cmocka_unit_test(no_elements_and_another_operation),
      cmocka_unit_test(nobody_is_named_where_sides_are_equal),
      cmocka_unit_test(most_of_those_that_came_decide),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
