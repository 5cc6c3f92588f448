/* Custom operations: every reduction, algorithm and form, with elements of any
 * size, over every transport. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "reduction.h"

static const char *transport = "auto";

static void run(int size, rank_body body, void *user) {
  ranks_options o = {.transport = transport, .user = user};
  ranks_run(size, &o, body);
}

/* ---- an operation -------------------------------------------------------- */

/* Combines three words; associative, not commutative. The first two, a and b,
 * are a map x -> a x + b, of which the left one is applied first; the third is
 * added. Remaining bytes are those of the left operand. */
static void compose_words(const uint32_t l[3], const uint32_t r[3],
                          uint32_t to[3]) {
  uint32_t a = r[0] * l[0], b = r[0] * l[1] + r[1], c = l[2] + r[2];
  to[0] = a;
  to[1] = b;
  to[2] = c;
}

static void compose_element(const uint8_t *l, const uint8_t *r, size_t bytes,
                            uint8_t *to) {
  size_t at = 0;
  for (; at + 12 <= bytes; at += 12) {
    uint32_t x[3], y[3], sum[3];
    memcpy(x, l + at, 12);
    memcpy(y, r + at, 12);
    compose_words(x, y, sum);
    memcpy(to + at, sum, 12);
  }
  memmove(to + at, l + at, bytes - at);
}

typedef struct job {
  size_t element_bytes;
  bool misaligned; /* set if an operand was misaligned */
  gloo_custom_op *op;
} job;

static bool aligned(const void *p, size_t bytes) {
  size_t alignment = 1;
  while (alignment < 16 && bytes % (2 * alignment) == 0) alignment *= 2;
  return (uintptr_t)p % alignment == 0;
}

static void compose(const gloo_custom_args *args) {
  void *user = args->user;
  const void *left = args->left;
  const void *right = args->right;
  size_t count = args->count;
  gloo_dtype dtype = args->dtype;
  void *result = args->result;
  job *j = user;
  const uint8_t *l = left, *r = right;
  uint8_t *to = result;
  size_t bytes = j->element_bytes;
  if (count == 0 || dtype != GLOO_OPAQUE) j->misaligned = true;
  if (!aligned(l, bytes) || !aligned(r, bytes) || !aligned(to, bytes)) {
    j->misaligned = true;
  }
  for (size_t i = 0; i < count; i++) {
    compose_element(l + i * bytes, r + i * bytes, bytes, to + i * bytes);
  }
}

/* ---- one case ------------------------------------------------------------ */

static void fill(uint8_t *at, size_t bytes, int rank) {
  uint32_t state = 2463534242u + (uint32_t)rank * 7919u;
  for (size_t i = 0; i < bytes; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    at[i] = (uint8_t)(state >> 8);
  }
}

/* Computes the fold of the inputs of the first n ranks locally. */
static void fold(uint8_t *sum, uint8_t *next, size_t elements, size_t bytes,
                 int n) {
  fill(sum, elements * bytes, 0);
  for (int rank = 1; rank < n; rank++) {
    fill(next, elements * bytes, rank);
    for (size_t i = 0; i < elements; i++) {
      compose_element(sum + i * bytes, next + i * bytes, bytes,
                      sum + i * bytes);
    }
  }
}

typedef struct memory {
  void *in, *out, *sum, *next;
  bool shared;
} memory;

/* Returns memory from gloo_alloc, or misaligned memory from malloc. */
static uint8_t *take(memory *m, size_t bytes, void **block) {
  if (!m->shared) {
    *block = malloc(bytes + 16);
    return *block ? (uint8_t *)*block + 1 : NULL;
  }
  return gloo_alloc(bytes + 16, block, NULL) == GLOO_OK ? *block : NULL;
}

static void give_back(memory *m) {
  if (m->shared) {
    gloo_free(m->in);
    gloo_free(m->out);
  } else {
    free(m->in);
    free(m->out);
  }
  free(m->sum);
  free(m->next);
}

static void check_case(rank_env *env, const reduction *r, bool shared) {
  size_t elements = reduction_elements(r, env->size), first, n;
  size_t bytes = r->element_bytes, all = elements * bytes;
  memory m = {
      .shared = shared, .sum = malloc(all + 1), .next = malloc(all + 1)};
  uint8_t *in = take(&m, all, &m.in), *out = take(&m, all, &m.out);
  fill(in, all, env->rank);
  memset(out, 0xa5, all);
  char what[160];
  snprintf(what, sizeof what, "%s %s, %zu x %zu bytes, form %d%s%s",
           gli_collective_name(r->collective),
           r->options.algorithm ? r->options.algorithm : "chosen", r->count,
           bytes, r->form, r->in_place ? ", in place" : "",
           shared ? ", shared" : "");
  RANK_OK(env, reduction_run(env, r, in, out));
  int ranks = reduction_result(r, env->size, env->rank, &first, &n);
  if (ranks > 0) {
    fold(m.sum, m.next, elements, bytes, ranks);
    const uint8_t *sum = m.sum;
    if (memcmp(out, sum + first * bytes, n * bytes) != 0) {
      rank_fail(env, __FILE__, __LINE__, what);
    }
  }
  give_back(&m);
}

static void check_forms(rank_env *env, reduction r, bool shared) {
  for (r.form = 0; r.form < REDUCTION_FORMS; r.form++) {
    for (int in_place = 0; in_place < 2; in_place++) {
      r.in_place = in_place != 0;
      check_case(env, &r, shared);
    }
  }
}

/* Checks the library's choice and every algorithm that keeps the order of
 * ranks. */
static void check_algorithms(rank_env *env, reduction r, bool shared) {
  r.root = env->size / 2;
  check_forms(env, r, shared);
  r.form = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective != r.collective) continue;
    if (gli_algorithm_order(a) == GLI_ORDER_ANY) continue;
    r.options.algorithm = a->name;
    for (int in_place = 0; in_place < 2; in_place++) {
      r.in_place = in_place != 0;
      check_case(env, &r, shared);
    }
  }
}

static void all_reductions(rank_env *env) {
  job *j = env->user;
  static const size_t bytes[] = {0, 700, 90000};
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (!gli_collective_reduces((gli_collective)c)) continue;
    for (size_t k = 0; k < sizeof bytes / sizeof bytes[0]; k++) {
      reduction r = {
          .collective = (gli_collective)c,
          .count = (bytes[k] + j->element_bytes - 1) / j->element_bytes,
          .element_bytes = j->element_bytes,
          .dtype = GLOO_OPAQUE,
          .op = GLOO_CUSTOM,
          .options = GLOO_OPTIONS_INIT};
      r.options.custom = j->op;
      check_algorithms(env, r, k == 2);
    }
  }
}

static void run_size(int ranks, size_t element_bytes) {
  gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
  job j = {.element_bytes = element_bytes};
  o.name = "compose";
  o.element_bytes = element_bytes;
  o.user = &j;
  assert_int_equal(gloo_custom_op_create(compose, &o, &j.op, NULL), GLOO_OK);
  run(ranks, all_reductions, &j);
  gloo_custom_op_destroy(j.op);
  assert_false(j.misaligned);
}

static void elements_of_any_size_are_combined_in_rank_order(void **state) {
  (void)state;
  run_size(3, 12);
  run_size(2, 24);
  run_size(4, 1);
  run_size(5, 100);
  run_size(3, 4096);
  run_size(3, 5000); /* longer than the buffer on the stack */
  run_size(2, 70001);
  run_size(1, 12);
}

/* ---- types of the library ------------------------------------------------ */

/* The function receives the type; this one computes a maximum of int32 numbers,
 * and a scaled sum of doubles. */
static void hypotenuse(const gloo_custom_args *args) {
  const void *left = args->left;
  const void *right = args->right;
  size_t count = args->count;
  gloo_dtype dtype = args->dtype;
  void *result = args->result;
  for (size_t i = 0; i < count; i++) {
    if (dtype == GLOO_INT32) {
      int32_t l = ((const int32_t *)left)[i], r = ((const int32_t *)right)[i];
      ((int32_t *)result)[i] = l > r ? l : r;
    } else {
      double l = ((const double *)left)[i], r = ((const double *)right)[i];
      ((double *)result)[i] = l * 2 + r * 2;
    }
  }
}

static void types(rank_env *env) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.custom = env->user;
  int32_t whole[3] = {env->rank, -env->rank, 7};
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, whole, 3, GLOO_INT32,
                              GLOO_CUSTOM, &o, NULL));
  RANK_CHECK(env, whole[0] == env->size - 1 && whole[1] == 0 && whole[2] == 7);
  double x = env->rank + 1;
  o.algorithm = "ring"; /* allowed, because the operation commutes */
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_FLOAT64,
                              GLOO_CUSTOM, &o, NULL));
  RANK_CHECK(env, env->size != 2 || x == 6);
}

static void one_operation_serves_all_types(void **state) {
  (void)state;
  gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
  gloo_custom_op *op;
  o.commutative = 1;
  assert_int_equal(gloo_custom_op_create(hypotenuse, &o, &op, NULL), GLOO_OK);
  for (int size = 1; size <= 3; size++) run(size, types, op);
  gloo_custom_op_destroy(op);
}

/* ---- queries during an operation ----------------------------------------- */

/* State of an operation that runs until another thread has queried the
 * error. */
typedef struct patience {
  gloo_custom_op *op;
  gloo_context *context;
  atomic_bool inside, asked, late;
} patience;

static void wait_until_asked(const gloo_custom_args *args) {
  patience *p = args->user;
  atomic_store(&p->inside, true);
  uint64_t until_ns = uv_hrtime() + UINT64_C(20000000000);
  while (!atomic_load(&p->asked) && uv_hrtime() < until_ns) continue;
  if (!atomic_load(&p->asked)) atomic_store(&p->late, true);
  memcpy(args->result, args->left, args->count * args->element_bytes);
}

static void ask_for_the_error(void *user) {
  patience *p = user;
  while (!atomic_load(&p->inside)) continue;
  (void)gloo_context_error(p->context, NULL);
  atomic_store(&p->asked, true);
}

static void ask_meanwhile(rank_env *env) {
  int32_t x = env->rank;
  uv_thread_t thread;
  patience p = {.context = env->context};
  gloo_custom_op_options options = GLOO_CUSTOM_OP_OPTIONS_INIT;
  gloo_options o = GLOO_OPTIONS_INIT;
  options.user = &p;
  RANK_OK(env, gloo_custom_op_create(wait_until_asked, &options, &p.op, NULL));
  o.custom = p.op;
  RANK_CHECK(env, uv_thread_create(&thread, ask_for_the_error, &p) == 0);
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_INT32,
                              GLOO_CUSTOM, &o, NULL));
  atomic_store(&p.inside, true); /* a rank with nothing to combine */
  uv_thread_join(&thread);
  RANK_CHECK(env, !atomic_load(&p.late));
  gloo_custom_op_destroy(p.op);
}

static void error_is_told_during_an_operation(void **state) {
  (void)state;
  run(2, ask_meanwhile, NULL);
}

/* ---- invalid arguments --------------------------------------------------- */

static void refuse(rank_env *env, const gloo_options *o, gloo_dtype dtype,
                   gloo_op op, gloo_status status, const char *words) {
  uint64_t data[3] = {0};
  gloo_options ours = *o;
  gloo_error error;
  gloo_status got = gloo_allreduce(env->context, GLOO_IN_PLACE, data, 1, dtype,
                                   op, &ours, &error);
  RANK_CHECK(env, got == status);
  if (strstr(error.message, words) == NULL) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  }
}

static void refusals(rank_env *env) {
  const job *j = env->user;
  gloo_options o = GLOO_OPTIONS_INIT;
  refuse(env, &o, GLOO_FLOAT32, GLOO_CUSTOM, GLOO_ERR_OP, "custom");
  refuse(env, &o, GLOO_OPAQUE, GLOO_SUM, GLOO_ERR_DTYPE, "unknown type");
  refuse(env, &o, GLOO_OPAQUE, GLOO_CUSTOM, GLOO_ERR_OP, "custom");
  refuse(env, &o, GLOO_FLOAT32, GLOO_SCALED_SUM, GLOO_ERR_OP, "factor");
  refuse(env, &o, GLOO_FLOAT32, (gloo_op)63, GLOO_ERR_OP, "63");
  o.custom = j->op;
  refuse(env, &o, GLOO_FLOAT64, GLOO_CUSTOM, GLOO_ERR_DTYPE, "12 bytes");
  o.algorithm = "ring";
  refuse(env, &o, GLOO_OPAQUE, GLOO_CUSTOM, GLOO_ERR_UNSUPPORTED, "\"ring\"");
  refuse(env, &o, GLOO_OPAQUE, GLOO_CUSTOM, GLOO_ERR_UNSUPPORTED,
         "\"compose\"");
  refuse(env, &o, GLOO_OPAQUE, GLOO_CUSTOM, GLOO_ERR_UNSUPPORTED,
         "recursive_doubling, one_shot, direct, fused");
  o.ordered = 1;
  o.algorithm = "recursive_doubling";
  refuse(env, &o, GLOO_OPAQUE, GLOO_CUSTOM, GLOO_ERR_UNSUPPORTED, "ordered");
  refuse(env, &o, GLOO_FLOAT32, GLOO_SUM, GLOO_ERR_UNSUPPORTED, "ordered");
  double factor = 2;
  o = (gloo_options)GLOO_OPTIONS_INIT;
  o.factor = &factor;
  refuse(env, &o, GLOO_INT32, GLOO_SCALED_SUM, GLOO_ERR_UNSUPPORTED, "int32");
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void what_does_not_fit_is_named(void **state) {
  (void)state;
  gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
  job j = {.element_bytes = 12};
  gloo_error error;
  o.name = "compose";
  o.element_bytes = 12;
  assert_int_equal(gloo_custom_op_create(compose, &o, &j.op, NULL), GLOO_OK);
  run(2, refusals, &j);
  gloo_custom_op_destroy(j.op);
  assert_int_equal(gloo_custom_op_create(NULL, &o, &j.op, &error),
                   GLOO_ERR_INVALID);
  char name[65];
  memset(name, 'n', 64);
  name[64] = 0;
  o.element_bytes = 0;
  o.name = name;
  assert_int_equal(gloo_custom_op_create(compose, &o, &j.op, &error),
                   GLOO_ERR_INVALID);
}

/* ---- the caller's types -------------------------------------------------- */

/* Element type of a call. One operation serves several types; each call names
 * the element's content and size. */
typedef struct own_type {
  int n; /* int32 numbers to add */
} own_type;

static int released;

static void count_release(void *user) {
  released += *(int *)user;
}

static void add_own(const gloo_custom_args *args) {
  const own_type *type = args->type;
  const int32_t *l = args->left, *r = args->right;
  int32_t *to = args->result;
  bool fits = args->element_bytes == (size_t)type->n * sizeof *to &&
              args->struct_size == sizeof *args && *(int *)args->user == 7;
  for (size_t i = 0; i < args->count * (size_t)type->n; i++)
    to[i] = fits ? l[i] + r[i] : -1;
}

static void types_of_the_caller(rank_env *env) {
  static const own_type types[] = {{1}, {3}, {2000}};
  static int32_t in[4][6000], out[4][6000];
  int32_t *mine = in[env->rank], *sum = out[env->rank];
  gloo_options o = GLOO_OPTIONS_INIT;
  o.custom = env->user;
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    o.custom_type = &types[k];
    o.custom_element_bytes = (size_t)types[k].n * sizeof(int32_t);
    size_t count = 6000 / (size_t)types[k].n;
    for (int i = 0; i < 6000; i++) mine[i] = env->rank + i;
    RANK_OK(env, gloo_allreduce(env->context, mine, sum, count, GLOO_OPAQUE,
                                GLOO_CUSTOM, &o, NULL));
    int n = env->size;
    for (int i = 0; i < 6000; i++)
      RANK_CHECK(env, sum[i] == n * (n - 1) / 2 + n * i);
  }
}

static void one_operation_serves_types_of_the_caller(void **state) {
  (void)state;
  int user = 7;
  gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
  gloo_custom_op *op;
  o.user = &user;
  o.release = count_release;
  o.commutative = 1;
  released = 0;
  assert_int_equal(gloo_custom_op_create(add_own, &o, &op, NULL), GLOO_OK);
  for (int size = 1; size <= 4; size++) run(size, types_of_the_caller, op);
  assert_int_equal(released, 0);
  gloo_custom_op_destroy(op);
  assert_int_equal(released, 7);
}

/* ---- ranks that disagree ------------------------------------------------- */

typedef struct difference {
  gloo_custom_op *ops[2];
  bool reduce;
} difference;

static void disagree(rank_env *env) {
  const difference *d = env->user;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.custom = d->ops[env->rank];
  double x[4] = {0}, y[4];
  gloo_error error;
  if (d->reduce) {
    (void)gloo_reduce(env->context, x, y, 4, GLOO_FLOAT64, GLOO_CUSTOM, 1, &o,
                      NULL);
  } else {
    (void)gloo_allreduce(env->context, x, y, 4, GLOO_FLOAT64, GLOO_CUSTOM, &o,
                         NULL);
  }
  for (int i = 0; i < 3; i++) {
    if (gloo_barrier(env->context, NULL, NULL) != GLOO_OK) break;
  }
  gloo_status status = gloo_context_error(env->context, &error);
  bool told = strstr(error.message, "different custom operation") != NULL;
  if (status != GLOO_ERR_MISMATCH || !told) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  }
}

static void ranks_with_other_operations_are_told(void **state) {
  (void)state;
  gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
  difference d;
  const char *const names[2] = {"one", "another"};
  for (int what = 0; what < 3; what++) {
    for (int i = 0; i < 2; i++) {
      o.name = what == 0 ? names[i] : "same";
      o.commutative = what == 1 ? i : 1;
      o.element_bytes = what == 2 && i == 1 ? 8 : 0;
      assert_int_equal(gloo_custom_op_create(hypotenuse, &o, &d.ops[i], NULL),
                       GLOO_OK);
    }
    for (int reduce = 0; reduce < 2; reduce++) {
      d.reduce = reduce != 0;
      run(2, disagree, &d);
    }
    for (int i = 0; i < 2; i++) gloo_custom_op_destroy(d.ops[i]);
  }
}

/* ---- calls from within --------------------------------------------------- */

typedef struct caller {
  gloo_context *context;
  gloo_request *operation;
  int refused, calls;
} caller;

static void call_back(const gloo_custom_args *args) {
  void *user = args->user;
  const void *left = args->left;
  size_t count = args->count;
  void *result = args->result;
  caller *c = user;
  gloo_error error;
  if (c->context) {
    c->calls += 5;
    c->refused += gloo_barrier(c->context, NULL, NULL) == GLOO_ERR_INVALID;
    c->refused += gloo_request_wait(c->operation, GLOO_TIMEOUT_DEFAULT, NULL) ==
                  GLOO_ERR_INVALID;
    c->refused += gloo_request_test(c->operation, NULL) == GLOO_ERR_INVALID;
    c->refused += gloo_request_error(c->operation, &error) == GLOO_ERR_INVALID;
    c->refused += gloo_context_error(c->context, NULL) == GLOO_ERR_INVALID;
  }
  memmove(result, left, count);
}

static void calls_back(rank_env *env) {
  gloo_custom_op_options co = GLOO_CUSTOM_OP_OPTIONS_INIT;
  gloo_options o = GLOO_OPTIONS_INIT;
  caller c = {.context = env->context};
  co.user = &c;
  o.algorithm = "one_shot"; /* every rank combines */
  uint8_t data[5] = {(uint8_t)env->rank, 1, 2, 3, 4};
  RANK_OK(env, gloo_custom_op_create(call_back, &co, &o.custom, NULL));
  RANK_OK(env,
          gloo_allreduce_init(env->context, GLOO_IN_PLACE, data, 5, GLOO_UINT8,
                              GLOO_CUSTOM, &o, &c.operation, NULL));
  gloo_custom_op_destroy(o.custom); /* the request keeps the operation alive */
  RANK_OK(env, gloo_request_start(c.operation, NULL));
  RANK_OK(env, gloo_request_wait(c.operation, GLOO_TIMEOUT_DEFAULT, NULL));
  RANK_CHECK(env, data[0] == 0 && data[4] == 4);
  RANK_CHECK(env, c.calls > 0 && c.refused == c.calls);
  gloo_request_destroy(c.operation);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void calls_from_within_are_refused(void **state) {
  (void)state;
  run(3, calls_back, NULL);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elements_of_any_size_are_combined_in_rank_order),
      cmocka_unit_test(one_operation_serves_all_types),
      cmocka_unit_test(what_does_not_fit_is_named),
      cmocka_unit_test(one_operation_serves_types_of_the_caller),
      cmocka_unit_test(ranks_with_other_operations_are_told),
      cmocka_unit_test(calls_from_within_are_refused),
      cmocka_unit_test(error_is_told_during_an_operation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
