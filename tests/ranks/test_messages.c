/* Point-to-point messages: order, tags, any source, oneself, sizes, flow
 * control. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

static const char *transport;

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

static gloo_options tagged(uint32_t tag) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = tag;
  return o;
}

static void ring(rank_env *env) {
  int right = (env->rank + 1) % env->size;
  int left = (env->rank + env->size - 1) % env->size;
  static const size_t counts[] = {0, 1, 1000, 70000, 1000000};
  for (size_t i = 0; i < 5; i++) {
    size_t n = counts[i];
    int32_t *out = malloc(n * 4 + 4), *in = malloc(n * 4 + 4);
    for (size_t k = 0; k < n; k++) out[k] = env->rank * 1000 + (int)(k % 997);
    memset(in, 0, n * 4 + 4);
    gloo_operation *send;
    RANK_OK(env, gloo_send_start(env->context, out, n, GLOO_INT32, right, NULL,
                                 &send));
    RANK_OK(env, gloo_recv(env->context, in, n, GLOO_INT32, left, NULL));
    RANK_OK(env, gloo_operation_wait(send));
    gloo_operation_destroy(send);
    for (size_t k = 0; k < n; k++) {
      RANK_CHECK(env, in[k] == left * 1000 + (int)(k % 997));
    }
    free(in);
    free(out);
  }
}

/* 2,000 messages start before any is received: more than may be parked. */
static void flood(rank_env *env) {
  enum { MESSAGES = 2000, COUNT = 300 };
  gloo_operation **ops = calloc(MESSAGES, sizeof *ops);
  int32_t(*data)[COUNT] = calloc(MESSAGES, sizeof *data);
  if (env->rank == 0) {
    for (int i = 0; i < MESSAGES; i++) {
      for (int k = 0; k < COUNT; k++) data[i][k] = i * 7 + k;
      gloo_options o = tagged((uint32_t)i % 3);
      RANK_OK(env, gloo_send_start(env->context, data[i], COUNT, GLOO_INT32, 1,
                                   &o, &ops[i]));
    }
    for (int i = 0; i < MESSAGES; i++) {
      RANK_OK(env, gloo_operation_wait(ops[i]));
      gloo_operation_destroy(ops[i]);
    }
  } else {
    for (int tag = 2; tag >= 0; tag--) { /* the last tag first */
      for (int i = tag; i < MESSAGES; i += 3) {
        gloo_options o = tagged((uint32_t)tag);
        int32_t in[COUNT];
        RANK_OK(env, gloo_recv(env->context, in, COUNT, GLOO_INT32, 0, &o));
        for (int k = 0; k < COUNT; k++) RANK_CHECK(env, in[k] == i * 7 + k);
      }
    }
  }
  free(data);
  free(ops);
}

static void any_source(rank_env *env) {
  enum { EACH = 20 };
  if (env->rank != 0) {
    for (int i = 0; i < EACH; i++) {
      int64_t value = env->rank * 100 + i;
      RANK_OK(env, gloo_send(env->context, &value, 1, GLOO_INT64, 0, NULL));
    }
    return;
  }
  int next[16] = {0};
  for (int i = 0; i < EACH * (env->size - 1); i++) {
    int64_t value = -1;
    int source = -1;
    RANK_OK(env, gloo_recv_any(env->context, &value, 1, GLOO_INT64, NULL, 0,
                               NULL, &source));
    RANK_CHECK(env, source >= 1 && source < env->size);
    if (source < 1 || source >= env->size) return;
    RANK_CHECK(env, value == source * 100 + next[source]);
    next[source]++;
  }
}

static void from_a_list(rank_env *env) {
  int32_t value = env->rank;
  if (env->rank != 0) {
    RANK_OK(env, gloo_send(env->context, &value, 1, GLOO_INT32, 0, NULL));
    return;
  }
  const int odd[] = {1, 3};
  for (int i = 0; i < 2; i++) {
    int source = -1;
    RANK_OK(env, gloo_recv_any(env->context, &value, 1, GLOO_INT32, odd, 2,
                               NULL, &source));
    RANK_CHECK(env, source == value && source % 2 == 1);
  }
  RANK_OK(env, gloo_recv(env->context, &value, 1, GLOO_INT32, 2, NULL));
  RANK_CHECK(env, value == 2);
}

static void oneself(rank_env *env) {
  enum { COUNT = 400000 };
  float *out = malloc(COUNT * sizeof *out), *in = malloc(COUNT * sizeof *in);
  for (int i = 0; i < COUNT; i++) out[i] = (float)i;
  gloo_operation *recv;
  RANK_OK(env, gloo_recv_start(env->context, in, COUNT, GLOO_FLOAT32, env->rank,
                               NULL, &recv));
  RANK_OK(env,
          gloo_send(env->context, out, COUNT, GLOO_FLOAT32, env->rank, NULL));
  RANK_OK(env, gloo_operation_wait(recv));
  RANK_CHECK(env, gloo_operation_source(recv) == env->rank);
  gloo_operation_destroy(recv);
  RANK_CHECK(env, memcmp(in, out, COUNT * sizeof *in) == 0);
  /* The other order: the message waits for its receive. */
  gloo_operation *send;
  RANK_OK(env, gloo_send_start(env->context, out, COUNT, GLOO_FLOAT32,
                               env->rank, NULL, &send));
  memset(in, 0, COUNT * sizeof *in);
  RANK_OK(env,
          gloo_recv(env->context, in, COUNT, GLOO_FLOAT32, env->rank, NULL));
  RANK_OK(env, gloo_operation_wait(send));
  gloo_operation_destroy(send);
  RANK_CHECK(env, memcmp(in, out, COUNT * sizeof *in) == 0);
  free(in);
  free(out);
}

/* A receive that nothing met, and nothing else, can be taken back. */
static void cancel_quietly(rank_env *env) {
  int32_t value = 7;
  gloo_options o = tagged(99);
  gloo_operation *recv;
  int peer = (env->rank + 1) % env->size;
  RANK_OK(env, gloo_recv_start(env->context, &value, 1, GLOO_INT32, peer, &o,
                               &recv));
  RANK_OK(env, gloo_operation_cancel(recv));
  RANK_CHECK(env, gloo_operation_wait(recv) == GLOO_ERR_CANCELLED);
  gloo_operation_destroy(recv);
  RANK_OK(env, gloo_barrier(env->context, NULL));
}

static void wrong_count(rank_env *env) {
  int32_t data[8] = {0};
  gloo_error error;
  gloo_status status =
      env->rank == 0 ? gloo_send(env->context, data, 8, GLOO_INT32, 1, NULL)
                     : gloo_recv(env->context, data, 4, GLOO_INT32, 0, NULL);
  if (env->rank == 1) RANK_CHECK(env, status == GLOO_ERR_MISMATCH);
  status = gloo_barrier(env->context, NULL);
  RANK_CHECK(env, status != GLOO_OK);
  RANK_CHECK(env,
             gloo_context_error(env->context, &error) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "8 x int32") != NULL);
  RANK_CHECK(env, strstr(error.message, "4 x int32") != NULL);
}

#define CASE(name, size)                      \
  static void messages_##name(void **state) { \
    (void)state;                              \
    run(size, name);                          \
  }
CASE(ring, 4)
CASE(flood, 2)
CASE(any_source, 5)
CASE(from_a_list, 4)
CASE(oneself, 2)
CASE(cancel_quietly, 3)
CASE(wrong_count, 2)

static int run_over(const char *name) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_ring),
      cmocka_unit_test(messages_flood),
      cmocka_unit_test(messages_any_source),
      cmocka_unit_test(messages_from_a_list),
      cmocka_unit_test(messages_oneself),
      cmocka_unit_test(messages_cancel_quietly),
      cmocka_unit_test(messages_wrong_count),
  };
  transport = name;
  return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int argc, char **argv) {
  return run_over(argc > 1 ? argv[1] : "inproc");
}
