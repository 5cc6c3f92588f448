/* Every failure becomes a status and a message, on every rank, in time. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

static const char *transport;
#define SECOND INT64_C(1000000000)

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport, .timeout_ns = 10 * SECOND};
  ranks_run(size, &o, body);
}

static void expect_refusal(rank_env *env, gloo_status status,
                           const gloo_error *error, const gloo_error *cause) {
  RANK_CHECK(env, status == GLOO_ERR_POISONED);
  RANK_CHECK(env, error->status == GLOO_ERR_POISONED);
  RANK_CHECK(env, error->cause == cause->status);
  RANK_CHECK(env, error->rank == cause->rank);
  /* The cause's message follows the prefix, as far as it fits. */
  RANK_CHECK(
      env, strncmp(strstr(error->message, ": ") + 2, cause->message, 100) == 0);
}

/* Checks that every call on the context is refused with the original cause. */
static void expect_poisoned(rank_env *env, gloo_status cause,
                            const gloo_error *first) {
  int32_t word = 0, all = 0;
  gloo_request *op;
  gloo_context *group;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  RANK_CHECK(env, first->status == cause && first->cause == cause);
  gloo_status status = gloo_barrier(env->context, &o, &error);
  expect_refusal(env, status, &error, first);
  status = gloo_recv(env->context, &word, 1, GLOO_INT32, 0, &o, &error);
  expect_refusal(env, status, &error, first);
  status = gloo_allreduce_start(env->context, &word, &all, 1, GLOO_INT32,
                                GLOO_SUM, &o, &op, &error);
  expect_refusal(env, status, &error, first);
  status = gloo_barrier_init(env->context, &o, &op, &error);
  expect_refusal(env, status, &error, first);
  status = gloo_context_split(env->context, 0, 0, NULL, &group, &error);
  expect_refusal(env, status, &error, first);
  status =
      gloo_context_subset(env->context, &env->rank, 1, NULL, &group, &error);
  expect_refusal(env, status, &error, first);
}

/* Checks that a following call fails with this cause on every rank, whatever
 * the first call returned: the library first asks the ranks for their calls,
 * which takes a moment. */
static void expect_cause(rank_env *env, gloo_status cause, const char *part) {
  gloo_error error;
  for (int i = 0; i < 100000; i++) {
    if (gloo_barrier(env->context, NULL, NULL) != GLOO_OK) break;
  }
  gloo_status status = gloo_context_error(env->context, &error);
  if (status != cause || !strstr(error.message, part)) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  }
  expect_poisoned(env, cause, &error);
}

static void counts_differ(rank_env *env) {
  float data[16] = {0};
  size_t count = env->rank == 2 ? 8 : 4;
  (void)gloo_allreduce(env->context, GLOO_IN_PLACE, data, count, GLOO_FLOAT32,
                       GLOO_SUM, NULL, NULL);
  expect_cause(env, GLOO_ERR_MISMATCH, "8 x float32");
}

static void one_count_is_zero(rank_env *env) {
  float data[16] = {0};
  size_t count = env->rank == 0 ? 0 : 4;
  (void)gloo_allreduce(env->context, GLOO_IN_PLACE, data, count, GLOO_FLOAT32,
                       GLOO_SUM, NULL, NULL);
  expect_cause(env, GLOO_ERR_MISMATCH, "0 x float32");
}

/* Each rank waits for another and sends nothing, because blocks without
 * elements need no message. The query shortly before the deadline finds the
 * mismatch. */
static void each_expects_another_to_send(rank_env *env) {
  float in[4] = {0}, out[4] = {0};
  size_t counts[2] = {0, 0};
  gloo_options o = GLOO_OPTIONS_INIT;
  o.timeout_ns = SECOND;
  o.algorithm = "direct";
  counts[1 - env->rank] = 4;
  (void)gloo_allgatherv(env->context, in, out, counts, NULL, GLOO_FLOAT32, &o,
                        NULL);
  expect_cause(env, GLOO_ERR_MISMATCH, "different counts for some ranks");
}

static void types_differ(rank_env *env) {
  float data[16] = {0};
  (void)gloo_allreduce(env->context, GLOO_IN_PLACE, data, 4,
                       env->rank == 1 ? GLOO_INT32 : GLOO_FLOAT32, GLOO_SUM,
                       NULL, NULL);
  expect_cause(env, GLOO_ERR_MISMATCH, "int32");
}

static void ops_differ(rank_env *env) {
  float data[16] = {0};
  (void)gloo_allreduce(env->context, GLOO_IN_PLACE, data, 4, GLOO_FLOAT32,
                       env->rank == 1 ? GLOO_MAX : GLOO_SUM, NULL, NULL);
  expect_cause(env, GLOO_ERR_MISMATCH, "max");
}

static void roots_differ(rank_env *env) {
  float data[16] = {0};
  (void)gloo_broadcast(env->context, GLOO_IN_PLACE, data, 4, GLOO_FLOAT32,
                       env->rank == 1 ? 1 : 0, NULL, NULL);
  expect_cause(env, GLOO_ERR_MISMATCH, "root 1");
}

static void collectives_differ(rank_env *env) {
  float data[64] = {0};
  if (env->rank == 1) {
    (void)gloo_allgather(env->context, GLOO_IN_PLACE, data, 4, GLOO_FLOAT32,
                         NULL, NULL);
  } else {
    (void)gloo_allreduce(env->context, GLOO_IN_PLACE, data, 4, GLOO_FLOAT32,
                         GLOO_SUM, NULL, NULL);
  }
  expect_cause(env, GLOO_ERR_MISMATCH, "allgather");
}

static void algorithms_differ(rank_env *env) {
  float data[64] = {0};
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = env->rank == 1 ? "ring" : "recursive_doubling";
  (void)gloo_allreduce(env->context, GLOO_IN_PLACE, data, 4, GLOO_FLOAT32,
                       GLOO_SUM, &o, NULL);
  expect_cause(env, GLOO_ERR_MISMATCH, "different algorithm");
}

/* Waits for a failure by queries, not in a call. */
static void wait_for_trouble(rank_env *env) {
  gloo_error error;
  for (int i = 0; i < 1000; i++) {
    if (gloo_context_error(env->context, &error) != GLOO_OK) return;
    uv_sleep(10);
  }
}

static void one_never_calls(rank_env *env) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.timeout_ns = SECOND;
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL)); /* none starts late */
  if (env->rank == 1) {
    wait_for_trouble(env);
  } else {
    RANK_CHECK(env, gloo_barrier(env->context, &o, NULL) == GLOO_ERR_TIMEOUT);
  }
  expect_cause(env, GLOO_ERR_TIMEOUT, "rank 1");
}

/* Rank 0 leaves while the others still need data from it. */
static void one_leaves(rank_env *env) {
  gloo_status status = gloo_barrier(env->context, NULL, NULL);
  if (env->rank == 0) {
    RANK_OK(env, status);
    return;
  }
  expect_cause(env, GLOO_ERR_PEER, "rank 0");
}

/* Data sent before a rank leaves is still delivered. */
static void leaving_keeps_data(rank_env *env) {
  enum { COUNT = 50000 };
  int32_t *data = malloc(COUNT * sizeof *data);
  if (env->rank == 0) {
    for (int i = 0; i < COUNT; i++) data[i] = i;
  } else {
    uv_sleep(50);
  }
  RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, data, COUNT,
                              GLOO_INT32, 0, NULL, NULL));
  for (int i = 0; i < COUNT; i++) RANK_CHECK(env, data[i] == i);
  free(data);
}

static void cancelled(rank_env *env) {
  float data[4] = {0};
  if (env->rank == 0) {
    gloo_request *op;
    RANK_OK(env, gloo_allreduce_start(env->context, GLOO_IN_PLACE, data, 4,
                                      GLOO_FLOAT32, GLOO_SUM, NULL, &op, NULL));
    RANK_OK(env, gloo_request_cancel(op, NULL));
    RANK_CHECK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL) ==
                        GLOO_ERR_CANCELLED);
    gloo_request_destroy(op);
  } else {
    wait_for_trouble(env);
  }
  expect_cause(env, GLOO_ERR_CANCELLED, "rank 0 cancelled allreduce");
}

/* Operations queued behind others may not have begun to send. */
static void cancelled_among_many(rank_env *env) {
  enum { MANY = 60, COUNT = 10000 };
  gloo_request *ops[MANY] = {0};
  float *data = calloc(MANY * COUNT, sizeof *data);
  int mine = env->rank == 0 ? MANY : MANY - 1; /* the last never completes */
  for (int i = 0; i < mine && data; i++) {
    gloo_status status = gloo_allreduce_start(
        env->context, GLOO_IN_PLACE, data + (size_t)i * COUNT, COUNT,
        GLOO_FLOAT32, GLOO_SUM, NULL, &ops[i], NULL);
    if (status != GLOO_OK) ops[i] = NULL; /* the context has failed already */
    if (env->rank == 0) RANK_OK(env, status);
  }
  if (env->rank == 0) RANK_OK(env, gloo_request_cancel(ops[MANY - 1], NULL));
  int failed = 0;
  for (int i = 0; i < MANY; i++) {
    if (ops[i] && gloo_request_wait(ops[i], GLOO_TIMEOUT_DEFAULT, NULL) ==
                      GLOO_ERR_CANCELLED)
      failed++;
    gloo_request_destroy(ops[i]);
  }
  if (env->rank == 0) RANK_CHECK(env, failed > 0);
  if (env->rank != 0) wait_for_trouble(env);
  expect_cause(env, GLOO_ERR_CANCELLED, "rank 0 cancelled allreduce");
  free(data);
}

/* Destroying a context ends its operations; their handles remain valid. */
static void destroyed_while_running(rank_env *env) {
  float data[4] = {0};
  gloo_context *second = NULL;
  gloo_store *view;
  gloo_error error;
  RANK_CHECK(env, gloo_store_prefix_create(env->store, "second", &view,
                                           &error) == GLOO_OK);
  RANK_CHECK(env, gloo_context_create(env->rank, env->size, view, env->device,
                                      NULL, &second, &error) == GLOO_OK);
  if (!second) return;
  gloo_request *op = NULL;
  if (env->rank == 0) {
    RANK_OK(env, gloo_allreduce_start(second, GLOO_IN_PLACE, data, 4,
                                      GLOO_FLOAT32, GLOO_SUM, NULL, &op, NULL));
  }
  /* Rank 1 waits until rank 0 has left, so that rank 1 is not the missing
   * one. */
  if (env->rank == 1) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  gloo_context_destroy(second);
  gloo_store_destroy(view);
  if (op) {
    RANK_CHECK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL) ==
                        GLOO_ERR_CANCELLED);
    RANK_CHECK(env, gloo_request_test(op, NULL) == GLOO_ERR_CANCELLED);
    gloo_request_destroy(op);
    RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  }
}

static void expect_orphan(gloo_context *alone, gloo_request *op, rank_env *env,
                          gloo_status cause, const char *part) {
  gloo_error error;
  gloo_context_destroy(alone);
  RANK_CHECK(env, gloo_request_start(op, NULL) == GLOO_ERR_POISONED);
  RANK_CHECK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL) ==
                      GLOO_ERR_POISONED);
  RANK_CHECK(env, gloo_request_error(op, &error) == GLOO_ERR_POISONED);
  RANK_CHECK(env, error.cause == cause && error.rank == -1);
  RANK_CHECK(env, strstr(error.message, part) != NULL);
  gloo_request_destroy(op);
}

/* Operations that are started after their context is destroyed report why they
 * fail. */
static void started_after_its_context(rank_env *env) {
  int32_t word;
  for (int fails = 0; fails < 2; fails++) {
    gloo_context *alone = NULL;
    gloo_request *op;
    gloo_options o = GLOO_OPTIONS_INIT;
    o.timeout_ns = 1000000;
    gloo_store *store;
    RANK_CHECK(env, gloo_store_memory_create(&store, NULL) == GLOO_OK);
    RANK_CHECK(env, gloo_context_create(0, 1, store, env->device, NULL, &alone,
                                        NULL) == GLOO_OK);
    gloo_store_destroy(store);
    RANK_CHECK(env, gloo_barrier_init(alone, NULL, &op, NULL) == GLOO_OK);
    if (fails) {
      RANK_CHECK(env, gloo_recv(alone, &word, 1, GLOO_INT32, 0, &o, NULL) ==
                          GLOO_ERR_TIMEOUT);
    }
    expect_orphan(
        alone, op, env, fails ? GLOO_ERR_TIMEOUT : GLOO_ERR_CANCELLED,
        fails ? "destroyed after an error: deadline passed" : "was destroyed");
  }
}

static void bad_arguments(rank_env *env) {
  gloo_context *c = env->context;
  float x[8] = {0}, y[8] = {0};
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
#define REFUSED(status, part, call)                             \
  do {                                                          \
    memset(&error, 0, sizeof error);                            \
    RANK_CHECK(env, (call) == (status));                        \
    RANK_CHECK(env, strstr(error.message, (part)) != NULL);     \
    RANK_CHECK(env, gloo_context_error(c, &error) == (status)); \
  } while (0)
  REFUSED(GLOO_ERR_DTYPE, "unknown type",
          gloo_allreduce(c, x, y, 4, (gloo_dtype)77, GLOO_SUM, &o, &error));
  REFUSED(GLOO_ERR_DTYPE, "unknown type",
          gloo_allreduce(c, x, y, 4, (gloo_dtype)-1, GLOO_SUM, &o, &error));
  REFUSED(GLOO_ERR_OP, "unknown reduction",
          gloo_allreduce(c, x, y, 4, GLOO_FLOAT32, (gloo_op)99, &o, &error));
  REFUSED(GLOO_ERR_UNSUPPORTED, "band is not defined for float32",
          gloo_allreduce(c, x, y, 4, GLOO_FLOAT32, GLOO_BAND, &o, &error));
  REFUSED(GLOO_ERR_BUFFER, "output is NULL",
          gloo_allreduce(c, x, NULL, 4, GLOO_FLOAT32, GLOO_SUM, &o, &error));
  REFUSED(GLOO_ERR_BUFFER, "input is NULL",
          gloo_allreduce(c, NULL, y, 4, GLOO_FLOAT32, GLOO_SUM, &o, &error));
  REFUSED(GLOO_ERR_BUFFER, "overlap",
          gloo_allreduce(c, x, x + 2, 4, GLOO_FLOAT32, GLOO_SUM, &o, &error));
  REFUSED(GLOO_ERR_ROOT, "root 9",
          gloo_broadcast(c, x, y, 4, GLOO_FLOAT32, 9, &o, &error));
  REFUSED(GLOO_ERR_ROOT, "root -1",
          gloo_broadcast(c, x, y, 4, GLOO_FLOAT32, -1, &o, &error));
  REFUSED(GLOO_ERR_RANK, "peer 5",
          gloo_send(c, x, 4, GLOO_FLOAT32, 5, &o, &error));
  const int stranger = 5;
  REFUSED(GLOO_ERR_RANK, "gloo_recv_any: peer 5",
          gloo_recv_any(c, x, 4, GLOO_FLOAT32, &stranger, 1, &o, NULL, &error));
  REFUSED(GLOO_ERR_COUNT, "exceed the address space",
          gloo_allgather(c, x, y, SIZE_MAX / 4, GLOO_FLOAT32, &o, &error));
  o.algorithm = "magic";
  REFUSED(GLOO_ERR_NOT_FOUND, "recursive_doubling",
          gloo_allreduce(c, x, y, 4, GLOO_FLOAT32, GLOO_SUM, &o, &error));
  o.algorithm = NULL;
  o.struct_size = 3;
  RANK_CHECK(env, gloo_barrier(c, &o, &error) == GLOO_ERR_INVALID);
#undef REFUSED
  RANK_CHECK(env, gloo_barrier(NULL, NULL, NULL) == GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_allreduce(c, NULL, NULL, 0, GLOO_FLOAT32, GLOO_SUM, NULL,
                                 NULL) == GLOO_OK);
  RANK_OK(env, gloo_barrier(c, NULL, NULL)); /* the context is still usable */
}

static void started_twice(rank_env *env) {
  gloo_request *op;
  RANK_OK(env, gloo_barrier_init(env->context, NULL, &op, NULL));
  if (env->rank == 0) {
    RANK_OK(env, gloo_request_start(op, NULL));
    RANK_CHECK(env, gloo_request_start(op, NULL) == GLOO_ERR_BUSY);
  } else {
    uv_sleep(20);
    RANK_OK(env, gloo_request_start(op, NULL));
  }
  RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(op);
}

#define CASE(name, size)                    \
  static void errors_##name(void **state) { \
    (void)state;                            \
    run(size, name);                        \
  }
CASE(counts_differ, 4)
CASE(one_count_is_zero, 2)
CASE(each_expects_another_to_send, 2)
CASE(types_differ, 3)
CASE(ops_differ, 4)
CASE(roots_differ, 4)
CASE(collectives_differ, 3)
CASE(algorithms_differ, 4)
CASE(one_never_calls, 4)
CASE(one_leaves, 4)
CASE(leaving_keeps_data, 4)
CASE(cancelled, 3)
CASE(cancelled_among_many, 3)
CASE(destroyed_while_running, 2)
CASE(started_after_its_context, 2)
CASE(bad_arguments, 2)
CASE(started_twice, 3)

static void ranks_that_never_come_are_listed(void **state) {
  (void)state;
  gloo_store *store;
  gloo_context *context;
  gloo_error error;
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  o.timeout_ns = SECOND / 5;
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  assert_int_equal(gloo_context_create(1, 3, store, NULL, &o, &context, &error),
                   GLOO_ERR_TIMEOUT);
  assert_non_null(strstr(error.message, "ranks 0, 2 of 3"));
  assert_int_equal(error.rank, -1); /* either may be the cause */
  gloo_store_destroy(store);
}

static void bad_worlds_are_refused(void **state) {
  (void)state;
  gloo_context *context;
  gloo_device *device;
  gloo_error error;
  assert_int_equal(
      gloo_context_create(0, 0, NULL, NULL, NULL, &context, &error),
      GLOO_ERR_INVALID);
  assert_int_equal(
      gloo_context_create(3, 3, NULL, NULL, NULL, &context, &error),
      GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "ranks are 0 to 2"));
  assert_int_equal(
      gloo_context_create(-1, 3, NULL, NULL, NULL, &context, &error),
      GLOO_ERR_INVALID);
  assert_int_equal(
      gloo_context_create(0, 2, NULL, NULL, NULL, &context, &error),
      GLOO_ERR_INVALID);
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = "pigeon";
  assert_int_equal(gloo_device_create(&d, &device, &error), GLOO_ERR_NOT_FOUND);
  assert_non_null(strstr(error.message, "pigeon"));
  d.transport = "tcp";
  d.streams = 99;
  assert_int_equal(gloo_device_create(&d, &device, &error), GLOO_ERR_INVALID);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_counts_differ),
      cmocka_unit_test(errors_one_count_is_zero),
      cmocka_unit_test(errors_each_expects_another_to_send),
      cmocka_unit_test(errors_types_differ),
      cmocka_unit_test(errors_ops_differ),
      cmocka_unit_test(errors_roots_differ),
      cmocka_unit_test(errors_collectives_differ),
      cmocka_unit_test(errors_algorithms_differ),
      cmocka_unit_test(errors_one_never_calls),
      cmocka_unit_test(errors_one_leaves),
      cmocka_unit_test(errors_leaving_keeps_data),
      cmocka_unit_test(errors_cancelled),
      cmocka_unit_test(errors_cancelled_among_many),
      cmocka_unit_test(errors_destroyed_while_running),
      cmocka_unit_test(errors_started_after_its_context),
      cmocka_unit_test(errors_bad_arguments),
      cmocka_unit_test(errors_started_twice),
      cmocka_unit_test(ranks_that_never_come_are_listed),
      cmocka_unit_test(bad_worlds_are_refused),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
