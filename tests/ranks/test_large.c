/* More than 2^31 elements, an odd number of them, at an odd address. */
#include "ranks.h"

#include <stdlib.h>

static const size_t count = ((size_t)1 << 31) + 5;

static uint8_t value_at(size_t i) {
  return (uint8_t)((i >> 20) * 7 + i % 13);
}

static void large(rank_env *env) {
  uint8_t *memory = malloc(count + 1);
  RANK_CHECK(env, memory != NULL);
  if (!memory) return;
  uint8_t *data = memory + 1;
  for (size_t i = 0; i < count; i++) {
    data[i] = env->rank == 0 ? value_at(i) : 1;
  }
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, data, count,
                              GLOO_UINT8, GLOO_SUM, NULL));
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) {
    wrong += data[i] != (uint8_t)(value_at(i) + 1);
  }
  RANK_CHECK(env, wrong == 0);
  if (env->rank == 0) {
    RANK_OK(env, gloo_send(env->context, data, count, GLOO_UINT8, 1, NULL));
  } else {
    for (size_t i = 0; i < count; i++) data[i] = 0;
    RANK_OK(env, gloo_recv(env->context, data, count, GLOO_UINT8, 0, NULL));
    for (size_t i = 0; i < count; i++) {
      wrong += data[i] != (uint8_t)(value_at(i) + 1);
    }
    RANK_CHECK(env, wrong == 0);
  }
  free(memory);
}

static void more_than_2_to_the_31_elements(void **state) {
  (void)state;
  ranks_options o = {.transport = "tcp", .timeout_ns = INT64_C(200000000000)};
  ranks_run(2, &o, large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(more_than_2_to_the_31_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
