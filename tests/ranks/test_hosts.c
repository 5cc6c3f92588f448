/* Ranks of one machine with host ids of several: two-level algorithms over real
 * transports, compared with a plain reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "engine/engine.h"
#include "ranks.h"

static const char *transport;

/* ---- data ---------------------------------------------------------------- */

static int64_t input_at(int rank, size_t i) {
  return (int64_t)((i * 2654435761u + (size_t)rank * 40503u) % 100003u) - 50000;
}

static int64_t sum_at(int size, size_t i) {
  int64_t sum = 0;
  for (int r = 0; r < size; r++) sum += input_at(r, i);
  return sum;
}

typedef struct buffers {
  size_t count, all;
  int64_t *in, *out;
} buffers;

static buffers make_buffers(const rank_env *env, size_t count) {
  buffers b = {.count = count, .all = count * (size_t)env->size};
  b.in = malloc((b.all + 1) * sizeof(int64_t));
  b.out = malloc((b.all + 1) * sizeof(int64_t));
  for (size_t i = 0; i < b.all; i++) b.in[i] = input_at(env->rank, i);
  return b;
}

static void free_buffers(buffers *b) {
  free(b->in);
  free(b->out);
}

/* Returns the input; in place, the first `n` elements of the output from
 * `shift` on. */
static const void *input(buffers *b, bool in_place, size_t shift, size_t n) {
  memset(b->out, 0x5a, b->all * sizeof(int64_t));
  if (!in_place) return b->in;
  memcpy(b->out + shift, b->in, n * sizeof(int64_t));
  return GLOO_IN_PLACE;
}

/* ---- collectives --------------------------------------------------------- */

static void allreduce(rank_env *env, buffers *b, const gloo_options *o,
                      bool in_place) {
  const void *in = input(b, in_place, 0, b->count);
  RANK_OK(env, gloo_allreduce(env->context, in, b->out, b->count, GLOO_INT64,
                              GLOO_SUM, o, NULL));
  for (size_t i = 0; i < b->count; i++) {
    RANK_CHECK(env, b->out[i] == sum_at(env->size, i));
  }
}

static void broadcast(rank_env *env, buffers *b, const gloo_options *o,
                      bool in_place) {
  for (int root = 0; root < env->size; root++) {
    const void *in = input(b, in_place, 0, env->rank == root ? b->count : 0);
    RANK_OK(env, gloo_broadcast(env->context, in, b->out, b->count, GLOO_INT64,
                                root, o, NULL));
    for (size_t i = 0; i < b->count; i++) {
      RANK_CHECK(env, b->out[i] == input_at(root, i));
    }
  }
}

static void reduce_scatter(rank_env *env, buffers *b, const gloo_options *o,
                           bool in_place) {
  const void *in = input(b, in_place, 0, b->all);
  RANK_OK(env, gloo_reduce_scatter(env->context, in, b->out, b->count,
                                   GLOO_INT64, GLOO_SUM, o, NULL));
  size_t first = (size_t)env->rank * b->count;
  for (size_t i = 0; i < b->count; i++) {
    RANK_CHECK(env, b->out[i] == sum_at(env->size, first + i));
  }
}

static void allgather(rank_env *env, buffers *b, const gloo_options *o,
                      bool in_place) {
  const void *in = input(b, in_place, (size_t)env->rank * b->count, b->count);
  RANK_OK(env, gloo_allgather(env->context, in, b->out, b->count, GLOO_INT64, o,
                              NULL));
  for (size_t i = 0; i < b->all; i++) {
    RANK_CHECK(env, b->out[i] == input_at((int)(i / b->count), i % b->count));
  }
}

static void all_collectives(rank_env *env, const char *algorithm) {
  static const size_t counts[] = {1, 7, 1000, 30000};
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = algorithm;
  for (int i = 0; i < 8 && !env->failure[0]; i++) {
    buffers b = make_buffers(env, counts[i / 2]);
    bool in_place = i % 2 != 0;
    allreduce(env, &b, &o, in_place);
    broadcast(env, &b, &o, in_place);
    RANK_OK(env, gloo_barrier(env->context, &o, NULL));
    reduce_scatter(env, &b, &o, in_place);
    allgather(env, &b, &o, in_place);
    free_buffers(&b);
  }
}

static void two_level_and_chosen(rank_env *env) {
  all_collectives(env, "two_level");
  all_collectives(env, NULL);
}

/* ---- hosts --------------------------------------------------------------- */

typedef struct expectation {
  uint32_t hosts, least;
} expectation;

static void check_hosts(rank_env *env) {
  const expectation *e = env->user;
  const gli_hosts *h = gli_context_hosts(env->context);
  RANK_CHECK(env, (h ? h->n : 1) == e->hosts);
  RANK_CHECK(env, !h || h->least == e->least);
  if (!env->failure[0]) two_level_and_chosen(env);
}

static void run_on(int size, const char *const *ids, uint32_t hosts,
                   uint32_t least) {
  expectation e = {hosts, least};
  ranks_options o = {.transport = transport, .host_ids = ids, .user = &e};
  ranks_run(size, &o, check_hosts);
}

static void two_hosts_of_two(void **state) {
  (void)state;
  static const char *const ids[] = {"a", "a", "b", "b"};
  run_on(4, ids, 2, 2);
}

static void hosts_of_two_and_three(void **state) {
  (void)state;
  static const char *const ids[] = {"a", "a", "b", "b", "b"};
  run_on(5, ids, 2, 2);
}

static void four_hosts_of_two(void **state) {
  (void)state;
  static const char *const ids[] = {"a", "a", "b", "b", "c", "c", "d", "d"};
  run_on(8, ids, 4, 2);
}

static void ranks_not_in_order_of_hosts(void **state) {
  (void)state;
  static const char *const ids[] = {"b", "a", "b", "c", "a", "b"};
  run_on(6, ids, 3, 1);
}

static void one_rank_on_each_host(void **state) {
  (void)state;
  static const char *const ids[] = {"a", "b", "c"};
  run_on(3, ids, 3, 1);
}

/* Ranks without an id are on the real host. Every rank reads all ids, so that
 * no disagreement is possible. */
static void ids_of_some_ranks_only(void **state) {
  (void)state;
  static const char *const ids[] = {NULL, "x", NULL, "x", NULL};
  run_on(5, ids, 2, 2);
}

static void all_on_this_host(void **state) {
  (void)state;
  run_on(4, NULL, 1, 4);
}

/* ---- bad ids ------------------------------------------------------------- */

static gloo_status create_with(const char *id, gloo_error *error) {
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_device *device;
  gloo_context *context = NULL;
  gloo_store *store;
  d.transport = "inproc";
  c.host_id = id;
  c.timeout_ns = INT64_C(1000000);
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  assert_int_equal(gloo_device_create(&d, &device, NULL), GLOO_OK);
  gloo_status status =
      gloo_context_create(0, 2, store, device, &c, &context, error);
  assert_null(context);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  return status;
}

static void ids_that_cannot_be_used_are_refused(void **state) {
  (void)state;
  char text[300];
  gloo_error error;
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  assert_int_equal(create_with(text, &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "longer than 255 bytes"));
  text[255] = 0; /* valid; the other rank never arrives */
  assert_int_equal(create_with(text, &error), GLOO_ERR_TIMEOUT);
  assert_int_equal(create_with("", &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "is empty"));
  assert_int_equal(create_with("two\nlines", &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "control characters"));
  setenv("GLOO_HOST_ID", "two\nlines", 1);
  assert_int_equal(create_with(NULL, &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "GLOO_HOST_ID"));
  setenv("GLOO_HOST_ID", "", 1); /* no id; the other rank never arrives */
  assert_int_equal(create_with(NULL, &error), GLOO_ERR_TIMEOUT);
  unsetenv("GLOO_HOST_ID");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_hosts_of_two),
      cmocka_unit_test(hosts_of_two_and_three),
      cmocka_unit_test(four_hosts_of_two),
      cmocka_unit_test(ranks_not_in_order_of_hosts),
      cmocka_unit_test(one_rank_on_each_host),
      cmocka_unit_test(ids_of_some_ranks_only),
      cmocka_unit_test(all_on_this_host),
      cmocka_unit_test(ids_that_cannot_be_used_are_refused),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
