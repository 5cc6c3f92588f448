/* More than 2^31 elements, at odd addresses, through every collective, between
 * two ranks. Each has two buffers of 2 GiB.
 * usage: test_ranks_large [TRANSPORT [COUNT [PART]]] */
#include "ranks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of each buffer; a block has half of these if the buffer has one per
 * rank. */
static size_t count = ((size_t)1 << 31) + 6;

/* Byte i of a rank's input is 13 i + 7 (i >> 20) + 101 (i >> 31) + 29 rank, so
 * that bytes 2^31 or 2^32 apart differ. A row ends where i >> 20 changes; each
 * is a stretch of `pattern`, which makes filling and comparing gigabytes
 * fast. */
enum { ROW = 1 << 20, PERIOD = 256, INVERSE_OF_13 = 197 };
static uint8_t pattern[ROW + PERIOD]; /* 13 i */

static void make_pattern(void) {
  for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (uint8_t)(i * 13);
}

/* Returns the input of a rank from `i` on, and limits `*n` to the row's end. */
static const uint8_t *row_at(int rank, size_t i, size_t *n) {
  uint8_t first =
      (uint8_t)(i * 13 + (i >> 20) * 7 + (i >> 31) * 101 + (size_t)rank * 29);
  size_t left = ROW - i % ROW;
  if (*n > left) *n = left;
  return pattern + (uint8_t)(first * INVERSE_OF_13);
}

typedef struct memory {
  uint8_t *in, *out; /* `count` bytes each */
} memory;

static void fill(rank_env *env, const memory *m) {
  for (size_t i = 0, n; i < count; i += n) {
    n = count - i;
    const uint8_t *row = row_at(env->rank, i, &n);
    memcpy(m->in + i, row, n);
  }
}

/* Clears the output before a call. */
static void clear(const memory *m) {
  memset(m->out, 0, count);
}

/* Checks that elements [from, from + n) of the output equal a rank's input from
 * `at` on. */
static void expect(rank_env *env, const memory *m, size_t from, size_t n,
                   int rank, size_t at, const char *what) {
  bool right = true;
  for (size_t i = 0, some; i < n && right; i += some) {
    some = n - i;
    const uint8_t *row = row_at(rank, at + i, &some);
    right = memcmp(m->out + from + i, row, some) == 0;
  }
  if (!right) rank_fail(env, __FILE__, __LINE__, what);
}

/* Checks that the first n elements combine both ranks' inputs from `at` on. */
static void expect_both(rank_env *env, const memory *m, size_t n, gloo_op op,
                        size_t at, const char *what) {
  size_t wrong = 0;
  for (size_t i = 0, some; i < n; i += some) {
    some = n - i;
    const uint8_t *a = row_at(0, at + i, &some), *b = row_at(1, at + i, &some);
    for (size_t k = 0; k < some; k++)
      wrong += m->out[i + k] !=
               (op == GLOO_SUM ? (uint8_t)(a[k] + b[k]) : (a[k] ^ b[k]));
  }
  if (wrong > 0) rank_fail(env, __FILE__, __LINE__, what);
}

/* ---- collectives --------------------------------------------------------- */

static void sums(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  int rank = env->rank;
  clear(m);
  RANK_OK(env,
          gloo_allreduce(c, m->in, m->out, count, t, GLOO_SUM, NULL, NULL));
  expect_both(env, m, count, GLOO_SUM, 0, "allreduce");
  clear(m);
  RANK_OK(env,
          gloo_reduce(c, m->in, m->out, count, t, GLOO_SUM, 1, NULL, NULL));
  if (rank == 1) expect_both(env, m, count, GLOO_SUM, 0, "reduce");
}

static void vectors(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  int rank = env->rank;
  clear(m);
  RANK_OK(env, gloo_broadcast(c, m->in, m->out, count, t, 1, NULL, NULL));
  expect(env, m, 0, count, 1, 0, "broadcast");
  clear(m);
  RANK_OK(env, gloo_scan(c, m->in, m->out, count, t, GLOO_SUM, NULL, NULL));
  if (rank == 0) expect(env, m, 0, count, 0, 0, "scan");
  if (rank == 1) expect_both(env, m, count, GLOO_SUM, 0, "scan");
  clear(m);
  RANK_OK(env, gloo_exscan(c, m->in, m->out, count, t, GLOO_SUM, NULL, NULL));
  if (rank == 1) expect(env, m, 0, count, 0, 0, "exscan");
}

static void blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  size_t half = count / 2, mine = (size_t)env->rank * half;
  clear(m);
  RANK_OK(env,
          gloo_reduce_scatter(c, m->in, m->out, half, t, GLOO_SUM, NULL, NULL));
  expect_both(env, m, half, GLOO_SUM, mine, "reduce_scatter");
  clear(m);
  RANK_OK(env, gloo_allgather(c, m->in, m->out, half, t, NULL, NULL));
  expect(env, m, 0, half, 0, 0, "allgather");
  expect(env, m, half, half, 1, 0, "allgather");
}

static void other_blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  size_t half = count / 2, mine = (size_t)env->rank * half;
  clear(m);
  RANK_OK(env, gloo_alltoall(c, m->in, m->out, half, t, NULL, NULL));
  expect(env, m, 0, half, 0, mine, "alltoall");
  expect(env, m, half, half, 1, mine, "alltoall");
  clear(m);
  RANK_OK(env, gloo_gather(c, m->in, m->out, half, t, 1, NULL, NULL));
  if (env->rank == 1) expect(env, m, 0, half, 0, 0, "gather");
  if (env->rank == 1) expect(env, m, half, half, 1, 0, "gather");
  clear(m);
  RANK_OK(env, gloo_scatter(c, m->in, m->out, half, t, 1, NULL, NULL));
  expect(env, m, 0, half, 1, mine, "scatter");
}

/* All elements but three are in one block. */
static void uneven_blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  const size_t counts[] = {3, count - 3}, first[] = {0, 3};
  size_t own = counts[env->rank], at = first[env->rank];
  clear(m);
  RANK_OK(env, gloo_reduce_scatterv(c, m->in, m->out, counts, t, GLOO_SUM, NULL,
                                    NULL));
  expect_both(env, m, own, GLOO_SUM, at, "reduce_scatterv");
  clear(m);
  RANK_OK(env, gloo_allgatherv(c, m->in, m->out, counts, first, t, NULL, NULL));
  expect(env, m, 0, 3, 0, 0, "allgatherv");
  expect(env, m, 3, count - 3, 1, 0, "allgatherv");
}

static void other_uneven_blocks(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  const size_t counts[] = {3, count - 3}, first[] = {0, 3};
  size_t own = counts[env->rank], at = first[env->rank];
  clear(m);
  RANK_OK(env,
          gloo_gatherv(c, m->in, own, m->out, counts, first, t, 0, NULL, NULL));
  if (env->rank == 0) expect(env, m, 3, count - 3, 1, 0, "gatherv");
  clear(m);
  RANK_OK(env, gloo_scatterv(c, m->in, counts, first, m->out, own, t, 0, NULL,
                             NULL));
  expect(env, m, 0, own, 0, at, "scatterv");
  /* Each rank keeps three elements and sends all others. */
  size_t lengths[] = {count - 3, count - 3}, from[] = {3, 3};
  lengths[env->rank] = 3;
  from[env->rank] = 0;
  clear(m);
  RANK_OK(env, gloo_alltoallv(c, m->in, lengths, from, m->out, lengths, from, t,
                              NULL, NULL));
  expect(env, m, 0, 3, env->rank, 0, "alltoallv");
  expect(env, m, 3, count - 3, 1 - env->rank, 3, "alltoallv");
}

static void messages(rank_env *env, const memory *m) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_UINT8;
  int other = 1 - env->rank;
  clear(m);
  RANK_OK(env, gloo_sendrecv(c, m->in, count, other, m->out, count, other, t,
                             NULL, NULL));
  expect(env, m, 0, count, other, 0, "sendrecv");
  clear(m);
  if (env->rank == 0) {
    RANK_OK(env, gloo_send(c, m->in, count, t, 1, NULL, NULL));
  } else {
    RANK_OK(env, gloo_recv(c, m->out, count, t, 0, NULL, NULL));
    expect(env, m, 0, count, 0, 0, "send and recv");
  }
}

/* Elements of eight bytes: the count fits in 31 bits, the length in bytes does
 * not. The buffers are unaligned. */
static void wide(rank_env *env, const memory *m) {
  size_t n = count / 8;
  clear(m);
  RANK_OK(env, gloo_allreduce(env->context, m->in, m->out, n, GLOO_UINT64,
                              GLOO_BXOR, NULL, NULL));
  expect_both(env, m, n * 8, GLOO_BXOR, 0, "allreduce of 64 bits");
}

static const char *transport = "tcp";
static int part = -1; /* part to run; below 0: all */

static void large(rank_env *env) {
  static void (*const parts[])(rank_env *, const memory *) = {
      sums,         vectors,       blocks,
      other_blocks, uneven_blocks, other_uneven_blocks,
      messages,     wide};
  uint8_t *in = malloc(count + 1), *out = malloc(count + 3);
  RANK_CHECK(env, in != NULL && out != NULL);
  if (in != NULL && out != NULL) {
    memory m = {in + 1, out + 3};
    fill(env, &m);
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
  make_pattern();
  if (argc > 1) transport = argv[1];
  if (argc > 2) count = strtoul(argv[2], NULL, 10) / 8 * 8 + 6;
  if (argc > 3) part = atoi(argv[3]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(more_than_2_to_the_31_elements),
  };
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
