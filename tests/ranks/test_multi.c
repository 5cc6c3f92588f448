/* Several buffers per rank, over every transport and algorithm, compared with a
 * plain reference; and refusals of invalid calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "ranks.h"
#include "sanitized.h"

static const char *transport;

enum { MOST = 4 };

typedef struct job {
  const char *algorithm; /* NULL: let the library choose */
  gli_collective collective;
  size_t count;
  int root, form, in_place; /* form: blocking, start, persistent */
  int n_in, n_out;          /* numbers of this rank's buffers */
} job;

/* ---- what is expected ---------------------------------------------------- */

static int64_t input_at(int rank, int number, size_t i) {
  return (int64_t)((i * 2654435761u + (size_t)rank * 40503u +
                    (size_t)number * 7001u) %
                   100003u) -
         50000;
}

/* Returns the number of inputs, which differs between ranks if the collective
 * allows it. */
static int inputs_of(const job *j, int rank) {
  switch (j->collective) {
    case GLI_ALLGATHER:
      return 3;
    case GLI_BROADCAST:
      return 1;
    default:
      return 1 + (rank + j->form) % MOST;
  }
}

static int outputs_of(const job *j, int rank) {
  /* In place, the inputs of a reduction are the outputs. */
  if (j->in_place && gli_collective_reduces(j->collective)) {
    return inputs_of(j, rank);
  }
  return 1 + (rank * 2 + j->form) % MOST;
}

static int64_t sum_at(const job *j, int size, size_t i) {
  int64_t sum = 0;
  for (int r = 0; r < size; r++) {
    for (int k = 0; k < inputs_of(j, r); k++) sum += input_at(r, k, i);
  }
  return sum;
}

static int64_t expected_at(const job *j, int rank, int size, size_t i) {
  switch (j->collective) {
    case GLI_BROADCAST:
      return input_at(j->root, 0, i);
    case GLI_ALLGATHER:
      return input_at((int)(i / (3 * j->count)), (int)(i / j->count % 3),
                      i % j->count);
    case GLI_REDUCE_SCATTER:
      return sum_at(j, size, (size_t)rank * j->count + i);
    default:
      return sum_at(j, size, i);
  }
}

static bool has_output(const job *j, int rank) {
  return j->collective != GLI_REDUCE || rank == j->root;
}

/* ---- a job --------------------------------------------------------------- */

typedef struct buffers {
  int64_t *in[MOST], *out[MOST];
  size_t n_in, n_out, in_elements, out_elements, room;
} buffers;

static void make(buffers *b, const job *j, const rank_env *env) {
  size_t size = (size_t)env->size;
  bool blocks = j->collective == GLI_REDUCE_SCATTER;
  b->n_in = (size_t)j->n_in;
  b->n_out = (size_t)j->n_out;
  b->in_elements = blocks ? j->count * size : j->count;
  b->out_elements =
      j->collective == GLI_ALLGATHER ? 3 * j->count * size : j->count;
  b->room = b->out_elements > b->in_elements ? b->out_elements : b->in_elements;
  for (size_t k = 0; k < b->n_in; k++) {
    b->in[k] = malloc(b->in_elements * 8 + 8);
  }
  for (size_t k = 0; k < b->n_out; k++) b->out[k] = malloc(b->room * 8 + 8);
}

static void fill(const buffers *b, const job *j, const rank_env *env) {
  bool combines = gli_collective_reduces(j->collective);
  for (size_t k = 0; k < b->n_out; k++) {
    memset(b->out[k], 0x5a, b->room * 8 + 8);
  }
  for (size_t k = 0; k < b->n_in; k++) {
    int64_t *to = b->in[k];
    if (j->in_place && combines) to = b->out[k];
    if (j->in_place && !combines) {
      size_t first = j->collective == GLI_ALLGATHER ? (size_t)env->rank * 3 : 0;
      to = b->out[0] + (first + k) * j->count;
    }
    bool reads = env->rank == j->root || j->collective != GLI_BROADCAST;
    for (size_t i = 0; reads && i < b->in_elements; i++) {
      to[i] = input_at(env->rank, (int)k, i);
    }
  }
}

static gloo_status call(rank_env *env, const job *j, buffers *b,
                        const gloo_options *o, gloo_request **op) {
  const void *in[MOST];
  void *out[MOST];
  for (size_t k = 0; k < b->n_in; k++) in[k] = b->in[k];
  for (size_t k = 0; k < b->n_out; k++) out[k] = b->out[k];
  const void *const *ins = j->in_place ? NULL : in;
  gloo_context *c = env->context;
#define FORMS(name, ...)                                                   \
  (j->form == 0   ? gloo_##name##_multi(c, __VA_ARGS__, o, NULL)           \
   : j->form == 1 ? gloo_##name##_multi_start(c, __VA_ARGS__, o, op, NULL) \
                  : gloo_##name##_multi_init(c, __VA_ARGS__, o, op, NULL))
#define OUTPUTS out, b->n_out, j->count, GLOO_INT64
  switch (j->collective) {
    case GLI_ALLREDUCE:
      return FORMS(allreduce, ins, b->n_in, OUTPUTS, GLOO_SUM);
    case GLI_REDUCE:
      return FORMS(reduce, ins, b->n_in, OUTPUTS, GLOO_SUM, j->root);
    case GLI_REDUCE_SCATTER:
      return FORMS(reduce_scatter, ins, b->n_in, OUTPUTS, GLOO_SUM);
    case GLI_BROADCAST:
      return FORMS(broadcast, j->in_place ? GLOO_IN_PLACE : in[0], OUTPUTS,
                   j->root);
    case GLI_ALLGATHER:
      return FORMS(allgather, ins, b->n_in, OUTPUTS);
    default:
      return GLOO_ERR_INTERNAL;
  }
#undef OUTPUTS
#undef FORMS
}

static void check(rank_env *env, const job *j, const buffers *b) {
  for (size_t k = 0; k < b->n_out; k++) {
    for (size_t i = 0; i < b->out_elements; i += 1 + i / 500) {
      int64_t want = INT64_C(0x5a5a5a5a5a5a5a5a);
      if (has_output(j, env->rank)) {
        want = expected_at(j, env->rank, env->size, i);
      } else if (j->in_place) {
        want = input_at(env->rank, (int)k, i);
      }
      if (b->out[k][i] == want) continue;
      char text[200];
      snprintf(text, sizeof text,
               "%s %s count %zu root %d form %d in place %d: element %zu of "
               "output %zu is %lld, not %lld",
               gli_collective_name(j->collective),
               j->algorithm ? j->algorithm : "auto", j->count, j->root, j->form,
               j->in_place, i, k, (long long)b->out[k][i], (long long)want);
      rank_fail(env, __FILE__, __LINE__, text);
      return;
    }
  }
}

static void run_job(rank_env *env, job j) {
  j.n_in = inputs_of(&j, env->rank);
  j.n_out = outputs_of(&j, env->rank);
  buffers b;
  make(&b, &j, env);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = j.algorithm;
  gloo_request *op = NULL;
  fill(&b, &j, env);
  RANK_OK(env, call(env, &j, &b, &o, &op));
  if (j.form == 1 && op)
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  for (int run = 0; j.form == 2 && op && run < 3; run++) {
    fill(&b, &j, env);
    RANK_OK(env, gloo_request_start(op, NULL));
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
    check(env, &j, &b);
  }
  if (j.form != 2) check(env, &j, &b);
  gloo_request_destroy(op);
  for (size_t k = 0; k < b.n_in; k++) free(b.in[k]);
  for (size_t k = 0; k < b.n_out; k++) free(b.out[k]);
}

static bool has_lists(gli_collective c) {
  return c == GLI_ALLREDUCE || c == GLI_REDUCE || c == GLI_REDUCE_SCATTER ||
         c == GLI_BROADCAST || c == GLI_ALLGATHER;
}

static void all_jobs(rank_env *env) {
  static const size_t counts[] = {0, 1, 100, 20011};
  int n = 0;
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    const gli_algorithm *algorithm = &gli_algorithms[a];
    if (!has_lists(algorithm->collective)) continue;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
      for (int form = 0; form < 3 && !env->failure[0]; form++, n++) {
        run_job(env, (job){.algorithm = n % 5 ? algorithm->name : NULL,
                           .collective = algorithm->collective,
                           .count = counts[c],
                           .root = n % env->size,
                           .form = form,
                           .in_place = n / 3 % 2});
      }
    }
  }
}

static void several_buffers_per_rank(void **state) {
  (void)state;
  static const int sizes[] = {1, 2, 3, 5, 8};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (size_t i = 0; i < SIZES - SANITIZED_THREADS; i++) {
    ranks_options o = {.transport = transport};
    ranks_run(sizes[i], &o, all_jobs);
  }
}

/* ---- with calls of one buffer -------------------------------------------- */

static void mixed(rank_env *env) {
  int32_t a = 1, b = 2, x = 0, y = 0;
  if (env->rank == 0) {
    const void *in[] = {&a, &b};
    void *out[] = {&x, &y};
    RANK_OK(env, gloo_allreduce_multi(env->context, in, 2, out, 2, 1,
                                      GLOO_INT32, GLOO_SUM, NULL, NULL));
    RANK_CHECK(env, x == y);
  } else {
    RANK_OK(env, gloo_allreduce(env->context, &a, &x, 1, GLOO_INT32, GLOO_SUM,
                                NULL, NULL));
  }
  RANK_CHECK(env, x == 3 + env->size - 1);
}

static void calls_with_one_and_several_buffers_meet(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(3, &o, mixed);
}

/* 1 + 2^-11 + 2^-11 is 1 + 2^-10 if rounded once, and 1 if rounded twice. */
static void narrow(rank_env *env) {
  const uint16_t one = 0x3c00, little = 0x1000, more = 0x3c01;
  const void *in[] = {&one, &little, &little};
  uint16_t x = 0;
  void *out[] = {&x};
  size_t n = env->rank == 0 ? 3 : 1;
  const uint16_t zero = 0;
  const void *nothing[] = {&zero};
  RANK_OK(env, gloo_allreduce_multi(env->context, n == 3 ? in : nothing, n, out,
                                    1, 1, GLOO_FLOAT16, GLOO_SUM, NULL, NULL));
  RANK_CHECK(env, x == more);
}

static void narrow_floats_are_rounded_once(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, narrow);
}

/* x -> a x + b; composition is associative, but not commutative. */
typedef struct map {
  uint32_t a, b;
} map;

static void follow(const gloo_custom_args *args) {
  const void *left = args->left;
  const void *right = args->right;
  size_t count = args->count;
  void *result = args->result;
  const map *x = left, *y = right;
  map *to = result;
  for (size_t i = 0; i < count; i++) {
    to[i] = (map){x[i].a * y[i].a, x[i].b * y[i].a + y[i].b};
  }
}

/* Rank r has r + 1 inputs. */
static map map_at(int rank, int number, int i) {
  return (map){(uint32_t)(3 + 2 * rank + 10 * number + i),
               (uint32_t)(7 * rank + number + i)};
}

static void in_order(rank_env *env) {
  enum { COUNT = 9 };
  map data[MOST][COUNT], out[COUNT];
  const void *in[MOST];
  void *outs[] = {out};
  gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
  gloo_options options = GLOO_OPTIONS_INIT;
  gloo_error error;
  o.element_bytes = sizeof(map);
  RANK_OK(env, gloo_custom_op_create(follow, &o, &options.custom, &error));
  for (int k = 0; k <= env->rank; k++) {
    for (int i = 0; i < COUNT; i++) data[k][i] = map_at(env->rank, k, i);
    in[k] = data[k];
  }
  RANK_OK(env, gloo_allreduce_multi(env->context, in, (size_t)env->rank + 1,
                                    outs, 1, COUNT, GLOO_OPAQUE, GLOO_CUSTOM,
                                    &options, NULL));
  for (int i = 0; i < COUNT; i++) {
    map all = {1, 0};
    for (int r = 0; r < env->size; r++) {
      for (int k = 0; k <= r; k++) {
        map next = map_at(r, k, i);
        follow(&(gloo_custom_args){
            .left = &all, .right = &next, .count = 1, .result = &all});
      }
    }
    RANK_CHECK(env, out[i].a == all.a && out[i].b == all.b);
  }
  gloo_custom_op_destroy(options.custom);
}

static void own_operations_keep_the_order_of_inputs(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(MOST, &o, in_order);
}

/* ---- refusals ------------------------------------------------------------ */

static void expect(rank_env *env, gloo_status status, const char *part) {
  gloo_error error;
  (void)gloo_context_error(env->context, &error);
  if ((status == GLOO_ERR_BUFFER || status == GLOO_ERR_COUNT) &&
      strstr(error.message, part))
    return;
  if (status == GLOO_ERR_UNSUPPORTED && strstr(error.message, part)) return;
  rank_fail(env, __FILE__, __LINE__, error.message);
}

static void refusals(rank_env *env) {
  gloo_context *c = env->context;
  int32_t data[64] = {0};
  const void *in[] = {&data[0], &data[8]};
  void *out[] = {&data[16], &data[24]};
  const void *no_in[] = {&data[0], NULL};
  void *no_out[] = {&data[16], NULL};
  const void *in_out[] = {&data[0], &data[20]};
  void *twice[] = {&data[16], &data[20]};
  const void *swapped[] = {&data[24], &data[16]};
  const gloo_dtype t = GLOO_INT32;
#define TRY(part, ...)                                                     \
  expect(env,                                                              \
         gloo_allreduce_multi(c, __VA_ARGS__, 8, t, GLOO_SUM, NULL, NULL), \
         part)
  TRY("input 1 is NULL", no_in, 2, out, 2);
  TRY("output 1 is NULL", in, 2, no_out, 2);
  TRY("output 1 is NULL", NULL, 0, no_out, 2);
  TRY("the list of inputs is empty", in, 0, out, 2);
  TRY("the list of outputs is empty", in, 2, out, 0);
  TRY("the list of outputs is empty", in, 2, NULL, 2);
  TRY("outputs 0 and 1 overlap", in, 2, twice, 2);
  TRY("input 1 and output 0 overlap", in_out, 2, out, 2);
  TRY("overlap", swapped, 2, out, 2);
  TRY("the limit is", in, SIZE_MAX, out, 2);
#undef TRY
  expect(env,
         gloo_allreduce_multi(c, in, 2, out, 2, 8, t, GLOO_AVERAGE, NULL, NULL),
         "use GLOO_SUM and divide the result");
  expect(env,
         gloo_allreduce_multi(c, in, 2, out, 2, SIZE_MAX / 2, t, GLOO_SUM, NULL,
                              NULL),
         "exceed the address space");
  expect(env, gloo_allgather_multi(c, in, 2, out, 2, SIZE_MAX, t, NULL, NULL),
         "exceed the address space");
  expect(env, gloo_broadcast_multi(c, in[0], twice, 2, 8, t, 0, NULL, NULL),
         "outputs 0 and 1 overlap");
  /* The refused calls leave the context usable. */
  RANK_OK(env,
          gloo_allreduce_multi(c, in, 2, out, 2, 8, t, GLOO_SUM, NULL, NULL));
  const void *same[] = {&data[16], &data[24]};
  RANK_OK(env,
          gloo_allreduce_multi(c, same, 2, out, 2, 8, t, GLOO_SUM, NULL, NULL));
}

static void bad_lists_are_refused(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, refusals);
}

/* ---- parameters that must agree ------------------------------------------ */

static void different_shares(rank_env *env) {
  int32_t data[64] = {0};
  const void *in[] = {&data[0], &data[1], &data[2]};
  void *out[] = {&data[16]};
  gloo_error error;
  (void)gloo_allgather_multi(env->context, in, env->rank == 0 ? 2 : 3, out, 1,
                             1, GLOO_INT32, NULL, NULL);
  (void)gloo_barrier(env->context, NULL, NULL);
  RANK_CHECK(env,
             gloo_context_error(env->context, &error) == GLOO_ERR_MISMATCH);
}

static void allgather_of_different_numbers_of_inputs_is_a_mismatch(
    void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, different_shares);
}

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "inproc";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_buffers_per_rank),
      cmocka_unit_test(calls_with_one_and_several_buffers_meet),
      cmocka_unit_test(narrow_floats_are_rounded_once),
      cmocka_unit_test(own_operations_keep_the_order_of_inputs),
      cmocka_unit_test(bad_lists_are_refused),
      cmocka_unit_test(allgather_of_different_numbers_of_inputs_is_a_mismatch),
  };
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
