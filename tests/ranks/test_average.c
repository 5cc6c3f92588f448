/* Averages: sums that every rank divides at the end; low-precision floats are
 * divided before they are rounded. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/float16.h"
#include "kernels/float8.h"
#include "kernels/reduce.h"
#include "reduction.h"
#include "sanitized.h"

static const char *transport = "auto";

static void averages(rank_env *env) {
  enum { COUNT = 1000 };
  float in[COUNT * 5], out[COUNT];
  int32_t whole[3] = {7, -7, env->rank}, total = 0;
  size_t wrong = 0;
  for (int rank = 0; rank < env->size; rank++) total += rank;
  float mean = (float)total / (float)env->size;
  for (int i = 0; i < COUNT * env->size; i++) {
    in[i] = (float)(i * env->size + env->rank);
  }
  RANK_OK(env, gloo_allreduce(env->context, in, out, COUNT, GLOO_FLOAT32,
                              GLOO_AVERAGE, NULL, NULL));
  for (int i = 0; i < COUNT; i++) {
    float error = out[i] - ((float)(i * env->size) + mean);
    wrong += error > 0.01f || error < -0.01f;
  }
  RANK_OK(env, gloo_reduce_scatter(env->context, in, out, COUNT, GLOO_FLOAT32,
                                   GLOO_AVERAGE, NULL, NULL));
  for (int i = 0; i < COUNT; i++) {
    float error =
        out[i] - ((float)((env->rank * COUNT + i) * env->size) + mean);
    wrong += error > 0.01f || error < -0.01f;
  }
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, whole, 3, GLOO_INT32,
                              GLOO_AVERAGE, NULL, NULL));
  wrong += whole[0] != 7 || whole[1] != -7 || whole[2] != total / env->size;
  RANK_CHECK(env, wrong == 0);
}

static void sums_are_divided_by_the_ranks(void **state) {
  (void)state;
  for (int size = 1; size <= 5; size++) {
    ranks_options o = {.transport = transport};
    ranks_run(size, &o, averages);
  }
}

enum { LONG = 70001 };

/* Compares an average in place with a sum that is divided here. */
static void check_bits(rank_env *env, gloo_dtype dtype, const char *algorithm,
                       size_t count) {
  static const size_t bytes = 16 * (size_t)LONG;
  uint8_t *sum = malloc(bytes), *mean = malloc(bytes);
  size_t bytes_of_part = dtype == GLOO_FLOAT64 || dtype == GLOO_COMPLEX128
                             ? sizeof(double)
                             : sizeof(float);
  size_t parts = count * gloo_dtype_size(dtype) / bytes_of_part;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = algorithm;
  RANK_CHECK(env, sum != NULL && mean != NULL);
  for (size_t i = 0; i < parts; i++) {
    double x = (double)((i * 7919 + (size_t)env->rank * 104729) % 65521) / 7;
    float single = (float)x;
    memcpy(sum + i * bytes_of_part,
           bytes_of_part == sizeof x ? (void *)&x : (void *)&single,
           bytes_of_part);
  }
  memcpy(mean, sum, parts * bytes_of_part);
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, sum, count, dtype,
                              GLOO_SUM, &o, NULL));
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, mean, count, dtype,
                              GLOO_AVERAGE, &o, NULL));
  for (size_t i = 0; i < parts; i++) {
    uint8_t *at = sum + i * bytes_of_part;
    double x;
    float single;
    if (bytes_of_part == sizeof x) {
      memcpy(&x, at, sizeof x);
      x /= env->size;
      memcpy(at, &x, sizeof x);
    } else {
      memcpy(&single, at, sizeof single);
      single /= (float)env->size;
      memcpy(at, &single, sizeof single);
    }
  }
  RANK_CHECK(env, memcmp(sum, mean, parts * bytes_of_part) == 0);
  free(sum);
  free(mean);
}

static void bits_of_averages(rank_env *env) {
  static const gloo_dtype dtypes[] = {GLOO_FLOAT32, GLOO_FLOAT64,
                                      GLOO_COMPLEX64, GLOO_COMPLEX128};
  static const size_t counts[] = {1, 37, LONG};
  for (size_t d = 0; d < 4; d++) {
    for (size_t c = 0; c < 3; c++) {
      const char *name = NULL;
      size_t i = 0;
      do {
        check_bits(env, dtypes[d], name, counts[c]);
        name = gloo_algorithm_name("allreduce", i++);
      } while (name != NULL);
    }
  }
}

/* Two ranks divide in the kernel that adds, others at the end. */
static void averages_are_sums_divided_once(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) {
    ranks_options o = {.transport = transport};
    ranks_run(size, &o, bits_of_averages);
  }
}

static void refusals(rank_env *env) {
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  uint8_t flag = 1;
  RANK_CHECK(env,
             gloo_allreduce(env->context, GLOO_IN_PLACE, &flag, 1, GLOO_BOOL,
                            GLOO_AVERAGE, &o, &error) == GLOO_ERR_UNSUPPORTED);
  RANK_CHECK(env,
             strstr(error.message, "average is not defined for bool") != NULL);
  float value = 1;
  RANK_CHECK(env,
             gloo_scan(env->context, GLOO_IN_PLACE, &value, 1, GLOO_FLOAT32,
                       GLOO_AVERAGE, &o, &error) == GLOO_ERR_UNSUPPORTED);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void what_has_no_average_is_refused(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, refusals);
}

/* ---- low-precision floats ------------------------------------------------ */

typedef struct narrow {
  gloo_dtype dtype;
  int digits, least; /* precision with the hidden bit; the smallest positive
                        number is 2^least */
  double largest;
} narrow;

static const narrow narrows[] = {{GLOO_FLOAT16, 11, -24, 65504},
                                 {GLOO_BFLOAT16, 8, -133, 0x1.fep127},
                                 {GLOO_FLOAT8_E4M3FN, 4, -9, 448},
                                 {GLOO_FLOAT8_E5M2, 3, -16, 57344}};
enum { NARROWS = sizeof narrows / sizeof narrows[0], ELEMENTS = 203 };

static double get(gloo_dtype dtype, const uint8_t *at, size_t i) {
  uint16_t half;
  if (dtype == GLOO_FLOAT8_E4M3FN) return (double)gli_e4m3fn_to_float(at[i]);
  if (dtype == GLOO_FLOAT8_E5M2) return (double)gli_e5m2_to_float(at[i]);
  memcpy(&half, at + 2 * i, 2);
  return (double)(dtype == GLOO_FLOAT16 ? gli_float16_to_float(half)
                                        : gli_bfloat16_to_float(half));
}

static void put(gloo_dtype dtype, uint8_t *at, size_t i, double value) {
  float x = (float)value;
  uint16_t half;
  if (dtype == GLOO_FLOAT8_E4M3FN) {
    at[i] = (uint8_t)gli_e4m3fn_from_float(x);
  } else if (dtype == GLOO_FLOAT8_E5M2) {
    at[i] = (uint8_t)gli_e5m2_from_float(x);
  } else {
    half = (uint16_t)(dtype == GLOO_FLOAT16 ? gli_float16_from_float(x)
                                            : gli_bfloat16_from_float(x));
    memcpy(at + 2 * i, &half, 2);
  }
}

static const char *const contents[] = {"largest", "large", "usual", "small"};
enum { CONTENTS = 4 };

/* Returns a fraction from 0 to 1. */
static double part(int rank, size_t i) {
  uint64_t x = (i * 16 + (size_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
  return (double)(x >> 40 & 4095) / 4095;
}

/* Returns an input. The contents are: the largest number, the same on all
 * ranks; large numbers with mixed signs; moderate ones; the smallest ones. */
static double input_at(const narrow *t, int what, int rank, size_t i) {
  double x = part(rank, i), s = (i + (size_t)rank) % 3 == 0 ? -1 : 1;
  switch (what) {
    case 0:
      return i % 2 == 0 ? t->largest : -t->largest;
    case 1:
      return t->largest * (0.75 + x / 4) * s;
    case 2:
      return (0.25 + x) * s;
    default:
      return ldexp(floor(1 + 40 * x), t->least) * s;
  }
}

/* Returns half the distance between neighbouring numbers of the type near x. */
static double half_a_unit(const narrow *t, double x) {
  int exponent;
  (void)frexp(x, &exponent);
  int last = exponent - t->digits;
  return ldexp(0.5, x == 0 || last < t->least ? t->least : last);
}

typedef struct average_case {
  const narrow *type;
  int what, size;
  bool scaled;
} average_case;

/* Checks a result. The bound adds the rounding errors of float32 operations to
 * the last rounding of the type. */
static bool is_right(const average_case *c, size_t i, double is) {
  double sum = 0, all = 0;
  uint8_t one[2];
  for (int rank = 0; rank < c->size; rank++) {
    put(c->type->dtype, one, 0, input_at(c->type, c->what, rank, i));
    double x = get(c->type->dtype, one, 0) / c->size;
    sum += x;
    all += fabs(x);
  }
  double error = (c->size + 1) * (double)FLT_EPSILON / 2 * all;
  if (fabs(sum) + error >= c->type->largest)
    sum = copysign(c->type->largest, sum);
  error += half_a_unit(c->type, fabs(sum) + error);
  /* bfloat16 operands are scaled down: the smallest quotients have only one
   * more bit in float32, and are rounded twice. */
  if (c->type->dtype == GLOO_BFLOAT16) error += ldexp(0.25, -133);
  return isfinite(is) && fabs(is - sum) <= error;
}

static void check_average(rank_env *env, const average_case *c, reduction r,
                          int *ran) {
  uint8_t in[2 * ELEMENTS * REDUCTION_RANKS], out[sizeof in];
  size_t first, n, elements = reduction_elements(&r, env->size);
  double factor = 1.0 / env->size;
  if (c->scaled) r.options.factor = &factor;
  for (size_t i = 0; i < elements; i++) {
    put(r.dtype, in, i, input_at(c->type, c->what, env->rank, i));
  }
  memset(out, 0x5a, sizeof out);
  gloo_error error;
  gloo_status status = reduction_run(env, &r, in, out);
  char what[200];
  snprintf(what, sizeof what, "%s %s%s, %s %s, %s numbers",
           gli_collective_name(r.collective),
           r.options.algorithm ? r.options.algorithm : "chosen",
           r.options.ordered ? ", ordered" : "", gloo_dtype_name(r.dtype),
           gloo_op_name(r.op), contents[c->what]);
  if (status != GLOO_OK) {
    rank_fail(env, __FILE__, __LINE__, error.message);
    return;
  }
  ++*ran;
  if (reduction_result(&r, env->size, env->rank, &first, &n) == 0) return;
  for (size_t i = 0; i < n; i++) {
    if (is_right(c, first + i, get(r.dtype, out, i))) continue;
    rank_fail(env, __FILE__, __LINE__, what);
    return;
  }
}

/* Checks the library's choice, then each applicable algorithm. */
static void check_algorithms(rank_env *env, const average_case *c, reduction r,
                             int *ran) {
  check_average(env, c, r, ran);
  for (size_t k = 0; k < gli_algorithm_count; k++) {
    const gli_algorithm *a = &gli_algorithms[k];
    if (a->collective != r.collective) continue;
    bool ordered = gli_algorithm_order(a) == GLI_ORDER_FOLD;
    if (r.options.ordered && !ordered) continue;
    r.options.algorithm = a->name;
    r.form = (r.form + 1) % REDUCTION_FORMS;
    r.in_place = !r.in_place;
    check_average(env, c, r, ran);
  }
}

static void narrow_averages(rank_env *env) {
  static const gli_collective collectives[] = {
      GLI_ALLREDUCE, GLI_REDUCE, GLI_REDUCE_SCATTER, GLI_REDUCE_SCATTERV};
  int ran = 0;
  for (int k = 0; k < 4 * NARROWS * CONTENTS * 2 * 2; k++) {
    const narrow *t = &narrows[k / 16 % NARROWS];
    average_case c = {.type = t,
                      .what = k / 4 % CONTENTS,
                      .size = env->size,
                      .scaled = k % 2 != 0};
    reduction r = {.collective = collectives[k / 64],
                   .count = ELEMENTS,
                   .element_bytes = gloo_dtype_size(t->dtype),
                   .dtype = t->dtype,
                   .op = c.scaled ? GLOO_SCALED_SUM : GLOO_AVERAGE,
                   .root = env->size - 1,
                   .form = k % REDUCTION_FORMS,
                   .in_place = k % 5 == 0,
                   .options = GLOO_OPTIONS_INIT};
    r.options.ordered = k / 2 % 2;
    check_algorithms(env, &c, r, &ran);
  }
  RANK_CHECK(env, ran > 4 * NARROWS * CONTENTS * 4 * 3);
}

static void narrow_averages_are_those_of_float32(void **state) {
  (void)state;
  for (int size = 2; size <= (SANITIZED_THREADS ? 4 : 8); size++) {
    ranks_options o = {.transport = transport};
    ranks_run(size, &o, narrow_averages);
  }
}

static void narrow_averages_across_hosts_are_those_of_float32(void **state) {
  (void)state;
  static const char *const hosts[] = {"a", "b", "a", "b", "a", "b"};
  ranks_options o = {.transport = transport, .host_ids = hosts};
  ranks_run(6, &o, narrow_averages);
}

/* ---- several inputs ------------------------------------------------------ */

/* Each rank has eight inputs and contributes an eighth of each. */
static void eighths_of_many(rank_env *env) {
  enum { INPUTS = 8, COUNT = 1500 };
  uint16_t in[COUNT], out[2][COUNT];
  const void *inputs[INPUTS];
  void *outputs[] = {out[0], out[1]};
  double factor = 1.0 / (INPUTS * env->size);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.factor = &factor;
  for (int ordered = 0; ordered < 2; ordered++) {
    o.ordered = ordered;
    for (size_t i = 0; i < COUNT; i++) in[i] = i % 2 == 0 ? 0x7bff : 0x7400;
    for (size_t k = 0; k < INPUTS; k++) inputs[k] = in;
    RANK_OK(env, gloo_allreduce_multi(env->context, inputs, INPUTS, outputs, 2,
                                      COUNT, GLOO_FLOAT16, GLOO_SCALED_SUM, &o,
                                      NULL));
    RANK_CHECK(env, memcmp(out[0], in, sizeof in) == 0);
    RANK_CHECK(env, memcmp(out[1], in, sizeof in) == 0);
    RANK_OK(env, gloo_reduce_multi(env->context, inputs, INPUTS, outputs,
                                   env->rank == 0 ? 2 : 0, COUNT, GLOO_FLOAT16,
                                   GLOO_SCALED_SUM, 0, &o, NULL));
    if (env->rank > 0) continue;
    RANK_CHECK(env, memcmp(out[1], in, sizeof in) == 0);
  }
}

static void inputs_of_one_rank_do_not_overflow_either(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) {
    ranks_options o = {.transport = transport};
    ranks_run(size, &o, eighths_of_many);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_are_divided_by_the_ranks),
      cmocka_unit_test(averages_are_sums_divided_once),
      cmocka_unit_test(what_has_no_average_is_refused),
      cmocka_unit_test(narrow_averages_are_those_of_float32),
      cmocka_unit_test(narrow_averages_across_hosts_are_those_of_float32),
      cmocka_unit_test(inputs_of_one_rank_do_not_overflow_either),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
