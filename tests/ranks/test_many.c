/* Jobs large enough that a rank does not fetch all records from the store. */
#include "ranks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "sanitized.h"

static const char *transport;

/* ---- ranks that meet ----------------------------------------------------- */

/* Each rank sends to a distant one in the tree. */
static void sum_and_swap(rank_env *env) {
  int64_t in = env->rank, out = 0, got = -1;
  int other = (env->rank + env->size / 2) % env->size;
  int from = (env->rank + env->size - env->size / 2) % env->size;
  RANK_OK(env, gloo_allreduce(env->context, &in, &out, 1, GLOO_INT64, GLOO_SUM,
                              NULL, NULL));
  RANK_CHECK(env, out == (int64_t)env->size * (env->size - 1) / 2);
  gloo_request *request = NULL; /* if it is not started */
  RANK_OK(env, gloo_recv_start(env->context, &got, 1, GLOO_INT64, from, NULL,
                               &request, NULL));
  RANK_OK(env, gloo_send(env->context, &in, 1, GLOO_INT64, other, NULL, NULL));
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(request);
  RANK_CHECK(env, got == from);
}

static void ranks_of_any_number_meet(void **state) {
  (void)state;
  const int sizes[] = {32, 33, 34, 48, 64, 65, 100};
  int n = SANITIZED ? 3 : 7;
  ranks_options o = {.transport = transport};
  for (int i = 0; i < n; i++) ranks_run(sizes[i], &o, sum_and_swap);
}

static void leave_at_once(rank_env *env) {
  (void)env;
}

static void ranks_that_leave_at_once_have_met(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  for (int i = 0; i < 3; i++) ranks_run(40, &o, leave_at_once);
}

static void hosts_of_all_are_known(void **state) {
  (void)state;
  enum { RANKS = 40 };
  const char *ids[RANKS];
  static const char *const names[] = {"one", "two", "three"};
  for (int i = 0; i < RANKS; i++) ids[i] = names[i % 3];
  ranks_options o = {.transport = transport, .host_ids = ids};
  ranks_run(RANKS, &o, sum_and_swap);
}

/* A failed start must not change the wait policy, which other contexts of the
 * device share. */
static void meet_in_vain(rank_env *env) {
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_device *device = NULL;
  gloo_context *context = NULL;
  gloo_store *store = NULL;
  d.transport = transport;
  c.measure = env->rank == 5 ? 1 : -1;
  RANK_OK(env, gloo_store_prefix_create(env->store, "again", &store, NULL));
  RANK_OK(env, gloo_device_create(&d, &device, NULL));
  if (device == NULL) return;
  const char *before = gli_device_wait_policy(device);
  RANK_CHECK(env, gloo_context_create(env->rank, env->size, store, device, &c,
                                      &context, NULL) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, strcmp(gli_device_wait_policy(device), before) == 0);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
}

static void meeting_in_vain_leaves_the_device_as_it_was(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(34, &o, meet_in_vain);
}

/* ---- use of the store ---------------------------------------------------- */

typedef struct counted_store {
  gloo_store *inner;
  atomic_size_t requests, bytes; /* values read from the store */
} counted_store;

static gloo_status counted_set(void *user, const char *key, const void *data,
                               size_t bytes) {
  counted_store *s = user;
  atomic_fetch_add(&s->requests, 1);
  return gloo_store_set(s->inner, key, data, bytes, NULL);
}

static gloo_status counted_get(void *user, const char *key, int64_t timeout_ns,
                               gloo_value *value) {
  counted_store *s = user;
  atomic_fetch_add(&s->requests, 1);
  gloo_status status = gloo_store_get(s->inner, key, timeout_ns, value, NULL);
  if (status == GLOO_OK) atomic_fetch_add(&s->bytes, value->bytes);
  return status;
}

static gloo_status counted_wait(void *user, const char *const *keys, size_t n,
                                int64_t timeout_ns) {
  counted_store *s = user;
  atomic_fetch_add(&s->requests, 1);
  return gloo_store_wait(s->inner, keys, n, timeout_ns, NULL);
}

static gloo_status counted_multi_get(void *user, const char *const *keys,
                                     size_t n, int64_t timeout_ns,
                                     gloo_value *values) {
  counted_store *s = user;
  atomic_fetch_add(&s->requests, 1);
  gloo_status status =
      gloo_store_multi_get(s->inner, keys, n, timeout_ns, values, NULL);
  for (size_t i = 0; i < n && status == GLOO_OK; i++)
    atomic_fetch_add(&s->bytes, values[i].bytes);
  return status;
}

/* Returns the bytes read from the store per rank. */
static size_t bytes_per_rank(int size) {
  counted_store counted = {.inner = NULL};
  gloo_store_callbacks callbacks = {.struct_size = sizeof callbacks,
                                    .user = &counted,
                                    .set = counted_set,
                                    .get = counted_get,
                                    .wait = counted_wait,
                                    .multi_get = counted_multi_get};
  gloo_store *store;
  assert_int_equal(gloo_store_memory_create(&counted.inner, NULL), GLOO_OK);
  assert_int_equal(gloo_store_callbacks_create(&callbacks, &store, NULL),
                   GLOO_OK);
  ranks_options o = {.transport = transport, .store = store};
  ranks_run(size, &o, leave_at_once);
  gloo_store_destroy(store);
  gloo_store_destroy(counted.inner);
  assert_true(counted.requests >= (size_t)size);
  return counted.bytes / (size_t)size;
}

/* Each rank reads its own record and those of its neighbours, 1.5 on
 * average. */
static void the_store_hands_out_no_more_when_there_are_more(void **state) {
  (void)state;
  size_t of_34 = bytes_per_rank(34), of_68 = bytes_per_rank(68);
  print_message("# bytes per rank: %zu of 34 ranks, %zu of 68\n", of_34, of_68);
  assert_true(of_34 < 3 * 400);
  assert_true(of_68 < of_34 + of_34 / 8);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_of_any_number_meet),
      cmocka_unit_test(ranks_that_leave_at_once_have_met),
      cmocka_unit_test(hosts_of_all_are_known),
      cmocka_unit_test(meeting_in_vain_leaves_the_device_as_it_was),
      cmocka_unit_test(the_store_hands_out_no_more_when_there_are_more),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests(tests, NULL, NULL);
}
