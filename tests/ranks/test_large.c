/* More than 2^31 elements, at odd addresses, through every collective, between
 * two ranks. Each has two buffers of 2 GiB.
 * usage: test_ranks_large [TRANSPORT [COUNT [PART]]] */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

/* Of each buffer: of blocks for two ranks, half of it. */
static size_t count = ((size_t)1 << 31) + 6;

/* Two that are 2^31 or 2^32 apart differ. */
static uint8_t value_at(int rank, size_t i) {
  return (uint8_t)(i * 13 + (i >> 20) * 7 + (i >> 31) * 101 +
                   (size_t)rank * 29);
}

typedef struct memory {
  uint8_t *in, *out; /* of `count` bytes */
} memory;

static void fill(rank_env *env, const memory *m) {
  for (size_t i = 0; i < count; i++) m->in[i] = value_at(env->rank, i);
  memset(m->out, 0, count);
}

/* Elements [from, from + n) of the output: those of a rank's input from `at`
 * on; of both ranks together where `rank` is -1. */
static void expect(rank_env *env, const memory *m, size_t from, size_t n,
                   int rank, size_t at, const char *what) {
  size_t wrong = 0;
  for (size_t i = 0; i < n; i++) {
    uint8_t want = rank >= 0
                       ? value_at(rank, at + i)
                       : (uint8_t)(value_at(0, at + i) + value_at(1, at + i));
    wrong += m->out[from + i] != want;
  }
  if (wrong > 0) rank_fail(env, __FILE__, __LINE__, what);
}

/* ---- collectives --------------------------------------------------------- */

static void sums(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  int rank = env->rank;
  fill(env, m);
  RANK_OK(env, gloo_allreduce(c, m->in, m->out, count, t, GLOO_SUM, NULL));
  expect(env, m, 0, count, -1, 0, "allreduce");
  fill(env, m);
  RANK_OK(env, gloo_reduce(c, m->in, m->out, count, t, GLOO_SUM, 1, NULL));
  if (rank == 1) expect(env, m, 0, count, -1, 0, "reduce");
}

static void vectors(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  int rank = env->rank;
  fill(env, m);
  RANK_OK(env, gloo_broadcast(c, m->in, m->out, count, t, 1, NULL));
  expect(env, m, 0, count, 1, 0, "broadcast");
  fill(env, m);
  RANK_OK(env, gloo_scan(c, m->in, m->out, count, t, GLOO_SUM, NULL));
  expect(env, m, 0, count, rank == 0 ? 0 : -1, 0, "scan");
  fill(env, m);
  RANK_OK(env, gloo_exscan(c, m->in, m->out, count, t, GLOO_SUM, NULL));
  if (rank == 1) expect(env, m, 0, count, 0, 0, "exscan");
}

static void blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  size_t half = count / 2, mine = (size_t)env->rank * half;
  fill(env, m);
  RANK_OK(env, gloo_reduce_scatter(c, m->in, m->out, half, t, GLOO_SUM, NULL));
  expect(env, m, 0, half, -1, mine, "reduce_scatter");
  fill(env, m);
  RANK_OK(env, gloo_allgather(c, m->in, m->out, half, t, NULL));
  expect(env, m, 0, half, 0, 0, "allgather");
  expect(env, m, half, half, 1, 0, "allgather");
}

static void other_blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  size_t half = count / 2, mine = (size_t)env->rank * half;
  fill(env, m);
  RANK_OK(env, gloo_alltoall(c, m->in, m->out, half, t, NULL));
  expect(env, m, 0, half, 0, mine, "alltoall");
  expect(env, m, half, half, 1, mine, "alltoall");
  fill(env, m);
  RANK_OK(env, gloo_gather(c, m->in, m->out, half, t, 1, NULL));
  if (env->rank == 1) expect(env, m, 0, half, 0, 0, "gather");
  if (env->rank == 1) expect(env, m, half, half, 1, 0, "gather");
  fill(env, m);
  RANK_OK(env, gloo_scatter(c, m->in, m->out, half, t, 1, NULL));
  expect(env, m, 0, half, 1, mine, "scatter");
}

/* All but three elements are in one block. */
static void uneven_blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  const size_t counts[] = {3, count - 3}, first[] = {0, 3};
  size_t own = counts[env->rank], at = first[env->rank];
  fill(env, m);
  RANK_OK(env,
          gloo_reduce_scatterv(c, m->in, m->out, counts, t, GLOO_SUM, NULL));
  expect(env, m, 0, own, -1, at, "reduce_scatterv");
  fill(env, m);
  RANK_OK(env, gloo_allgatherv(c, m->in, m->out, counts, first, t, NULL));
  expect(env, m, 0, 3, 0, 0, "allgatherv");
  expect(env, m, 3, count - 3, 1, 0, "allgatherv");
}

static void other_uneven_blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  const size_t counts[] = {3, count - 3}, first[] = {0, 3};
  size_t own = counts[env->rank], at = first[env->rank];
  fill(env, m);
  RANK_OK(env, gloo_gatherv(c, m->in, own, m->out, counts, first, t, 0, NULL));
  if (env->rank == 0) expect(env, m, 3, count - 3, 1, 0, "gatherv");
  fill(env, m);
  RANK_OK(env, gloo_scatterv(c, m->in, counts, first, m->out, own, t, 0, NULL));
  expect(env, m, 0, own, 0, at, "scatterv");
  /* Each keeps three elements, and sends all others. */
  size_t lengths[] = {count - 3, count - 3}, from[] = {3, 3};
  lengths[env->rank] = 3;
  from[env->rank] = 0;
  fill(env, m);
  RANK_OK(env, gloo_alltoallv(c, m->in, lengths, from, m->out, lengths, from, t,
                              NULL));
  expect(env, m, 0, 3, env->rank, 0, "alltoallv");
  expect(env, m, 3, count - 3, 1 - env->rank, 3, "alltoallv");
}

static void messages(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  int other = 1 - env->rank;
  fill(env, m);
  RANK_OK(env,
          gloo_sendrecv(c, m->in, count, other, m->out, count, other, t, NULL));
  expect(env, m, 0, count, other, 0, "sendrecv");
  fill(env, m);
  if (env->rank == 0) {
    RANK_OK(env, gloo_send(c, m->in, count, t, 1, NULL));
  } else {
    RANK_OK(env, gloo_recv(c, m->out, count, t, 0, NULL));
    expect(env, m, 0, count, 0, 0, "send and recv");
  }
}

/* Elements of eight bytes: the length in elements fits 31 bits, in bytes it
 * does not. Unaligned, too. */
static void wide(rank_env *env, const memory *m) {
  size_t n = count / 8;
  fill(env, m);
  RANK_OK(env, gloo_allreduce(env->context, m->in, m->out, n, GLOO_UINT64,
                              GLOO_BXOR, NULL));
  size_t wrong = 0;
  for (size_t i = 0; i < n * 8; i++) {
    wrong += m->out[i] != (value_at(0, i) ^ value_at(1, i));
  }
  RANK_CHECK(env, wrong == 0);
}

static const char *transport = "tcp";
static int part = -1; /* below 0: all */

static void large(rank_env *env) {
  static void (*const parts[])(rank_env *, const memory *) = {
      sums,         vectors,       blocks,
      other_blocks, uneven_blocks, other_uneven_blocks,
      messages,     wide};
  uint8_t *in = malloc(count + 1), *out = malloc(count + 3);
  RANK_CHECK(env, in != NULL && out != NULL);
  if (in != NULL && out != NULL) {
    memory m = {in + 1, out + 3};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
      if (part < 0 || part == (int)i) parts[i](env, &m);
      if (env->failure[0]) break;
    }
  }
  free(in);
  free(out);
}

static void more_than_2_to_the_31_elements(void **state) {
  (void)state;
  ranks_options o = {.transport = transport,
                     .timeout_ns = INT64_C(400000000000)};
  ranks_run(2, &o, large);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  if (argc > 2) count = strtoul(argv[2], NULL, 10) / 8 * 8 + 6;
  if (argc > 3) part = atoi(argv[3]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(more_than_2_to_the_31_elements),
  };
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
