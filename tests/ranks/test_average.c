/* Averages: sums that every rank divides at the end. */
#include "ranks.h"

#include <string.h>

static const char *transport = "auto";

static void averages(rank_env *env) {
  enum { COUNT = 1000 };
  float in[COUNT * 5], out[COUNT];
  int32_t whole[3] = {7, -7, env->rank}, total = 0;
  size_t wrong = 0;
  for (int rank = 0; rank < env->size; rank++) total += rank;
  float mean = (float)total / (float)env->size;
  for (int i = 0; i < COUNT * env->size; i++) {
    in[i] = (float)(i * env->size + env->rank);
  }
  RANK_OK(env, gloo_allreduce(env->context, in, out, COUNT, GLOO_FLOAT32,
                              GLOO_AVERAGE, NULL));
  for (int i = 0; i < COUNT; i++) {
    float error = out[i] - ((float)(i * env->size) + mean);
    wrong += error > 0.01f || error < -0.01f;
  }
  RANK_OK(env, gloo_reduce_scatter(env->context, in, out, COUNT, GLOO_FLOAT32,
                                   GLOO_AVERAGE, NULL));
  for (int i = 0; i < COUNT; i++) {
    float error =
        out[i] - ((float)((env->rank * COUNT + i) * env->size) + mean);
    wrong += error > 0.01f || error < -0.01f;
  }
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, whole, 3, GLOO_INT32,
                              GLOO_AVERAGE, NULL));
  wrong += whole[0] != 7 || whole[1] != -7 || whole[2] != total / env->size;
  RANK_CHECK(env, wrong == 0);
}

static void sums_are_divided_by_the_ranks(void **state) {
  (void)state;
  for (int size = 1; size <= 5; size++) {
    ranks_options o = {.transport = transport};
    ranks_run(size, &o, averages);
  }
}

static void refusals(rank_env *env) {
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.error = &error;
  uint8_t flag = 1;
  RANK_CHECK(env,
             gloo_allreduce(env->context, GLOO_IN_PLACE, &flag, 1, GLOO_BOOL,
                            GLOO_AVERAGE, &o) == GLOO_ERR_UNSUPPORTED);
  RANK_CHECK(env, strstr(error.message, "average of bool") != NULL);
  float value = 1;
  RANK_CHECK(env,
             gloo_scan(env->context, GLOO_IN_PLACE, &value, 1, GLOO_FLOAT32,
                       GLOO_AVERAGE, &o) == GLOO_ERR_UNSUPPORTED);
  RANK_OK(env, gloo_barrier(env->context, NULL));
}

static void what_has_no_average_is_refused(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, refusals);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_are_divided_by_the_ranks),
      cmocka_unit_test(what_has_no_average_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
