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

#include "core/reduce.h"
#include "core/reduce_kernel.h"
#include "oracle.h"

#define MANY ((size_t)1000)
#define FEW ((size_t)67)
#define SLACK ((size_t)64)
#define BYTES (MANY * 8 + 2 * SLACK)
#define GUARD 0xa5

typedef struct operands {
  size_t element; /* bytes */
  uint8_t left[MANY * 8], right[MANY * 8], expected[MANY * 8];
} operands;

static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  *state = x;
  return x * UINT64_C(0x2545f4914f6cdd1d);
}

static void put(uint8_t *at, size_t bytes, uint64_t value) {
  uint8_t v8 = (uint8_t)value;
  uint16_t v16 = (uint16_t)value;
  uint32_t v32 = (uint32_t)value;
  if (bytes == 1) memcpy(at, &v8, 1);
  if (bytes == 2) memcpy(at, &v16, 2);
  if (bytes == 4) memcpy(at, &v32, 4);
  if (bytes == 8) memcpy(at, &value, 8);
}

/* Numbers at which arithmetic is likely to go wrong; for integers, their low
 * bits are as good as any. */
static const uint64_t special_float16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x3c00,
    0xbc00, 0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfc01, 0x7e00,
    0xfe00, 0x7fff, 0xffff, 0x4c00, 0x0c00, 0x1400, 0x9400, 0x3bff};
static const uint64_t special_bfloat16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x3f80,
    0xbf80, 0x3f81, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81, 0xff81, 0x7fc0,
    0xffc0, 0x7fff, 0xffff, 0x4180, 0x1f80, 0x2000, 0x9f80, 0x3f7f};
static const uint64_t special_float32[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
    0x00800000, 0x80800000, 0x3f800000, 0xbf800000, 0x3f800001, 0x7f7fffff,
    0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fc00000,
    0xffc00000, 0x7fffffff, 0xffffffff, 0x4b800000, 0x1f800000, 0x20000000,
    0x9f800000, 0x3f7fffff};
static const uint64_t special_float64[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001,
    0x8000000000000001, 0x000fffffffffffff, 0x800fffffffffffff,
    0x0010000000000000, 0x8010000000000000, 0x3ff0000000000000,
    0xbff0000000000000, 0x3ff0000000000001, 0x7fefffffffffffff,
    0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
    0x7ff0000000000001, 0xfff0000000000001, 0x7ff8000000000000,
    0xfff8000000000000, 0x7fffffffffffffff, 0xffffffffffffffff,
    0x4340000000000000, 0x2000000000000000, 0x1ff0000000000000,
    0x9ff0000000000000, 0x3fefffffffffffff};
#define SPECIALS ((size_t)26)

static const uint64_t *specials_of(gloo_dtype dtype) {
  switch (gloo_dtype_size(dtype)) {
    case 2:
      return dtype == GLOO_BFLOAT16 ? special_bfloat16 : special_float16;
    case 4:
      return special_float32;
    default:
      return special_float64;
  }
}

/* All pairs of special numbers first, any bits after them. */
static uint64_t operand(gloo_dtype dtype, size_t i, bool left, uint64_t *seed) {
  uint64_t random = next_random(seed);
  if (i >= SPECIALS * SPECIALS) return random;
  return specials_of(dtype)[left ? i / SPECIALS : i % SPECIALS];
}

static operands *make_operands(gloo_dtype dtype, gloo_op op, size_t skip) {
  uint64_t seed = 88172645463325252u + (uint64_t)dtype;
  operands *o = malloc(sizeof *o);
  assert_non_null(o);
  o->element = gloo_dtype_size(dtype);
  for (size_t i = 0; i < MANY; i++) {
    uint64_t a = operand(dtype, (i + skip) % MANY, true, &seed);
    uint64_t b = operand(dtype, (i + skip) % MANY, false, &seed);
    put(o->left + i * o->element, o->element, a);
    put(o->right + i * o->element, o->element, b);
    put(o->expected + i * o->element, o->element,
        oracle_reduce(dtype, op, a, b));
  }
  return o;
}

/* dst must hold the expected bytes and nothing around them may have changed. */
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
    if (!gli_reduce_variant_usable(variant)) continue;
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

/* Swapped operands give the same bits: NaN, signed zeros and all. */
static void body_symmetric(gloo_dtype dtype, gloo_op op, gli_reduce_fn fn) {
  operands *o = make_operands(dtype, op, 0);
  uint8_t *swapped = malloc(MANY * o->element);
  assert_non_null(swapped);
  fn(swapped, o->right, o->left, MANY);
  assert_memory_equal(swapped, o->expected, MANY * o->element);
  free(swapped);
  free(o);
}

/* All three pointers the same; allocated to the byte for the sanitizers. */
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
  while (!gli_reduce_variant_usable(&gli_reduce_variants[v])) v++;
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
