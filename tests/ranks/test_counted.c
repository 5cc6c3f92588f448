/* Collectives with blocks of different lengths, over every transport, compared
 * with a plain reference; mismatched lists; two messages in one call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "ranks.h"
#include "sanitized.h"

typedef struct job {
  const gli_algorithm *algorithm; /* NULL: let the library choose */
  gli_collective collective;
  uint64_t seed; /* seed of the lengths */
  size_t most;   /* longest block */
  int root;
  bool gaps, in_place;
  int form; /* 0 blocking, 1 start, 2 persistent (three runs) */
} job;

/* Mixes two numbers with splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Returns the elements that one rank sends to another; in place, as many come
 * back. A quarter of all blocks are empty. */
static size_t between(const job *j, int from, int to) {
  if (j->in_place && from > to) return between(j, to, from);
  uint64_t drawn = mix(j->seed, (uint64_t)from << 32 | (uint64_t)to);
  if (j->collective != GLI_ALLTOALLV) drawn = mix(j->seed, (uint64_t)from);
  return drawn % 4 == 0 ? 0 : (size_t)(drawn / 4 % (j->most + 1));
}

/* Returns the length of a rank's block, if each rank has one. */
static size_t block_of(const job *j, int rank) {
  return between(j, rank, rank);
}

/* Returns element i of the block from one rank to another. */
static int32_t value(int from, int to, size_t i, int run) {
  return (int32_t)(mix((uint64_t)from << 20 | (uint64_t)to,
                       (uint64_t)i << 4 | (uint64_t)run) >>
                   40);
}

/* ---- lists --------------------------------------------------------------- */

enum { MOST_RANKS = 40 };

typedef struct list {
  size_t count[MOST_RANKS], first[MOST_RANKS];
  size_t elements; /* length of the buffer */
} list;

static list make_list(const job *j, int size, int rank, bool input) {
  list l = {.elements = j->gaps ? 3 : 0};
  for (int n = 0; n < size; n++) {
    int k = j->gaps ? size - 1 - n : n; /* gaps: in descending order */
    size_t length = input ? between(j, rank, k) : between(j, k, rank);
    if (j->collective != GLI_ALLTOALLV) length = block_of(j, k);
    l.count[k] = length;
    l.first[k] = l.elements;
    l.elements += length + (j->gaps ? 2 : 0);
  }
  return l;
}

/* ---- one call ------------------------------------------------------------ */

typedef struct buffers {
  list in_list, out_list;
  int32_t *in, *out;
  size_t in_elements, out_elements;
} buffers;

static bool is_gather(const job *j) {
  return j->collective == GLI_GATHERV || j->collective == GLI_ALLGATHERV;
}
static bool is_root(const rank_env *env, const job *j) {
  return env->rank == j->root;
}
static bool in_place(const rank_env *env, const job *j) {
  if (!j->in_place) return false;
  return !gli_collective_rooted(j->collective) || is_root(env, j);
}

static void make_buffers(const rank_env *env, const job *j, buffers *b) {
  b->in_list = make_list(j, env->size, env->rank, true);
  b->out_list = make_list(j, env->size, env->rank, false);
  size_t own = block_of(j, env->rank);
  b->in_elements = is_gather(j) ? own : b->in_list.elements;
  bool blocks = is_gather(j) || j->collective == GLI_ALLTOALLV;
  b->out_elements = blocks ? b->out_list.elements : own;
  if (b->out_elements < b->in_elements) b->out_elements = b->in_elements;
  b->in = malloc((b->in_elements + 1) * sizeof *b->in);
  b->out = malloc((b->out_elements + 1) * sizeof *b->out);
}

static int32_t input_at(const rank_env *env, const job *j, int rank, int block,
                        size_t i, int run) {
  (void)env;
  return value(rank,
               j->collective == GLI_GATHERV || j->collective == GLI_ALLGATHERV
                   ? 0
                   : block,
               i, run);
}

/* Fills the input, in either buffer, and the rest of the output with -1. */
static void fill(const rank_env *env, const job *j, buffers *b, int run) {
  for (size_t i = 0; i < b->out_elements; i++) b->out[i] = -1;
  for (size_t i = 0; i < b->in_elements; i++) b->in[i] = -2;
  int32_t *to = in_place(env, j) ? b->out : b->in;
  if (is_gather(j)) {
    if (in_place(env, j)) to += b->out_list.first[env->rank];
    for (size_t i = 0; i < b->in_elements; i++) {
      to[i] = input_at(env, j, env->rank, 0, i, run);
    }
    return;
  }
  for (int k = 0; k < env->size; k++) {
    for (size_t i = 0; i < b->in_list.count[k]; i++) {
      to[b->in_list.first[k] + i] = input_at(env, j, env->rank, k, i, run);
    }
  }
}

static gloo_status call(rank_env *env, const job *j, buffers *b,
                        const gloo_options *o, gloo_request **op) {
  const void *in = in_place(env, j) ? GLOO_IN_PLACE : b->in;
  gloo_context *c = env->context;
  const size_t *ic = b->in_list.count, *oc = b->out_list.count;
  const size_t *id = j->gaps ? b->in_list.first : NULL;
  const size_t *od = j->gaps ? b->out_list.first : NULL;
  size_t own = block_of(j, env->rank);
  gloo_dtype t = GLOO_INT32;
  bool lists = !gli_collective_rooted(j->collective) || is_root(env, j);
  void *gathered = lists ? b->out : NULL;
  const void *spread = lists ? in : NULL;
  if (!lists) ic = oc = id = od = NULL; /* only the root reads the lists */
#define FORMS(name, ...)                                             \
  (j->form == 0   ? gloo_##name(c, __VA_ARGS__, o, NULL)             \
   : j->form == 1 ? gloo_##name##_start(c, __VA_ARGS__, o, op, NULL) \
                  : gloo_##name##_init(c, __VA_ARGS__, o, op, NULL))
  switch (j->collective) {
    case GLI_ALLGATHERV:
      return FORMS(allgatherv, in, b->out, oc, od, t);
    case GLI_REDUCE_SCATTERV:
      return FORMS(reduce_scatterv, in, b->out, ic, t, GLOO_SUM);
    case GLI_GATHERV:
      return FORMS(gatherv, in, own, gathered, oc, od, t, j->root);
    case GLI_SCATTERV:
      return FORMS(scatterv, spread, ic, id, b->out, own, t, j->root);
    default:
      return FORMS(alltoallv, in, in == GLOO_IN_PLACE ? NULL : ic, id, b->out,
                   oc, od, t);
  }
#undef FORMS
}

/* Computes the expected output from its former content. */
static void expect(const rank_env *env, const job *j, const buffers *b,
                   int32_t *out, int run) {
  size_t own = block_of(j, env->rank);
  switch (j->collective) {
    case GLI_REDUCE_SCATTERV:
      for (size_t i = 0; i < own; i++) {
        uint32_t sum = 0;
        for (int r = 0; r < env->size; r++) {
          sum += (uint32_t)input_at(env, j, r, env->rank, i, run);
        }
        out[i] = (int32_t)sum;
      }
      return;
    case GLI_SCATTERV:
      for (size_t i = 0; i < own && !in_place(env, j); i++) {
        out[i] = input_at(env, j, j->root, env->rank, i, run);
      }
      return;
    default:
      break;
  }
  if (j->collective == GLI_GATHERV && !is_root(env, j)) return;
  for (int k = 0; k < env->size; k++) {
    for (size_t i = 0; i < b->out_list.count[k]; i++) {
      out[b->out_list.first[k] + i] = input_at(env, j, k, env->rank, i, run);
    }
  }
}

static void check(rank_env *env, const job *j, const buffers *b,
                  const int32_t *want, int run) {
  size_t n = b->out_elements;
  if (j->collective == GLI_REDUCE_SCATTERV) n = block_of(j, env->rank);
  for (size_t i = 0; i < n; i++) {
    if (b->out[i] == want[i]) continue;
    char text[200];
    snprintf(text, sizeof text,
             "%s %s seed %llu root %d gaps %d in place %d form %d run %d: "
             "element %zu is %d, not %d",
             gli_collective_name(j->collective),
             j->algorithm ? j->algorithm->name : "auto",
             (unsigned long long)j->seed, j->root, j->gaps, j->in_place,
             j->form, run, i, (int)b->out[i], (int)want[i]);
    rank_fail(env, __FILE__, __LINE__, text);
    return;
  }
}

/* Fills the buffers, runs the call, and checks the result. */
static void run_once(rank_env *env, const job *j, buffers *b, int run,
                     const gloo_options *o, gloo_request *persistent) {
  gloo_request *op = NULL;
  int32_t *want = malloc((b->out_elements + 1) * sizeof *want);
  fill(env, j, b, run);
  memcpy(want, b->out, b->out_elements * sizeof *want);
  expect(env, j, b, want, run);
  if (persistent) {
    RANK_OK(env, gloo_request_start(persistent, NULL));
    RANK_OK(env, gloo_request_wait(persistent, GLOO_TIMEOUT_DEFAULT, NULL));
  } else {
    RANK_OK(env, call(env, j, b, o, &op));
    if (op) RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  }
  check(env, j, b, want, run);
  gloo_request_destroy(op);
  free(want);
}

static void run_job(rank_env *env, const job *j) {
  buffers b;
  make_buffers(env, j, &b);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = j->algorithm ? j->algorithm->name : NULL;
  gloo_request *op = NULL;
  if (j->form == 2) {
    RANK_OK(env, call(env, j, &b, &o, &op));
    for (int run = 0; op && run < 3; run++) run_once(env, j, &b, run, &o, op);
  } else {
    run_once(env, j, &b, 0, &o, NULL);
  }
  gloo_request_destroy(op);
  free(b.in);
  free(b.out);
}

static void all_jobs(rank_env *env) {
  static const size_t most[] = {0,  1,   9,
                                10, 300, SANITIZED_THREADS ? 4000 : 40000};
  uint64_t seed = 0;
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    const gli_algorithm *algorithm = &gli_algorithms[a];
    if (!gli_collective_counted(algorithm->collective)) continue;
    for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
      for (int layout = 0; layout < 4 && !env->failure[0]; layout++) {
        job j = {.algorithm = seed % 5 ? algorithm : NULL,
                 .collective = algorithm->collective,
                 .seed = seed,
                 .most = most[m],
                 .gaps = layout % 2 != 0,
                 .in_place = layout / 2 != 0,
                 .form = (int)(seed % 3)};
        if (j.collective == GLI_REDUCE_SCATTERV) j.gaps = false;
        if (gli_collective_rooted(j.collective)) {
          j.root = (int)(seed % (uint64_t)env->size);
        }
        seed++;
        run_job(env, &j);
      }
    }
  }
}

static const char *transport;

static void run_on(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

static void counted_blocks_arrive(void **state) {
  (void)state;
  static const int sizes[] = {1, 2, 3, 4, 5, 7, 8};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (SANITIZED_THREADS && sizes[i] > 4) continue;
    run_on(sizes[i], all_jobs);
  }
}

/* More ranks than the library reserves space for in advance. */
static void many_ranks(rank_env *env) {
  size_t counts[MOST_RANKS];
  int64_t out[MOST_RANKS], in = env->rank;
  for (int r = 0; r < env->size; r++) counts[r] = 1;
  for (int n = 0; n < 3; n++) {
    RANK_OK(env, gloo_allgatherv(env->context, &in, out, counts, NULL,
                                 GLOO_INT64, NULL, NULL));
    for (int r = 0; r < env->size; r++) RANK_CHECK(env, out[r] == r);
  }
}

static void more_ranks_than_fit_on_the_stack(void **state) {
  (void)state;
  if (strcmp(transport, "inproc") == 0) run_on(MOST_RANKS, many_ranks);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counted_blocks_arrive),
      cmocka_unit_test(more_ranks_than_fit_on_the_stack),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
