/* Data of a completed call arrives although the caller makes no further call,
 * even if it is the first message of two ranks that have yet to connect. */
#include "away.h"

static const char *transport;
static int sender; /* rank that is away */

static void run(int size, rank_body body) {
  for (sender = 0; sender < size; sender++) {
    away a;
    away_begin(&a);
    ranks_options o = {.transport = transport, .user = &a};
    ranks_run(size, &o, body);
    away_end(&a);
  }
}

static void check_got(rank_env *env, const int32_t *got, int32_t value) {
  RANK_CHECK(env, *got == value);
  away_tell(env);
}

static void receive(rank_env *env, int32_t value) {
  int32_t got = 0;
  RANK_OK(env,
          gloo_recv(env->context, &got, 1, GLOO_INT32, sender, NULL, NULL));
  check_got(env, &got, value);
}

/* ---- messages ------------------------------------------------------------ */

static void send_to_all(rank_env *env) {
  int others = env->size - 1;
  int32_t value = 42;
  if (env->rank != sender) {
    receive(env, 42);
    return;
  }
  for (int i = 0; i < env->size; i++) {
    if (i == sender) continue;
    RANK_OK(env, gloo_send(env->context, &value, 1, GLOO_INT32, i, NULL, NULL));
  }
  away_until(env, others);
}

/* The receiver enters before the sender, or after the sender has left. */
static void receiver_comes_first(rank_env *env) {
  if (env->rank == sender) uv_sleep(20);
  send_to_all(env);
}

static void receiver_comes_last(rank_env *env) {
  if (env->rank != sender) uv_sleep(20);
  send_to_all(env);
}

static void start_and_look_no_more(rank_env *env) {
  int32_t value = 42;
  int other = 1 - sender;
  if (env->rank != sender) {
    receive(env, 42);
    return;
  }
  gloo_request *send;
  RANK_OK(env, gloo_send_start(env->context, &value, 1, GLOO_INT32, other, NULL,
                               &send, NULL));
  away_until(env, 1);
  RANK_OK(env, gloo_request_wait(send, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(send);
}

static void start_prepared(rank_env *env) {
  enum { TIMES = 5 };
  int32_t value = 42;
  for (int i = 0; i < TIMES && env->rank != sender; i++) receive(env, 42);
  if (env->rank != sender) return;
  gloo_request *send;
  RANK_OK(env, gloo_send_init(env->context, &value, 1, GLOO_INT32, 1 - sender,
                              NULL, &send, NULL));
  for (int i = 0; i < TIMES; i++) {
    RANK_OK(env, gloo_request_start(send, NULL));
    RANK_OK(env, gloo_request_wait(send, GLOO_TIMEOUT_DEFAULT, NULL));
  }
  away_until(env, TIMES);
  gloo_request_destroy(send);
}

/* ---- collectives --------------------------------------------------------- */

static void broadcast(rank_env *env) {
  int32_t data = env->rank == sender ? 42 : 0;
  RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, &data, 1, GLOO_INT32,
                              sender, NULL, NULL));
  if (env->rank == sender) {
    away_until(env, env->size - 1);
  } else {
    check_got(env, &data, 42);
  }
}

static void scatter(rank_env *env) {
  int32_t in[4] = {40, 41, 42, 43}, out = 0;
  RANK_OK(env, gloo_scatter(env->context, in, &out, 1, GLOO_INT32, sender, NULL,
                            NULL));
  if (env->rank == sender) {
    away_until(env, env->size - 1);
  } else {
    check_got(env, &out, 40 + env->rank);
  }
}

/* Every rank makes no further calls after its part, in no fixed order. */
static void allreduce(rank_env *env) {
  int32_t in = 1, out = 0;
  RANK_OK(env, gloo_allreduce(env->context, &in, &out, 1, GLOO_INT32, GLOO_SUM,
                              NULL, NULL));
  check_got(env, &out, env->size);
  away_until(env, env->size);
}

static void in_a_group(rank_env *env) {
  gloo_context *group;
  gloo_error error;
  RANK_OK(env,
          gloo_context_split(env->context, 0, env->rank, NULL, &group, &error));
  int32_t data = env->rank == sender ? 42 : 0;
  RANK_OK(env, gloo_broadcast(group, GLOO_IN_PLACE, &data, 1, GLOO_INT32,
                              sender, NULL, NULL));
  if (env->rank == sender) {
    away_until(env, env->size - 1);
  } else {
    check_got(env, &data, 42);
  }
  gloo_context_destroy(group);
}

/* ---- tests --------------------------------------------------------------- */

static void first_messages_arrive(void **state) {
  (void)state;
  run(2, receiver_comes_first);
  run(2, receiver_comes_last);
  run(3, send_to_all);
}
static void started_message_arrives(void **state) {
  (void)state;
  run(2, start_and_look_no_more);
}
static void prepared_messages_arrive(void **state) {
  (void)state;
  run(2, start_prepared);
}
static void what_a_root_sends_arrives(void **state) {
  (void)state;
  run(2, broadcast);
  run(4, broadcast);
  run(4, scatter);
}
static void last_messages_of_a_collective_arrive(void **state) {
  (void)state;
  for (int size = 2; size <= 5; size++) {
    away a;
    away_begin(&a);
    ranks_options o = {.transport = transport, .user = &a};
    ranks_run(size, &o, allreduce);
    away_end(&a);
  }
}
static void what_is_sent_in_a_group_arrives(void **state) {
  (void)state;
  run(3, in_a_group);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_messages_arrive),
      cmocka_unit_test(started_message_arrives),
      cmocka_unit_test(prepared_messages_arrive),
      cmocka_unit_test(what_a_root_sends_arrives),
      cmocka_unit_test(last_messages_of_a_collective_arrive),
      cmocka_unit_test(what_is_sent_in_a_group_arrives),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
