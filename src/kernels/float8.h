/* Conversions between 8-bit floats and float32, as in float16.h. e5m2 is the
 * upper byte of a binary16. e4m3fn has 4 exponent bits with bias 7, 3 mantissa
 * bits, no infinity, and NaN if all bits but the sign are set. Source: Open
 * Compute Project, 8-bit Floating Point Specification (OFP8), 2023. */
#ifndef GLI_KERNELS_FLOAT8_H
#define GLI_KERNELS_FLOAT8_H

#include "kernels/float16.h"

#define GLI_E4M3_REBIAS ((uint32_t)(127 - 7) << 23)

/* Numbers whose last mantissa bit equals the last bit of a subnormal: 2^-9 in
 * e4m3fn, 2^-16 in e5m2. */
#define GLI_E4M3_MAGIC ((uint32_t)(127 + 14) << 23)
#define GLI_E5M2_MAGIC ((uint32_t)(127 + 7) << 23)

static inline float gli_e4m3fn_to_float(uint32_t byte) {
  uint32_t sign = (byte & 0x80) << 24;
  uint32_t body = byte & 0x7f;
  float small = gli_float_of_bits(GLI_E4M3_MAGIC | body) -
                gli_float_of_bits(GLI_E4M3_MAGIC);
  uint32_t bits = (body << 20) + GLI_E4M3_REBIAS;
  bits = gli_select((int32_t)body < 0x08, gli_bits_of_float(small), bits);
  bits = gli_select((int32_t)body == 0x7f, 0x7fc00000, bits);
  return gli_float_of_bits(bits | sign);
}

/* Rounds to nearest, ties to even. NaN, and numbers that round to more than
 * 448, become the same NaN. */
static inline uint32_t gli_e4m3fn_from_float(float value) {
  uint32_t bits = gli_bits_of_float(value);
  uint32_t sign = (bits >> 24) & 0x80;
  int32_t body = (int32_t)(bits & 0x7fffffff);
  uint32_t rebased = (uint32_t)body - GLI_E4M3_REBIAS;
  uint32_t normal = (rebased + 0x7ffff + ((rebased >> 20) & 1)) >> 20;
  float pushed =
      gli_float_of_bits((uint32_t)body) + gli_float_of_bits(GLI_E4M3_MAGIC);
  uint32_t small = gli_bits_of_float(pushed) - GLI_E4M3_MAGIC;
  uint32_t byte = gli_select(body < 0x3c800000, small, normal); /* 2^-6 */
  byte = gli_select(body >= 0x43f00000, 0x7f, byte);            /* 480 */
  return gli_select(byte == 0x7f, 0x7f, byte | sign);
}

static inline float gli_e5m2_to_float(uint32_t byte) {
  return gli_float16_to_float(byte << 8);
}

/* Rounds to nearest, ties to even. Every NaN becomes the same quiet NaN. */
static inline uint32_t gli_e5m2_from_float(float value) {
  uint32_t bits = gli_bits_of_float(value);
  uint32_t sign = (bits >> 24) & 0x80;
  int32_t body = (int32_t)(bits & 0x7fffffff);
  uint32_t rebased = (uint32_t)body - GLI_HALF_REBIAS;
  uint32_t normal = (rebased + 0xfffff + ((rebased >> 21) & 1)) >> 21;
  float pushed =
      gli_float_of_bits((uint32_t)body) + gli_float_of_bits(GLI_E5M2_MAGIC);
  uint32_t small = gli_bits_of_float(pushed) - GLI_E5M2_MAGIC;
  uint32_t byte = gli_select(body < 0x38800000, small, normal); /* 2^-14 */
  byte = gli_select(body >= 0x47800000, 0x7c, byte);            /* 2^16 */
  return gli_select(body > 0x7f800000, 0x7e, byte | sign);
}

#endif
