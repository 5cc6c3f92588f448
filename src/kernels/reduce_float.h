/* Canonical NaN, which all float kernels return. */
#ifndef GLI_KERNELS_REDUCE_FLOAT_H
#define GLI_KERNELS_REDUCE_FLOAT_H

#include "kernels/float16.h"

#ifdef __FAST_MATH__
#error "NaN, infinity and signed zero matter here: build without -ffast-math"
#endif

#define GLI_FLOAT32_NAN ((uint32_t)0x7fc00000)
#define GLI_FLOAT64_NAN ((uint64_t)0x7ff8000000000000)

static inline double gli_double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t gli_bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float gli_canonical_float(float r) {
  return r != r ? gli_float_of_bits(GLI_FLOAT32_NAN) : r;
}

static inline double gli_canonical_double(double r) {
  return r != r ? gli_double_of_bits(GLI_FLOAT64_NAN) : r;
}

#endif
