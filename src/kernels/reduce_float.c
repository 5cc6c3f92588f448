/* Kernels for float32, float64 and complex numbers. The order of operands never
 * affects the result, not even if both are NaN: every NaN result is the same
 * quiet NaN. */
#include "kernels/reduce_float.h"
#include "kernels/reduce_kernel.h"

/* Operands that are neither smaller nor larger nor NaN are equal: the same
 * bits, or zeros that differ in sign. OR of the bits gives -0.0 if either is
 * -0.0, AND gives +0.0 if either is +0.0. */
static inline float min_float(float a, float b) {
  uint32_t bits = gli_bits_of_float(a) | gli_bits_of_float(b);
  float r = gli_float_of_bits(bits);
  r = a < b ? a : r;
  r = b < a ? b : r;
  return ((a != a) | (b != b)) ? gli_float_of_bits(GLI_FLOAT32_NAN) : r;
}

static inline float max_float(float a, float b) {
  uint32_t bits = gli_bits_of_float(a) & gli_bits_of_float(b);
  float r = gli_float_of_bits(bits);
  r = a > b ? a : r;
  r = b > a ? b : r;
  return ((a != a) | (b != b)) ? gli_float_of_bits(GLI_FLOAT32_NAN) : r;
}

static inline double min_double(double a, double b) {
  double r = gli_double_of_bits(gli_bits_of_double(a) | gli_bits_of_double(b));
  r = a < b ? a : r;
  r = b < a ? b : r;
  return ((a != a) | (b != b)) ? gli_double_of_bits(GLI_FLOAT64_NAN) : r;
}

static inline double max_double(double a, double b) {
  double r = gli_double_of_bits(gli_bits_of_double(a) & gli_bits_of_double(b));
  r = a > b ? a : r;
  r = b > a ? b : r;
  return ((a != a) | (b != b)) ? gli_double_of_bits(GLI_FLOAT64_NAN) : r;
}

GLI_KERNEL_FUSED(sum_float32, float, gli_canonical_float(a + b))
GLI_KERNEL(product_float32, float, gli_canonical_float(a *b))
GLI_KERNEL(min_float32, float, min_float(a, b))
GLI_KERNEL(max_float32, float, max_float(a, b))

GLI_KERNEL_FUSED(sum_float64, double, gli_canonical_double(a + b))
GLI_KERNEL(product_float64, double, gli_canonical_double(a *b))
GLI_KERNEL(min_float64, double, min_double(a, b))
GLI_KERNEL(max_float64, double, max_double(a, b))

/* Defines the kernels of averages: halves of sums, which two operands need. The
 * sum of n operands is first divided by n. Then it is added to itself and
 * halved, which changes nothing. */
#define AVERAGE(format, type, canonical)                                \
  GLI_GROUP(average_##format, type, type, type, canonical((a + b) / 2)) \
  GLI_WALK(average_##format, type, 1, sizeof(type), sizeof(type),       \
           GLI_GROUP_BYTES / sizeof(type))                              \
  GLI_FUSE(average_##format, type)                                      \
  static void divide_##format(void *wide, size_t count, float half) {   \
    type *x = wide, by = 2 * (type)half;                                \
    GLI_LANES for (size_t i = 0; i < count; i++) x[i] /= by;            \
  }                                                                     \
  static const gli_combine_parts average_##format##_parts =             \
      {sizeof(type),                                                    \
       sizeof(type),                                                    \
       average_##format,                                                \
       sum_##format,                                                    \
       sum_##format,                                                    \
       average_##format,                                                \
       average_##format##_fused,                                        \
       divide_##format,                                                 \
       NULL};                                                           \
  GLI_COMBINE(average_##format, average_##format##_parts, 1)

AVERAGE(float32, float, gli_canonical_float)
AVERAGE(float64, double, gli_canonical_double)

/* Hides a value from the optimiser. GCC 12 otherwise fuses the two parts of a
 * product into a multiply-add or multiply-subtract, regardless of
 * -ffp-contract. */
#if (defined(__FMA__) || defined(__AVX512F__)) && defined(__GNUC__) && \
    !defined(__clang__)
#define OPAQUE(x) __asm__("" : "+x"(x))
#else
#define OPAQUE(x) ((void)0)
#endif

/* Defines the kernels of complex numbers. Sums and averages have twice as many
 * real numbers. A product is computed as written, without contraction: its bits
 * depend neither on which operand is the left one nor on the machine. */
#define TWICE(name, base)                                          \
  static void name(void *dst, const void *left, const void *right, \
                   size_t count) {                                 \
    base(dst, left, right, 2 * count);                             \
  }                                                                \
  GLI_COMBINE(name, base##_parts, 2)
#define COMPLEX(name, part, base, canonical)                                 \
  typedef struct name {                                                      \
    part real, imaginary;                                                    \
  } name;                                                                    \
  TWICE(sum_##name, sum_##base)                                              \
  TWICE(average_##name, average_##base)                                      \
  GLI_INLINE void product_##name##_group(name *t, const unsigned char *left, \
                                         const unsigned char *right,         \
                                         size_t n) {                         \
    GLI_LANES for (size_t j = 0; j < n; j++) {                               \
      name a, b;                                                             \
      memcpy(&a, left + j * sizeof a, sizeof a);                             \
      memcpy(&b, right + j * sizeof b, sizeof b);                            \
      part reals = a.real * b.real, imaginaries = a.imaginary * b.imaginary; \
      OPAQUE(reals);                                                         \
      OPAQUE(imaginaries);                                                   \
      part imaginary = a.real * b.imaginary + a.imaginary * b.real;          \
      t[j].real = canonical(reals - imaginaries);                            \
      t[j].imaginary = canonical(imaginary);                                 \
    }                                                                        \
  }                                                                          \
  GLI_WALK(product_##name, name, 1, sizeof(name), sizeof(name),              \
           GLI_GROUP_BYTES / sizeof(name))                                   \
  GLI_WITHOUT_FUSED(product_##name, name, sizeof(name))                      \
  GLI_COMBINE(product_##name, product_##name##_parts, 1)

COMPLEX(complex64, float, float32, gli_canonical_float)
COMPLEX(complex128, double, float64, gli_canonical_double)

#define ROW(type)                                                           \
  {                                                                         \
    [GLOO_SUM] = GLI_ENTRY(sum_##type),                                     \
    [GLOO_PRODUCT] = GLI_ENTRY(product_##type),                             \
    [GLOO_MIN] = GLI_ENTRY(min_##type), [GLOO_MAX] = GLI_ENTRY(max_##type), \
    [GLOO_AVERAGE] = GLI_ENTRY(average_##type),                             \
  }
#define COMPLEX_ROW(type)                       \
  {                                             \
    [GLOO_SUM] = GLI_ENTRY(sum_##type),         \
    [GLOO_PRODUCT] = GLI_ENTRY(product_##type), \
    [GLOO_AVERAGE] = GLI_ENTRY(average_##type), \
  }

const gli_reduce_table GLI_OF_VARIANT(gli_reduce_float) = {{
    [GLOO_FLOAT32] = ROW(float32),
    [GLOO_FLOAT64] = ROW(float64),
    [GLOO_COMPLEX64] = COMPLEX_ROW(complex64),
    [GLOO_COMPLEX128] = COMPLEX_ROW(complex128),
}};
