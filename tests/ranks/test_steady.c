/* Repeated small operations allocate nothing, in the library or in libuv. The
 * linker redirects malloc and its relatives to the counters below; libuv takes
 * its allocator from uv_replace_allocator. */
#include "ranks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

static atomic_size_t allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  atomic_fetch_add(&allocations, 1);
  return __real_malloc(bytes);
}
void *__wrap_calloc(size_t n, size_t bytes) {
  atomic_fetch_add(&allocations, 1);
  return __real_calloc(n, bytes);
}
void *__wrap_realloc(void *old, size_t bytes) {
  atomic_fetch_add(&allocations, 1);
  return __real_realloc(old, bytes);
}

enum { ROUNDS = 8, REPEATS = 300, LONG = 100000 };

static void one_of_each(rank_env *env, gloo_context *context, float *data) {
  RANK_OK(env, gloo_allreduce(context, GLOO_IN_PLACE, data, 1, GLOO_FLOAT32,
                              GLOO_SUM, NULL, NULL));
  RANK_OK(env, gloo_allreduce(context, data, data + 1000, 1000, GLOO_FLOAT32,
                              GLOO_MAX, NULL, NULL));
  RANK_OK(env, gloo_broadcast(context, GLOO_IN_PLACE, data, 10, GLOO_FLOAT32, 0,
                              NULL, NULL));
  RANK_OK(env, gloo_barrier(context, NULL, NULL));
  /* A long message, which at times arrives before its receive. */
  RANK_OK(env, gloo_broadcast(context, GLOO_IN_PLACE, data, LONG, GLOO_FLOAT32,
                              env->size - 1, NULL, NULL));
  const size_t counts[3] = {3, 2, 1}; /* for up to three ranks */
  RANK_OK(env, gloo_allgatherv(context, GLOO_IN_PLACE, data, counts, NULL,
                               GLOO_FLOAT32, NULL, NULL));
  gloo_request *op;
  RANK_OK(env, gloo_allreduce_start(context, GLOO_IN_PLACE, data, 8,
                                    GLOO_FLOAT32, GLOO_SUM, NULL, &op, NULL));
  RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(op);
}

/* Repeats the operations. Ranks run ahead of each other by varying amounts, and
 * pools grow to the maximum, so one of the rounds must be free of allocations,
 * not the first. */
static void repeat(rank_env *env) {
  float *data = calloc(LONG, sizeof *data);
  RANK_CHECK(env, data != NULL);
  size_t *least = env->user;
  gloo_context *group = NULL;
  RANK_OK(env,
          gloo_context_split(env->context, 0, -env->rank, NULL, &group, NULL));
  for (int round = 0; round < ROUNDS && !env->failure[0]; round++) {
    RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
    size_t before = atomic_load(&allocations);
    for (int i = 0; i < REPEATS; i++) {
      one_of_each(env, i % 2 ? group : env->context, data);
    }
    size_t spent = atomic_load(&allocations) - before;
    if (env->rank == 0 && spent < *least) *least = spent;
  }
  gloo_context_destroy(group);
  free(data);
}

static void steady_over(const char *transport, int size) {
  size_t least = SIZE_MAX;
  ranks_options o = {.transport = transport, .user = &least};
  ranks_run(size, &o, repeat);
  assert_int_equal(least, 0);
}

static void inproc_allocates_nothing(void **state) {
  (void)state;
  steady_over("inproc", 2);
  steady_over("inproc", 3);
}

static void tcp_allocates_nothing(void **state) {
  (void)state;
  steady_over("tcp", 2);
  steady_over("tcp", 3);
}

static void default_transport_allocates_nothing(void **state) {
  (void)state;
  steady_over("auto", 2);
  steady_over("auto", 3);
}

/* A check of the counters: setup allocates much. */
static void setting_up_allocates(void **state) {
  (void)state;
  assert_true(atomic_load(&allocations) > 100);
}

int main(void) {
  if (uv_replace_allocator(__wrap_malloc, __wrap_realloc, __wrap_calloc,
                           free) != 0) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inproc_allocates_nothing),
      cmocka_unit_test(tcp_allocates_nothing),
      cmocka_unit_test(default_transport_allocates_nothing),
      cmocka_unit_test(setting_up_allocates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
