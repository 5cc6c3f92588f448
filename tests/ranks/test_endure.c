/* Millions of collectives of all kinds and sizes, each with the correct result,
 * while groups and contexts come and go and contexts are aborted. At the end
 * the process has as many threads and descriptors as near the beginning, and
 * little more memory. */
#include "ranks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "sanitized.h"

enum { RANKS = 4, MOST = 4096, SPLIT_EVERY = 512, RENEW_EVERY = 8192 };
/* Allowance for the test store's records of each context, and memory that the C
 * library retains. */
static const long most_growth_kib = 65536;

static const char *transport = "auto";
static long calls = 100000;

/* ---- resources of the process -------------------------------------------- */

typedef struct holdings {
  long descriptors, threads, kib;
} holdings;

static long holdings_count(const char *directory) {
  DIR *dir = opendir(directory);
  long n = 0;
  if (dir == NULL) return -1;
  while (readdir(dir) != NULL) n++;
  closedir(dir);
  return n;
}

static holdings holdings_now(void) {
  holdings h = {.descriptors = holdings_count("/proc/self/fd"),
                .threads = holdings_count("/proc/self/task")};
#if defined(_WIN32)
  h.descriptors = test_windows_handles();
#endif
  FILE *file = fopen("/proc/self/statm", "r");
  long all = 0, resident = 0;
  if (file != NULL) {
    if (fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    fclose(file);
  }
  h.kib = resident * (sysconf(_SC_PAGESIZE) / 1024);
  return h;
}

static holdings early;

/* ---- one call ------------------------------------------------------------ */

/* Draws a number below n, the same on all ranks. */
static uint32_t endure_draw(uint64_t *state, uint32_t n) {
  *state =
      *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33) % n;
}

static size_t endure_count(uint64_t *state) {
  switch (endure_draw(state, 64)) {
    case 0:
      return MOST;
    case 1:
    case 2:
      return 500 + endure_draw(state, 500);
    default:
      return endure_draw(state, 40);
  }
}

static int32_t endure_input(int rank, size_t i, uint32_t salt) {
  return (int32_t)((salt + i * 3 + (size_t)rank * 1000) % 100000);
}

typedef struct buffers {
  int32_t in[MOST * RANKS], out[MOST * RANKS];
} buffers;

static void endure_expect(rank_env *env, const int32_t *out, size_t n, int rank,
                          size_t from, uint32_t salt) {
  for (size_t i = 0; i < n; i++)
    RANK_CHECK(env, out[i] == endure_input(rank, from + i, salt));
}

static void endure_expect_sums(rank_env *env, const int32_t *out, size_t n,
                               size_t from, uint32_t salt, int size) {
  for (size_t i = 0; i < n; i++) {
    int32_t sum = 0;
    for (int r = 0; r < size; r++) sum += endure_input(r, from + i, salt);
    RANK_CHECK(env, out[i] == sum);
  }
}

static void endure_call(rank_env *env, gloo_context *c, buffers *b,
                        uint64_t *state) {
  int size = gloo_context_size(c), rank = gloo_context_rank(c);
  size_t n = endure_count(state), at = (size_t)rank * n;
  uint32_t salt = endure_draw(state, 50000), kind = endure_draw(state, 8);
  int root = (int)endure_draw(state, (uint32_t)size);
  for (size_t i = 0; i < n * (size_t)size; i++)
    b->in[i] = endure_input(rank, i, salt);
  switch (kind) {
    case 0:
      RANK_OK(env, gloo_barrier(c, NULL, NULL));
      return;
    case 1:
      RANK_OK(env, gloo_broadcast(c, b->in, b->out, n, GLOO_INT32, root, NULL,
                                  NULL));
      endure_expect(env, b->out, n, root, 0, salt);
      return;
    case 2:
      RANK_OK(env, gloo_allgather(c, b->in, b->out, n, GLOO_INT32, NULL, NULL));
      for (int r = 0; r < size; r++)
        endure_expect(env, b->out + (size_t)r * n, n, r, 0, salt);
      return;
    case 3:
      RANK_OK(env, gloo_reduce_scatter(c, b->in, b->out, n, GLOO_INT32,
                                       GLOO_SUM, NULL, NULL));
      endure_expect_sums(env, b->out, n, at, salt, size);
      return;
    case 4:
      RANK_OK(env, gloo_alltoall(c, b->in, b->out, n, GLOO_INT32, NULL, NULL));
      for (int r = 0; r < size; r++)
        endure_expect(env, b->out + (size_t)r * n, n, r, at, salt);
      return;
    case 5:
      RANK_OK(env, gloo_reduce(c, b->in, b->out, n, GLOO_INT32, GLOO_SUM, root,
                               NULL, NULL));
      if (rank == root) endure_expect_sums(env, b->out, n, 0, salt, size);
      return;
    case 6:
      RANK_OK(env,
              gloo_scatter(c, b->in, b->out, n, GLOO_INT32, root, NULL, NULL));
      endure_expect(env, b->out, n, root, at, salt);
      return;
    default:
      RANK_OK(env, gloo_allreduce(c, b->in, b->out, n, GLOO_INT32, GLOO_SUM,
                                  NULL, NULL));
      endure_expect_sums(env, b->out, n, 0, salt, size);
  }
}

/* ---- what comes and goes ------------------------------------------------- */

static gloo_context *endure_renew(rank_env *env, long number) {
  char name[32];
  gloo_store *store;
  gloo_context *context = NULL;
  snprintf(name, sizeof name, "%ld", number);
  RANK_OK(env, gloo_store_prefix_create(env->store, name, &store, NULL));
  RANK_OK(env, gloo_context_create(env->rank, env->size, store, env->device,
                                   NULL, &context, NULL));
  gloo_store_destroy(store);
  return context;
}

/* One rank aborts the context after all have completed the previous calls. */
static void endure_give_up(rank_env *env, gloo_context *c, int who) {
  gloo_error error;
  gloo_status status = gloo_barrier(c, NULL, &error);
  if (env->rank == who) {
    RANK_CHECK(env, status == GLOO_OK);
    RANK_OK(env, gloo_context_abort(c, "it has lasted", NULL));
  }
  while (gloo_barrier(c, NULL, &error) == GLOO_OK) continue;
  if (error.cause != GLOO_ERR_ABORTED || error.rank != who)
    rank_fail(env, __FILE__, __LINE__, error.message);
}

static void endure_in_groups(rank_env *env, gloo_context *c, buffers *b,
                             uint64_t *state) {
  gloo_context *group = NULL;
  int color = (int)endure_draw(state, 2) ? env->rank % 2 : 0;
  uint64_t alike = *state;
  RANK_OK(env, gloo_context_split(c, color, env->rank, NULL, &group, NULL));
  for (int i = 0; i < 16; i++) endure_call(env, group, b, &alike);
  gloo_context_destroy(group);
}

static void endure(rank_env *env) {
  uint64_t state = 1;
  gloo_context *c = endure_renew(env, 0);
  buffers *b = malloc(sizeof *b);
  RANK_CHECK(env, b != NULL);
  for (long i = 1; i <= calls && env->failure[0] == '\0'; i++) {
    endure_call(env, c, b, &state);
    if (i % SPLIT_EVERY == 0) endure_in_groups(env, c, b, &state);
    if (i % RENEW_EVERY != 0) continue;
    if (i % (2 * RENEW_EVERY) == 0)
      endure_give_up(env, c, (int)endure_draw(&state, RANKS));
    gloo_context_destroy(c);
    c = endure_renew(env, i);
    if (env->rank == 0 && i <= 4 * RENEW_EVERY) early = holdings_now();
  }
  gloo_context_destroy(c);
  free(b);
}

static void do_nothing(rank_env *env) {
  (void)env;
}

static void all_calls_are_right_and_nothing_grows(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, do_nothing); /* a sanitizer starts its own thread */
  holdings before = holdings_now();
  ranks_run(RANKS, &o, endure);
  holdings after = holdings_now();
  /* A joined thread may remain listed for a moment. */
  for (int i = 0; i < 1000 && after.threads > before.threads; i++) {
    uv_sleep(10);
    after = holdings_now();
  }
  print_message(
      "# %ld calls of %d ranks over %s: %ld, %ld, %ld descriptors, "
      "%ld, %ld, %ld threads, %ld, %ld, %ld KiB (before, early, "
      "after)\n",
      calls, RANKS, transport, before.descriptors, early.descriptors,
      after.descriptors, before.threads, early.threads, after.threads,
      before.kib, early.kib, after.kib);
  assert_int_equal(after.descriptors, before.descriptors);
  assert_int_equal(after.threads, before.threads);
  /* Sanitizers retain freed memory. */
  if (!SANITIZED) assert_true(after.kib < early.kib + most_growth_kib);
}

/* Arguments: the transport, and the number of calls. */
int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  if (argc > 2) calls = atol(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_calls_are_right_and_nothing_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
