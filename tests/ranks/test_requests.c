/* Requests: waiting for any or all of several, callbacks and descriptors on
 * completion, releasing, joining; and aborting a context. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ranks.h"

#define MS INT64_C(1000000)

static const char *transport;

static void run_with(int size, int no_helper, rank_body body) {
  ranks_options o = {.transport = transport, .no_helper = no_helper};
  ranks_run(size, &o, body);
}

static void run_on(int size, rank_body body) {
  run_with(size, 0, body);
}

static gloo_options tagged(uint32_t tag) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = tag;
  return o;
}

static void start_receive(rank_env *env, int32_t *to, int from, uint32_t tag,
                          gloo_request **request) {
  gloo_options o = tagged(tag);
  RANK_OK(env, gloo_recv_start(env->context, to, 1, GLOO_INT32, from, &o,
                               request, NULL));
}

static void send_word(rank_env *env, int32_t word, int to, uint32_t tag) {
  gloo_options o = tagged(tag);
  RANK_OK(env, gloo_send(env->context, &word, 1, GLOO_INT32, to, &o, NULL));
}

/* Waits until both ranks have arrived. */
static void meet(rank_env *env) {
  gloo_options o = tagged(1000);
  RANK_OK(env, gloo_barrier(env->context, &o, NULL));
}

/* ---- any, all ------------------------------------------------------------ */

enum { MESSAGES = 5 };

static void receive_any(rank_env *env) {
  static const int order[MESSAGES] = {3, 0, 4, 1, 2};
  if (env->rank == 1) {
    for (int i = 0; i < MESSAGES; i++) {
      meet(env);
      send_word(env, 10 + order[i], 0, (uint32_t)order[i]);
    }
    meet(env);
    return;
  }
  int32_t words[MESSAGES] = {0};
  gloo_request *requests[MESSAGES + 1] = {NULL};
  for (int i = 0; i < MESSAGES; i++)
    start_receive(env, &words[i], 1, (uint32_t)i, &requests[i]);
  size_t index = 7;
  RANK_CHECK(env, gloo_request_test_any(requests, MESSAGES + 1, &index, NULL) ==
                      GLOO_IN_PROGRESS);
  RANK_CHECK(env, index == GLOO_NO_INDEX);
  RANK_CHECK(env, gloo_request_wait_any(requests, MESSAGES + 1, 5 * MS, &index,
                                        NULL) == GLOO_IN_PROGRESS);
  RANK_CHECK(env, index == GLOO_NO_INDEX);
  for (int i = 0; i < MESSAGES; i++) {
    meet(env);
    RANK_OK(env, gloo_request_wait_any(requests, MESSAGES + 1,
                                       GLOO_TIMEOUT_DEFAULT, &index, NULL));
    RANK_CHECK(env, index == (size_t)order[i]);
    RANK_CHECK(env, index < MESSAGES && words[index] == 10 + order[i]);
    if (index >= MESSAGES) break;
    gloo_request_destroy(requests[index]);
    requests[index] = NULL;
  }
  RANK_OK(env,
          gloo_request_wait_any(requests, MESSAGES + 1, 5 * MS, &index, NULL));
  RANK_CHECK(env, index == GLOO_NO_INDEX);
  meet(env);
}

static void receive_all(rank_env *env) {
  int32_t words[MESSAGES] = {0};
  gloo_request *requests[MESSAGES + 1] = {NULL};
  int other = 1 - env->rank;
  for (int i = 0; i < MESSAGES; i++)
    start_receive(env, &words[i], other, (uint32_t)i, &requests[i]);
  RANK_CHECK(env, gloo_request_wait_all(requests, MESSAGES + 1, 2 * MS, NULL) ==
                      GLOO_IN_PROGRESS);
  RANK_CHECK(env,
             gloo_request_wait(requests[0], 2 * MS, NULL) == GLOO_IN_PROGRESS);
  RANK_CHECK(env, gloo_request_wait(requests[0], GLOO_TIMEOUT_NOW, NULL) ==
                      GLOO_IN_PROGRESS);
  meet(env);
  for (int i = 0; i < MESSAGES; i++) send_word(env, i, other, (uint32_t)i);
  RANK_OK(env, gloo_request_wait_all(requests, MESSAGES + 1, GLOO_TIMEOUT_NONE,
                                     NULL));
  RANK_OK(env, gloo_request_wait_all(requests, MESSAGES + 1, GLOO_TIMEOUT_NOW,
                                     NULL));
  for (int i = 0; i < MESSAGES; i++) {
    RANK_CHECK(env, words[i] == i);
    RANK_OK(env, gloo_request_wait(requests[i], GLOO_TIMEOUT_NOW, NULL));
    gloo_request_destroy(requests[i]);
  }
}

static void refusals(rank_env *env) {
  gloo_error error;
  int32_t word;
  gloo_request *busy;
  start_receive(env, &word, 0, 1, &busy);
  RANK_CHECK(env, gloo_request_start(busy, &error) == GLOO_ERR_BUSY);
  RANK_CHECK(env, strstr(error.message, "still in progress") != NULL);
  gloo_request_destroy(busy);
  size_t index;
  gloo_request *none = NULL;
  rank_expect_invalid(env, gloo_request_wait(NULL, 0, &error), &error, "NULL");
  rank_expect_invalid(env, gloo_request_test(NULL, &error), &error, "NULL");
  rank_expect_invalid(env, gloo_request_start(NULL, &error), &error, "NULL");
  rank_expect_invalid(env, gloo_request_cancel(NULL, &error), &error, "NULL");
  rank_expect_invalid(env, gloo_request_wait_any(NULL, 2, 0, &index, &error),
                      &error, "list of 2 requests");
  rank_expect_invalid(env, gloo_request_wait_any(&none, 1, 0, NULL, &error),
                      &error, "index");
  rank_expect_invalid(env, gloo_request_wait_all(NULL, 1, 0, &error), &error,
                      "list of 1 requests");
  rank_expect_invalid(env, gloo_requests_join(&none, 1, &none, &error), &error,
                      "request 0 is NULL");
  rank_expect_invalid(env, gloo_requests_join(&none, 0, &none, &error), &error,
                      "list of requests is empty");
  rank_expect_invalid(env, gloo_request_on_done(NULL, NULL, NULL, &error),
                      &error, "NULL");
  rank_expect_invalid(env, gloo_device_get_fd(NULL, NULL, &error), &error,
                      "device");
  rank_expect_invalid(env, gloo_request_error(NULL, &error), &error,
                      "request is NULL");
  rank_expect_invalid(env, gloo_context_error(NULL, &error), &error,
                      "context is NULL");
  RANK_CHECK(env, gloo_request_error(NULL, NULL) == GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_error(NULL, NULL) == GLOO_ERR_INVALID);
  RANK_OK(env, gloo_context_error(env->context, NULL));
  rank_expect_invalid(env, gloo_context_abort(NULL, "", &error), &error,
                      "NULL");
  rank_expect_invalid(env, gloo_context_set_timeout(NULL, 1, &error), &error,
                      "NULL");
  RANK_CHECK(env, gloo_context_device(NULL) == NULL);
  RANK_CHECK(env, gloo_context_hosts(NULL) == -1);
  RANK_CHECK(env, gloo_context_host(env->context, 99) == -1);
  RANK_CHECK(env, gloo_context_host(env->context, 0) == 0);
  gloo_request_release(NULL);
  gloo_device_clear_fd(NULL);
}

/* ---- several devices ----------------------------------------------------- */

enum { CONTEXTS = 3 };

/* Opens more contexts of the same ranks, each with its own device. */
static void open_contexts(rank_env *env, int no_helper, gloo_device **devices,
                          gloo_context **contexts) {
  for (int i = 0; i < CONTEXTS; i++) {
    char prefix[24];
    snprintf(prefix, sizeof prefix, "more%d/", i);
    gloo_store *store;
    gloo_device_options o = GLOO_DEVICE_OPTIONS_INIT;
    o.transport = transport;
    o.no_helper = no_helper;
    RANK_OK(env, gloo_device_create(&o, &devices[i], NULL));
    RANK_OK(env, gloo_store_prefix_create(env->store, prefix, &store, NULL));
    RANK_OK(env, gloo_context_create(env->rank, env->size, store, devices[i],
                                     NULL, &contexts[i], NULL));
    gloo_store_destroy(store);
  }
}

static void across_devices(rank_env *env, int no_helper) {
  gloo_device *devices[CONTEXTS];
  gloo_context *contexts[CONTEXTS];
  open_contexts(env, no_helper, devices, contexts);
  int32_t words[CONTEXTS] = {0}, word = 5;
  gloo_request *requests[CONTEXTS];
  size_t index;
  int other = 1 - env->rank;
  for (int round = 0; round < 30; round++) {
    for (int i = 0; i < CONTEXTS; i++) {
      RANK_OK(env, gloo_recv_start(contexts[i], &words[i], 1, GLOO_INT32, other,
                                   NULL, &requests[i], NULL));
    }
    if (round == 0) {
      RANK_CHECK(env, gloo_request_wait_any(requests, CONTEXTS, 5 * MS, &index,
                                            NULL) == GLOO_IN_PROGRESS);
      RANK_CHECK(env, gloo_request_wait_all(requests, CONTEXTS, MS, NULL) ==
                          GLOO_IN_PROGRESS);
    }
    for (int i = 0; i < CONTEXTS; i++) {
      int which = (round + i) % CONTEXTS;
      meet(env);
      if (round % 3 == 1 && env->rank == 0) uv_sleep(2);
      RANK_OK(env, gloo_send(contexts[which], &word, 1, GLOO_INT32, other, NULL,
                             NULL));
      RANK_OK(env, gloo_request_wait_any(requests, CONTEXTS,
                                         GLOO_TIMEOUT_DEFAULT, &index, NULL));
      RANK_CHECK(env, index == (size_t)which);
      gloo_request_destroy(requests[which]);
      requests[which] = NULL;
    }
  }
  for (int i = 0; i < CONTEXTS; i++) {
    gloo_context_destroy(contexts[i]);
    gloo_device_destroy(devices[i]);
  }
}

static void across_devices_helped(rank_env *env) {
  across_devices(env, 0);
}
static void across_devices_alone(rank_env *env) {
  across_devices(env, 1);
}

/* ---- callbacks ----------------------------------------------------------- */

typedef struct told {
  atomic_int times;
  atomic_int failures;
} told;

static void count_end(void *user, gloo_request *request, gloo_status status) {
  told *t = user;
  (void)request;
  if (status != GLOO_OK) atomic_fetch_add(&t->failures, 1);
  atomic_fetch_add(&t->times, 1);
}

/* Waits for a count of callbacks. Without a helper, calls must make
 * progress. */
static void await_count(rank_env *env, told *t, int times) {
  for (int i = 0; atomic_load(&t->times) < times && i < 20000; i++) {
    gloo_error error;
    (void)gloo_context_error(env->context, &error);
    if (i > 100) uv_sleep(1);
  }
  RANK_CHECK(env, atomic_load(&t->times) == times);
}

static void told_once(rank_env *env) {
  enum { ROUNDS = 40 };
  told t;
  atomic_init(&t.times, 0);
  atomic_init(&t.failures, 0);
  int32_t word = 1, sum = 0;
  gloo_request *request;
  RANK_OK(env, gloo_allreduce_init(env->context, &word, &sum, 1, GLOO_INT32,
                                   GLOO_SUM, NULL, &request, NULL));
  RANK_OK(env, gloo_request_on_done(request, count_end, &t, NULL));
  RANK_CHECK(env, atomic_load(&t.times) == 0);
  for (int round = 1; round <= ROUNDS; round++) {
    RANK_OK(env, gloo_request_start(request, NULL));
    if (round % 2 == 0) {
      await_count(env, &t, round);
      RANK_OK(env, gloo_request_test(request, NULL));
    } else {
      RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
    }
    RANK_CHECK(env, sum == env->size);
  }
  await_count(env, &t, ROUNDS);
  /* The completion of that run has already been reported. */
  RANK_OK(env, gloo_request_on_done(request, count_end, &t, NULL));
  RANK_CHECK(env, atomic_load(&t.times) == ROUNDS);
  RANK_OK(env, gloo_request_on_done(request, NULL, NULL, NULL));
  RANK_OK(env, gloo_request_start(request, NULL));
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
  RANK_CHECK(env, atomic_load(&t.times) == ROUNDS);
  /* The completion of this run has not been reported yet. */
  RANK_OK(env, gloo_request_on_done(request, count_end, &t, NULL));
  RANK_CHECK(env, atomic_load(&t.times) == ROUNDS + 1);
  gloo_request_destroy(request);
  RANK_CHECK(env, atomic_load(&t.times) == ROUNDS + 1);
  RANK_CHECK(env, atomic_load(&t.failures) == 0);
}

/* The callback of a cancelled request is called too, before the request is
 * freed. */
static void told_of_the_end(rank_env *env) {
  told t;
  atomic_init(&t.times, 0);
  atomic_init(&t.failures, 0);
  int32_t word;
  gloo_request *request;
  start_receive(env, &word, 1 - env->rank, 3, &request);
  RANK_OK(env, gloo_request_on_done(request, count_end, &t, NULL));
  gloo_request_destroy(request);
  RANK_CHECK(env, atomic_load(&t.times) == 1);
  RANK_CHECK(env, atomic_load(&t.failures) == 1);
  meet(env);
}

/* Each callback starts the next operation, and frees the current request. */
typedef struct chain {
  rank_env *env;
  int32_t left, sum;
  told t;
} chain;

static void next_of_chain(void *user, gloo_request *request,
                          gloo_status status) {
  chain *c = user;
  if (status != GLOO_OK) atomic_fetch_add(&c->t.failures, 1);
  if (request != NULL) gloo_request_destroy(request);
  if (c->left-- == 0) {
    atomic_fetch_add(&c->t.times, 1);
    return;
  }
  gloo_request *next;
  gloo_options o = tagged(4);
  if (gloo_allreduce_start(c->env->context, GLOO_IN_PLACE, &c->sum, 1,
                           GLOO_INT32, GLOO_MAX, &o, &next, NULL) != GLOO_OK ||
      gloo_request_on_done(next, next_of_chain, c, NULL) != GLOO_OK)
    atomic_fetch_add(&c->t.failures, 1);
}

static void functions_start_operations(rank_env *env) {
  chain c = {.env = env, .left = 100, .sum = env->rank};
  atomic_init(&c.t.times, 0);
  atomic_init(&c.t.failures, 0);
  next_of_chain(&c, NULL, GLOO_OK);
  await_count(env, &c.t, 1);
  RANK_CHECK(env, atomic_load(&c.t.failures) == 0);
  RANK_CHECK(env, c.sum == env->size - 1);
}

/* ---- releasing ----------------------------------------------------------- */

static void let_go(rank_env *env) {
  enum { ROUNDS = 20 };
  told t;
  atomic_init(&t.times, 0);
  atomic_init(&t.failures, 0);
  int32_t words[ROUNDS] = {0};
  int other = 1 - env->rank;
  for (int i = 0; i < ROUNDS; i++) {
    gloo_request *request;
    start_receive(env, &words[i], other, 5, &request);
    RANK_OK(env, gloo_request_on_done(request, count_end, &t, NULL));
    RANK_CHECK(env, atomic_load(&t.times) == 0);
    gloo_request_release(request);
  }
  meet(env);
  for (int i = 0; i < ROUNDS; i++) send_word(env, i, other, 5);
  await_count(env, &t, ROUNDS);
  RANK_CHECK(env, atomic_load(&t.failures) == 0);
  for (int i = 0; i < ROUNDS; i++) RANK_CHECK(env, words[i] == i);
  /* A request without a callback, and a completed one. */
  gloo_request *request;
  int32_t word = 0, more = 0;
  start_receive(env, &word, other, 6, &request);
  gloo_request_release(request);
  start_receive(env, &more, other, 7, &request);
  meet(env);
  send_word(env, 8, other, 6);
  send_word(env, 9, other, 7);
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_release(request);
  RANK_CHECK(env, more == 9);
  /* A request that ends with its context. */
  start_receive(env, &word, other, 6, &request);
  gloo_request_release(request);
  meet(env);
}

/* ---- joining ------------------------------------------------------------- */

static void joined(rank_env *env) {
  enum { MOST = 4 };
  int32_t in[MOST], out[MOST] = {0}, own = 100 + env->rank;
  gloo_request *requests[2 * MOST], *all;
  size_t n = 0;
  for (int peer = 0; peer < env->size; peer++) {
    in[peer] = 10 * env->rank + peer;
    RANK_OK(env, gloo_send_init(env->context, &in[peer], 1, GLOO_INT32, peer,
                                NULL, &requests[n++], NULL));
  }
  for (int peer = 0; peer < env->size; peer++) {
    RANK_OK(env, gloo_recv_init(env->context, &out[peer], 1, GLOO_INT32, peer,
                                NULL, &requests[n++], NULL));
  }
  gloo_error error;
  gloo_request *twice[2] = {requests[0], requests[0]};
  rank_expect_invalid(env, gloo_requests_join(twice, 2, &all, &error), &error,
                      "twice");
  RANK_OK(env, gloo_requests_join(requests, n, &all, NULL));
  for (int round = 0; round < 20; round++) {
    memset(out, 0, sizeof out);
    RANK_OK(env, gloo_request_start(all, NULL));
    RANK_OK(env, gloo_request_wait(all, GLOO_TIMEOUT_DEFAULT, NULL));
    for (int peer = 0; peer < env->size; peer++)
      RANK_CHECK(env, out[peer] == 10 * peer + env->rank);
    RANK_CHECK(env, gloo_request_source(all) == 0);
  }
  gloo_request_destroy(all);
  /* The requests are in progress when they are joined, and the joined one has a
   * callback. */
  told t;
  atomic_init(&t.times, 0);
  atomic_init(&t.failures, 0);
  int next = (env->rank + 1) % env->size;
  int previous = (env->rank + env->size - 1) % env->size;
  meet(env);
  start_receive(env, &out[0], previous, 9, &requests[0]);
  gloo_options o = tagged(9);
  RANK_OK(env, gloo_send_start(env->context, &own, 1, GLOO_INT32, next, &o,
                               &requests[1], NULL));
  RANK_OK(env, gloo_requests_join(requests, 2, &all, NULL));
  RANK_OK(env, gloo_request_on_done(all, count_end, &t, NULL));
  await_count(env, &t, 1);
  RANK_OK(env, gloo_request_test(all, NULL));
  RANK_CHECK(env, out[0] == 100 + previous);
  RANK_CHECK(env, gloo_request_source(all) == previous);
  gloo_request_release(all);
}

/* ---- persistent requests by their making --------------------------------- */

static void by_making(rank_env *env) {
  enum { REQUESTS = 4, ROUNDS = 6 };
  int32_t in[REQUESTS], out[REQUESTS];
  gloo_request *requests[REQUESTS];
  gloo_options o = GLOO_OPTIONS_INIT;
  o.matched_by_init = 1;
  for (int i = 0; i < REQUESTS; i++) {
    RANK_OK(env,
            gloo_allreduce_init(env->context, &in[i], &out[i], 1, GLOO_INT32,
                                GLOO_SUM, &o, &requests[i], NULL));
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < REQUESTS; i++) in[i] = 100 * i + round;
    /* Each rank starts them in another order. */
    for (int i = 0; i < REQUESTS; i++) {
      int which = (i * (env->rank % 2 ? 3 : 1) + env->rank) % REQUESTS;
      RANK_OK(env, gloo_request_start(requests[which], NULL));
    }
    if (round % 2) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
    RANK_OK(env, gloo_request_wait_all(requests, REQUESTS, GLOO_TIMEOUT_DEFAULT,
                                       NULL));
    for (int i = 0; i < REQUESTS; i++)
      RANK_CHECK(env, out[i] == env->size * (100 * i + round));
  }
  for (int i = 0; i < REQUESTS; i++) gloo_request_destroy(requests[i]);
  gloo_error error;
  RANK_CHECK(env,
             gloo_barrier(env->context, &o, &error) == GLOO_ERR_UNSUPPORTED);
  RANK_CHECK(env, strstr(error.message, "_init") != NULL);
  RANK_CHECK(env, gloo_barrier_start(env->context, &o, &requests[0], &error) ==
                      GLOO_ERR_UNSUPPORTED);
  RANK_CHECK(env, gloo_recv_init(env->context, in, 1, GLOO_INT32, 0, &o,
                                 &requests[0], &error) == GLOO_ERR_UNSUPPORTED);
}

/* ---- queries ------------------------------------------------------------- */

static void questions(rank_env *env) {
  gloo_answer answer;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_context *c = env->context;
  int other = 1 - env->rank;
  RANK_OK(env, gloo_barrier(c, NULL, NULL));
  RANK_OK(env, gloo_context_route(c, env->rank, &answer, NULL));
  RANK_CHECK(env, strcmp(answer.text, "its own memory") == 0);
  RANK_OK(env, gloo_context_route(c, other, &answer, NULL));
  RANK_CHECK(env, answer.text[0] != 0);
  RANK_CHECK(env, gloo_context_route(c, 2, &answer, &error) == GLOO_ERR_RANK);
  RANK_OK(env, gloo_context_choice(c, "allreduce", 1000, GLOO_FLOAT32, GLOO_SUM,
                                   0, NULL, &answer, NULL));
  bool known = false;
  const char *name;
  for (size_t i = 0; (name = gloo_algorithm_name("allreduce", i)); i++)
    known = known || strcmp(name, answer.text) == 0;
  RANK_CHECK(env, known && strstr(answer.why, "costs") != NULL);
  o.algorithm = "ring";
  RANK_OK(env, gloo_context_choice(c, "allreduce", 1000, GLOO_FLOAT32, GLOO_SUM,
                                   0, &o, &answer, NULL));
  RANK_CHECK(env, strcmp(answer.text, "ring") == 0);
  RANK_CHECK(env, strcmp(answer.why, "named in the call") == 0);
  o.algorithm = "rung";
  RANK_CHECK(
      env, gloo_context_choice(c, "allreduce", 1000, GLOO_FLOAT32, GLOO_SUM, 0,
                               &o, &answer, &error) == GLOO_ERR_NOT_FOUND);
  RANK_CHECK(
      env, gloo_context_choice(c, "rotate", 1, GLOO_FLOAT32, GLOO_SUM, 0, NULL,
                               &answer, &error) == GLOO_ERR_NOT_FOUND);
  RANK_CHECK(
      env, gloo_context_choice(c, "allgatherv", 1, GLOO_FLOAT32, GLOO_SUM, 0,
                               NULL, &answer, &error) == GLOO_ERR_UNSUPPORTED);
  RANK_CHECK(env,
             gloo_context_choice(c, "broadcast", 1, GLOO_FLOAT32, GLOO_SUM, 9,
                                 NULL, &answer, &error) == GLOO_ERR_ROOT);
  RANK_CHECK(env, gloo_dtype_from_name("bfloat16") == GLOO_BFLOAT16);
  RANK_CHECK(env, gloo_dtype_from_name("float31") == GLOO_DTYPE_COUNT);
  RANK_CHECK(env, gloo_op_from_name("max") == GLOO_MAX);
  RANK_CHECK(env, gloo_op_from_name(NULL) == GLOO_OP_COUNT);
  RANK_CHECK(env, strcmp(gloo_device_transport(env->device), transport) == 0);
  RANK_CHECK(env, gloo_device_waiting(env->device) != NULL);
  RANK_CHECK(env, gloo_cores() >= 1);
  RANK_CHECK(env, gloo_collective_name(1000) == NULL);
  RANK_CHECK(env, gloo_algorithm_name("rotate", 0) == NULL);
  RANK_CHECK(env,
             gloo_transport_usable("pigeon", &error) == GLOO_ERR_NOT_FOUND);
  bool built = false;
  for (size_t i = 0; (name = gloo_transport_name(i)); i++)
    built = built || strcmp(name, transport) == 0;
  RANK_CHECK(env, built);
  RANK_OK(env, gloo_transport_usable(transport, NULL));
  RANK_CHECK(env, gloo_version_number() == GLOO_VERSION_NUMBER);
  RANK_OK(env, gloo_barrier(c, NULL, NULL));
}

/* ---- the descriptor ------------------------------------------------------ */

static bool readable(int fd, int timeout_ms) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, timeout_ms) == 1 && (p.revents & POLLIN);
}

static void descriptor(rank_env *env) {
  int fd = -1, again = -1;
  gloo_device *device = gloo_context_device(env->context);
  RANK_CHECK(env, device == env->device);
  int32_t early;
  gloo_request *before;
  int other = 1 - env->rank;
  start_receive(env, &early, other, 1, &before);
  RANK_OK(env, gloo_device_get_fd(device, &fd, NULL));
  RANK_OK(env, gloo_device_get_fd(device, &again, NULL));
  RANK_CHECK(env, fd >= 0 && fd == again);
  RANK_CHECK(env, !readable(fd, 0));
  meet(env);
  gloo_device_clear_fd(device);
  send_word(env, 3, other, 1);
  while (gloo_request_test(before, NULL) == GLOO_IN_PROGRESS) {
    RANK_CHECK(env, readable(fd, 60000));
    gloo_device_clear_fd(device);
  }
  RANK_CHECK(env, early == 3);
  gloo_request_destroy(before);
  for (int round = 0; round < 100; round++) {
    int32_t sum = env->rank;
    gloo_request *request;
    RANK_OK(env,
            gloo_allreduce_start(env->context, GLOO_IN_PLACE, &sum, 1,
                                 GLOO_INT32, GLOO_SUM, NULL, &request, NULL));
    for (;;) {
      RANK_CHECK(env, readable(fd, 60000));
      gloo_device_clear_fd(device);
      if (gloo_request_test(request, NULL) != GLOO_IN_PROGRESS) break;
    }
    RANK_OK(env, gloo_request_test(request, NULL));
    RANK_CHECK(env, sum == 1);
    gloo_request_destroy(request);
  }
}

static void no_descriptor(rank_env *env) {
  int fd;
  gloo_error error;
  RANK_CHECK(env, gloo_device_get_fd(env->device, &fd, &error) ==
                      GLOO_ERR_UNSUPPORTED);
  RANK_CHECK(env, strstr(error.message, "no_helper") != NULL);
}

/* ---- aborting ------------------------------------------------------------ */

static void give_up_soon(void *context) {
  uv_sleep(20);
  (void)gloo_context_abort(context, "the disk is full", NULL);
}

static void abandoned(rank_env *env) {
  gloo_error error;
  uv_thread_t thread;
  bool gives_up = env->rank == env->size - 1;
  meet(env);
  if (gives_up)
    RANK_CHECK(env, uv_thread_create(&thread, give_up_soon, env->context) == 0);
  int32_t word = 0;
  int from = (env->rank + 1) % env->size;
  gloo_options o = tagged(11);
  gloo_status status =
      gloo_recv(env->context, &word, 1, GLOO_INT32, from, &o, &error);
  RANK_CHECK(env, status == GLOO_ERR_ABORTED);
  RANK_CHECK(env, strstr(error.message, "the disk is full") != NULL);
  RANK_CHECK(env, error.rank == env->size - 1);
  RANK_CHECK(env, error.root_rank == env->size - 1);
  RANK_CHECK(env, error.struct_size == sizeof error);
  RANK_CHECK(env,
             gloo_barrier(env->context, NULL, &error) == GLOO_ERR_POISONED);
  RANK_CHECK(env, error.cause == GLOO_ERR_ABORTED);
  if (!gives_up) return;
  uv_thread_join(&thread);
  RANK_OK(env, gloo_context_abort(env->context, NULL, NULL));
}

/* Context that a signal handler aborts while its rank computes; all others
 * wait, without deadlines. */
static gloo_context *terminated;

static void give_up_at_once(int number) {
  (void)number;
  gloo_context_abort_async(terminated, "terminated");
  gloo_context_abort_async(terminated, "too late");
  gloo_context_abort_async(NULL, NULL);
}

static void abandoned_by_signal(rank_env *env) {
  gloo_error error;
  if (env->rank == 1) {
    terminated = env->context;
    signal(SIGTERM, give_up_at_once);
    raise(SIGTERM);
    while (gloo_context_error(env->context, &error) == GLOO_OK) uv_sleep(1);
    signal(SIGTERM, SIG_DFL);
  } else {
    int32_t word = 0;
    gloo_options o = tagged(12);
    o.timeout_ns = -1;
    RANK_CHECK(env, gloo_recv(env->context, &word, 1, GLOO_INT32, 1, &o,
                              &error) != GLOO_OK);
  }
  RANK_CHECK(env, error.cause == GLOO_ERR_ABORTED);
  RANK_CHECK(env, strstr(error.message, "terminated") != NULL);
  RANK_CHECK(env, error.rank == 1);
}

static void late(rank_env *env) {
  if (env->rank == 1) {
    gloo_error error;
    while (gloo_context_error(env->context, &error) == GLOO_OK) uv_sleep(1);
    RANK_CHECK(env, error.status == GLOO_ERR_TIMEOUT);
    return;
  }
  int32_t word;
  gloo_error error;
  RANK_OK(env, gloo_context_set_timeout(env->context, 30 * MS, NULL));
  gloo_status status =
      gloo_recv(env->context, &word, 1, GLOO_INT32, 1, NULL, &error);
  RANK_CHECK(env, status == GLOO_ERR_TIMEOUT);
  RANK_CHECK(env, strstr(error.message, "after 0.03 s") != NULL);
}

/* ---- groups -------------------------------------------------------------- */

/* A destroyed group still completes the messages in progress. */
static void group_lingers(rank_env *env) {
  gloo_context *group;
  RANK_OK(env,
          gloo_context_split(env->context, 0, -env->rank, NULL, &group, NULL));
  int32_t words[2] = {0, 0}, word = 7;
  gloo_request *requests[2];
  int me = gloo_context_rank(group);
  RANK_CHECK(env, me == 1 - env->rank);
  if (env->rank == 0) {
    for (int i = 0; i < 2; i++)
      RANK_OK(env, gloo_recv_start(group, &words[i], 1, GLOO_INT32, 1 - me,
                                   NULL, &requests[i], NULL));
    gloo_context_destroy(group);
    RANK_CHECK(env, gloo_request_test(requests[0], NULL) == GLOO_IN_PROGRESS);
    gloo_request_release(requests[1]);
  }
  meet(env);
  if (env->rank == 1) {
    for (int i = 0; i < 2; i++)
      RANK_OK(env, gloo_send(group, &word, 1, GLOO_INT32, 1 - me, NULL, NULL));
    gloo_context_destroy(group);
  } else {
    RANK_OK(env, gloo_request_wait(requests[0], GLOO_TIMEOUT_DEFAULT, NULL));
    RANK_CHECK(env, words[0] == 7);
    gloo_request_destroy(requests[0]);
  }
  meet(env);
}

/* Several groups at once are made during other operations. */
static void groups_started(rank_env *env) {
  enum { GROUPS = 4 };
  gloo_context *groups[GROUPS + 1] = {NULL};
  gloo_request *requests[GROUPS + 1];
  told t;
  atomic_init(&t.times, 0);
  atomic_init(&t.failures, 0);
  int n = env->size, rank = env->rank;
  for (int i = 0; i < GROUPS; i++) {
    gloo_group_options o = GLOO_GROUP_OPTIONS_INIT;
    o.tag = (uint32_t)i;
    /* Each group leaves out one rank, if there are several. */
    int color = (rank + i) % n < n - 1 || n == 1 ? i : GLOO_NO_COLOR;
    RANK_OK(env, gloo_context_split_start(env->context, color, -rank, &o,
                                          &groups[i], &requests[i], NULL));
    RANK_OK(env, gloo_request_on_done(requests[i], count_end, &t, NULL));
  }
  int all[4] = {3, 2, 1, 0};
  gloo_group_options o = GLOO_GROUP_OPTIONS_INIT;
  o.tag = 99;
  RANK_OK(env,
          gloo_context_subset_start(env->context, all + 4 - n, (size_t)n, &o,
                                    &groups[GROUPS], &requests[GROUPS], NULL));
  int32_t word = 1;
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &word, 1, GLOO_INT32,
                              GLOO_SUM, NULL, NULL));
  RANK_CHECK(env, word == n);
  RANK_OK(env, gloo_request_wait_all(requests, GROUPS + 1, GLOO_TIMEOUT_DEFAULT,
                                     NULL));
  for (int i = 0; i <= GROUPS; i++) {
    bool in = i == GROUPS || (rank + i) % n < n - 1 || n == 1;
    int members = i == GROUPS || n == 1 ? n : n - 1;
    RANK_CHECK(env, (groups[i] != NULL) == in);
    gloo_request_destroy(requests[i]);
    if (groups[i] == NULL) continue;
    RANK_CHECK(env, gloo_context_size(groups[i]) == members);
    word = 1;
    RANK_OK(env, gloo_allreduce(groups[i], GLOO_IN_PLACE, &word, 1, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
    RANK_CHECK(env, word == members);
    if (i == GROUPS)
      RANK_CHECK(env, gloo_context_rank(groups[i]) == n - 1 - rank);
    gloo_context_destroy(groups[i]);
  }
  await_count(env, &t, GROUPS);
  RANK_CHECK(env, atomic_load(&t.failures) == 0);
  /* Some ranks call the blocking form. */
  gloo_context *group = NULL;
  gloo_request *request;
  if (rank == 0) {
    RANK_OK(env, gloo_context_split_start(env->context, 0, 0, NULL, &group,
                                          &request, NULL));
    RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_NONE, NULL));
    gloo_request_destroy(request);
  } else {
    RANK_OK(env, gloo_context_split(env->context, 0, 0, NULL, &group, NULL));
  }
  RANK_OK(env, gloo_barrier(group, NULL, NULL));
  gloo_context_destroy(group);
}

static void groups_given_up(rank_env *env) {
  gloo_error error;
  gloo_context *group;
  gloo_request *request;
  int none[1] = {7};
  rank_expect_invalid(env,
                      gloo_context_split_start(env->context, 0, 0, NULL, NULL,
                                               &request, &error),
                      &error, "`group` must not be NULL");
  rank_expect_invalid(
      env,
      gloo_context_split_start(env->context, 0, 0, NULL, &group, NULL, &error),
      &error, "`request` must not be NULL");
  rank_expect_invalid(env,
                      gloo_context_subset_start(env->context, none, 1, NULL,
                                                &group, &request, &error),
                      &error, "7 is not a rank");
  meet(env);
  if (env->rank == 1) {
    while (gloo_context_error(env->context, &error) == GLOO_OK) uv_sleep(1);
  } else {
    RANK_OK(env, gloo_context_split_start(env->context, 0, 0, NULL, &group,
                                          &request, NULL));
    RANK_CHECK(env,
               gloo_request_wait(request, 5 * MS, NULL) == GLOO_IN_PROGRESS);
    RANK_OK(env, gloo_request_cancel(request, NULL));
    RANK_CHECK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, &error) ==
                        GLOO_ERR_CANCELLED);
    gloo_request_destroy(request);
    RANK_CHECK(env, group == NULL);
  }
  RANK_CHECK(env, strstr(error.message, "creation of a group") != NULL);
}

/* The context ends before its group. */
static void groups_orphaned(rank_env *env) {
  if (env->rank == 1) {
    gloo_error error;
    while (gloo_context_error(env->context, &error) == GLOO_OK) uv_sleep(1);
    return;
  }
  static gloo_context *group; /* may be set after the return */
  gloo_request *request;
  RANK_OK(env, gloo_context_split_start(env->context, 0, 0, NULL, &group,
                                        &request, NULL));
  gloo_request_release(request);
  RANK_OK(env, gloo_context_abort(env->context, "enough", NULL));
}

/* An error of a group has the rank in the group and the rank in the root
 * context. */
static void group_errors(rank_env *env) {
  gloo_context *group;
  gloo_error error;
  int ranks[2] = {1, 2};
  if (env->rank == 0) {
    while (gloo_context_error(env->context, &error) == GLOO_OK) uv_sleep(1);
    RANK_CHECK(env, error.rank == 1 && error.root_rank == 1);
    return;
  }
  RANK_OK(env, gloo_context_subset(env->context, ranks, 2, NULL, &group, NULL));
  if (env->rank == 2) {
    int32_t word;
    gloo_options o = tagged(1);
    o.timeout_ns = 30 * MS;
    RANK_CHECK(env, gloo_recv(group, &word, 1, GLOO_INT32, 0, &o, &error) ==
                        GLOO_ERR_TIMEOUT);
  } else {
    while (gloo_context_error(group, &error) == GLOO_OK) uv_sleep(1);
  }
  RANK_CHECK(env, error.rank == 0 && error.root_rank == 1);
  gloo_request *request;
  RANK_CHECK(env, gloo_barrier_start(group, NULL, &request, &error) ==
                      GLOO_ERR_POISONED);
  RANK_CHECK(env, error.rank == 0 && error.root_rank == 1);
  gloo_context_destroy(group);
}

/* ---- threads ------------------------------------------------------------- */

typedef struct waiter {
  gloo_request *request;
  gloo_status status;
} waiter;

static void wait_for_it(void *user) {
  waiter *w = user;
  size_t index;
  w->status = gloo_request_wait_any(&w->request, 1, 60000 * MS, &index, NULL);
}

static void many_waiters(rank_env *env) {
  enum { THREADS = 4, ROUNDS = 20 };
  int other = 1 - env->rank;
  for (int round = 0; round < ROUNDS; round++) {
    int32_t word = 0;
    gloo_request *request;
    uv_thread_t threads[THREADS];
    waiter waiters[THREADS];
    start_receive(env, &word, other, 12, &request);
    for (int i = 0; i < THREADS; i++) {
      waiters[i] = (waiter){request, GLOO_ERR_INTERNAL};
      RANK_CHECK(env,
                 uv_thread_create(&threads[i], wait_for_it, &waiters[i]) == 0);
    }
    send_word(env, round, other, 12);
    for (int i = 0; i < THREADS; i++) {
      uv_thread_join(&threads[i]);
      RANK_CHECK(env, waiters[i].status == GLOO_OK);
    }
    RANK_CHECK(env, word == round);
    gloo_request_destroy(request);
  }
}

/* ---- the tests ----------------------------------------------------------- */

static void any_of_several(void **state) {
  (void)state;
  run_on(2, receive_any);
  run_with(2, 1, receive_any);
}
static void all_of_several(void **state) {
  (void)state;
  run_on(2, receive_all);
  run_with(2, 1, receive_all);
}
static void what_cannot_be_is_refused(void **state) {
  (void)state;
  run_on(1, refusals);
}
static void any_of_several_devices(void **state) {
  (void)state;
  run_on(2, across_devices_helped);
  run_on(2, across_devices_alone);
}
static void a_function_is_called_once_per_run(void **state) {
  (void)state;
  for (int no_helper = 0; no_helper < 2; no_helper++) {
    for (int size = 1; size <= 3; size++) run_with(size, no_helper, told_once);
    run_with(2, no_helper, told_of_the_end);
  }
}
static void functions_may_start_operations(void **state) {
  (void)state;
  run_on(3, functions_start_operations);
  run_with(3, 1, functions_start_operations);
}
static void released_requests_go_on(void **state) {
  (void)state;
  run_on(2, let_go);
  run_with(2, 1, let_go);
}
static void one_request_of_several(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) run_on(size, joined);
  run_with(3, 1, joined);
}
static void a_descriptor_tells(void **state) {
  (void)state;
  run_on(2, descriptor);
  run_with(1, 1, no_descriptor);
}
static void one_rank_gives_up(void **state) {
  (void)state;
  for (int size = 2; size <= 4; size++) run_on(size, abandoned);
}

static void signal_handlers_give_up(void **state) {
  (void)state;
  run_on(3, abandoned_by_signal);
}
static void timeouts_can_be_changed(void **state) {
  (void)state;
  run_on(2, late);
}
static void groups_end_with_their_operations(void **state) {
  (void)state;
  run_on(2, group_lingers);
  run_with(2, 1, group_lingers);
}
static void groups_without_blocking(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) run_on(size, groups_started);
  run_with(3, 1, groups_started);
  run_on(2, groups_given_up);
  for (int i = 0; i < 5; i++) run_on(2, groups_orphaned);
}
static void errors_speak_of_both_numbers(void **state) {
  (void)state;
  run_on(3, group_errors);
}
static void persistent_by_the_order_of_making(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) run_on(size, by_making);
}
static void what_can_be_asked(void **state) {
  (void)state;
  run_on(2, questions);
}
static void threads_wait_for_one_request(void **state) {
  (void)state;
  run_on(2, many_waiters);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_of_several),
      cmocka_unit_test(all_of_several),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(any_of_several_devices),
      cmocka_unit_test(a_function_is_called_once_per_run),
      cmocka_unit_test(functions_may_start_operations),
      cmocka_unit_test(released_requests_go_on),
      cmocka_unit_test(one_request_of_several),
      cmocka_unit_test(a_descriptor_tells),
      cmocka_unit_test(one_rank_gives_up),
      cmocka_unit_test(signal_handlers_give_up),
      cmocka_unit_test(timeouts_can_be_changed),
      cmocka_unit_test(groups_end_with_their_operations),
      cmocka_unit_test(groups_without_blocking),
      cmocka_unit_test(errors_speak_of_both_numbers),
      cmocka_unit_test(persistent_by_the_order_of_making),
      cmocka_unit_test(what_can_be_asked),
      cmocka_unit_test(threads_wait_for_one_request),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
