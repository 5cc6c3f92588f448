/* What a reduction must give, worked out slowly, one element at a time, in ways
 * that share nothing with the kernels. */
#ifndef TESTS_CORE_ORACLE_H
#define TESTS_CORE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/types.h"

/* A low-precision float format, spelled out. Without infinity, only the largest
 * magnitude is NaN. */
typedef struct oracle_half {
  int exponent_bits, mantissa_bits;
  bool has_infinity;
} oracle_half;
extern const oracle_half oracle_float16, oracle_bfloat16, oracle_e4m3fn,
    oracle_e5m2;

/* The number that the bits stand for, by the definition of the format. */
double oracle_decode(const oracle_half *format, uint16_t bits);

/* The nearest number of the format, ties to the even one, found by searching
 * among all of them. */
uint16_t oracle_encode(const oracle_half *format, double value);

/* An element: the low bytes of one integer, or of two where an element has two
 * parts (real and imaginary). */
typedef struct oracle_value {
  uint64_t part[2];
} oracle_value;
size_t oracle_parts(gloo_dtype dtype);

/* What one part of a float or complex number stands for, and the part that is
 * nearest to a number. */
double oracle_number(gloo_dtype dtype, uint64_t part);
uint64_t oracle_part(gloo_dtype dtype, double number);

/* Is there a kernel? average has one of its own for low-precision floats only.
 */
bool oracle_supports(gloo_dtype dtype, gloo_op op);
oracle_value oracle_reduce(gloo_dtype dtype, gloo_op op, oracle_value a,
                           oracle_value b);

/* All n operands in this order. Sums and products of low-precision floats are
 * kept as float32 on the way and rounded once; sums are divided before that in
 * an average. */
oracle_value oracle_combine(gloo_dtype dtype, gloo_op op,
                            const oracle_value *operands, size_t n);

/* What scaling by a factor gives; divided by `whole` instead unless it is 0. */
oracle_value oracle_scale(gloo_dtype dtype, oracle_value value, double factor,
                          uint32_t whole);

#endif
