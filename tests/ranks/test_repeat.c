/* Repeated calls: each one reuses the operation of the last equal call, or of a
 * similar one, and must behave like a first call. */
#include "ranks.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

static const char *transport = "auto";

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* ---- buffers ------------------------------------------------------------- */

enum { ROUNDS = 20, MOST = 8 };

/* Repeats a call with varying buffers and contents, in place and not. */
static void buffers_in_turn(rank_env *env) {
  int32_t in[2][MOST], out[2][MOST], sum[ROUNDS];
  for (int round = 0; round < ROUNDS; round++) {
    sum[round] = 0;
    for (int r = 0; r < env->size; r++) sum[round] += 100 * round + r;
  }
  for (int round = 0; round < ROUNDS; round++) {
    int32_t *from = in[round % 2], *to = out[round / 2 % 2];
    bool in_place = round % 3 == 0;
    if (in_place) from = to;
    for (int i = 0; i < MOST; i++) from[i] = 100 * round + env->rank;
    RANK_OK(env, gloo_allreduce(env->context, in_place ? GLOO_IN_PLACE : from,
                                to, MOST, GLOO_INT32, GLOO_SUM, NULL, NULL));
    RANK_CHECK(env, to[0] == sum[round] && to[MOST - 1] == sum[round]);
    int32_t root = round % env->size, word = 1000 * round + env->rank;
    RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, &word, 1,
                                GLOO_INT32, root, NULL, NULL));
    RANK_CHECK(env, word == 1000 * round + root);
    RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  }
}

static void calls_on_other_buffers_are_right(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) run(size, buffers_in_turn);
}

/* Calls that differ in size, type, reduction or tag are different calls. */
static void variety(rank_env *env) {
  int32_t in[64], out[64];
  int n = env->size;
  gloo_options tagged = GLOO_OPTIONS_INIT;
  for (int round = 0; round < 3; round++) {
    for (size_t count = 0; count <= 64; count += 7) {
      for (size_t i = 0; i < count; i++) in[i] = env->rank + 1;
      tagged.tag = (uint32_t)count % 3;
      RANK_OK(env, gloo_allreduce(env->context, in, out, count, GLOO_INT32,
                                  GLOO_SUM, &tagged, NULL));
      RANK_CHECK(env, count == 0 || out[count - 1] == n * (n + 1) / 2);
      RANK_OK(env, gloo_allreduce(env->context, in, out, count, GLOO_INT32,
                                  GLOO_MAX, &tagged, NULL));
      RANK_CHECK(env, count == 0 || out[count - 1] == n);
      RANK_OK(env, gloo_allreduce(env->context, in, out, count, GLOO_UINT32,
                                  GLOO_MIN, NULL, NULL));
      RANK_CHECK(env, count == 0 || out[count - 1] == 1);
    }
  }
}

static void other_calls_are_not_taken_for_it(void **state) {
  (void)state;
  run(2, variety);
  run(3, variety);
}

/* ---- started, not waited for --------------------------------------------- */

enum { TOGETHER = 6 };

/* Repeats a call on many buffers at once, among blocking ones. Some ranks are
 * late, so that messages arrive before their operations. */
static void many_at_once(rank_env *env) {
  int32_t in[TOGETHER], out[TOGETHER], more = 0;
  gloo_request *op[TOGETHER];
  int n = env->size, base = n * (n - 1) / 2;
  for (int round = 0; round < ROUNDS; round++) {
    if (round % 5 == env->rank) uv_sleep(1);
    for (int i = 0; i < TOGETHER; i++) {
      in[i] = out[i] = env->rank + 10 * i + round;
      bool in_place = (round + i) % 4 == 0;
      RANK_OK(env, gloo_allreduce_start(
                       env->context, in_place ? GLOO_IN_PLACE : &in[i], &out[i],
                       1, GLOO_INT32, GLOO_SUM, NULL, &op[i], NULL));
    }
    RANK_OK(env, gloo_allreduce(env->context, &in[0], &more, 1, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
    for (int i = TOGETHER; i-- > 0;) {
      RANK_OK(env, gloo_request_wait(op[i], GLOO_TIMEOUT_DEFAULT, NULL));
      gloo_request_destroy(op[i]);
      RANK_CHECK(env, out[i] == base + n * (10 * i + round));
    }
    RANK_CHECK(env, more == base + n * round);
  }
}

static void started_calls_do_not_meet_each_other(void **state) {
  (void)state;
  for (int size = 1; size <= 5; size++) run(size, many_at_once);
}

/* Messages both ways, with two tags, some of them before their receive. */
static void messages_at_once(rank_env *env) {
  int peer = 1 - env->rank;
  gloo_options tagged = GLOO_OPTIONS_INIT;
  tagged.tag = 7;
  for (int32_t round = 0; round < ROUNDS; round++) {
    int32_t out[2] = {round, -round}, in[2] = {0, 0};
    gloo_request *op[4];
    if (round % 3 == env->rank) uv_sleep(1);
    RANK_OK(env, gloo_send_start(env->context, &out[0], 1, GLOO_INT32, peer,
                                 NULL, &op[0], NULL));
    RANK_OK(env, gloo_send_start(env->context, &out[1], 1, GLOO_INT32, peer,
                                 &tagged, &op[1], NULL));
    RANK_OK(env, gloo_recv_start(env->context, &in[1], 1, GLOO_INT32, peer,
                                 &tagged, &op[2], NULL));
    RANK_OK(env, gloo_recv_start(env->context, &in[0], 1, GLOO_INT32, peer,
                                 NULL, &op[3], NULL));
    for (int i = 4; i-- > 0;) {
      RANK_OK(env, gloo_request_wait(op[i], GLOO_TIMEOUT_DEFAULT, NULL));
      if (i >= 2) RANK_CHECK(env, gloo_request_source(op[i]) == peer);
      gloo_request_destroy(op[i]);
    }
    RANK_CHECK(env, in[0] == round && in[1] == -round);
  }
}

static void started_messages_keep_their_tags(void **state) {
  (void)state;
  run(2, messages_at_once);
}

static void started_mismatch(rank_env *env) {
  float in[2] = {1, 2}, out[2];
  gloo_request *op;
  for (int round = 0; round < 4; round++) {
    gloo_op last = env->rank == 0 ? GLOO_SUM : GLOO_MAX;
    gloo_status status =
        gloo_allreduce_start(env->context, in, out, 2, GLOO_FLOAT32,
                             round < 3 ? GLOO_SUM : last, NULL, &op, NULL);
    if (status == GLOO_OK) { /* or it may fail at once */
      status = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL);
      gloo_request_destroy(op);
    }
    RANK_CHECK(env, status == (round < 3 ? GLOO_OK : GLOO_ERR_MISMATCH));
  }
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  RANK_CHECK(env, gloo_allreduce_start(env->context, in, out, 2, GLOO_FLOAT32,
                                       GLOO_SUM, &o, &op,
                                       &error) == GLOO_ERR_POISONED);
  RANK_CHECK(env, error.status == GLOO_ERR_POISONED);
}

static void ranks_that_start_other_calls_are_told(void **state) {
  (void)state;
  run(2, started_mismatch);
}

/* ---- refusals ------------------------------------------------------------ */

static void bad_after_good(rank_env *env) {
  float in[4] = {1, 2, 3, 4}, out[4];
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  for (int round = 0; round < 3; round++) {
    RANK_OK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32,
                                GLOO_SUM, &o, &error));
    RANK_CHECK(env, gloo_allreduce(env->context, in, NULL, 2, GLOO_FLOAT32,
                                   GLOO_SUM, &o, &error) == GLOO_ERR_BUFFER);
    RANK_CHECK(env, strstr(error.message, "output is NULL") != NULL);
    RANK_CHECK(env, gloo_allreduce(env->context, NULL, out, 2, GLOO_FLOAT32,
                                   GLOO_SUM, &o, &error) == GLOO_ERR_BUFFER);
    RANK_CHECK(env, strstr(error.message, "input is NULL") != NULL);
    RANK_CHECK(env, gloo_allreduce(env->context, in, in + 1, 2, GLOO_FLOAT32,
                                   GLOO_SUM, &o, &error) == GLOO_ERR_BUFFER);
    RANK_CHECK(env, strstr(error.message, "overlap") != NULL);
    o.struct_size = 1;
    RANK_CHECK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32,
                                   GLOO_SUM, &o, &error) == GLOO_ERR_INVALID);
    o.struct_size = sizeof o;
    const char *bad[] = {"unknown algorithm", "rin", "ringring",
                         "recursive_multiplying_8 and more"};
    for (int i = 0; i < 4; i++) {
      o.algorithm = bad[i];
      RANK_CHECK(
          env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32, GLOO_SUM,
                              &o, &error) == GLOO_ERR_NOT_FOUND);
    }
    o.algorithm = round % 2 ? "ring" : "recursive_multiplying_8";
    RANK_OK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32,
                                GLOO_SUM, &o, &error));
    o.algorithm = NULL;
  }
}

static void bad_arguments_are_refused_as_the_first_time(void **state) {
  (void)state;
  run(2, bad_after_good);
}

static void mismatch(rank_env *env) {
  float in[2] = {1, 2}, out[2];
  for (int round = 0; round < 3; round++) {
    RANK_OK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32,
                                GLOO_SUM, NULL, NULL));
    RANK_OK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32,
                                GLOO_MAX, NULL, NULL));
  }
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_op op = env->rank == 0 ? GLOO_SUM : GLOO_MAX;
  RANK_CHECK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32, op, &o,
                                 &error) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "sum") && strstr(error.message, "max"));
  RANK_CHECK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32, op, &o,
                                 &error) == GLOO_ERR_POISONED);
}

static void named_mismatch(rank_env *env) {
  float in[2] = {1, 2}, out[2];
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  static const char *const names[] = {"ring", "circulant"};
  char name[8 + 16];
  for (int round = 0; round < 6; round++) {
    /* The name's content decides, not its address. */
    (void)snprintf(name, sizeof name, "%s", names[round / 2 % 2]);
    o.algorithm = name;
    RANK_OK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32,
                                GLOO_SUM, &o, &error));
  }
  o.algorithm = names[env->rank];
  RANK_CHECK(env, gloo_allreduce(env->context, in, out, 2, GLOO_FLOAT32,
                                 GLOO_SUM, &o, &error) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "different algorithm") != NULL);
}

static void ranks_that_disagree_are_told(void **state) {
  (void)state;
  run(2, mismatch);
  run(2, named_mismatch);
}

static void late_rank(rank_env *env) {
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.timeout_ns = INT64_C(30000000000);
  for (int round = 0; round < 3; round++) {
    RANK_OK(env, gloo_barrier(env->context, &o, &error));
  }
  if (env->rank == 1) return; /* stays away */
  gloo_status status = gloo_barrier(env->context, &o, &error);
  RANK_CHECK(env, status == GLOO_ERR_TIMEOUT || status == GLOO_ERR_PEER);
  RANK_CHECK(env, error.status == status && error.rank == 1);
}

static void a_rank_that_stays_away_is_named(void **state) {
  (void)state;
  run(2, late_rank);
}

/* ---- threads ------------------------------------------------------------- */

enum { MESSAGES = 50 };

static void receive_some(void *user) {
  rank_env *env = user;
  for (int i = 0; i < MESSAGES; i++) {
    int32_t word = 0;
    RANK_OK(env, gloo_recv(env->context, &word, 1, GLOO_INT32, 1, NULL, NULL));
    RANK_CHECK(env, word == 17);
  }
}

/* Two threads make the same call, each on its own buffer. */
static void same_call_twice(rank_env *env) {
  int32_t word = 17;
  if (env->rank == 1) {
    for (int i = 0; i < 2 * MESSAGES; i++) {
      RANK_OK(env,
              gloo_send(env->context, &word, 1, GLOO_INT32, 0, NULL, NULL));
      if (i % 16 == 0) uv_sleep(1);
    }
  } else {
    rank_env copy = *env;
    uv_thread_t other;
    copy.failure[0] = '\0';
    RANK_CHECK(env, uv_thread_create(&other, receive_some, &copy) == 0);
    receive_some(env);
    uv_thread_join(&other);
    RANK_CHECK(env, copy.failure[0] == '\0');
  }
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void two_threads_may_make_the_same_call(void **state) {
  (void)state;
  run(2, same_call_twice);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_on_other_buffers_are_right),
      cmocka_unit_test(other_calls_are_not_taken_for_it),
      cmocka_unit_test(started_calls_do_not_meet_each_other),
      cmocka_unit_test(started_messages_keep_their_tags),
      cmocka_unit_test(ranks_that_start_other_calls_are_told),
      cmocka_unit_test(bad_arguments_are_refused_as_the_first_time),
      cmocka_unit_test(ranks_that_disagree_are_told),
      cmocka_unit_test(a_rank_that_stays_away_is_named),
      cmocka_unit_test(two_threads_may_make_the_same_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
