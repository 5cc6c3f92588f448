/* Scaling kernels of every variant against the oracle, averages, and legal
 * pairs of type and operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reduce.h"
#include "kernels/reduce_kernel.h"
#include "values.h"

#define MANY (VALUES_PAIRS + 200)
#if defined(EMULATED)
enum { STEP = 5 };
#else
enum { STEP = 1 };
#endif
#define GUARD_BYTES ((size_t)32)
#define GUARD 0xa5
#define AREA_BYTES (MANY * 16 + 3 * GUARD_BYTES)

/* A factor, and the integer to divide by if the factor is its reciprocal. */
typedef struct scaling {
  double factor;
  uint32_t whole;
} scaling;

static const scaling scalings[] = {{1.0, 1},
                                   {1.0 / 2, 2},
                                   {1.0 / 3, 3},
                                   {1.0 / 7, 7},
                                   {1.0 / 49, 49},
                                   {1.0 / 1000, 1000},
                                   {1.0 / 16777216, 16777216},
                                   {1.0 / 16777217, 0},
                                   {0.3, 0},
                                   {0.0, 0},
                                   {-0.5, 0},
                                   {3.0, 0},
                                   {1e30, 0},
                                   {-DBL_MAX, 0},
                                   {(double)INFINITY, 0},
                                   {(double)NAN, 0}};
#define SCALINGS (sizeof scalings / sizeof scalings[0])

static void check(const uint8_t *at, const uint8_t *expected, size_t bytes) {
  assert_memory_equal(at, expected, bytes);
  for (size_t i = 1; i <= GUARD_BYTES; i++) {
    assert_int_equal(at[-(ptrdiff_t)i], GUARD);
    assert_int_equal(at[bytes + i - 1], GUARD);
  }
}

static void run(gli_scale_fn fn, gloo_dtype dtype, const scaling *s,
                size_t count, size_t shift) {
  static uint8_t from[AREA_BYTES], to[AREA_BYTES], expected[AREA_BYTES];
  uint64_t seed = 2862933555777941757u + shift;
  size_t bytes = gloo_dtype_size(dtype);
  uint8_t *src = from + GUARD_BYTES + shift % 16;
  uint8_t *dst = to + GUARD_BYTES + shift * 5 % 16;
  memset(from, GUARD, count * bytes + 3 * GUARD_BYTES);
  memset(to, GUARD, count * bytes + 3 * GUARD_BYTES);
  for (size_t i = 0; i < count; i++) {
    oracle_value v = value_right(dtype, i + shift, &seed);
    value_put(src + i * bytes, dtype, v);
    value_put(expected + i * bytes, dtype,
              oracle_scale(dtype, v, s->factor, s->whole));
  }
  fn(dst, src, count, s->factor);
  check(dst, expected, count * bytes);
  fn(src, src, count, s->factor);
  check(src, expected, count * bytes);
}

static void scaling_matches_the_oracle(void **state) {
  gloo_dtype dtype = (gloo_dtype)(uintptr_t)*state;
  for (size_t v = 0; v < gli_reduce_variant_count; v++) {
    if (!gli_reduce_variants[v].usable()) continue;
    gli_scale_fn fn = gli_reduce_variant_scale(&gli_reduce_variants[v], dtype);
    assert_int_equal(fn == NULL, dtype == GLOO_BOOL);
    if (fn == NULL) continue;
    for (size_t i = 0; i < SCALINGS; i++) {
      run(fn, dtype, &scalings[i], MANY, i);
      for (size_t count = 0; count <= 66; count += STEP) {
        run(fn, dtype, &scalings[i], count, count + i);
      }
    }
  }
}

static void averages_of_equal_integers_are_exact(void **state) {
  gli_scale_fn fn = gli_scale_kernel(GLOO_INT64);
  gli_scale_fn fn8 = gli_scale_kernel(GLOO_INT8);
  (void)state;
  for (int64_t n = 1; n <= 2000; n++) {
    int64_t sums[] = {n * 1000003, -n * 1000003, -n - 1, n - 1}, means[4];
    int8_t narrow = (int8_t)(n % 128), one;
    fn(means, sums, 4, 1.0 / (double)n);
    assert_true(means[0] == 1000003 && means[1] == -1000003);
    assert_true(means[2] == (n == 1 ? -2 : -1) && means[3] == 0);
    fn8(&one, &narrow, 1, 1.0 / (double)n);
    assert_int_equal(one, narrow / n);
  }
}

static void averages_of_equal_floats_are_exact(void **state) {
  gli_scale_fn fn32 = gli_scale_kernel(GLOO_FLOAT32);
  gli_scale_fn fn64 = gli_scale_kernel(GLOO_FLOAT64);
  (void)state;
  for (int n = 1; n <= 5000; n++) {
    float single = (float)n * 3, mean32;
    double wide = n * 0.75, mean64;
    fn32(&mean32, &single, 1, 1.0 / n);
    fn64(&mean64, &wide, 1, 1.0 / n);
    assert_true(mean32 == 3.0f && mean64 == 0.75);
  }
}

static const gloo_dtype narrow[] = {GLOO_FLOAT16, GLOO_BFLOAT16,
                                    GLOO_FLOAT8_E4M3FN, GLOO_FLOAT8_E5M2};
#define NARROW (sizeof narrow / sizeof narrow[0])

/* Every number, and lengths that leave a vector and more as the remainder. */
static void narrow_floats_are_widened_and_rounded(void **state) {
  static float wide[65536];
  static uint8_t all[2 * 65536], back[2 * 65536];
  (void)state;
  for (size_t k = 0; k < NARROW * gli_reduce_variant_count; k++) {
    const gli_reduce_variant *variant = &gli_reduce_variants[k / NARROW];
    size_t d = k % NARROW;
    size_t bytes = gloo_dtype_size(narrow[d]), n = (size_t)1 << 8 * bytes;
    if (!variant->usable()) continue;
    for (size_t i = 0; i < n; i++) {
      value_put(all + i * bytes, narrow[d], (oracle_value){{i, 0}});
    }
    for (size_t s = 0; s < SCALINGS; s++) {
      double factor = (double)(float)scalings[s].factor;
      double whole = scalings[s].whole;
      variant->scale->widen[narrow[d]](wide, all, n, scalings[s].factor);
      for (size_t i = 0; i < n; i++) {
        double x = oracle_number(narrow[d], i);
        float right = (float)(whole != 0 ? x / whole : x * factor);
        assert_true(wide[i] == right || (isnan(wide[i]) && isnan(right)));
      }
      for (size_t by = 1; by <= 49; by += 6) {
        variant->scale->narrow[narrow[d]](back, wide, n - by, (float)by);
        for (size_t i = 0; i < n - by; i++) {
          uint64_t right = oracle_part(narrow[d], (double)wide[i] / (double)by);
          assert_true(value_get(back + i * bytes, narrow[d]).part[0] == right);
        }
      }
    }
  }
  assert_null(gli_widen_kernel(GLOO_FLOAT32));
  assert_null(gli_narrow_kernel(GLOO_DTYPE_COUNT));
}

/* The average of up to 1000 copies of a type's largest number. */
static void averages_of_the_largest_narrow_floats_are_finite(void **state) {
  static const uint16_t largest[NARROW] = {0x7bff, 0x7f7f, 0x7e, 0x7b};
  static uint8_t value[2 * 77], mean[2 * 77];
  const void *srcs[1000];
  (void)state;
  for (size_t d = 0; d < NARROW; d++) {
    size_t bytes = gloo_dtype_size(narrow[d]);
    for (size_t i = 0; i < 77; i++) {
      value_put(value + i * bytes, narrow[d], (oracle_value){{largest[d], 0}});
    }
    for (size_t n = 1; n <= 1000; n++) {
      void *dst = mean;
      srcs[n - 1] = value;
      gli_combine_kernel(narrow[d], GLOO_AVERAGE)(&dst, 1, srcs, n, 77, 0);
      assert_memory_equal(mean, value, 77 * bytes);
    }
  }
}

static void what_is_refused_has_a_reason_and_no_kernel(void **state) {
  (void)state;
  for (int d = -1; d <= GLOO_DTYPE_COUNT; d++) {
    for (int o = -1; o <= GLOO_OP_COUNT; o++) {
      gloo_dtype dtype = (gloo_dtype)d;
      gloo_op op = (gloo_op)o;
      bool allowed = gli_reduce_refusal(dtype, op) == NULL;
      gloo_op between = gli_op_between(op);
      assert_int_equal(allowed, gli_reduce_kernel(dtype, between) != NULL);
      assert_int_equal(allowed, gli_combine_kernel(dtype, between) != NULL);
      if (allowed && op == GLOO_AVERAGE) {
        assert_non_null(gli_scale_kernel(dtype));
      }
      assert_true(between == op || op == GLOO_AVERAGE);
    }
  }
  assert_null(gli_scale_kernel(GLOO_DTYPE_COUNT));
  assert_null(gli_scale_kernel((gloo_dtype)-1));
  assert_null(gli_reduce_kernel(GLOO_INT32, GLOO_AVERAGE));
  assert_non_null(gli_reduce_kernel(GLOO_FLOAT32, GLOO_AVERAGE));
  assert_non_null(gli_reduce_kernel(GLOO_FLOAT16, GLOO_AVERAGE));
  assert_null(gli_reduce_refusal(GLOO_FLOAT32, GLOO_AVERAGE));
  assert_string_equal(gli_reduce_refusal(GLOO_COMPLEX64, GLOO_MAX),
                      "complex numbers are not ordered");
  assert_non_null(gli_reduce_refusal(GLOO_BOOL, GLOO_AVERAGE));
  assert_non_null(gli_reduce_refusal(GLOO_FLOAT64, GLOO_BXOR));
}

#define OTHERS 5

int main(void) {
  static char names[GLOO_DTYPE_COUNT][64];
  struct CMUnitTest tests[GLOO_DTYPE_COUNT + OTHERS] = {
      [GLOO_DTYPE_COUNT] =
          cmocka_unit_test(averages_of_equal_integers_are_exact),
      [GLOO_DTYPE_COUNT + 1] =
          cmocka_unit_test(averages_of_equal_floats_are_exact),
      [GLOO_DTYPE_COUNT + 2] =
          cmocka_unit_test(what_is_refused_has_a_reason_and_no_kernel),
      [GLOO_DTYPE_COUNT + 3] =
          cmocka_unit_test(narrow_floats_are_widened_and_rounded),
      [GLOO_DTYPE_COUNT + 4] =
          cmocka_unit_test(averages_of_the_largest_narrow_floats_are_finite),
  };
  for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
    snprintf(names[d], sizeof names[d], "%s_scaling_matches_the_oracle",
             gloo_dtype_name((gloo_dtype)d));
    tests[d].name = names[d];
    tests[d].test_func = scaling_matches_the_oracle;
    tests[d].initial_state = (void *)(uintptr_t)d;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
