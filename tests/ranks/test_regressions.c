/* What has bitten users of other libraries. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *transport = "auto";

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* ---- long reduce-scatters, many times ------------------------------------ */

enum { CHUNK = 1 << 20, TIMES = 150 };

static void scatter_again_and_again(rank_env *env) {
  size_t all = (size_t)CHUNK * (size_t)env->size, wrong = 0;
  float *in = malloc(all * sizeof(float));
  float *out = malloc(CHUNK * sizeof(float));
  RANK_CHECK(env, in && out);
  for (size_t i = 0; in && i < all; i++) in[i] = (float)(i % 7);
  for (int time = 0; in && out && time < TIMES; time++) {
    RANK_OK(env, gloo_reduce_scatter(env->context, in, out, CHUNK, GLOO_FLOAT32,
                                     GLOO_SUM, NULL));
    size_t at = (size_t)(time * 6991) % CHUNK;
    size_t first = (size_t)env->rank * CHUNK;
    wrong += out[at] != (float)((first + at) % 7 * (size_t)env->size);
  }
  RANK_CHECK(env, wrong == 0);
  free(in);
  free(out);
}

static void reduce_scatter_of_4_mib_chunks_150_times(void **state) {
  (void)state;
  run(3, scatter_again_and_again);
}

/* ---- nothing, and alone -------------------------------------------------- */

static void call_everything(rank_env *env, size_t n) {
  gloo_context *c = env->context;
  int32_t in[64], out[64] = {0};
  for (int i = 0; i < 64; i++) in[i] = i;
  gloo_dtype t = GLOO_INT32;
  RANK_OK(env, gloo_barrier(c, NULL));
  RANK_OK(env, gloo_broadcast(c, in, out, n, t, 0, NULL));
  RANK_OK(env, gloo_reduce(c, in, out, n, t, GLOO_SUM, 0, NULL));
  RANK_OK(env, gloo_allreduce(c, in, out, n, t, GLOO_SUM, NULL));
  RANK_OK(env, gloo_reduce_scatter(c, in, out, n, t, GLOO_SUM, NULL));
  RANK_OK(env, gloo_allgather(c, in, out, n, t, NULL));
  RANK_OK(env, gloo_gather(c, in, out, n, t, 0, NULL));
  RANK_OK(env, gloo_scatter(c, in, out, n, t, 0, NULL));
  RANK_OK(env, gloo_alltoall(c, in, out, n, t, NULL));
  RANK_OK(env, gloo_scan(c, in, out, n, t, GLOO_SUM, NULL));
  RANK_OK(env, gloo_exscan(c, in, out, n, t, GLOO_SUM, NULL));
}

static void with_no_elements(rank_env *env) {
  call_everything(env, 0);
}

static void with_some_elements(rank_env *env) {
  call_everything(env, 5);
}

static void no_elements_and_one_rank_are_legal(void **state) {
  (void)state;
  run(1, with_no_elements);
  run(1, with_some_elements);
  run(3, with_no_elements);
}

/* ---- outputs of ranks that are not the root ------------------------------ */

static void reduce_to_one(rank_env *env) {
  enum { COUNT = 3000 };
  static const char *const algorithms[] = {NULL, "binomial", "flat",
                                           "scatter_gather"};
  int32_t in[COUNT], out[COUNT];
  size_t touched = 0;
  for (int i = 0; i < COUNT; i++) in[i] = i;
  for (size_t k = 0; k < sizeof algorithms / sizeof *algorithms; k++) {
    gloo_options o = GLOO_OPTIONS_INIT;
    o.algorithm = algorithms[k];
    memset(out, 0x5a, sizeof out);
    RANK_OK(env, gloo_reduce(env->context, in, out, COUNT, GLOO_INT32, GLOO_SUM,
                             1, &o));
    for (int i = 0; i < COUNT && env->rank != 1; i++) {
      touched += out[i] != 0x5a5a5a5a;
    }
  }
  RANK_CHECK(env, touched == 0);
}

static void reduce_leaves_other_outputs_alone(void **state) {
  (void)state;
  run(4, reduce_to_one);
}

/* ---- a limit for one operation ------------------------------------------- */

static void impatient(rank_env *env) {
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_error error = {.status = GLOO_OK};
  float x = 1;
  o.error = &error;
  o.timeout_ns = INT64_C(100000000);
  if (env->rank == 1) return; /* it never comes, but it is there */
  RANK_CHECK(env,
             gloo_recv(env->context, &x, 1, GLOO_FLOAT32, 1, &o) != GLOO_OK);
  RANK_CHECK(env, error.rank == 1);
}

static void limit_of_an_operation_is_kept(void **state) {
  (void)state;
  run(2, impatient);
}

/* ---- many contexts ------------------------------------------------------- */

static void many(rank_env *env) {
  enum { CONTEXTS = 24 };
  gloo_context *contexts[CONTEXTS] = {0};
  gloo_error error;
  for (int i = 0; i < CONTEXTS; i++) {
    char name[32];
    gloo_store *view;
    snprintf(name, sizeof name, "context %d", i);
    RANK_OK(env, gloo_store_prefix_create(env->store, name, &view, &error));
    RANK_OK(env, gloo_context_create(env->rank, env->size, view, env->device,
                                     NULL, &contexts[i], &error));
    gloo_store_destroy(view);
  }
  for (int i = 0; i < CONTEXTS; i++) {
    int32_t x = i + env->rank;
    gloo_context *c = contexts[(i * 7) % CONTEXTS];
    RANK_OK(env, gloo_allreduce(c, GLOO_IN_PLACE, &x, 1, GLOO_INT32, GLOO_SUM,
                                NULL));
    RANK_CHECK(env, x == env->size * i + env->size * (env->size - 1) / 2);
  }
  for (int i = 0; i < CONTEXTS; i++) gloo_context_destroy(contexts[i]);
}

static void many_contexts_in_one_process(void **state) {
  (void)state;
  run(3, many);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reduce_scatter_of_4_mib_chunks_150_times),
      cmocka_unit_test(no_elements_and_one_rank_are_legal),
      cmocka_unit_test(reduce_leaves_other_outputs_alone),
      cmocka_unit_test(limit_of_an_operation_is_kept),
      cmocka_unit_test(many_contexts_in_one_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
