/* Every kernel of every variant against the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reduce.h"
#include "kernels/reduce_kernel.h"
#include "values.h"

#define MANY ((size_t)1000)
#define FEW ((size_t)67)
#define SLACK ((size_t)64)
#define BYTES (MANY * 16 + 2 * SLACK)
#define GUARD 0xa5

typedef struct operands {
  size_t element; /* bytes */
  uint8_t left[MANY * 16], right[MANY * 16], expected[MANY * 16];
} operands;

static operands *make_operands(gloo_dtype dtype, gloo_op op, size_t skip) {
  uint64_t seed = 88172645463325252u + (uint64_t)dtype;
  operands *o = malloc(sizeof *o);
  assert_non_null(o);
  o->element = gloo_dtype_size(dtype);
  for (size_t i = 0; i < MANY; i++) {
    size_t at = i * o->element;
    oracle_value a = value_left(dtype, (i + skip) % MANY, &seed);
    oracle_value b = value_right(dtype, (i + skip) % MANY, &seed);
    value_put(o->left + at, dtype, a);
    value_put(o->right + at, dtype, b);
    value_put(o->expected + at, dtype, oracle_reduce(dtype, op, a, b));
  }
  return o;
}

/* Checks that dst holds the expected bytes and that the guards are
 * unchanged. */
static void check(const operands *o, const uint8_t *area, const uint8_t *dst,
                  size_t count) {
  size_t bytes = count * o->element;
  assert_memory_equal(dst, o->expected, bytes);
  for (size_t i = 1; i <= 16; i++) assert_int_equal(dst[-(ptrdiff_t)i], GUARD);
  for (size_t i = 0; i < 16; i++) assert_int_equal(dst[bytes + i], GUARD);
  assert_true(dst - area >= 16);
}

static void run_apart(gli_reduce_fn fn, const operands *o, size_t count,
                      size_t dst_at, size_t left_at, size_t right_at) {
  static uint8_t left[BYTES], right[BYTES], dst[BYTES];
  size_t bytes = count * o->element;
  memcpy(left + left_at, o->left, bytes);
  memcpy(right + right_at, o->right, bytes);
  memset(dst, GUARD, bytes + 2 * SLACK);
  fn(dst + SLACK + dst_at, left + left_at, right + right_at, count);
  check(o, dst, dst + SLACK + dst_at, count);
}

static void run_onto(gli_reduce_fn fn, const operands *o, size_t count,
                     bool onto_left, size_t dst_at, size_t other_at) {
  static uint8_t other[BYTES], area[BYTES];
  size_t bytes = count * o->element;
  uint8_t *dst = area + SLACK + dst_at;
  memset(area, GUARD, bytes + 2 * SLACK);
  memcpy(dst, onto_left ? o->left : o->right, bytes);
  memcpy(other + other_at, onto_left ? o->right : o->left, bytes);
  if (onto_left) {
    fn(dst, dst, other + other_at, count);
  } else {
    fn(dst, other + other_at, dst, count);
  }
  check(o, area, dst, count);
}

static void check_count(gli_reduce_fn fn, const operands *o, size_t count) {
  for (size_t a = 0; a < 8; a++) {
    for (size_t b = 0; b < 8; b++) {
      for (size_t c = 0; c < 8; c++) run_apart(fn, o, count, a, b, c);
      run_onto(fn, o, count, true, a, b);
      run_onto(fn, o, count, false, a, b);
    }
  }
}

static void for_each_pair(gloo_dtype dtype,
                          void (*body)(gloo_dtype, gloo_op, gli_reduce_fn)) {
  for (size_t v = 0; v < gli_reduce_variant_count; v++) {
    const gli_reduce_variant *variant = &gli_reduce_variants[v];
    if (!variant->usable()) continue;
    for (int op = 0; op < GLOO_OP_COUNT; op++) {
      gli_reduce_fn fn = gli_reduce_variant_kernel(variant, dtype, (gloo_op)op);
      if (!oracle_supports(dtype, (gloo_op)op)) {
        assert_null(fn);
        continue;
      }
      assert_non_null(fn);
      body(dtype, (gloo_op)op, fn);
    }
  }
}

static void body_small_counts(gloo_dtype dtype, gloo_op op, gli_reduce_fn fn) {
  for (size_t count = 0; count <= FEW; count++) {
    operands *o = make_operands(dtype, op, count * 13);
    check_count(fn, o, count);
    free(o);
  }
}

static void body_many(gloo_dtype dtype, gloo_op op, gli_reduce_fn fn) {
  operands *o = make_operands(dtype, op, 0);
  for (size_t at = 0; at < 8; at++) {
    run_apart(fn, o, MANY, at, (at + 3) % 8, (at * 5) % 8);
    run_onto(fn, o, MANY, true, at, (at + 1) % 8);
    run_onto(fn, o, MANY, false, at, (at + 1) % 8);
  }
  free(o);
}

/* Swapped operands give the same bits, including NaN and signed zeros. */
static void body_symmetric(gloo_dtype dtype, gloo_op op, gli_reduce_fn fn) {
  operands *o = make_operands(dtype, op, 0);
  uint8_t *swapped = malloc(MANY * o->element);
  assert_non_null(swapped);
  fn(swapped, o->right, o->left, MANY);
  assert_memory_equal(swapped, o->expected, MANY * o->element);
  free(swapped);
  free(o);
}

/* All three pointers are equal; the allocation is exact for the sanitizers. */
static void body_onto_itself(gloo_dtype dtype, gloo_op op, gli_reduce_fn fn) {
  operands *o = make_operands(dtype, op, 0);
  for (size_t count = 1; count <= FEW; count++) {
    size_t bytes = count * o->element;
    uint8_t *both = malloc(bytes), *apart = malloc(bytes);
    assert_true(both != NULL && apart != NULL);
    memcpy(both, o->left, bytes);
    fn(apart, both, both, count);
    fn(both, both, both, count);
    assert_memory_equal(both, apart, bytes);
    free(both);
    free(apart);
  }
  free(o);
}

static void kernels_match_the_oracle(void **state) {
  gloo_dtype dtype = (gloo_dtype)(uintptr_t)*state;
  for_each_pair(dtype, body_small_counts);
  for_each_pair(dtype, body_many);
  for_each_pair(dtype, body_symmetric);
  for_each_pair(dtype, body_onto_itself);
}

static void unknown_types_and_ops_have_no_kernel(void **state) {
  (void)state;
  assert_null(gli_reduce_kernel(GLOO_DTYPE_COUNT, GLOO_SUM));
  assert_null(gli_reduce_kernel((gloo_dtype)-1, GLOO_SUM));
  assert_null(gli_reduce_kernel(GLOO_FLOAT32, GLOO_OP_COUNT));
  assert_null(gli_reduce_kernel(GLOO_FLOAT32, (gloo_op)-1));
}

static void the_widest_usable_variant_is_chosen(void **state) {
  size_t v = 0;
  (void)state;
  while (!gli_reduce_variants[v].usable()) v++;
  print_message("# kernels in use: %s\n", gli_reduce_variants[v].name);
  assert_ptr_equal(gli_reduce_kernel(GLOO_FLOAT32, GLOO_SUM),
                   gli_reduce_variant_kernel(&gli_reduce_variants[v],
                                             GLOO_FLOAT32, GLOO_SUM));
}

int main(void) {
  static char names[GLOO_DTYPE_COUNT][64];
  struct CMUnitTest tests[GLOO_DTYPE_COUNT + 2] = {
      [GLOO_DTYPE_COUNT] =
          cmocka_unit_test(unknown_types_and_ops_have_no_kernel),
      [GLOO_DTYPE_COUNT + 1] =
          cmocka_unit_test(the_widest_usable_variant_is_chosen),
  };
  for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
    snprintf(names[d], sizeof names[d], "%s_kernels_match_the_oracle",
             gloo_dtype_name((gloo_dtype)d));
    tests[d].name = names[d];
    tests[d].test_func = kernels_match_the_oracle;
    tests[d].initial_state = (void *)(uintptr_t)d;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
