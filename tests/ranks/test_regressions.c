/* Regression tests for bugs that users of other libraries have met. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "algorithms/registry.h"
#include "ranks.h"
#include "sanitized.h"

static const char *transport = "auto";

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* ---- long reduce-scatters, many times ------------------------------------ */

enum { CHUNK = 1 << 20, TIMES = SANITIZED_THREADS ? 15 : 150 };

static void scatter_again_and_again(rank_env *env) {
  size_t all = (size_t)CHUNK * (size_t)env->size, wrong = 0;
  size_t first = (size_t)env->rank * CHUNK, bytes = CHUNK * sizeof(float);
  float *in = malloc(all * sizeof(float)), *sum = malloc(bytes);
  float *out = malloc(bytes);
  bool there = in && sum && out;
  RANK_CHECK(env, there);
  for (size_t i = 0; there && i < all; i++) in[i] = (float)(i % 7);
  for (size_t i = 0; there && i < CHUNK; i++) {
    sum[i] = (float)((first + i) % 7 * (size_t)env->size);
  }
  for (int time = 0; there && time < TIMES; time++) {
    memset(out, 0xff, bytes);
    RANK_OK(env, gloo_reduce_scatter(env->context, in, out, CHUNK, GLOO_FLOAT32,
                                     GLOO_SUM, NULL, NULL));
    wrong += memcmp(out, sum, bytes) != 0;
  }
  RANK_CHECK(env, wrong == 0);
  for (size_t i = 0; there && i < all; i++) wrong += in[i] != (float)(i % 7);
  RANK_CHECK(env, wrong == 0); /* the input is unchanged */
  free(in);
  free(sum);
  free(out);
}

static void reduce_scatter_of_4_mib_chunks_150_times(void **state) {
  (void)state;
  run(3, scatter_again_and_again);
}

/* ---- nothing, and alone -------------------------------------------------- */

/* `n` is at most 5, and ranks at most 3. Empty buffers may be NULL. */
static void call_everything(rank_env *env, size_t n) {
  gloo_context *c = env->context;
  int32_t in[16], out[16] = {0}, *a = n ? in : NULL, *b = n ? out : NULL;
  size_t counts[3] = {n, n, n}, first[3] = {0, n, 2 * n};
  const void *list[] = {a};
  void *outputs[] = {b};
  for (int i = 0; i < 16; i++) in[i] = i + 1;
  gloo_dtype t = GLOO_INT32;
  gloo_op sum = GLOO_SUM;
  RANK_OK(env, gloo_barrier(c, NULL, NULL));
  RANK_OK(env, gloo_broadcast(c, a, b, n, t, 0, NULL, NULL));
  RANK_OK(env, gloo_reduce(c, a, b, n, t, sum, 0, NULL, NULL));
  RANK_OK(env, gloo_allreduce(c, a, b, n, t, sum, NULL, NULL));
  RANK_OK(env, gloo_allreduce(c, a, b, n, t, GLOO_AVERAGE, NULL, NULL));
  RANK_OK(env, gloo_reduce_scatter(c, a, b, n, t, sum, NULL, NULL));
  RANK_OK(env, gloo_reduce_scatterv(c, a, b, counts, t, sum, NULL, NULL));
  RANK_OK(env, gloo_allgather(c, a, b, n, t, NULL, NULL));
  RANK_OK(env, gloo_allgatherv(c, a, b, counts, first, t, NULL, NULL));
  RANK_OK(env, gloo_gather(c, a, b, n, t, 0, NULL, NULL));
  RANK_OK(env, gloo_gatherv(c, a, n, b, counts, first, t, 0, NULL, NULL));
  RANK_OK(env, gloo_scatter(c, a, b, n, t, 0, NULL, NULL));
  RANK_OK(env, gloo_scatterv(c, a, counts, first, b, n, t, 0, NULL, NULL));
  RANK_OK(env, gloo_alltoall(c, a, b, n, t, NULL, NULL));
  RANK_OK(env,
          gloo_alltoallv(c, a, counts, first, b, counts, first, t, NULL, NULL));
  RANK_OK(env, gloo_scan(c, a, b, n, t, sum, NULL, NULL));
  RANK_OK(env, gloo_exscan(c, a, b, n, t, sum, NULL, NULL));
  RANK_OK(env,
          gloo_allreduce_multi(c, list, 1, outputs, 1, n, t, sum, NULL, NULL));
  RANK_OK(env,
          gloo_sendrecv(c, a, n, env->rank, b, n, env->rank, t, NULL, NULL));
  for (size_t i = 0; i < n && env->size == 1; i++) {
    RANK_CHECK(env, out[i] == (int32_t)i + 1);
  }
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
  int32_t in[COUNT], out[COUNT];
  size_t touched = 0;
  for (int i = 0; i < COUNT; i++) in[i] = i;
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    if (gli_algorithms[a].collective != GLI_REDUCE) continue;
    gloo_options o = GLOO_OPTIONS_INIT;
    o.algorithm = gli_algorithms[a].name;
    memset(out, 0x5a, sizeof out);
    RANK_OK(env, gloo_reduce(env->context, in, out, COUNT, GLOO_INT32, GLOO_SUM,
                             1, &o, NULL));
    for (int i = 0; i < COUNT && env->rank != 1; i++) {
      touched += out[i] != 0x5a5a5a5a;
    }
    for (int i = 0; i < COUNT && env->rank == 1; i++) {
      touched += out[i] != i * env->size;
    }
  }
  RANK_CHECK(env, touched == 0);
}

static void reduce_leaves_other_outputs_alone(void **state) {
  (void)state;
  run(4, reduce_to_one);
}

/* ---- timeout of one operation -------------------------------------------- */

/* The context's timeout is two minutes; the message shows that the operation's
 * own one applied, without a measurement of time. */
static void impatient(rank_env *env, bool collective) {
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_error error = {.status = GLOO_OK};
  float x = 1;
  o.timeout_ns = INT64_C(100000000);
  if (env->rank == 1) { /* never calls, but stays until the others fail */
    while (gloo_context_error(env->context, &error) == GLOO_OK) uv_sleep(5);
    return;
  }
  gloo_status status =
      collective ? gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1,
                                  GLOO_FLOAT32, GLOO_SUM, &o, &error)
                 : gloo_recv(env->context, &x, 1, GLOO_FLOAT32, 1, &o, &error);
  RANK_CHECK(env, status == GLOO_ERR_TIMEOUT);
  RANK_CHECK(env, error.rank == 1);
  RANK_CHECK(env, strstr(error.message, "after 0.1 s") != NULL);
}

static void impatient_call(rank_env *env) {
  impatient(env, true);
}

static void impatient_message(rank_env *env) {
  impatient(env, false);
}

static void limit_of_an_operation_is_kept(void **state) {
  (void)state;
  run(2, impatient_call);
  run(2, impatient_message);
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
                                NULL, NULL));
    RANK_CHECK(env, x == env->size * i + env->size * (env->size - 1) / 2);
  }
  for (int i = 0; i < CONTEXTS; i++) gloo_context_destroy(contexts[i]);
}

static void many_contexts_in_one_process(void **state) {
  (void)state;
  run(3, many);
}

/* ---- a rank that left, in a process that remains ------------------------- */

static atomic_int left, told;

static void wait_for_flag(atomic_int *flag) {
  while (!atomic_load(flag)) uv_sleep(1);
}

/* Ranks 1 and 3 of four are not connected until one calls the other. The device
 * of rank 3 is idle, and must answer all the same. */
static void call_one_that_left(rank_env *env) {
  int32_t word = 0;
  gloo_error error = {.status = GLOO_OK, .rank = -1};
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  if (env->rank == 3) {
    gloo_context_destroy(env->context);
    env->context = NULL;
    atomic_store(&left, 1);
  }
  wait_for_flag(&left);
  if (env->rank == 1) {
    uv_sleep(300); /* so that it is idle, too */
    RANK_CHECK(env, gloo_recv(env->context, &word, 1, GLOO_INT32, 3, NULL,
                              &error) == GLOO_ERR_PEER);
    RANK_CHECK(env, error.rank == 3);
    atomic_store(&told, 1);
  }
  wait_for_flag(&told);
}

static void rank_that_left_is_named_by_one_that_comes_late(void **state) {
  (void)state;
  ranks_options o = {.transport = transport,
                     .timeout_ns = INT64_C(30000000000)};
  atomic_store(&left, 0);
  atomic_store(&told, 0);
  ranks_run(4, &o, call_one_that_left);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reduce_scatter_of_4_mib_chunks_150_times),
      cmocka_unit_test(no_elements_and_one_rank_are_legal),
      cmocka_unit_test(reduce_leaves_other_outputs_alone),
      cmocka_unit_test(limit_of_an_operation_is_kept),
      cmocka_unit_test(many_contexts_in_one_process),
      cmocka_unit_test(rank_that_left_is_named_by_one_that_comes_late),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
