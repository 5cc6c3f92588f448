/* Kernels for floats. The order of operands never shows in the result, not even
 * when both are NaN: every NaN that comes out is the same quiet NaN. */
#include "core/float16.h"
#include "core/reduce_kernel.h"

#ifdef __FAST_MATH__
#error "NaN, infinity and signed zero matter here: build without -ffast-math"
#endif

#define FLOAT32_NAN ((uint32_t)0x7fc00000)
#define FLOAT64_NAN ((uint64_t)0x7ff8000000000000)

static inline double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float settle_float(float r) {
  return r != r ? gli_float_of_bits(FLOAT32_NAN) : r;
}

static inline double settle_double(double r) {
  return r != r ? double_of_bits(FLOAT64_NAN) : r;
}

/* Operands that are neither smaller nor larger nor NaN are equal: the same
 * bits, or zeros that differ in sign. OR of the bits gives -0.0 when there is
 * one, AND gives +0.0 when there is one. */
static inline float min_float(float a, float b) {
  uint32_t bits = gli_bits_of_float(a) | gli_bits_of_float(b);
  float r = gli_float_of_bits(bits);
  r = a < b ? a : r;
  r = b < a ? b : r;
  return ((a != a) | (b != b)) ? gli_float_of_bits(FLOAT32_NAN) : r;
}

static inline float max_float(float a, float b) {
  uint32_t bits = gli_bits_of_float(a) & gli_bits_of_float(b);
  float r = gli_float_of_bits(bits);
  r = a > b ? a : r;
  r = b > a ? b : r;
  return ((a != a) | (b != b)) ? gli_float_of_bits(FLOAT32_NAN) : r;
}

static inline double min_double(double a, double b) {
  double r = double_of_bits(bits_of_double(a) | bits_of_double(b));
  r = a < b ? a : r;
  r = b < a ? b : r;
  return ((a != a) | (b != b)) ? double_of_bits(FLOAT64_NAN) : r;
}

static inline double max_double(double a, double b) {
  double r = double_of_bits(bits_of_double(a) & bits_of_double(b));
  r = a > b ? a : r;
  r = b > a ? b : r;
  return ((a != a) | (b != b)) ? double_of_bits(FLOAT64_NAN) : r;
}

GLI_KERNEL(sum_float32, float, settle_float(a + b))
GLI_KERNEL(product_float32, float, settle_float(a *b))
GLI_KERNEL(min_float32, float, min_float(a, b))
GLI_KERNEL(max_float32, float, max_float(a, b))

GLI_KERNEL(sum_float64, double, settle_double(a + b))
GLI_KERNEL(product_float64, double, settle_double(a *b))
GLI_KERNEL(min_float64, double, min_double(a, b))
GLI_KERNEL(max_float64, double, max_double(a, b))

/* The 16-bit formats are added and multiplied in float32. */
#define IN_FLOAT(format, operation)                    \
  gli_##format##_from_float(gli_##format##_to_float(a) \
                                operation gli_##format##_to_float(b))

GLI_KERNEL(sum_float16, uint16_t, IN_FLOAT(float16, +))
GLI_KERNEL(product_float16, uint16_t, IN_FLOAT(float16, *))
GLI_KERNEL(sum_bfloat16, uint16_t, IN_FLOAT(bfloat16, +))
GLI_KERNEL(product_bfloat16, uint16_t, IN_FLOAT(bfloat16, *))

/* Sign and magnitude to two's complement and back (it is its own inverse): then
 * 16-bit floats compare like integers, with -0.0 (-1) below +0.0 (0). */
static inline int16_t ordered(int16_t bits) {
  return (int16_t)(bits ^ (bits < 0 ? 0x7fff : 0));
}

static inline int16_t min_ordered(int16_t a, int16_t b, int infinity, int nan) {
  int16_t r = ordered(a) < ordered(b) ? a : b;
  bool is_nan = ((a & 0x7fff) > infinity) | ((b & 0x7fff) > infinity);
  return is_nan ? (int16_t)nan : r;
}

static inline int16_t max_ordered(int16_t a, int16_t b, int infinity, int nan) {
  int16_t r = ordered(a) > ordered(b) ? a : b;
  bool is_nan = ((a & 0x7fff) > infinity) | ((b & 0x7fff) > infinity);
  return is_nan ? (int16_t)nan : r;
}

GLI_KERNEL(min_float16, int16_t, min_ordered(a, b, 0x7c00, 0x7e00))
GLI_KERNEL(max_float16, int16_t, max_ordered(a, b, 0x7c00, 0x7e00))
GLI_KERNEL(min_bfloat16, int16_t, min_ordered(a, b, 0x7f80, 0x7fc0))
GLI_KERNEL(max_bfloat16, int16_t, max_ordered(a, b, 0x7f80, 0x7fc0))

#define ROW(type)                                             \
  {                                                           \
    [GLOO_SUM] = sum_##type, [GLOO_PRODUCT] = product_##type, \
    [GLOO_MIN] = min_##type, [GLOO_MAX] = max_##type,         \
  }

const gli_reduce_table GLI_OF_VARIANT(gli_reduce_float) = {{
    [GLOO_FLOAT16] = ROW(float16),
    [GLOO_BFLOAT16] = ROW(bfloat16),
    [GLOO_FLOAT32] = ROW(float32),
    [GLOO_FLOAT64] = ROW(float64),
}};
