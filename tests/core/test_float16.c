/* All numbers of the 16-bit and 8-bit formats, and the ties between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <math.h>

#include "kernels/float8.h"
#include "oracle.h"

typedef struct format {
  const oracle_half *oracle;
  float (*decode)(uint16_t);
  uint16_t (*encode)(float);
} format;

static float decode_float16(uint16_t h) {
  return gli_float16_to_float(h);
}
static float decode_bfloat16(uint16_t h) {
  return gli_bfloat16_to_float(h);
}
static float decode_e4m3fn(uint16_t h) {
  return gli_e4m3fn_to_float(h);
}
static float decode_e5m2(uint16_t h) {
  return gli_e5m2_to_float(h);
}
static uint16_t encode_float16(float f) {
  return (uint16_t)gli_float16_from_float(f);
}
static uint16_t encode_bfloat16(float f) {
  return (uint16_t)gli_bfloat16_from_float(f);
}
static uint16_t encode_e4m3fn(float f) {
  return (uint16_t)gli_e4m3fn_from_float(f);
}
static uint16_t encode_e5m2(float f) {
  return (uint16_t)gli_e5m2_from_float(f);
}

static format float16 = {&oracle_float16, decode_float16, encode_float16};
static format bfloat16 = {&oracle_bfloat16, decode_bfloat16, encode_bfloat16};
static format e4m3fn = {&oracle_e4m3fn, decode_e4m3fn, encode_e4m3fn};
static format e5m2 = {&oracle_e5m2, decode_e5m2, encode_e5m2};

/* Returns the number of bit patterns. */
static uint32_t numbers(const format *f) {
  return UINT32_C(2) << (f->oracle->exponent_bits + f->oracle->mantissa_bits);
}

static void every_number_decodes(void **state) {
  const format *f = *state;
  for (uint32_t h = 0; h < numbers(f); h++) {
    double expected = oracle_decode(f->oracle, (uint16_t)h);
    double value = (double)f->decode((uint16_t)h);
    if (isnan(expected)) {
      assert_true(isnan(value));
    } else {
      assert_true(value == expected);
      assert_int_equal(signbit(value) != 0, signbit(expected) != 0);
    }
  }
}

static void every_number_survives_a_round_trip(void **state) {
  const format *f = *state;
  uint16_t nan = oracle_encode(f->oracle, (double)NAN);
  for (uint32_t h = 0; h < numbers(f); h++) {
    float value = f->decode((uint16_t)h);
    assert_int_equal(f->encode(value), isnan(value) ? nan : h);
  }
}

/* Midpoints between neighbours, and one float32 to each side. */
static void ties_round_to_even(void **state) {
  const format *f = *state;
  for (uint32_t h = 0; h + 1 < numbers(f); h++) {
    double below = oracle_decode(f->oracle, (uint16_t)h);
    double above = oracle_decode(f->oracle, (uint16_t)(h + 1));
    if (!isfinite(below) || !isfinite(above)) continue;
    float middle = (float)((below + above) / 2);
    float around[] = {nextafterf(middle, -INFINITY), middle,
                      nextafterf(middle, INFINITY)};
    for (int i = 0; i < 3; i++) {
      assert_int_equal(f->encode(around[i]),
                       oracle_encode(f->oracle, (double)around[i]));
    }
  }
}

static void any_float32_encodes(void **state) {
  const format *f = *state;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 10007) {
    float value = gli_float_of_bits((uint32_t)bits);
    assert_int_equal(f->encode(value), oracle_encode(f->oracle, (double)value));
  }
}

static void limits_encode(void **state) {
  (void)state;
  assert_int_equal(gli_float16_from_float(65504.0f), 0x7bff);
  assert_int_equal(gli_float16_from_float(65519.996f), 0x7bff);
  assert_int_equal(gli_float16_from_float(65520.0f), 0x7c00);
  assert_int_equal(gli_float16_from_float(1e30f), 0x7c00);
  assert_int_equal(gli_float16_from_float(-1e30f), 0xfc00);
  assert_int_equal(gli_float16_from_float(INFINITY), 0x7c00);
  assert_int_equal(gli_float16_from_float(-NAN), 0x7e00);
  assert_int_equal(gli_float16_from_float(0x1p-25f), 0x0000);
  assert_int_equal(gli_float16_from_float(0x1.000002p-25f), 0x0001);
  assert_int_equal(gli_float16_from_float(-0.0f), 0x8000);
  assert_int_equal(gli_bfloat16_from_float(0x1.fffffep127f), 0x7f80);
  assert_int_equal(gli_bfloat16_from_float(-INFINITY), 0xff80);
  assert_int_equal(gli_bfloat16_from_float(gli_float_of_bits(0x7f800001)),
                   0x7fc0);
  assert_int_equal(gli_e4m3fn_from_float(448.0f), 0x7e);
  assert_int_equal(gli_e4m3fn_from_float(464.0f), 0x7e);
  assert_int_equal(gli_e4m3fn_from_float(-464.0f), 0xfe);
  assert_int_equal(gli_e4m3fn_from_float(464.00003f), 0x7f);
  assert_int_equal(gli_e4m3fn_from_float(-1e30f), 0x7f);
  assert_int_equal(gli_e4m3fn_from_float(INFINITY), 0x7f);
  assert_int_equal(gli_e4m3fn_from_float(0x1p-10f), 0x00);
  assert_int_equal(gli_e4m3fn_from_float(-0x1.000002p-10f), 0x81);
  assert_int_equal(gli_e5m2_from_float(57344.0f), 0x7b);
  assert_int_equal(gli_e5m2_from_float(61439.996f), 0x7b);
  assert_int_equal(gli_e5m2_from_float(61440.0f), 0x7c);
  assert_int_equal(gli_e5m2_from_float(-INFINITY), 0xfc);
  assert_int_equal(gli_e5m2_from_float(-NAN), 0x7e);
  assert_int_equal(gli_e5m2_from_float(0x1p-17f), 0x00);
  assert_int_equal(gli_e5m2_from_float(0x1.000002p-17f), 0x01);
}

#define OF(name, test) \
  { #name "_" #test, test, NULL, NULL, &(name) }

int main(void) {
  const struct CMUnitTest tests[] = {
      OF(float16, every_number_decodes),
      OF(bfloat16, every_number_decodes),
      OF(e4m3fn, every_number_decodes),
      OF(e5m2, every_number_decodes),
      OF(float16, every_number_survives_a_round_trip),
      OF(bfloat16, every_number_survives_a_round_trip),
      OF(e4m3fn, every_number_survives_a_round_trip),
      OF(e5m2, every_number_survives_a_round_trip),
      OF(float16, ties_round_to_even),
      OF(bfloat16, ties_round_to_even),
      OF(e4m3fn, ties_round_to_even),
      OF(e5m2, ties_round_to_even),
      OF(float16, any_float32_encodes),
      OF(bfloat16, any_float32_encodes),
      OF(e4m3fn, any_float32_encodes),
      OF(e5m2, any_float32_encodes),
      cmocka_unit_test(limits_encode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
