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
    gloo_request *send;
    RANK_OK(env, gloo_send_start(env->context, out, n, GLOO_INT32, right, NULL,
                                 &send, NULL));
    RANK_OK(env, gloo_recv(env->context, in, n, GLOO_INT32, left, NULL, NULL));
    RANK_OK(env, gloo_request_wait(send, GLOO_TIMEOUT_DEFAULT, NULL));
    gloo_request_destroy(send);
    for (size_t k = 0; k < n; k++) {
      RANK_CHECK(env, in[k] == left * 1000 + (int)(k % 997));
    }
    free(in);
    free(out);
  }
}

/* 2,000 messages start before any receive: more than the unexpected queue
 * accepts. */
static void flood(rank_env *env) {
  enum { MESSAGES = 2000, COUNT = 300 };
  gloo_request **ops = calloc(MESSAGES, sizeof *ops);
  int32_t(*data)[COUNT] = calloc(MESSAGES, sizeof *data);
  if (env->rank == 0) {
    for (int i = 0; i < MESSAGES; i++) {
      for (int k = 0; k < COUNT; k++) data[i][k] = i * 7 + k;
      gloo_options o = tagged((uint32_t)i % 3);
      RANK_OK(env, gloo_send_start(env->context, data[i], COUNT, GLOO_INT32, 1,
                                   &o, &ops[i], NULL));
    }
    for (int i = 0; i < MESSAGES; i++) {
      RANK_OK(env, gloo_request_wait(ops[i], GLOO_TIMEOUT_DEFAULT, NULL));
      gloo_request_destroy(ops[i]);
    }
  } else {
    for (int tag = 2; tag >= 0; tag--) { /* in descending order of tags */
      for (int i = tag; i < MESSAGES; i += 3) {
        gloo_options o = tagged((uint32_t)tag);
        int32_t in[COUNT];
        RANK_OK(env,
                gloo_recv(env->context, in, COUNT, GLOO_INT32, 0, &o, NULL));
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
      RANK_OK(env,
              gloo_send(env->context, &value, 1, GLOO_INT64, 0, NULL, NULL));
    }
    return;
  }
  int next[16] = {0};
  for (int i = 0; i < EACH * (env->size - 1); i++) {
    int64_t value = -1;
    int source = -1;
    RANK_OK(env, gloo_recv_any(env->context, &value, 1, GLOO_INT64, NULL, 0,
                               NULL, &source, NULL));
    RANK_CHECK(env, source >= 1 && source < env->size);
    if (source < 1 || source >= env->size) return;
    RANK_CHECK(env, value == source * 100 + next[source]);
    next[source]++;
  }
}

static void from_a_list(rank_env *env) {
  int32_t value = env->rank;
  if (env->rank != 0) {
    RANK_OK(env, gloo_send(env->context, &value, 1, GLOO_INT32, 0, NULL, NULL));
    return;
  }
  const int odd[] = {1, 3};
  for (int i = 0; i < 2; i++) {
    int source = -1;
    RANK_OK(env, gloo_recv_any(env->context, &value, 1, GLOO_INT32, odd, 2,
                               NULL, &source, NULL));
    RANK_CHECK(env, source == value && source % 2 == 1);
  }
  RANK_OK(env, gloo_recv(env->context, &value, 1, GLOO_INT32, 2, NULL, NULL));
  RANK_CHECK(env, value == 2);
}

static void oneself(rank_env *env) {
  enum { COUNT = 400000 };
  float *out = malloc(COUNT * sizeof *out), *in = malloc(COUNT * sizeof *in);
  for (int i = 0; i < COUNT; i++) out[i] = (float)i;
  gloo_request *recv;
  RANK_OK(env, gloo_recv_start(env->context, in, COUNT, GLOO_FLOAT32, env->rank,
                               NULL, &recv, NULL));
  RANK_OK(env, gloo_send(env->context, out, COUNT, GLOO_FLOAT32, env->rank,
                         NULL, NULL));
  RANK_OK(env, gloo_request_wait(recv, GLOO_TIMEOUT_DEFAULT, NULL));
  RANK_CHECK(env, gloo_request_source(recv) == env->rank);
  gloo_request_destroy(recv);
  RANK_CHECK(env, memcmp(in, out, COUNT * sizeof *in) == 0);
  /* Reverse order: the message waits for its receive. */
  gloo_request *send;
  RANK_OK(env, gloo_send_start(env->context, out, COUNT, GLOO_FLOAT32,
                               env->rank, NULL, &send, NULL));
  memset(in, 0, COUNT * sizeof *in);
  RANK_OK(env, gloo_recv(env->context, in, COUNT, GLOO_FLOAT32, env->rank, NULL,
                         NULL));
  RANK_OK(env, gloo_request_wait(send, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(send);
  RANK_CHECK(env, memcmp(in, out, COUNT * sizeof *in) == 0);
  free(in);
  free(out);
}

/* Only a receive without a message can be cancelled without failing the
 * context. */
static void cancel_quietly(rank_env *env) {
  int32_t value = 7;
  gloo_options o = tagged(99);
  gloo_request *recv;
  int peer = (env->rank + 1) % env->size;
  RANK_OK(env, gloo_recv_start(env->context, &value, 1, GLOO_INT32, peer, &o,
                               &recv, NULL));
  RANK_OK(env, gloo_request_cancel(recv, NULL));
  RANK_CHECK(env, gloo_request_wait(recv, GLOO_TIMEOUT_DEFAULT, NULL) ==
                      GLOO_ERR_CANCELLED);
  gloo_request_destroy(recv);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

enum { ANY = -1 };

/* Starts a receive of one number, from one rank or any. */
static gloo_request *receive(rank_env *env, int32_t *value, int peer,
                             uint32_t tag) {
  gloo_options o = tagged(tag);
  gloo_request *op = NULL;
  if (peer == ANY) {
    RANK_OK(env, gloo_recv_any_start(env->context, value, 1, GLOO_INT32, NULL,
                                     0, &o, &op, NULL));
  } else {
    RANK_OK(env, gloo_recv_start(env->context, value, 1, GLOO_INT32, peer, &o,
                                 &op, NULL));
  }
  return op;
}

static void send_one(rank_env *env, int32_t value, int peer, uint32_t tag) {
  gloo_options o = tagged(tag);
  RANK_OK(env, gloo_send(env->context, &value, 1, GLOO_INT32, peer, &o, NULL));
}

static void expect_one(rank_env *env, gloo_request *op, const int32_t *got,
                       int32_t value, int source) {
  RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  RANK_CHECK(env, *got == value);
  RANK_CHECK(env, gloo_request_source(op) == source);
  gloo_request_destroy(op);
}

/* Receives match messages in the order of their start, with or without a named
 * source. */
static void any_and_one_in_order(rank_env *env) {
  static const int peers[][3] = {
      {ANY, 1, 1}, {1, ANY, 1}, {1, 1, ANY}, {ANY, ANY, 1}, {ANY, 1, ANY}};
  for (uint32_t i = 0; i < sizeof peers / sizeof *peers; i++) {
    for (uint32_t early = 0; early < 2; early++) {
      uint32_t tag = 10 + 2 * i + early;
      if (early == 0) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
      if (env->rank == 1) {
        /* The barriers make either the receives or the messages come first. */
        if (early == 0) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
        for (int k = 0; k < 3; k++) send_one(env, k, 0, tag);
        if (early == 1) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
        continue;
      }
      if (early == 1) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
      if (env->rank == 0) {
        int32_t got[3] = {-1, -1, -1};
        gloo_request *ops[3];
        for (int k = 0; k < 3; k++) {
          ops[k] = receive(env, &got[k], peers[i][k], tag);
        }
        if (early == 0) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
        for (int k = 0; k < 3; k++) expect_one(env, ops[k], &got[k], k, 1);
      } else if (early == 0) {
        RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
      }
    }
  }
}

/* A wildcard receive that matches another rank's message leaves the messages of
 * rank 1 to the later receives that name it. */
static void any_met_by_another(rank_env *env) {
  int32_t got[3] = {-1, -1, -1};
  gloo_request *ops[3] = {NULL, NULL, NULL};
  if (env->rank == 0) {
    ops[0] = receive(env, &got[0], ANY, 5);
    ops[1] = receive(env, &got[1], 1, 5);
    ops[2] = receive(env, &got[2], 1, 5);
  }
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  if (env->rank == 2) send_one(env, 20, 0, 5);
  if (env->rank == 0) expect_one(env, ops[0], &got[0], 20, 2);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  if (env->rank == 1) {
    send_one(env, 10, 0, 5);
    send_one(env, 11, 0, 5);
    send_one(env, 12, 0, 5);
  }
  if (env->rank != 0) return;
  expect_one(env, ops[1], &got[1], 10, 1);
  expect_one(env, ops[2], &got[2], 11, 1);
  expect_one(env, receive(env, &got[0], ANY, 5), &got[0], 12, 1);
}

/* Tags are independent of each other, and each keeps its order. */
static void tags_have_their_own_order(rank_env *env) {
  enum { TAGS = 20, EACH = 5 };
  if (env->rank == 0) {
    for (int i = 0; i < EACH; i++) {
      for (uint32_t tag = 0; tag < TAGS; tag++) {
        send_one(env, (int32_t)tag * 100 + i, 1, tag);
      }
    }
    return;
  }
  int32_t got[EACH];
  gloo_request *ops[EACH];
  for (uint32_t tag = TAGS; tag-- > 0;) {
    for (int i = 0; i < EACH; i++) ops[i] = receive(env, &got[i], 0, tag);
    for (int i = EACH; i-- > 0;) {
      expect_one(env, ops[i], &got[i], (int32_t)tag * 100 + i, 0);
    }
  }
}

/* Later receives move up after a cancelled one. */
static void cancel_in_the_middle(rank_env *env) {
  enum { N = 4 };
  for (int cancelled = 0; cancelled < N; cancelled++) {
    int32_t got[N] = {-1, -1, -1, -1};
    gloo_request *ops[N];
    if (env->rank == 0) {
      for (int i = 0; i < N; i++) ops[i] = receive(env, &got[i], 1, 0);
      RANK_OK(env, gloo_request_cancel(ops[cancelled], NULL));
      RANK_CHECK(env, gloo_request_wait(ops[cancelled], GLOO_TIMEOUT_DEFAULT,
                                        NULL) == GLOO_ERR_CANCELLED);
      gloo_request_destroy(ops[cancelled]);
    }
    RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
    if (env->rank == 1) {
      for (int k = 0; k < N; k++) send_one(env, k, 0, 0);
    }
    if (env->rank != 0) continue;
    for (int i = 0, k = 0; i < N; i++) {
      if (i != cancelled) expect_one(env, ops[i], &got[i], k++, 1);
    }
    expect_one(env, receive(env, &got[0], 1, 0), &got[0], N - 1, 1);
  }
}

static void wrong_count(rank_env *env) {
  int32_t data[8] = {0};
  gloo_error error;
  gloo_status status =
      env->rank == 0
          ? gloo_send(env->context, data, 8, GLOO_INT32, 1, NULL, NULL)
          : gloo_recv(env->context, data, 4, GLOO_INT32, 0, NULL, NULL);
  if (env->rank == 1) RANK_CHECK(env, status == GLOO_ERR_MISMATCH);
  status = gloo_barrier(env->context, NULL, NULL);
  RANK_CHECK(env, status != GLOO_OK);
  RANK_CHECK(env,
             gloo_context_error(env->context, &error) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strstr(error.message, "8 x int32") != NULL);
  RANK_CHECK(env, strstr(error.message, "4 x int32") != NULL);
  RANK_CHECK(env, strstr(error.message, "rank 1 receives message #0") != NULL);
  RANK_CHECK(env, strstr(error.message, "from rank 0, which sends") != NULL);
}

/* ---- both at once -------------------------------------------------------- */

enum { FORMS = 3 };

/* Runs a send and a receive in any form, three times if it is persistent. */
static void exchange(rank_env *env, int form, const void *in, size_t n, int to,
                     void *out, size_t m, int from) {
  gloo_context *c = env->context;
  gloo_request *op = NULL;
  if (form == 0) {
    RANK_OK(env,
            gloo_sendrecv(c, in, n, to, out, m, from, GLOO_INT32, NULL, NULL));
  } else if (form == 1) {
    RANK_OK(env, gloo_sendrecv_start(c, in, n, to, out, m, from, GLOO_INT32,
                                     NULL, &op, NULL));
    if (op) RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  } else {
    RANK_OK(env, gloo_sendrecv_init(c, in, n, to, out, m, from, GLOO_INT32,
                                    NULL, &op, NULL));
    for (int run = 0; op && run < 3; run++) {
      RANK_OK(env, gloo_request_start(op, NULL));
      RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
    }
  }
  if (op) RANK_CHECK(env, gloo_request_source(op) == from);
  gloo_request_destroy(op);
}

static void fill(int32_t *data, size_t n, int32_t value) {
  for (size_t i = 0; i < n; i++) data[i] = value + (int32_t)(i % 991);
}

static void expect(rank_env *env, const int32_t *data, size_t n,
                   int32_t value) {
  size_t wrong = 0;
  for (size_t i = 0; i < n; i++) wrong += data[i] != value + (int32_t)(i % 991);
  RANK_CHECK(env, wrong == 0);
}

/* Exchanges around the ring, with itself, and beyond the ends; short and long,
 * in place and not, and with different lengths. */
static void exchanges(rank_env *env) {
  static const size_t counts[] = {0, 1, 100, 300000};
  int me = env->rank, size = env->size;
  int next = (me + 1) % size, previous = (me + size - 1) % size;
  int32_t *in = malloc(300001 * 4), *out = malloc(300001 * 4);
  for (int k = 0; k < 4 * FORMS && in && out; k++) {
    size_t n = counts[k / FORMS];
    int form = k % FORMS, mine = 1000 * me, theirs = 1000 * previous;
    fill(in, n, mine);
    memset(out, 0, n * 4);
    exchange(env, form, in, n, next, out, n, previous);
    expect(env, out, n, theirs);
    memset(out, 0, n * 4);
    exchange(env, form, in, n, me, out, n, me);
    expect(env, out, n, mine);
    /* In place, the data moves on by one rank per run. */
    fill(out, n, mine);
    exchange(env, form, GLOO_IN_PLACE, n, next, out, n, previous);
    int turns = form == 2 ? 3 : 1;
    expect(env, out, n, 1000 * ((me + size * turns - turns) % size));
    exchange(env, form, GLOO_IN_PLACE, n, me, out, n, me);
    expect(env, out, n, 1000 * ((me + size * turns - turns) % size));
    /* One direction only, then neither. */
    fill(in, n + 1, mine);
    memset(out, 0, n * 4 + 4);
    exchange(env, form, in, n + 1, me + 1 < size ? next : GLOO_NO_RANK, out,
             n + 1, me > 0 ? previous : GLOO_NO_RANK);
    if (me > 0) expect(env, out, n + 1, theirs);
    exchange(env, form, in, n, GLOO_NO_RANK, out, n, GLOO_NO_RANK);
    exchange(env, form, NULL, n, GLOO_NO_RANK, NULL, n, GLOO_NO_RANK);
  }
  free(in);
  free(out);
}

/* The peer may use separate messages. */
static void exchange_with_messages(rank_env *env) {
  int32_t in = env->rank, out = -1;
  if (env->rank == 0) {
    exchange(env, 1, &in, 1, 1, &out, 1, 1);
    RANK_CHECK(env, out == 1);
    return;
  }
  RANK_OK(env, gloo_recv(env->context, &out, 1, GLOO_INT32, 0, NULL, NULL));
  RANK_OK(env, gloo_send(env->context, &in, 1, GLOO_INT32, 0, NULL, NULL));
  RANK_CHECK(env, out == 0);
}

static void exchanges_refused(rank_env *env) {
  int32_t data[16] = {0};
  gloo_context *c = env->context;
  gloo_request *op = NULL;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  int next = (env->rank + 1) % env->size;
#define TRY(expected, ...)                                                     \
  RANK_CHECK(                                                                  \
      env, gloo_sendrecv(c, __VA_ARGS__, GLOO_INT32, &o, &error) == expected); \
  RANK_CHECK(env, gloo_sendrecv_init(c, __VA_ARGS__, GLOO_INT32, &o, &op,      \
                                     &error) == expected);                     \
  RANK_CHECK(env, error.status == expected)
  TRY(GLOO_ERR_BUFFER, data, 8, next, data + 4, 8, next);
  TRY(GLOO_ERR_RANK, data, 8, env->size, data + 8, 8, next);
  TRY(GLOO_ERR_RANK, data, 8, next, data + 8, 8, -2);
  TRY(GLOO_ERR_BUFFER, NULL, 8, next, data + 8, 8, next);
  TRY(GLOO_ERR_BUFFER, data, 8, next, NULL, 8, next);
  TRY(GLOO_ERR_BUFFER, GLOO_IN_PLACE, 8, next, NULL, 8, next);
  TRY(GLOO_ERR_COUNT, data, SIZE_MAX / 2, next, data + 8, 8, next);
#undef TRY
  RANK_CHECK(env, op == NULL);
  RANK_OK(env, gloo_barrier(c, NULL, NULL));
}

/* An exchange can be cancelled as a whole while no message has arrived. */
static void exchange_is_busy_and_cancelled(rank_env *env) {
  int32_t in = 5, out = 0;
  gloo_options o = tagged(7);
  gloo_request *op;
  RANK_OK(env, gloo_sendrecv_init(env->context, &in, 1, GLOO_NO_RANK, &out, 1,
                                  (env->rank + 1) % env->size, GLOO_INT32, &o,
                                  &op, NULL));
  RANK_CHECK(env, gloo_request_test(op, NULL) == GLOO_OK); /* not started */
  RANK_OK(env, gloo_request_start(op, NULL));
  RANK_CHECK(env, gloo_request_start(op, NULL) == GLOO_ERR_BUSY);
  RANK_CHECK(env, gloo_request_test(op, NULL) == GLOO_IN_PROGRESS);
  RANK_OK(env, gloo_request_cancel(op, NULL));
  RANK_CHECK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL) ==
                      GLOO_ERR_CANCELLED);
  gloo_request_destroy(op);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

/* An exchange fails as a whole if either of its messages does. */
static void exchange_that_is_not_met(rank_env *env) {
  int32_t in = 5, out = 0;
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_error error = {.status = GLOO_OK};
  gloo_request *op;
  o.timeout_ns = INT64_C(100000000);
  if (env->rank == 1) { /* it receives, but sends nothing */
    (void)gloo_recv(env->context, &out, 1, GLOO_INT32, 0, NULL, NULL);
    return;
  }
  RANK_OK(env, gloo_sendrecv_start(env->context, &in, 1, 1, &out, 1, 1,
                                   GLOO_INT32, &o, &op, &error));
  gloo_status status = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL);
  RANK_CHECK(env, status == GLOO_ERR_TIMEOUT || status == GLOO_ERR_PEER);
  RANK_CHECK(env, gloo_request_test(op, NULL) == status);
  RANK_CHECK(env, gloo_request_error(op, &error) == status);
  RANK_CHECK(env, error.rank == 1);
  RANK_CHECK(env, gloo_request_start(op, NULL) == GLOO_ERR_POISONED);
  RANK_CHECK(env, gloo_request_source(op) == -1);
  gloo_request_destroy(op);
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
CASE(any_and_one_in_order, 3)
CASE(any_met_by_another, 3)
CASE(tags_have_their_own_order, 2)
CASE(cancel_in_the_middle, 2)
CASE(wrong_count, 2)
CASE(exchanges, 3)
CASE(exchange_with_messages, 2)
CASE(exchanges_refused, 2)
CASE(exchange_is_busy_and_cancelled, 3)
CASE(exchange_that_is_not_met, 2)

static int run_over(const char *name) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_ring),
      cmocka_unit_test(messages_flood),
      cmocka_unit_test(messages_any_source),
      cmocka_unit_test(messages_from_a_list),
      cmocka_unit_test(messages_oneself),
      cmocka_unit_test(messages_cancel_quietly),
      cmocka_unit_test(messages_any_and_one_in_order),
      cmocka_unit_test(messages_any_met_by_another),
      cmocka_unit_test(messages_tags_have_their_own_order),
      cmocka_unit_test(messages_cancel_in_the_middle),
      cmocka_unit_test(messages_wrong_count),
      cmocka_unit_test(messages_exchanges),
      cmocka_unit_test(messages_exchange_with_messages),
      cmocka_unit_test(messages_exchanges_refused),
      cmocka_unit_test(messages_exchange_is_busy_and_cancelled),
      cmocka_unit_test(messages_exchange_that_is_not_met),
  };
  transport = name;
  return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int argc, char **argv) {
  return run_over(argc > 1 ? argv[1] : "inproc");
}
