/* gloo_sendrecv: two messages in one call. */
#include <stdbool.h>
#include <stdlib.h>

#include "ranks.h"

static const char *transport;

static void run_on(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

static int32_t value(int from, int to, size_t i) {
  return (int32_t)(1000003 * from + 1009 * to + (int)i);
}

static void exchange(rank_env *env) {
  enum { MOST = 300000 };
  static const size_t counts[] = {0, 1, 1000, MOST};
  int32_t *in = malloc(MOST * sizeof *in), *out = malloc(MOST * sizeof *out);
  int next = (env->rank + 1) % env->size;
  int previous = (env->rank + env->size - 1) % env->size;
  for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
    size_t n = counts[k];
    for (size_t i = 0; i < n; i++) in[i] = value(env->rank, next, i);
    RANK_OK(env, gloo_sendrecv(env->context, in, n, next, out, n, previous,
                               GLOO_INT32, NULL, NULL));
    for (size_t i = 0; i < n; i++) {
      RANK_CHECK(env, out[i] == value(previous, env->rank, i));
    }
    RANK_OK(env, gloo_sendrecv(env->context, in, n, env->rank, out, n,
                               env->rank, GLOO_INT32, NULL, NULL));
    for (size_t i = 0; i < n; i++) RANK_CHECK(env, out[i] == in[i]);
  }
  /* Along a line, the two ends have only one neighbour. */
  int32_t mine = 100 + env->rank, got = -1;
  bool last = env->rank + 1 == env->size, first = env->rank == 0;
  RANK_OK(env, gloo_sendrecv(env->context, &mine, 1, last ? GLOO_NO_RANK : next,
                             &got, 1, first ? GLOO_NO_RANK : previous,
                             GLOO_INT32, NULL, NULL));
  RANK_CHECK(env, got == (first ? -1 : 99 + env->rank));
  RANK_OK(env, gloo_sendrecv(env->context, NULL, 0, GLOO_NO_RANK, NULL, 0,
                             GLOO_NO_RANK, GLOO_INT32, NULL, NULL));
  free(in);
  free(out);
}

static void bad_exchange(rank_env *env) {
  int32_t data[4] = {0};
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_context *c = env->context;
  rank_expect_invalid(
      env, gloo_sendrecv(c, data, 3, 0, data + 2, 2, 0, GLOO_INT32, &o, &error),
      &error, "overlap");
  rank_expect_invalid(
      env, gloo_sendrecv(c, data, 1, 7, data + 2, 2, 0, GLOO_INT32, &o, &error),
      &error, "peer 7 is not a rank");
  rank_expect_invalid(
      env, gloo_sendrecv(c, NULL, 1, 0, data + 2, 2, 0, GLOO_INT32, &o, &error),
      &error, "NULL");
  RANK_OK(env, gloo_barrier(c, NULL, NULL));
}

static void both_messages_arrive(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) run_on(size, exchange);
}
static void exchanges_that_cannot_be_are_refused(void **state) {
  (void)state;
  run_on(2, bad_exchange);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_messages_arrive),
      cmocka_unit_test(exchanges_that_cannot_be_are_refused),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
