/* Conversions between 16-bit floats and float32, in integer arithmetic without
 * branches, so that loops vectorise. Neither direction touches a subnormal
 * float32, which is slow on many processors, and zero with flush-to-zero. */
#ifndef GLI_KERNELS_FLOAT16_H
#define GLI_KERNELS_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float gli_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t gli_bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* binary16 has 5 exponent bits with bias 15 and 10 mantissa bits, binary32 has
 * 8 with bias 127 and 23: shift the mantissa by 13, add 112 to the exponent. */
#define GLI_HALF_REBIAS ((uint32_t)112 << 23)

/* Selects by a mask, because compilers turn ?: with floating-point work on one
 * side into a branch, and then cannot vectorise. */
static inline uint32_t gli_select(int condition, uint32_t yes, uint32_t no) {
  uint32_t mask = (uint32_t)-condition;
  return (yes & mask) | (no & ~mask);
}

/* 0.5, whose last mantissa bit is 2^-24, like that of a binary16 subnormal:
 * adding 0.5 makes the processor round at that bit. */
#define GLI_HALF_MAGIC ((uint32_t)126 << 23)

/* Takes the bits in the low half of a 32-bit word, so that elements stay in
 * their vector lanes. */
static inline float gli_float16_to_float(uint32_t half) {
  uint32_t sign = (half & 0x8000) << 16;
  uint32_t body = half & 0x7fff;
  uint32_t normal = (body << 13) + GLI_HALF_REBIAS;
  uint32_t special = normal + GLI_HALF_REBIAS; /* infinity, NaN */
  float small = gli_float_of_bits(GLI_HALF_MAGIC | body) -
                gli_float_of_bits(GLI_HALF_MAGIC);
  uint32_t bits = gli_select((int32_t)body >= 0x7c00, special, normal);
  bits = gli_select((int32_t)body < 0x0400, gli_bits_of_float(small), bits);
  return gli_float_of_bits(bits | sign);
}

/* Rounds to nearest, ties to even. Every NaN becomes the same quiet NaN. */
static inline uint32_t gli_float16_from_float(float value) {
  uint32_t bits = gli_bits_of_float(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  int32_t body = (int32_t)(bits & 0x7fffffff);
  uint32_t rebased = (uint32_t)body - GLI_HALF_REBIAS;
  uint32_t normal = (rebased + 0xfff + ((rebased >> 13) & 1)) >> 13;
  float pushed =
      gli_float_of_bits((uint32_t)body) + gli_float_of_bits(GLI_HALF_MAGIC);
  uint32_t small = gli_bits_of_float(pushed) - GLI_HALF_MAGIC;
  uint32_t half = gli_select(body < 0x38800000, small, normal); /* 2^-14 */
  half = gli_select(body >= 0x47800000, 0x7c00, half);          /* 2^16 */
  half = gli_select(body > 0x7f800000, 0x7e00, half | sign);
  return half;
}

static inline float gli_bfloat16_to_float(uint32_t half) {
  return gli_float_of_bits(half << 16);
}

/* Rounds to nearest, ties to even, and returns the number in the upper half of
 * the result. Every NaN becomes the same quiet NaN. */
static inline uint32_t gli_bfloat16_round(float value) {
  uint32_t bits = gli_bits_of_float(value);
  uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return (int32_t)(bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : rounded;
}

static inline uint32_t gli_bfloat16_from_float(float value) {
  return gli_bfloat16_round(value) >> 16;
}

#endif
