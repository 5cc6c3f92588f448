/* Heartbeats: a rank that sends them, or has no helper to do so, is not missed.
 * test_kill.c covers the detection of stopped ranks. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "ranks.h"

static const char *transport;

/* GLOO_HEARTBEAT, in seconds. A rank that waits that long for a processor would
 * be missed. */
#define HEARTBEAT "1"
static const struct timespec long_time = {2, 500000000}; /* more than twice */

static void set_heartbeat(const char *seconds) {
  if (seconds != NULL)
    setenv("GLOO_HEARTBEAT", seconds, 1);
  else
    unsetenv("GLOO_HEARTBEAT");
}

/* Rank 1 makes no calls for a long time. */
static void compute(rank_env *env) {
  if (env->rank == 1) nanosleep(&long_time, NULL);
  int32_t x = 1;
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_INT32,
                              GLOO_SUM, NULL, NULL));
  RANK_CHECK(env, x == env->size);
}

static void rank_that_computes_is_not_missed(void **state) {
  (void)state;
  set_heartbeat(HEARTBEAT);
  ranks_options o = {.transport = transport, .timeout_ns = -1};
  ranks_run(3, &o, compute);
}

/* A rank without a helper sends no heartbeats, and all ranks know that. */
static void rank_without_helper_is_not_missed(void **state) {
  (void)state;
  set_heartbeat(HEARTBEAT);
  ranks_options o = {.transport = transport, .timeout_ns = -1, .no_helper = 1};
  ranks_run(3, &o, compute);
}

/* Rank 0 queries the context just when its next heartbeat is due, so that its
 * own thread sends it instead of the helper. A heartbeat is due twice per
 * GLOO_HEARTBEAT, or four times on a busy machine. */
static void ask_at_turns(rank_env *env) {
  const uint64_t period_ns = 250000000, margin_ns = 2000000;
  uint64_t due_ns = (uv_hrtime() / period_ns + 2) * period_ns;
  for (int turn = 0; turn < 12 && env->rank == 0; turn++, due_ns += period_ns) {
    const struct timespec nap = {
        0, (long)((due_ns - uv_hrtime() - margin_ns) % 1000000000)};
    if (due_ns > uv_hrtime() + margin_ns) nanosleep(&nap, NULL);
    while (uv_hrtime() < due_ns) continue;
    RANK_OK(env, gloo_context_error(env->context, NULL));
  }
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void rank_that_asks_at_its_turns_is_not_missed(void **state) {
  (void)state;
  set_heartbeat(HEARTBEAT);
  ranks_options o = {.transport = transport, .timeout_ns = -1};
  ranks_run(3, &o, ask_at_turns);
}

/* ---- every phase of the heartbeat ---------------------------------------- */

enum { PHASES = 100, ASKS = 8 }; /* longer than GLOO_HEARTBEAT */

typedef enum ask_way { ASK_ERROR, ASK_TEST, ASK_WINDOW, ASK_WAYS } ask_way;

static gloo_status ask(rank_env *env, ask_way way, gloo_request *request,
                       gloo_window *window) {
  uint64_t before;
  int other = (env->rank + env->size - 1) % env->size;
  gloo_status status = gloo_context_error(env->context, NULL);
  if (way == ASK_TEST) status = gloo_request_test(request, NULL);
  if (way == ASK_WINDOW && status == GLOO_OK)
    status = gloo_window_fetch_add(window, other, 0, 1, &before, NULL);
  if (way == ASK_WINDOW && status == GLOO_OK)
    status = gloo_window_flush(window, other, NULL);
  return status == GLOO_IN_PROGRESS ? GLOO_OK : status;
}

/* Rank r makes no calls except one query per heartbeat period, at phase r of
 * 100, so that its own thread runs what is due at that moment. */
static void ask_at_phase(rank_env *env) {
  const uint64_t period_ns = 250000000, margin_ns = 1000000;
  ask_way way = *(const ask_way *)env->user;
  int next = (env->rank + 1) % env->size;
  int before = (env->rank + env->size - 1) % env->size;
  int64_t in = 0, out = env->rank, word = 0;
  gloo_request *request = NULL;
  gloo_window *window = NULL;
  if (way == ASK_TEST)
    RANK_OK(env, gloo_recv_start(env->context, &in, 1, GLOO_INT64, before, NULL,
                                 &request, NULL));
  if (way == ASK_WINDOW)
    RANK_OK(env, gloo_window_create(env->context, &word, sizeof word, NULL,
                                    &window, NULL));
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  uint64_t due_ns = (uv_hrtime() / period_ns + 1) * period_ns +
                    period_ns / PHASES * (uint64_t)env->rank;
  for (int i = 0; i < ASKS; i++, due_ns += period_ns) {
    while (uv_hrtime() + margin_ns < due_ns) {
      uint64_t rest_ns = due_ns - margin_ns - uv_hrtime();
      if (rest_ns > period_ns * 2) break; /* due already */
      const struct timespec nap = {(time_t)(rest_ns / 1000000000),
                                   (long)(rest_ns % 1000000000)};
      nanosleep(&nap, NULL);
    }
    while (uv_hrtime() < due_ns) continue;
    RANK_OK(env, ask(env, way, request, window));
  }
  if (way == ASK_TEST) {
    RANK_OK(env,
            gloo_send(env->context, &out, 1, GLOO_INT64, next, NULL, NULL));
    RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_NONE, NULL));
    RANK_CHECK(env, in == before);
    gloo_request_destroy(request);
  }
  if (window != NULL) RANK_OK(env, gloo_window_destroy(window, NULL));
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void rank_that_asks_at_any_phase_is_not_missed(void **state) {
  (void)state;
  set_heartbeat(HEARTBEAT);
  for (ask_way way = ASK_ERROR; way < ASK_WAYS; way++) {
    ranks_options o = {.transport = transport, .timeout_ns = -1, .user = &way};
    ranks_run(PHASES, &o, ask_at_phase);
  }
}

/* A long message delays the heartbeats behind it; received data counts as
 * one. */
static void send_much(rank_env *env) {
  size_t bytes = (size_t)256 << 20;
  uint8_t *memory = calloc(1, bytes);
  RANK_CHECK(env, memory != NULL);
  RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, memory, bytes,
                              GLOO_UINT8, 0, NULL, NULL));
  free(memory);
}

static void rank_that_sends_is_not_missed(void **state) {
  (void)state;
  set_heartbeat("0.1");
  ranks_options o = {.transport = transport, .timeout_ns = -1};
  ranks_run(2, &o, send_much);
}

/* A group outlives the context that it was split from. */
static void leave_and_stay(rank_env *env) {
  gloo_context *group;
  gloo_context *root;
  gloo_store *store;
  RANK_OK(env, gloo_store_prefix_create(env->store, "again", &store, NULL));
  RANK_OK(env, gloo_context_create(env->rank, env->size, store, env->device,
                                   NULL, &root, NULL));
  RANK_OK(env, gloo_context_split(root, 0, env->rank, NULL, &group, NULL));
  RANK_OK(env, gloo_barrier(group, NULL, NULL));
  if (env->rank != 1) gloo_context_destroy(root);
  nanosleep(&long_time, NULL);
  RANK_OK(env, gloo_barrier(group, NULL, NULL));
  gloo_context_destroy(group);
  if (env->rank == 1) gloo_context_destroy(root);
  gloo_store_destroy(store);
}

static void rank_that_has_left_is_not_missed(void **state) {
  (void)state;
  set_heartbeat(HEARTBEAT);
  ranks_options o = {.transport = transport, .timeout_ns = -1};
  ranks_run(3, &o, leave_and_stay);
}

/* Ranks 1 and 2 are not neighbours in the tree; they connect for their
 * heartbeats, although neither makes a call. */
static void meet_idly(rank_env *env) {
  const struct timespec moment = {0, 10000000};
  int next = (env->rank + 1) % env->size;
  gloo_answer answer;
  for (int i = 0; i < 3000; i++) {
    if (gloo_context_route(env->context, next, &answer, NULL) == GLOO_OK) break;
    nanosleep(&moment, NULL);
  }
  RANK_OK(env, gloo_context_route(env->context, next, &answer, NULL));
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void idle_ranks_connect(void **state) {
  (void)state;
  if (strcmp(transport, "inproc") == 0) skip(); /* no heartbeats */
  set_heartbeat("5");
  ranks_options o = {.transport = transport, .timeout_ns = -1};
  ranks_run(3, &o, meet_idly);
}

static void wrong_values_are_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"soon", "-1", "0.01",
                                      "4000", "5s", "nan"};
  gloo_error error;
  gloo_context *context;
  gloo_device *device;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = transport;
  assert_int_equal(gloo_device_create(&d, &device, &error), GLOO_OK);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    set_heartbeat(wrong[i]);
    assert_int_equal(
        gloo_context_create(0, 1, NULL, device, NULL, &context, &error),
        GLOO_ERR_INVALID);
    assert_non_null(strstr(error.message, wrong[i]));
  }
  set_heartbeat("0");
  assert_int_equal(
      gloo_context_create(0, 1, NULL, device, NULL, &context, &error), GLOO_OK);
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  set_heartbeat(NULL);
}

/* Arguments: the transport; "phases": the sweep of phases; "long": tests that
 * need an otherwise idle machine. */
int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "tcp";
  if (argc > 2 && strcmp(argv[2], "phases") == 0) {
    const struct CMUnitTest phases[] = {
        cmocka_unit_test(rank_that_asks_at_any_phase_is_not_missed),
    };
    return cmocka_run_group_tests(phases, NULL, NULL);
  }
  if (argc > 2 && strcmp(argv[2], "long") == 0) {
    const struct CMUnitTest slow[] = {
        cmocka_unit_test(rank_that_sends_is_not_missed),
    };
    return cmocka_run_group_tests(slow, NULL, NULL);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rank_that_computes_is_not_missed),
      cmocka_unit_test(rank_without_helper_is_not_missed),
      cmocka_unit_test(rank_that_asks_at_its_turns_is_not_missed),
      cmocka_unit_test(rank_that_has_left_is_not_missed),
      cmocka_unit_test(idle_ranks_connect),
      cmocka_unit_test(wrong_values_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
