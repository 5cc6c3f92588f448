/* Every collective and algorithm over every transport, against a plain
 * reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "ranks.h"
#include "sanitized.h"

enum {
  MOST_RANKS = SANITIZED_THREADS ? 4 : 8,
  LARGE_COUNT = SANITIZED ? 15000 : 120000
};

typedef struct job {
  const gli_algorithm *algorithm; /* NULL: let the library choose */
  gli_collective collective;
  size_t count;
  int root;
  int in_place;
  int form; /* 0 blocking, 1 start, 2 persistent (three runs) */
} job;

/* Returns element i of a rank's input; sums of 16 of them do not overflow. */
static int64_t input_at(int rank, size_t i, int run) {
  uint64_t mixed = (uint64_t)i * 2654435761u + (uint64_t)rank * 40503u +
                   (uint64_t)run * 977u;
  return (int64_t)(mixed >> 3 & 0x1ffff) - 50000;
}

/* Returns true if this rank has an output. */
static bool has_output(const job *j, int rank) {
  bool at_root = j->collective == GLI_REDUCE || j->collective == GLI_GATHER;
  return !at_root || rank == j->root;
}

/* Returns true if its call is in place; some collectives have that form at the
 * root only. */
static bool in_place(const job *j, int rank) {
  bool at_root = j->collective == GLI_GATHER || j->collective == GLI_SCATTER;
  return j->in_place && (!at_root || rank == j->root);
}

static size_t in_elements(const job *j, int size) {
  bool blocks = j->collective == GLI_REDUCE_SCATTER ||
                j->collective == GLI_ALLTOALL || j->collective == GLI_SCATTER;
  return blocks ? j->count * (size_t)size : j->count;
}

/* Returns the number of elements of the result. */
static size_t result_elements(const job *j, int size) {
  bool all = j->collective == GLI_ALLGATHER || j->collective == GLI_ALLTOALL ||
             j->collective == GLI_GATHER;
  return all ? j->count * (size_t)size : j->count;
}

static size_t out_elements(const job *j, int size) {
  size_t in = in_elements(j, size), out = result_elements(j, size);
  return j->in_place && in > out ? in : out;
}

/* Returns the sum over the first `ranks` ranks. */
static int64_t sum_at(int ranks, size_t i, int run) {
  int64_t sum = 0;
  for (int r = 0; r < ranks; r++) sum += input_at(r, i, run);
  return sum;
}

static int64_t expected_at(const job *j, int rank, int size, size_t i,
                           int run) {
  switch (j->collective) {
    case GLI_ALLREDUCE:
    case GLI_REDUCE:
      return sum_at(size, i, run);
    case GLI_SCAN:
      return sum_at(rank + 1, i, run);
    case GLI_EXSCAN:
      return sum_at(rank, i, run);
    case GLI_REDUCE_SCATTER:
      return sum_at(size, (size_t)rank * j->count + i, run);
    case GLI_BROADCAST:
      return input_at(j->root, i, run);
    case GLI_ALLGATHER:
    case GLI_GATHER:
      return input_at((int)(i / j->count), i % j->count, run);
    case GLI_SCATTER:
      return input_at(j->root, (size_t)rank * j->count + i, run);
    case GLI_ALLTOALL:
      return input_at((int)(i / j->count),
                      (size_t)rank * j->count + i % j->count, run);
    default:
      return 0;
  }
}

typedef struct buffers {
  int64_t *in, *out; /* deliberately misaligned */
  void *in_memory, *out_memory;
} buffers;

static buffers make_buffers(const job *j, int size) {
  buffers b;
  b.in_memory = malloc(in_elements(j, size) * 8 + 16);
  b.out_memory = malloc(out_elements(j, size) * 8 + 16);
  b.in = (int64_t *)(void *)((char *)b.in_memory + 1);
  b.out = (int64_t *)(void *)((char *)b.out_memory + 3);
  return b;
}

static void put(int64_t *at, size_t i, int64_t value) {
  memcpy((char *)at + i * 8, &value, 8);
}

static int64_t get(const int64_t *at, size_t i) {
  int64_t value;
  memcpy(&value, (const char *)at + i * 8, 8);
  return value;
}

static void fill(const rank_env *env, const job *j, buffers *b, int run) {
  size_t shift = 0;
  int64_t *target = b->in;
  if (in_place(j, env->rank)) {
    target = b->out;
    if (j->collective == GLI_ALLGATHER || j->collective == GLI_GATHER) {
      shift = (size_t)env->rank * j->count;
    }
  }
  memset(b->out, 0x5a, out_elements(j, env->size) * 8);
  if (j->collective == GLI_BARRIER) return;
  for (size_t i = 0; i < in_elements(j, env->size); i++) {
    put(target, shift + i, input_at(env->rank, i, run));
  }
}

static gloo_status call(rank_env *env, const job *j, buffers *b,
                        const gloo_options *o, gloo_request **op) {
  const void *in = in_place(j, env->rank) ? GLOO_IN_PLACE : b->in;
  void *out = b->out;
  gloo_context *c = env->context;
  /* An absent output may be NULL. */
  if (!has_output(j, env->rank) && in != GLOO_IN_PLACE && j->count % 2 == 0) {
    out = NULL;
  }
#define FORMS(name, ...)                                            \
  (j->form == 0   ? gloo_##name(c, __VA_ARGS__ o, NULL)             \
   : j->form == 1 ? gloo_##name##_start(c, __VA_ARGS__ o, op, NULL) \
                  : gloo_##name##_init(c, __VA_ARGS__ o, op, NULL))
#define ARGS in, out, j->count, GLOO_INT64
  switch (j->collective) {
    case GLI_BARRIER:
      return FORMS(barrier, );
    case GLI_BROADCAST:
      return FORMS(broadcast, ARGS, j->root, );
    case GLI_ALLREDUCE:
      return FORMS(allreduce, ARGS, GLOO_SUM, );
    case GLI_REDUCE_SCATTER:
      return FORMS(reduce_scatter, ARGS, GLOO_SUM, );
    case GLI_ALLGATHER:
      return FORMS(allgather, ARGS, );
    case GLI_ALLTOALL:
      return FORMS(alltoall, ARGS, );
    case GLI_REDUCE:
      return FORMS(reduce, ARGS, GLOO_SUM, j->root, );
    case GLI_GATHER:
      return FORMS(gather, ARGS, j->root, );
    case GLI_SCATTER:
      return FORMS(scatter, ARGS, j->root, );
    case GLI_SCAN:
      return FORMS(scan, ARGS, GLOO_SUM, );
    case GLI_EXSCAN:
      return FORMS(exscan, ARGS, GLOO_SUM, );
    default:
      return GLOO_ERR_INTERNAL;
  }
#undef ARGS
#undef FORMS
}

static void fail_element(rank_env *env, const job *j, size_t i, int64_t is,
                         int64_t want) {
  char text[200];
  snprintf(text, sizeof text,
           "%s %s count %zu root %d in place %d form %d: element %zu is %lld, "
           "not %lld",
           gli_collective_name(j->collective),
           j->algorithm ? j->algorithm->name : "auto", j->count, j->root,
           j->in_place, j->form, i, (long long)is, (long long)want);
  rank_fail(env, __FILE__, __LINE__, text);
}

/* Returns the former content of an output that holds no result. */
static int64_t untouched_at(const rank_env *env, const job *j, size_t i,
                            int run) {
  if (in_place(j, env->rank)) return input_at(env->rank, i, run);
  return INT64_C(0x5a5a5a5a5a5a5a5a);
}

static void check(rank_env *env, const job *j, const buffers *b, int run) {
  if (j->collective == GLI_BARRIER) return;
  bool untouched = !has_output(j, env->rank) ||
                   (j->collective == GLI_EXSCAN && env->rank == 0);
  size_t first = 0;
  if (j->collective == GLI_SCATTER && in_place(j, env->rank)) {
    first = (size_t)env->rank * j->count; /* the root's block stays in place */
  }
  size_t n = result_elements(j, env->size);
  /* A sample of a long vector suffices, if it includes the last element. */
  size_t stride = n > 10000 ? 29 : 1;
  for (size_t k = 0; k < n; k += stride) {
    size_t i = n - 1 - k;
    int64_t is = get(b->out, first + i);
    int64_t want = untouched ? untouched_at(env, j, i, run)
                             : expected_at(j, env->rank, env->size, i, run);
    if (is == want) continue;
    fail_element(env, j, i, is, want);
    return;
  }
}

static void run_job(rank_env *env, const job *j) {
  buffers b = make_buffers(j, env->size);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = j->algorithm ? j->algorithm->name : NULL;
  gloo_request *op = NULL;
  fill(env, j, &b, 0);
  RANK_OK(env, call(env, j, &b, &o, &op));
  if (j->form == 1 && op)
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  for (int run = 0; j->form == 2 && op && run < 3; run++) {
    fill(env, j, &b, run);
    RANK_OK(env, gloo_request_start(op, NULL));
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
    check(env, j, &b, run);
  }
  if (j->form != 2) check(env, j, &b, 0);
  gloo_request_destroy(op);
  free(b.in_memory);
  free(b.out_memory);
}

static void all_jobs(rank_env *env) {
  static const size_t counts[] = {0, 1, 7, 100, 4097, LARGE_COUNT};
  int n = 0;
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
      for (int in_place = 0; in_place < 2; in_place++) {
        const gli_algorithm *algorithm = &gli_algorithms[a];
        if (gli_collective_counted(algorithm->collective)) continue;
        int roots =
            gli_collective_rooted(algorithm->collective) ? env->size : 1;
        /* Short vectors are tested with every root, long ones with one. */
        int step = counts[c] > 100 ? roots : 1, first = (int)(a % (size_t)step);
        for (int root = first; root < roots && !env->failure[0]; root += step) {
          job j = {.algorithm = n % 5 ? algorithm : NULL,
                   .collective = algorithm->collective,
                   .count = counts[c],
                   .root = root,
                   .in_place = in_place,
                   .form = n % 3};
          n++;
          run_job(env, &j);
        }
      }
    }
  }
}

static void over(const char *transport, int streams, int no_helper) {
  static const int sizes[] = {1, 2, 3, 4, 5, 7, 8};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i] > MOST_RANKS) continue;
    ranks_options o = {
        .transport = transport, .streams = streams, .no_helper = no_helper};
    ranks_run(sizes[i], &o, all_jobs);
  }
}

static const char *transport;

static void collectives_over_it(void **state) {
  (void)state;
  over(transport, 1, 0);
}
static void collectives_over_it_without_helper(void **state) {
  (void)state;
  over(transport, 1, 1);
}
static void collectives_over_three_streams(void **state) {
  (void)state;
  over(transport, 3, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest memory[] = {
      cmocka_unit_test(collectives_over_it),
      cmocka_unit_test(collectives_over_it_without_helper),
  };
  const struct CMUnitTest streams[] = {
      cmocka_unit_test(collectives_over_it),
      cmocka_unit_test(collectives_over_three_streams),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  if (strcmp(transport, "tcp") == 0) {
    return cmocka_run_group_tests_name(transport, streams, NULL, NULL);
  }
  return cmocka_run_group_tests_name(transport, memory, NULL, NULL);
}
