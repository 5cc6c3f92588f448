/* Ordered reductions and scaled sums: the same bits as a plain loop over the
 * ranks, with any algorithm, on every transport. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/float16.h"
#include "kernels/float8.h"
#include "kernels/reduce.h"
#include "reduction.h"

static const char *transport = "auto";

static void run(int size, rank_body body, void *user) {
  ranks_options o = {.transport = transport, .user = user};
  ranks_run(size, &o, body);
}

/* ---- numbers ------------------------------------------------------------- */

static const gloo_dtype types[] = {
    GLOO_FLOAT16,   GLOO_BFLOAT16,      GLOO_FLOAT32,    GLOO_FLOAT64,
    GLOO_COMPLEX64, GLOO_FLOAT8_E4M3FN, GLOO_FLOAT8_E5M2};
enum { TYPES = sizeof types / sizeof types[0] };

static double get(const uint8_t *at, gloo_dtype dtype, size_t i) {
  float single;
  double wide;
  uint16_t half;
  switch ((int)dtype) {
    case GLOO_FLOAT64:
      memcpy(&wide, at + 8 * i, 8);
      return wide;
    case GLOO_FLOAT16:
      memcpy(&half, at + 2 * i, 2);
      return (double)gli_float16_to_float(half);
    case GLOO_BFLOAT16:
      memcpy(&half, at + 2 * i, 2);
      return (double)gli_bfloat16_to_float(half);
    case GLOO_FLOAT8_E4M3FN:
      return (double)gli_e4m3fn_to_float(at[i]);
    case GLOO_FLOAT8_E5M2:
      return (double)gli_e5m2_to_float(at[i]);
    default:
      memcpy(&single, at + 4 * i, 4);
      return (double)single;
  }
}

static void put(uint8_t *at, gloo_dtype dtype, size_t i, double value) {
  float single = (float)value;
  uint16_t half;
  switch ((int)dtype) {
    case GLOO_FLOAT64:
      memcpy(at + 8 * i, &value, 8);
      break;
    case GLOO_FLOAT16:
      half = (uint16_t)gli_float16_from_float(single);
      memcpy(at + 2 * i, &half, 2);
      break;
    case GLOO_BFLOAT16:
      half = (uint16_t)gli_bfloat16_from_float(single);
      memcpy(at + 2 * i, &half, 2);
      break;
    case GLOO_FLOAT8_E4M3FN:
      at[i] = (uint8_t)gli_e4m3fn_from_float(single);
      break;
    case GLOO_FLOAT8_E5M2:
      at[i] = (uint8_t)gli_e5m2_from_float(single);
      break;
    default:
      memcpy(at + 4 * i, &single, 4);
      break;
  }
}

/* Returns the numbers in a vector; a complex element has two. */
static size_t numbers(const reduction *r, size_t elements) {
  return r->dtype == GLOO_COMPLEX64 ? 2 * elements : elements;
}

/* Returns an input. Magnitudes differ enough that the sum depends on the
 * order. */
static double input_at(gloo_dtype dtype, int rank, size_t i) {
  uint64_t x = (i * 8 + (size_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x ^= x >> 29;
  double value = 1 + (double)(x >> 40 & 1023) / 1024;
  int range = dtype == GLOO_FLOAT8_E4M3FN || dtype == GLOO_FLOAT8_E5M2 ? 5 : 12;
  for (int k = (int)(x >> 20 & 63) % range; k > 0; k--) value *= 2;
  return (x & 1) != 0 ? -value : value;
}

/* Adds as the type does: in float64, or in float32 for all other types. */
static double add(gloo_dtype dtype, double a, double b) {
  return dtype == GLOO_FLOAT64 ? a + b : (double)((float)a + (float)b);
}

/* Returns the factor of a rank. */
static double factor_of(int rank) {
  static const double factors[] = {0.3, -1.75, 0.125, 1e-3, 3, 0, 1, 0.7};
  return factors[rank % 8];
}

static double scaled(gloo_dtype dtype, double x, double factor) {
  bool narrow = gloo_dtype_size(dtype) < 4;
  if (factor == 1e-3) { /* 1.0 / 1000: a division is more accurate */
    return narrow ? (double)((float)x / 1000) : x / 1000;
  }
  return narrow ? (double)((float)x * (float)factor) : x * factor;
}

/* Returns the expected number i of the first `ranks` inputs. Narrow floats are
 * scaled, added and divided as float32, and rounded once; sums of a scan are
 * rounded at each rank. */
static double expected_at(const reduction *r, int ranks, size_t i) {
  uint8_t one[16];
  double sum = 0;
  bool scans = r->collective == GLI_SCAN || r->collective == GLI_EXSCAN;
  bool narrow = gloo_dtype_size(r->dtype) < 4;
  bool rounds = scans && narrow && r->op != GLOO_SCALED_SUM;
  for (int rank = 0; rank < ranks; rank++) {
    put(one, r->dtype, 0, input_at(r->dtype, rank, i));
    double x = get(one, r->dtype, 0);
    if (r->op == GLOO_SCALED_SUM) {
      x = scaled(r->dtype, x, factor_of(rank));
      put(one, r->dtype, 0, x);
      if (!narrow) x = get(one, r->dtype, 0);
    }
    sum = rank == 0 ? x : add(r->dtype, sum, x);
    if (!rounds) continue;
    put(one, r->dtype, 0, sum);
    sum = get(one, r->dtype, 0);
  }
  if (r->op == GLOO_AVERAGE) {
    bool wide = r->dtype == GLOO_FLOAT64;
    sum = wide ? sum / ranks : (double)((float)sum / (float)ranks);
  }
  put(one, r->dtype, 0, sum);
  return get(one, r->dtype, 0);
}

/* ---- one case ------------------------------------------------------------ */

static void check_case(rank_env *env, reduction r) {
  size_t elements = reduction_elements(&r, env->size), first, n;
  size_t all = numbers(&r, elements), bytes = elements * r.element_bytes;
  double factor = factor_of(env->rank);
  uint8_t *in = malloc(bytes + 1), *out = malloc(bytes + 1);
  uint8_t *before = malloc(bytes + 1);
  if (r.op == GLOO_SCALED_SUM) r.options.factor = &factor;
  for (size_t i = 0; i < all; i++) {
    put(in, r.dtype, i, input_at(r.dtype, env->rank, i));
  }
  memcpy(before, in, bytes);
  memset(out, 0x5a, bytes);
  char what[160];
  snprintf(what, sizeof what, "%s %s, %zu x %s, %s, form %d%s",
           gli_collective_name(r.collective),
           r.options.algorithm ? r.options.algorithm : "chosen", r.count,
           gloo_dtype_name(r.dtype), gloo_op_name(r.op), r.form,
           r.in_place ? ", in place" : "");
  RANK_OK(env, reduction_run(env, &r, in, out));
  int ranks = reduction_result(&r, env->size, env->rank, &first, &n);
  uint8_t *want = malloc(bytes + 1);
  memset(want, 0x5a, bytes);
  if (ranks == 0 && r.in_place) memcpy(want, in, bytes);
  for (size_t i = 0; ranks > 0 && i < numbers(&r, n); i++) {
    put(want, r.dtype, i, expected_at(&r, ranks, numbers(&r, first) + i));
  }
  size_t defined = ranks > 0 ? n * r.element_bytes : bytes;
  if (memcmp(in, before, bytes) != 0 || memcmp(out, want, defined) != 0) {
    rank_fail(env, __FILE__, __LINE__, what);
  }
  free(in);
  free(out);
  free(before);
  free(want);
}

static void check_algorithms(rank_env *env, reduction r) {
  r.root = env->size - 1;
  check_case(env, r);
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective != r.collective) continue;
    if (gli_algorithm_order(a) != GLI_ORDER_FOLD) continue;
    r.options.algorithm = a->name;
    r.in_place = !r.in_place;
    r.form = (r.form + 1) % REDUCTION_FORMS;
    check_case(env, r);
  }
}

static void all_sums(rank_env *env, gloo_op op, size_t count) {
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (!gli_collective_reduces((gli_collective)c)) continue;
    bool prefix = c == GLI_SCAN || c == GLI_EXSCAN;
    if (prefix && op == GLOO_AVERAGE) continue;
    for (int t = 0; t < TYPES; t++) {
      reduction r = {.collective = (gli_collective)c,
                     .count = count,
                     .element_bytes = gloo_dtype_size(types[t]),
                     .dtype = types[t],
                     .op = op,
                     .form = t % REDUCTION_FORMS,
                     .in_place = t % 2 != 0,
                     .options = GLOO_OPTIONS_INIT};
      r.options.ordered = 1;
      check_algorithms(env, r);
    }
  }
}

static void sums(rank_env *env) {
  static const size_t counts[] = {0, 1, 301};
  for (int i = 0; i < 3; i++) all_sums(env, GLOO_SUM, counts[i]);
  all_sums(env, GLOO_AVERAGE, 77);
}

static void ordered_sums_are_those_of_a_loop_over_the_ranks(void **state) {
  (void)state;
  for (int size = 1; size <= 5; size++) run(size, sums, NULL);
}

static void scaled_sums(rank_env *env) {
  static const size_t counts[] = {0, 1, 301};
  for (int i = 0; i < 3; i++) all_sums(env, GLOO_SCALED_SUM, counts[i]);
}

static void every_rank_has_a_factor_of_its_own(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) run(size, scaled_sums, NULL);
}

/* Vectors long enough for segments, shared-memory rings and references. */
static void long_sums(rank_env *env) {
  static const gloo_dtype long_types[] = {GLOO_BFLOAT16, GLOO_FLOAT32};
  for (int t = 0; t < 2; t++) {
    size_t bytes = gloo_dtype_size(long_types[t]);
    reduction r = {.collective = GLI_ALLREDUCE,
                   .count = 1300001 / bytes,
                   .element_bytes = bytes,
                   .dtype = long_types[t],
                   .op = GLOO_SUM,
                   .options = GLOO_OPTIONS_INIT};
    r.options.ordered = 1;
    check_algorithms(env, r);
    r.collective = GLI_REDUCE;
    check_algorithms(env, r);
  }
}

static void long_vectors_give_the_same_bits(void **state) {
  (void)state;
  run(3, long_sums, NULL);
}

/* The placement of ranks on hosts and the number of streams have no effect. */
static void placed_sums(rank_env *env) {
  all_sums(env, GLOO_SUM, 301);
}

static void hosts_and_streams_give_the_same_bits(void **state) {
  (void)state;
  static const char *const hosts[] = {"a", "b", "a", "c", "b"};
  ranks_options o = {.transport = transport, .streams = 3, .host_ids = hosts};
  ranks_run(5, &o, placed_sums);
}

/* ---- an external algorithm ----------------------------------------------- */

static void forced(rank_env *env) {
  float x = 1;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_FLOAT32,
                              GLOO_SUM, &o, &error));
  RANK_CHECK(env, x == 2);
  o.ordered = 1;
  RANK_CHECK(env,
             gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_FLOAT32,
                            GLOO_SUM, &o, &error) == GLOO_ERR_UNSUPPORTED);
  bool names_both = strstr(error.message, "\"ring\"") != NULL &&
                    strstr(error.message, "ordered") != NULL;
  if (!names_both) rank_fail(env, __FILE__, __LINE__, error.message);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void an_algorithm_that_is_forced_is_not_replaced_in_silence(
    void **state) {
  (void)state;
  assert_int_equal(setenv("GLOO_ALGORITHM", "allreduce:0-=ring", 1), 0);
  run(2, forced, NULL);
  assert_int_equal(unsetenv("GLOO_ALGORITHM"), 0);
}

/* ---- disagreement -------------------------------------------------------- */

static void one_is_ordered(rank_env *env) {
  float x[4] = {0};
  gloo_options o = GLOO_OPTIONS_INIT;
  o.ordered = env->rank == 1;
  o.algorithm = "one_shot";
  (void)gloo_allreduce(env->context, GLOO_IN_PLACE, x, 4, GLOO_FLOAT32,
                       GLOO_SUM, &o, NULL);
  for (int i = 0; i < 3; i++) {
    if (gloo_barrier(env->context, NULL, NULL) != GLOO_OK) break;
  }
  gloo_error error;
  gloo_status status = gloo_context_error(env->context, &error);
  bool told = strstr(error.message, "sum, ordered)") != NULL;
  if (status != GLOO_ERR_MISMATCH || !told) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  }
}

static void ranks_that_disagree_on_the_order_are_told(void **state) {
  (void)state;
  run(3, one_is_ordered, NULL);
}

/* Any algorithm is allowed if the order has no effect. */
static void integers(rank_env *env) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.ordered = 1;
  o.algorithm = "ring";
  int32_t whole = env->rank;
  float most = (float)env->rank;
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &whole, 1,
                              GLOO_INT32, GLOO_SUM, &o, NULL));
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &most, 1,
                              GLOO_FLOAT32, GLOO_MAX, &o, NULL));
  RANK_CHECK(env, whole == 3 && most == 2);
}

static void exact_operations_take_any_algorithm(void **state) {
  (void)state;
  run(3, integers, NULL);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ordered_sums_are_those_of_a_loop_over_the_ranks),
      cmocka_unit_test(every_rank_has_a_factor_of_its_own),
      cmocka_unit_test(long_vectors_give_the_same_bits),
      cmocka_unit_test(hosts_and_streams_give_the_same_bits),
      cmocka_unit_test(an_algorithm_that_is_forced_is_not_replaced_in_silence),
      cmocka_unit_test(ranks_that_disagree_on_the_order_are_told),
      cmocka_unit_test(exact_operations_take_any_algorithm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
