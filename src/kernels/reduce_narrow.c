/* Kernels for 16-bit and 8-bit floats. Sums, products and the intermediate
 * results of many operands are computed in float32. */
#include "kernels/float8.h"
#include "kernels/reduce_half.h"
#include "kernels/reduce_kernel.h"

/* Defines the kernel for many operands from name (element = element op
 * element), name_begin, name_step and name_finish. The last arguments are the
 * parts that only averages have. */
#define WIDE(name, type, fused, ...)                    \
  static const gli_combine_parts name##_parts = {       \
      sizeof(type), sizeof(float), name,  name##_begin, \
      name##_step,  name##_finish, fused, __VA_ARGS__}; \
  GLI_COMBINE(name, name##_parts, 1)
#define AS_IT_IS NULL, NULL
#define AVERAGE(width) divide_floats, gli_nothing##width

/* Adds a fused loop over two operands and two destinations, for types with so
 * little work per byte that it matters. */
#define WIDE_FUSED(name, type, unit, ...) \
  GLI_FUSE(name##_units, unit)            \
  WIDE(name, type, name##_units_fused, __VA_ARGS__)

/* Averages are sums in float32, halved when they are rounded. Two operands need
 * no more; the sum of n operands is first divided by n / 2. A sum of bfloat16
 * may overflow float32, which has the same exponents, so operands are scaled by
 * 2^-16. This is exact for the smallest bfloat16, which is 2^-133, and leaves
 * room for 65536 operands. */
#define MEAN_SHIFT 0x1p-16f
static void divide_floats(void *wide, size_t count, float by) {
  float *x = wide;
  GLI_LANES for (size_t i = 0; i < count; i++) x[i] /= by;
}

/* Pairs of 16-bit floats, in the two halves of a 32-bit word, so that elements
 * stay in their vector lanes. The order of the two in memory does not matter.
 * Wide results form groups, with the low halves before the high ones. */
#define PAIR_UNITS(name, put, low, high, symbol)                               \
  GLI_GROUP(name##_units, uint32_t, uint32_t, uint32_t,                        \
            put(low(a) symbol low(b), high(a) symbol high(b)))                 \
  GLI_WALK(name##_units, uint32_t, 1, 4, 4, GLI_GROUP_BYTES / 4)               \
  GLI_INLINE void name##_begin_units_group(                                    \
      float *t, const unsigned char *left, const unsigned char *right,         \
      size_t n) {                                                              \
    GLI_LANES for (size_t j = 0; j < n; j++) {                                 \
      uint32_t a, b;                                                           \
      memcpy(&a, left + 4 * j, sizeof a);                                      \
      memcpy(&b, right + 4 * j, sizeof b);                                     \
      t[j] = low(a) symbol low(b);                                             \
      t[n + j] = high(a) symbol high(b);                                       \
    }                                                                          \
  }                                                                            \
  GLI_WALK(name##_begin_units, float, 2, 4, 4, GLI_VECTOR_BYTES / 4)           \
  GLI_INLINE void name##_step_units_group(float *t, const unsigned char *wide, \
                                          const unsigned char *right,          \
                                          size_t n) {                          \
    GLI_LANES for (size_t j = 0; j < n; j++) {                                 \
      float x, y;                                                              \
      uint32_t b;                                                              \
      memcpy(&x, wide + 4 * j, sizeof x);                                      \
      memcpy(&y, wide + 4 * (n + j), sizeof y);                                \
      memcpy(&b, right + 4 * j, sizeof b);                                     \
      t[j] = x symbol low(b);                                                  \
      t[n + j] = y symbol high(b);                                             \
    }                                                                          \
  }                                                                            \
  GLI_WALK(name##_step_units, float, 2, 8, 4, GLI_VECTOR_BYTES / 4)            \
  GLI_INLINE void name##_finish_units_group(                                   \
      uint32_t *t, const unsigned char *wide, const unsigned char *right,      \
      size_t n) {                                                              \
    GLI_LANES for (size_t j = 0; j < n; j++) {                                 \
      float x, y;                                                              \
      uint32_t b;                                                              \
      memcpy(&x, wide + 4 * j, sizeof x);                                      \
      memcpy(&y, wide + 4 * (n + j), sizeof y);                                \
      memcpy(&b, right + 4 * j, sizeof b);                                     \
      t[j] = put(x symbol low(b), y symbol high(b));                           \
    }                                                                          \
  }                                                                            \
  GLI_WALK(name##_finish_units, uint32_t, 1, 8, 4, GLI_VECTOR_BYTES / 4)

/* Processes pairs, and then the last element if the count is odd. */
#define PAIRS_AND_ONE(name, to, from, expression)                              \
  GLI_GROUP(name##_last, to, from, uint16_t, expression)                       \
  static void name(void *dst, const void *left, const void *right,             \
                   size_t count) {                                             \
    size_t even = count / 2 * 2;                                               \
    to last[1];                                                                \
    name##_units(dst, left, right, count / 2);                                 \
    if (even == count) return;                                                 \
    name##_last_group(last, (const unsigned char *)left + even * sizeof(from), \
                      (const unsigned char *)right + even * 2, 1);             \
    memcpy((unsigned char *)dst + even * sizeof(to), last, sizeof last);       \
  }

#define PAIRED(name, format, symbol)                                          \
  PAIR_UNITS(name, put_##format##_pair, low_##format, high_##format, symbol)  \
  PAIRS_AND_ONE(name, uint16_t, uint16_t,                                     \
                put_##format(gli_##format##_to_float(a)                       \
                                 symbol gli_##format##_to_float(b)))          \
  PAIRS_AND_ONE(name##_begin, float, uint16_t,                                \
                gli_##format##_to_float(a) symbol gli_##format##_to_float(b)) \
  PAIRS_AND_ONE(name##_step, float, float,                                    \
                a symbol gli_##format##_to_float(b))                          \
  PAIRS_AND_ONE(name##_finish, uint16_t, float,                               \
                put_##format(a symbol gli_##format##_to_float(b)))

static inline uint16_t put_bfloat16(float x) {
  return (uint16_t)gli_bfloat16_from_float(x);
}
static inline float low_bfloat16(uint32_t pair) {
  return gli_float_of_bits(pair << 16);
}
static inline float high_bfloat16(uint32_t pair) {
  return gli_float_of_bits(pair & 0xffff0000);
}
static inline uint32_t put_bfloat16_pair(float low, float high) {
  return gli_bfloat16_round(low) >> 16 |
         (gli_bfloat16_round(high) & 0xffff0000);
}

PAIRED(sum_bfloat16, bfloat16, +)
WIDE_FUSED(sum_bfloat16, uint16_t, uint32_t, AS_IT_IS)
PAIRED(product_bfloat16, bfloat16, *)
WIDE_FUSED(product_bfloat16, uint16_t, uint32_t, AS_IT_IS)

/* Conversions of the operands of averages. */
static inline float gli_mean_bfloat16_to_float(uint32_t half) {
  return gli_bfloat16_to_float(half) * MEAN_SHIFT;
}
static inline float low_mean_bfloat16(uint32_t pair) {
  return low_bfloat16(pair) * MEAN_SHIFT;
}
static inline float high_mean_bfloat16(uint32_t pair) {
  return high_bfloat16(pair) * MEAN_SHIFT;
}
static inline uint16_t put_mean_bfloat16(float x) {
  return put_bfloat16(x * (0.5f / MEAN_SHIFT));
}
static inline uint32_t put_mean_bfloat16_pair(float low, float high) {
  return put_bfloat16_pair(low * (0.5f / MEAN_SHIFT),
                           high * (0.5f / MEAN_SHIFT));
}

PAIRED(average_bfloat16, mean_bfloat16, +)
WIDE_FUSED(average_bfloat16, uint16_t, uint32_t, AVERAGE(16))

static inline uint16_t put_float16(float x) {
  return (uint16_t)gli_float16_from_float(x);
}
static inline uint16_t put_mean_float16(float x) {
  return put_float16(x * 0.5f);
}

#ifdef GLI_HALVES
/* Processes two vectors of floats at a time. Wide results are in the order of
 * the elements. */
#define HALVES_GROUP(name, to, from, symbol, get, one, store)                  \
  GLI_INLINE void name##_group(to *t, const unsigned char *left,               \
                               const unsigned char *right, size_t n) {         \
    if (n == 1) {                                                              \
      from a;                                                                  \
      uint16_t b;                                                              \
      memcpy(&a, left, sizeof a);                                              \
      memcpy(&b, right, sizeof b);                                             \
      t[0] = one;                                                              \
      return;                                                                  \
    }                                                                          \
    for (size_t j = 0; j < n; j += 2 * GLI_HALVES) {                           \
      size_t k = j + GLI_HALVES;                                               \
      gli_floats x =                                                           \
          get(left + j * sizeof(from)) symbol gli_halves_widen(right + j * 2); \
      gli_floats y =                                                           \
          get(left + k * sizeof(from)) symbol gli_halves_widen(right + k * 2); \
      store(t + j, x, y);                                                      \
    }                                                                          \
  }                                                                            \
  GLI_WALK(name, to, 1, sizeof(from), 2, 2 * GLI_HALVES)

GLI_INLINE void store_floats(float *to, gli_floats x, gli_floats y) {
  memcpy(to, &x, sizeof x);
  memcpy(to + GLI_HALVES, &y, sizeof y);
}

GLI_INLINE void narrow_mean(uint16_t *to, gli_floats x, gli_floats y) {
  gli_halves_narrow(to, x * 0.5f, y * 0.5f);
}

#define FLOAT16(name, symbol, put, narrow, ...)                             \
  HALVES_GROUP(name##_units, uint16_t, uint16_t, symbol, gli_halves_widen,  \
               put(gli_float16_to_float(a) symbol gli_float16_to_float(b)), \
               narrow)                                                      \
  HALVES_GROUP(name##_begin, float, uint16_t, symbol, gli_halves_widen,     \
               gli_float16_to_float(a) symbol gli_float16_to_float(b),      \
               store_floats)                                                \
  HALVES_GROUP(name##_step, float, float, symbol, gli_floats_load,          \
               a symbol gli_float16_to_float(b), store_floats)              \
  HALVES_GROUP(name##_finish, uint16_t, float, symbol, gli_floats_load,     \
               put(a symbol gli_float16_to_float(b)), narrow)               \
  static void name(void *dst, const void *left, const void *right,          \
                   size_t count) {                                          \
    name##_units(dst, left, right, count);                                  \
  }                                                                         \
  WIDE_FUSED(name, uint16_t, uint16_t, __VA_ARGS__)

FLOAT16(sum_float16, +, put_float16, gli_halves_narrow, AS_IT_IS)
FLOAT16(product_float16, *, put_float16, gli_halves_narrow, AS_IT_IS)
FLOAT16(average_float16, +, put_mean_float16, narrow_mean, AVERAGE(16))
#else
static inline float low_float16(uint32_t pair) {
  return gli_float16_to_float(pair & 0xffff);
}
static inline float high_float16(uint32_t pair) {
  return gli_float16_to_float(pair >> 16);
}
static inline uint32_t put_float16_pair(float low, float high) {
  return gli_float16_from_float(low) | gli_float16_from_float(high) << 16;
}

PAIRED(sum_float16, float16, +)
WIDE(sum_float16, uint16_t, NULL, AS_IT_IS)
PAIRED(product_float16, float16, *)
WIDE(product_float16, uint16_t, NULL, AS_IT_IS)

#define gli_mean_float16_to_float gli_float16_to_float
#define low_mean_float16 low_float16
#define high_mean_float16 high_float16
static inline uint32_t put_mean_float16_pair(float low, float high) {
  return put_float16_pair(low * 0.5f, high * 0.5f);
}

PAIRED(average_float16, mean_float16, +)
WIDE(average_float16, uint16_t, NULL, AVERAGE(16))
#endif

/* 8-bit floats. Kernels of two operands process four at a time, each in its
 * byte of a 32-bit word; the last few, and wide results, element by element. */
#define FLOAT8_LOOP(name, to, from, expression)  \
  GLI_GROUP(name, to, from, uint8_t, expression) \
  GLI_WALK(name, to, 1, sizeof(from), 1, GLI_GROUP_BYTES / sizeof(float))
#define FLOAT8(name, format, symbol, put, ...)                                \
  static inline uint32_t name##_byte(uint32_t a, uint32_t b) {                \
    return put(gli_##format##_to_float(a & 0xff)                              \
                   symbol gli_##format##_to_float(b & 0xff));                 \
  }                                                                           \
  static inline uint32_t name##_word(uint32_t a, uint32_t b) {                \
    return name##_byte(a, b) | name##_byte(a >> 8, b >> 8) << 8 |             \
           name##_byte(a >> 16, b >> 16) << 16 |                              \
           name##_byte(a >> 24, b >> 24) << 24;                               \
  }                                                                           \
  GLI_GROUP(name##_units, uint32_t, uint32_t, uint32_t, name##_word(a, b))    \
  GLI_WALK(name##_units, uint32_t, 1, 4, 4, GLI_GROUP_BYTES / 4)              \
  static void name(void *dst, const void *left, const void *right,            \
                   size_t count) {                                            \
    name##_units(dst, left, right, count / 4);                                \
    for (size_t i = count / 4 * 4; i < count; i++) {                          \
      uint32_t a = ((const uint8_t *)left)[i],                                \
               b = ((const uint8_t *)right)[i];                               \
      ((uint8_t *)dst)[i] = (uint8_t)name##_byte(a, b);                       \
    }                                                                         \
  }                                                                           \
  FLOAT8_LOOP(name##_begin, float, uint8_t,                                   \
              gli_##format##_to_float(a) symbol gli_##format##_to_float(b))   \
  FLOAT8_LOOP(name##_step, float, float, a symbol gli_##format##_to_float(b)) \
  FLOAT8_LOOP(name##_finish, uint8_t, float,                                  \
              (uint8_t)put(a symbol gli_##format##_to_float(b)))              \
  WIDE(name, uint8_t, NULL, __VA_ARGS__)

static inline uint32_t put_mean_e4m3fn(float x) {
  return gli_e4m3fn_from_float(x * 0.5f);
}
static inline uint32_t put_mean_e5m2(float x) {
  return gli_e5m2_from_float(x * 0.5f);
}

FLOAT8(sum_e4m3fn, e4m3fn, +, gli_e4m3fn_from_float, AS_IT_IS)
FLOAT8(product_e4m3fn, e4m3fn, *, gli_e4m3fn_from_float, AS_IT_IS)
FLOAT8(average_e4m3fn, e4m3fn, +, put_mean_e4m3fn, AVERAGE(8))
FLOAT8(sum_e5m2, e5m2, +, gli_e5m2_from_float, AS_IT_IS)
FLOAT8(product_e5m2, e5m2, *, gli_e5m2_from_float, AS_IT_IS)
FLOAT8(average_e5m2, e5m2, +, put_mean_e5m2, AVERAGE(8))

/* Converts sign and magnitude to two's complement and back (it is its own
 * inverse), so that floats compare like integers, with -0.0 (-1) below +0.0
 * (0). `last` is the largest magnitude that is not NaN. */
#define ORDERED(width, most)                                                   \
  static inline int##width##_t ordered_##width(int##width##_t bits) {          \
    return (int##width##_t)(bits ^ (bits < 0 ? most : 0));                     \
  }                                                                            \
  static inline bool nan_##width(int##width##_t a, int##width##_t b,           \
                                 int last) {                                   \
    return ((a & most) > last) | ((b & most) > last);                          \
  }                                                                            \
  static inline int##width##_t min_##width(int##width##_t a, int##width##_t b, \
                                           int last, int nan) {                \
    int##width##_t r = ordered_##width(a) < ordered_##width(b) ? a : b;        \
    return nan_##width(a, b, last) ? (int##width##_t)nan : r;                  \
  }                                                                            \
  static inline int##width##_t max_##width(int##width##_t a, int##width##_t b, \
                                           int last, int nan) {                \
    int##width##_t r = ordered_##width(a) > ordered_##width(b) ? a : b;        \
    return nan_##width(a, b, last) ? (int##width##_t)nan : r;                  \
  }
ORDERED(8, 0x7f)
ORDERED(16, 0x7fff)

#define MIN_AND_MAX(format, width, last, nan)                            \
  GLI_KERNEL(min_##format, int##width##_t, min_##width(a, b, last, nan)) \
  GLI_KERNEL(max_##format, int##width##_t, max_##width(a, b, last, nan))
MIN_AND_MAX(float16, 16, 0x7c00, 0x7e00)
MIN_AND_MAX(bfloat16, 16, 0x7f80, 0x7fc0)
MIN_AND_MAX(e4m3fn, 8, 0x7e, 0x7f)
MIN_AND_MAX(e5m2, 8, 0x7c, 0x7e)

#define ROW(format)                               \
  {                                               \
    [GLOO_SUM] = GLI_ENTRY(sum_##format),         \
    [GLOO_PRODUCT] = GLI_ENTRY(product_##format), \
    [GLOO_MIN] = GLI_ENTRY(min_##format),         \
    [GLOO_MAX] = GLI_ENTRY(max_##format),         \
    [GLOO_AVERAGE] = GLI_ENTRY(average_##format), \
  }

const gli_reduce_table GLI_OF_VARIANT(gli_reduce_narrow) = {{
    [GLOO_FLOAT16] = ROW(float16),
    [GLOO_BFLOAT16] = ROW(bfloat16),
    [GLOO_FLOAT8_E4M3FN] = ROW(e4m3fn),
    [GLOO_FLOAT8_E5M2] = ROW(e5m2),
}};
