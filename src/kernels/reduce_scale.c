/* Kernels that multiply by a factor. For the factor 1/n of an average they
 * divide by n instead, which is correctly rounded, unlike a product with the
 * rounded factor. */
#include "kernels/float8.h"
#include "kernels/reduce_half.h"
#include "kernels/reduce_kernel.h"

/* Returns the whole number whose reciprocal is the factor, or 0 if none exists.
 * float32 represents all whole numbers up to 2^24. */
static double divisor_of(double factor) {
  if (!(factor <= 1 && factor >= 1.0 / 16777216)) return 0;
  double whole = (double)(uint32_t)(1 / factor + 0.5);
  return 1 / whole == factor ? whole : 0;
}

/* Defines static void name(dst, src, count, by), which applies name_group to
 * `size` elements at a time and to the rest one by one. */
#define WALK(name, type, number, size)                                    \
  static void name(void *dst, const void *src, size_t count, number by) { \
    unsigned char *d = dst;                                               \
    const unsigned char *s = src;                                         \
    enum { group = (size) };                                              \
    for (; count >= group; count -= group) {                              \
      type t[group];                                                      \
      name##_group(t, s, by, group);                                      \
      memcpy(d, t, sizeof t);                                             \
      d += sizeof t;                                                      \
      s += sizeof t;                                                      \
    }                                                                     \
    for (; count > 0; count--) {                                          \
      type t[1];                                                          \
      GLI_FEW;                                                            \
      name##_group(t, s, by, 1);                                          \
      memcpy(d, t, sizeof t);                                             \
      d += sizeof t;                                                      \
      s += sizeof t;                                                      \
    }                                                                     \
  }

#define LOOP(name, type, number, expression)                                 \
  GLI_INLINE void name##_group(type *t, const unsigned char *src, number by, \
                               size_t n) {                                   \
    GLI_LANES for (size_t j = 0; j < n; j++) {                               \
      type a;                                                                \
      memcpy(&a, src + j * sizeof a, sizeof a);                              \
      t[j] = (type)(expression);                                             \
    }                                                                        \
  }                                                                          \
  WALK(name, type, number, GLI_GROUP_BYTES / sizeof(type))

/* Defines name from base_over, which divides by a `number`, and base_times,
 * which multiplies by a `factor_type`. An element is `parts` base elements. */
#define SCALE(name, base, parts, number, factor_type)                         \
  static void name(void *dst, const void *src, size_t count, double factor) { \
    double whole = divisor_of(factor);                                        \
    if (whole != 0) {                                                         \
      base##_over(dst, src, (parts)*count, (number)whole);                    \
    } else {                                                                  \
      base##_times(dst, src, (parts)*count, (factor_type)factor);             \
    }                                                                         \
  }

/* Converts with truncation toward zero. Values outside the range become the
 * nearest number of the type, and NaN (infinity times 0) becomes 0. `past` is
 * the first power of two above the range. */
static inline int64_t to_signed(double x, double past, int64_t most) {
  if (x != x) return 0;
  if (x >= past) return most;
  return x <= -past ? -most - 1 : (int64_t)x;
}
static inline uint64_t to_unsigned(double x, double past, uint64_t most) {
  if (!(x > 0)) return 0;
  return x >= past ? most : (uint64_t)x;
}

/* Divides in floating point. A quotient of 32-bit integers that is not a whole
 * number differs from the next one by more than the error of float64. */
#define INTEGER(width, quotient_type, past)              \
  LOOP(int##width##_over, int##width##_t, quotient_type, \
       (quotient_type)a / by)                            \
  LOOP(int##width##_times, int##width##_t, double,       \
       to_signed((double)a *by, past, INT##width##_MAX)) \
  SCALE(scale_int##width, int##width, 1, quotient_type, double)
#define UNSIGNED(width, quotient_type, past)                \
  LOOP(uint##width##_over, uint##width##_t, quotient_type,  \
       (quotient_type)a / by)                               \
  LOOP(uint##width##_times, uint##width##_t, double,        \
       to_unsigned((double)a *by, past, UINT##width##_MAX)) \
  SCALE(scale_uint##width, uint##width, 1, quotient_type, double)
INTEGER(8, float, 0x1p7)
INTEGER(16, float, 0x1p15)
INTEGER(32, double, 0x1p31)
INTEGER(64, int64_t, 0x1p63)
UNSIGNED(8, float, 0x1p8)
UNSIGNED(16, float, 0x1p16)
UNSIGNED(32, double, 0x1p32)
UNSIGNED(64, uint64_t, 0x1p64)

LOOP(float32_over, float, float, gli_canonical_float(a / by))
LOOP(float32_times, float, double, gli_canonical_float((float)((double)a *by)))
SCALE(scale_float32, float32, 1, float, double)
SCALE(scale_complex64, float32, 2, float, double)

LOOP(float64_over, double, double, gli_canonical_double(a / by))
LOOP(float64_times, double, double, gli_canonical_double(a *by))
SCALE(scale_float64, float64, 1, double, double)
SCALE(scale_complex128, float64, 2, double, double)

#define NARROW(name, type, format)                                 \
  LOOP(name##_over, type, float,                                   \
       gli_##format##_from_float(gli_##format##_to_float(a) / by)) \
  LOOP(name##_times, type, float,                                  \
       gli_##format##_from_float(gli_##format##_to_float(a) * by)) \
  SCALE(scale_##name, name, 1, float, float)
NARROW(bfloat16, uint16_t, bfloat16)
NARROW(float8_e4m3fn, uint8_t, e4m3fn)
NARROW(float8_e5m2, uint8_t, e5m2)

#ifdef GLI_HALVES
#define HALVES(name, symbol)                                                   \
  GLI_INLINE void name##_group(uint16_t *t, const unsigned char *src,          \
                               float by, size_t n) {                           \
    if (n == 1) {                                                              \
      uint16_t a;                                                              \
      memcpy(&a, src, sizeof a);                                               \
      t[0] =                                                                   \
          (uint16_t)gli_float16_from_float(gli_float16_to_float(a) symbol by); \
      return;                                                                  \
    }                                                                          \
    gli_floats x = gli_halves_widen(src);                                      \
    gli_floats y = gli_halves_widen(src + 2 * GLI_HALVES);                     \
    gli_halves_narrow(t, x symbol by, y symbol by);                            \
  }                                                                            \
  WALK(name, uint16_t, float, 2 * GLI_HALVES)
HALVES(float16_over, /)
HALVES(float16_times, *)
SCALE(scale_float16, float16, 1, float, float)
#else
NARROW(float16, uint16_t, float16)
#endif

/* Defines the conversions of low-precision floats to float32, and back. */
#define WIDEN(name, type, format)                                      \
  static void widen_##name(float *dst, const void *src, size_t count,  \
                           double factor) {                            \
    const unsigned char *s = src;                                      \
    float whole = (float)divisor_of(factor), times = (float)factor;    \
    for (size_t i = 0; i < count; i++) {                               \
      type a;                                                          \
      memcpy(&a, s + i * sizeof a, sizeof a);                          \
      dst[i] = gli_##format##_to_float(a);                             \
    }                                                                  \
    if (whole > 1) {                                                   \
      for (size_t i = 0; i < count; i++) dst[i] /= whole;              \
    } else if (whole == 0) {                                           \
      for (size_t i = 0; i < count; i++) dst[i] *= times;              \
    }                                                                  \
  }                                                                    \
  static void narrow_##name(void *dst, const float *src, size_t count, \
                            float by) {                                \
    unsigned char *d = dst;                                            \
    for (size_t i = 0; i < count; i++) {                               \
      type a = (type)gli_##format##_from_float(src[i] / by);           \
      memcpy(d + i * sizeof a, &a, sizeof a);                          \
    }                                                                  \
  }
WIDEN(float16, uint16_t, float16)
WIDEN(bfloat16, uint16_t, bfloat16)
WIDEN(float8_e4m3fn, uint8_t, e4m3fn)
WIDEN(float8_e5m2, uint8_t, e5m2)

#define OF_NARROW(part)                                                 \
  {                                                                     \
    [GLOO_FLOAT16] = part##_float16, [GLOO_BFLOAT16] = part##_bfloat16, \
    [GLOO_FLOAT8_E4M3FN] = part##_float8_e4m3fn,                        \
    [GLOO_FLOAT8_E5M2] = part##_float8_e5m2,                            \
  }

const gli_scale_table GLI_OF_VARIANT(gli_scale) = {
    {
        [GLOO_INT8] = scale_int8,
        [GLOO_INT16] = scale_int16,
        [GLOO_INT32] = scale_int32,
        [GLOO_INT64] = scale_int64,
        [GLOO_UINT8] = scale_uint8,
        [GLOO_UINT16] = scale_uint16,
        [GLOO_UINT32] = scale_uint32,
        [GLOO_UINT64] = scale_uint64,
        [GLOO_FLOAT16] = scale_float16,
        [GLOO_BFLOAT16] = scale_bfloat16,
        [GLOO_FLOAT32] = scale_float32,
        [GLOO_FLOAT64] = scale_float64,
        [GLOO_COMPLEX64] = scale_complex64,
        [GLOO_COMPLEX128] = scale_complex128,
        [GLOO_FLOAT8_E4M3FN] = scale_float8_e4m3fn,
        [GLOO_FLOAT8_E5M2] = scale_float8_e5m2,
    },
    OF_NARROW(widen),
    OF_NARROW(narrow)};
