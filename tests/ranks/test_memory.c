/* Buffers from gloo_alloc mixed with ordinary ones: each mix gives the same
 * results, and the library does not access the buffers after an error. */
#include "ranks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/environment.h"
#include "gloo_c/gloo_c.h"
#include "sanitized.h"

static const char *transport = "auto";

/* ---- buffers of either kind ---------------------------------------------- */

typedef struct buffer {
  float *data;
  void *block;
  bool shared;
} buffer;

/* Returns an unaligned buffer with space behind it. */
static buffer make(rank_env *env, size_t count, bool shared) {
  buffer b = {.shared = shared};
  size_t bytes = (count + 8) * sizeof(float);
  if (shared) {
    gloo_error error;
    RANK_CHECK(env, gloo_alloc(bytes, &b.block, &error) == GLOO_OK);
  } else {
    b.block = malloc(bytes);
  }
  RANK_CHECK(env, b.block != NULL);
  if (!b.block) abort();
  b.data = (float *)b.block + 4;
  for (size_t i = 0; i < count + 4; i++) b.data[i] = -7;
  return b;
}

static void discard(buffer *b) {
  if (b->shared) {
    gloo_free(b->block);
  } else {
    free(b->block);
  }
}

static float input_of(int rank, size_t i) {
  return (float)((i * 7 + (size_t)rank * 13) % 101);
}

static float sum_of(int size, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < size; rank++) sum += input_of(rank, i);
  return sum;
}

static void check_sums(rank_env *env, const float *out, size_t count,
                       size_t first) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) {
    wrong += out[i] != sum_of(env->size, first + i);
  }
  RANK_CHECK(env, wrong == 0);
  RANK_CHECK(env, out[count] == -7);
}

/* ---- each collective ----------------------------------------------------- */

static void allreduce(rank_env *env, size_t count, const char *algorithm,
                      bool in_shared, bool out_shared) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = algorithm;
  buffer in = make(env, count, in_shared), out = make(env, count, out_shared);
  for (size_t i = 0; i < count; i++) in.data[i] = input_of(env->rank, i);
  RANK_OK(env, gloo_allreduce(env->context, in.data, out.data, count,
                              GLOO_FLOAT32, GLOO_SUM, &o, NULL));
  check_sums(env, out.data, count, 0);
  for (size_t i = 0; i < count; i++) out.data[i] = input_of(env->rank, i);
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, out.data, count,
                              GLOO_FLOAT32, GLOO_SUM, &o, NULL));
  check_sums(env, out.data, count, 0);
  discard(&in);
  discard(&out);
}

static void reduce(rank_env *env, size_t count, const char *algorithm,
                   bool in_shared, bool out_shared) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = algorithm;
  int root = (int)count % env->size;
  bool first = env->rank == root;
  buffer in = make(env, count, in_shared), out = make(env, count, out_shared);
  for (size_t i = 0; i < count; i++) in.data[i] = input_of(env->rank, i);
  RANK_OK(env, gloo_reduce(env->context, in.data, first ? out.data : NULL,
                           count, GLOO_FLOAT32, GLOO_SUM, root, &o, NULL));
  if (first) check_sums(env, out.data, count, 0);
  for (size_t i = 0; i < count; i++) out.data[i] = input_of(env->rank, i);
  RANK_OK(env, gloo_reduce(env->context, first ? GLOO_IN_PLACE : out.data,
                           first ? out.data : NULL, count, GLOO_FLOAT32,
                           GLOO_SUM, root, &o, NULL));
  if (first) check_sums(env, out.data, count, 0);
  discard(&in);
  discard(&out);
}

static void reduce_scatter(rank_env *env, size_t count, const char *algorithm,
                           bool in_shared, bool out_shared) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = algorithm;
  size_t all = count * (size_t)env->size;
  size_t first = count * (size_t)env->rank;
  buffer in = make(env, all, in_shared), out = make(env, count, out_shared);
  for (size_t i = 0; i < all; i++) in.data[i] = input_of(env->rank, i);
  RANK_OK(env, gloo_reduce_scatter(env->context, in.data, out.data, count,
                                   GLOO_FLOAT32, GLOO_SUM, &o, NULL));
  check_sums(env, out.data, count, first);
  RANK_OK(env, gloo_reduce_scatter(env->context, GLOO_IN_PLACE, in.data, count,
                                   GLOO_FLOAT32, GLOO_SUM, &o, NULL));
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) {
    wrong += in.data[i] != sum_of(env->size, first + i);
  }
  RANK_CHECK(env, wrong == 0);
  discard(&in);
  discard(&out);
}

static void moving(rank_env *env, size_t count, bool in_shared,
                   bool out_shared) {
  size_t all = count * (size_t)env->size, wrong = 0;
  int root = env->size - 1, next = (env->rank + 1) % env->size;
  int previous = (env->rank + env->size - 1) % env->size;
  buffer in = make(env, count, in_shared), out = make(env, all, out_shared);
  for (size_t i = 0; i < count; i++) in.data[i] = input_of(env->rank, i);
  RANK_OK(env, gloo_allgather(env->context, in.data, out.data, count,
                              GLOO_FLOAT32, NULL, NULL));
  for (size_t i = 0; i < all; i++) {
    wrong += out.data[i] != input_of((int)(i / count), i % count);
  }
  RANK_OK(env, gloo_broadcast(env->context, in.data, out.data, count,
                              GLOO_FLOAT32, root, NULL, NULL));
  for (size_t i = 0; i < count; i++) {
    wrong += out.data[i] != input_of(root, i);
  }
  gloo_request *send = NULL;
  RANK_OK(env, gloo_send_start(env->context, in.data, count, GLOO_FLOAT32, next,
                               NULL, &send, NULL));
  RANK_OK(env, gloo_recv(env->context, out.data, count, GLOO_FLOAT32, previous,
                         NULL, NULL));
  RANK_OK(env, gloo_request_wait(send, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(send);
  for (size_t i = 0; i < count; i++) {
    wrong += out.data[i] != input_of(previous, i);
  }
  RANK_CHECK(env, wrong == 0);
  discard(&in);
  discard(&out);
}

/* Each rank uses another kind of memory, selected by `mix`. */
static void every_collective(rank_env *env) {
  static const size_t counts[] = {1, 3, 1000, 20000,
                                  SANITIZED ? 70001 : 300007};
  unsigned mix = *(unsigned *)env->user;
  bool in_shared = (mix >> (2 * env->rank) & 1) != 0;
  bool out_shared = (mix >> (2 * env->rank) & 2) != 0;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    allreduce(env, counts[i], "fused", in_shared, out_shared);
    allreduce(env, counts[i], "ring", in_shared, out_shared);
    allreduce(env, counts[i], NULL, in_shared, out_shared);
    reduce(env, counts[i], "fused", in_shared, out_shared);
    reduce_scatter(env, counts[i], "fused", in_shared, out_shared);
    reduce(env, counts[i], NULL, in_shared, out_shared);
    reduce_scatter(env, counts[i], NULL, in_shared, out_shared);
    moving(env, counts[i], in_shared, out_shared);
  }
}

static void any_mix_of_memory_gives_the_same(void **state) {
  (void)state;
  unsigned mixes[] = {0xffff, 0x0000, 0x5555, 0xaaaa, 0x6c1b};
  for (int size = 1; size <= 5 - SANITIZED_THREADS; size++) {
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
      ranks_options o = {.transport = transport, .user = &mixes[i]};
      ranks_run(size, &o, every_collective);
    }
  }
}

/* The promise of shared buffers is a performance hint: results are the same if
 * a rank does not keep it. */
static void any_mix_gives_the_same_whatever_was_promised(void **state) {
  (void)state;
  unsigned mixes[] = {0xffff, 0x0000, 0x6c1b};
  for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
    ranks_options o = {
        .transport = transport, .shared_buffers = 1, .user = &mixes[i]};
    ranks_run(2 + 2 * (int)i, &o, every_collective);
  }
}

/* ---- one way ------------------------------------------------------------- */

/* If each rank has a core, the sender helps to copy long messages. */
static void check_inputs(rank_env *env, const buffer *b, size_t count,
                         int rank) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += b->data[i] != input_of(rank, i);
  RANK_CHECK(env, wrong == 0);
  RANK_CHECK(env, b->data[count] == -7);
}

static void one_way(rank_env *env, size_t count, int round) {
  int other = 1 - env->rank, number = round * 2;
  buffer in = make(env, count, true), out = make(env, count, true);
  for (int root = 0; root < 2; root++) {
    buffer *b = root == env->rank ? &in : &out;
    for (size_t i = 0; i < count; i++) in.data[i] = input_of(number + root, i);
    RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, b->data, count,
                                GLOO_FLOAT32, root, NULL, NULL));
    check_inputs(env, b, count, number + root);
    for (size_t i = 0; i < count; i++) out.data[i] = 0;
    if (root == env->rank) {
      RANK_OK(env, gloo_send(env->context, in.data, count, GLOO_FLOAT32, other,
                             NULL, NULL));
    } else {
      RANK_OK(env, gloo_recv(env->context, out.data, count, GLOO_FLOAT32, other,
                             NULL, NULL));
      check_inputs(env, &out, count, number + root);
    }
  }
  discard(&in);
  discard(&out);
}

static void only_one_way(rank_env *env) {
  size_t most = SANITIZED ? 300000 : 3000000;
  for (int round = 0; round < 30; round++) {
    one_way(env, 65530 + (size_t)round, round);
    one_way(env, most / (size_t)(round % 7 + 1), round);
  }
}

static void what_goes_one_way_is_copied_by_both(void **state) {
  (void)state;
  ranks_options o = {.transport = transport, .shared_buffers = 1};
  ranks_run(2, &o, only_one_way);
}

/* ---- while memory comes and goes ----------------------------------------- */

static void come_and_go(rank_env *env) {
  for (int round = 0; round < 60; round++) {
    size_t count = 2000 + (size_t)(round * 977 % 5000);
    allreduce(env, count, round % 2 ? "fused" : NULL, true, round % 3 != 0);
  }
}

static void memory_is_allocated_and_freed_between_operations(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(3, &o, come_and_go);
}

/* ---- errors -------------------------------------------------------------- */

/* Returns true if the page at this address is still shared. */
static bool is_shared(const void *address) {
  FILE *maps = fopen("/proc/self/maps", "r");
  if (!maps) return false;
  char line[512];
  bool shared = false;
  unsigned long long first, end, at = (unsigned long long)(uintptr_t)address;
  while (fgets(line, sizeof line, maps)) {
    char mode[8];
    if (sscanf(line, "%llx-%llx %7s", &first, &end, mode) != 3) continue;
    if (at >= first && at < end) shared = mode[3] == 's';
  }
  fclose(maps);
  return shared;
}

static void pause_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* Rank 0 exposes its output, and aborts before rank 1 arrives. */
static void give_up(rank_env *env) {
  enum { COUNT = 50000 };
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "fused";
  buffer in = make(env, COUNT, true), out = make(env, COUNT, true);
  for (size_t i = 0; i < COUNT; i++) in.data[i] = input_of(env->rank, i);
  RANK_OK(env, gloo_allreduce(env->context, in.data, out.data, COUNT,
                              GLOO_FLOAT32, GLOO_SUM, &o, NULL));
  float *middle = out.data + COUNT / 4 * 3;
  bool lends = strcmp(transport, "tcp") != 0 && strcmp(transport, "ibv") != 0 &&
               strcmp(transport, "inproc") != 0 &&
               !gli_environment_read("GLOO_CHECKSUM");
  bool shared = env->rank == 0 && lends && is_shared(middle);
  if (env->rank == 0) o.timeout_ns = INT64_C(200000000);
  const char *given_up = "rank 0 has given up";
  if (env->rank == 1) {
    RANK_OK(env, gloo_store_wait(env->store, &given_up, 1, INT64_C(30000000000),
                                 NULL));
  }
  RANK_CHECK(
      env, gloo_allreduce(env->context, in.data, out.data, COUNT, GLOO_FLOAT32,
                          GLOO_SUM, &o, NULL) == GLOO_ERR_TIMEOUT);
  if (env->rank == 0) {
    RANK_OK(env, gloo_store_set(env->store, given_up, "", 0, NULL));
  }
  if (shared) RANK_CHECK(env, !is_shared(middle));
  for (size_t i = 0; i < COUNT; i++) out.data[i] = (float)i;
  pause_ms(env->rank == 0 ? 600 : 0);
  size_t wrong = 0;
  for (size_t i = 0; i < COUNT; i++) wrong += out.data[i] != (float)i;
  RANK_CHECK(env, wrong == 0);
  discard(&in);
  discard(&out);
}

static void what_was_exposed_is_cut_off_after_an_error(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, give_up);
}

/* Both outputs are within one page. Rank 1 misses the first call, which fails,
 * and joins only the second, in another context. */
static void share_a_page(rank_env *env) {
  enum { COUNT = 16 };
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "fused";
  gloo_error error;
  gloo_store *store = NULL;
  gloo_context *other = NULL;
  RANK_OK(env, gloo_store_prefix_create(env->store, "other", &store, &error));
  RANK_OK(env, gloo_context_create(env->rank, env->size, store, env->device,
                                   NULL, &other, &error));
  buffer b = make(env, 3 * COUNT, true);
  float *in = b.data, *out = in + COUNT, *lost = out + COUNT;
  for (size_t i = 0; i < COUNT; i++) in[i] = input_of(env->rank, i);
  for (int warm = 0; warm < 2; warm++) { /* connects, shares memory */
    RANK_OK(env, gloo_allreduce(warm ? other : env->context, in, out, COUNT,
                                GLOO_FLOAT32, GLOO_SUM, &o, NULL));
    check_sums(env, out, COUNT, 0);
    for (size_t i = 0; i < COUNT; i++) out[i] = -7;
  }
  gloo_request *op = NULL;
  if (env->rank == 0) {
    RANK_OK(env, gloo_allreduce_start(other, in, out, COUNT, GLOO_FLOAT32,
                                      GLOO_SUM, &o, &op, NULL));
    o.timeout_ns = INT64_C(200000000);
    RANK_CHECK(env, gloo_allreduce(env->context, in, lost, COUNT, GLOO_FLOAT32,
                                   GLOO_SUM, &o, NULL) == GLOO_ERR_TIMEOUT);
    for (size_t i = 0; i < COUNT; i++) lost[i] = -7;
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
    gloo_request_destroy(op);
    check_sums(env, out, COUNT, 0);
  } else {
    pause_ms(600);
    RANK_OK(env, gloo_allreduce(other, in, out, COUNT, GLOO_FLOAT32, GLOO_SUM,
                                &o, NULL));
  }
  RANK_OK(env, gloo_barrier(other, NULL, NULL));
  gloo_context_destroy(other);
  gloo_store_destroy(store);
  discard(&b);
}

static void an_error_does_not_harm_what_is_exposed_next_to_it(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, share_a_page);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_mix_of_memory_gives_the_same),
      cmocka_unit_test(any_mix_gives_the_same_whatever_was_promised),
      cmocka_unit_test(what_goes_one_way_is_copied_by_both),
      cmocka_unit_test(memory_is_allocated_and_freed_between_operations),
      cmocka_unit_test(what_was_exposed_is_cut_off_after_an_error),
      cmocka_unit_test(an_error_does_not_harm_what_is_exposed_next_to_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
