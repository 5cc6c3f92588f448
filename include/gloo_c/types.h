/* Element types and reduction operations.
 *
 * Example:
 *
 *     void *copy_of(const void *elements, size_t count, gloo_dtype dtype) {
 *       size_t bytes = count * gloo_dtype_size(dtype);
 *       void *copy = malloc(bytes);
 *       return copy != NULL ? memcpy(copy, elements, bytes) : NULL;
 *     } */
#ifndef GLOO_C_TYPES_H
#define GLOO_C_TYPES_H

#include <stddef.h>

#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(constant, name, bytes).
 *
 * float16 is IEEE binary16, bfloat16 the upper half of an IEEE binary32; both
 * are added in float32 and rounded to nearest even.
 *
 * complex64 and complex128 are two float32 or float64, the real part first, as
 * in C's complex types. A product is (ac - bd) + (ad + bc)i, evaluated as
 * written. A part that is NaN is always the same quiet NaN.
 *
 * bool is a byte; any nonzero value is true, and results are 0 or 1.
 *
 * The 8-bit floats are those of the Open Compute Project (OFP8, 2023), added in
 * float32 and rounded to nearest even like the 16-bit ones. They do not
 * saturate: values that are too large become infinity in e5m2 and NaN in
 * e4m3fn, which has no infinity and whose largest value is 448 (up to 464
 * rounds to 448, larger values to NaN). Every NaN result is 0x7f in e4m3fn and
 * 0x7e in e5m2.
 *
 * Ranks send each other these numbers, so new types are added at the end. */
#define GLOO_DTYPE_LIST(X)                  \
  X(GLOO_INT8, "int8", 1)                   \
  X(GLOO_INT16, "int16", 2)                 \
  X(GLOO_INT32, "int32", 4)                 \
  X(GLOO_INT64, "int64", 8)                 \
  X(GLOO_UINT8, "uint8", 1)                 \
  X(GLOO_UINT16, "uint16", 2)               \
  X(GLOO_UINT32, "uint32", 4)               \
  X(GLOO_UINT64, "uint64", 8)               \
  X(GLOO_FLOAT16, "float16", 2)             \
  X(GLOO_BFLOAT16, "bfloat16", 2)           \
  X(GLOO_FLOAT32, "float32", 4)             \
  X(GLOO_FLOAT64, "float64", 8)             \
  X(GLOO_COMPLEX64, "complex64", 8)         \
  X(GLOO_COMPLEX128, "complex128", 16)      \
  X(GLOO_BOOL, "bool", 1)                   \
  X(GLOO_FLOAT8_E4M3FN, "float8_e4m3fn", 1) \
  X(GLOO_FLOAT8_E5M2, "float8_e5m2", 1)

typedef enum gloo_dtype {
#define GLOO_DTYPE_ENUM(constant, name, bytes) constant,
  GLOO_DTYPE_LIST(GLOO_DTYPE_ENUM)
#undef GLOO_DTYPE_ENUM
      GLOO_DTYPE_COUNT,
  GLOO_OPAQUE = 255 /* elements of a custom operation, see custom_op.h */
} gloo_dtype;

/* X(constant, name). Integer sums and products wrap around. min and max
 * propagate NaN and order -0.0 below +0.0, so results do not depend on the
 * order of operands. The logical operations treat any nonzero value as true and
 * return 0 or 1; with a single rank the input is copied unchanged.
 *
 * average is the sum divided by the number of operands. On integers the sum
 * wraps around, and the quotient is truncated toward zero. For 16-bit and 8-bit
 * floats every algorithm computes it in float32 and rounds once, after the
 * division: if all inputs are finite (and ranks at most 65536) so is the
 * average, however large the sum. An algorithm that forwards partial sums then
 * sends float32, two or four times the bytes, and allocates input and result as
 * float32; the automatic choice takes this into account. For float32, float64
 * and complex numbers the sum has the type itself: if it overflows, the average
 * is infinite. A scaled sum with the factor 1.0 / P divides first.
 *
 *                      integers  floats  complex  bool
 *     sum, product        x        x        x
 *     average             x        x        x
 *     min, max            x        x                 x (and, or)
 *     band, bor, bxor     x                          x
 *     land, lor, lxor     x                          x
 */
#define GLOO_OP_LIST(X)      \
  X(GLOO_SUM, "sum")         \
  X(GLOO_PRODUCT, "product") \
  X(GLOO_MIN, "min")         \
  X(GLOO_MAX, "max")         \
  X(GLOO_BAND, "band")       \
  X(GLOO_BOR, "bor")         \
  X(GLOO_BXOR, "bxor")       \
  X(GLOO_AVERAGE, "average") \
  X(GLOO_LAND, "land")       \
  X(GLOO_LOR, "lor")         \
  X(GLOO_LXOR, "lxor")

typedef enum gloo_op {
#define GLOO_OP_ENUM(constant, name) constant,
  GLOO_OP_LIST(GLOO_OP_ENUM)
#undef GLOO_OP_ENUM
      GLOO_OP_COUNT,

  /* Operations with a parameter in gloo_options:
   *
   * The sum of the inputs, each multiplied by the `factor` of its rank, for
   * floats and complex numbers (both parts are multiplied). For float32 and
   * float64 a product is computed in float64 and rounded once to the type, to
   * nearest even. For 16-bit and 8-bit floats the factor is rounded to float32,
   * products and sums are float32, which ranks send each other (two or four
   * times the bytes), and the result is rounded once. With a factor of 1.0 / n
   * for an integer n up to 2^24, elements are divided by n. */
  GLOO_SCALED_SUM = 64,
  GLOO_CUSTOM = 65 /* the operation in `custom`, see custom_op.h */
} gloo_op;

/* Returns the bytes of an element; 0 for an unknown type and for GLOO_OPAQUE.
 * Errors: 0. Threads: any, at any time. Ownership: none. */
GLOO_API size_t gloo_dtype_size(gloo_dtype dtype);

/* Returns the name used in messages, options and files ("float32", "sum");
 * "unknown" for values outside the list.
 * Errors: none. Threads: any, at any time. Ownership: static strings. */
GLOO_API const char *gloo_dtype_name(gloo_dtype dtype);
GLOO_API const char *gloo_op_name(gloo_op op);

#ifdef __cplusplus
}
#endif
#endif
