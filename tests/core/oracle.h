/* The expected result of a reduction, computed slowly, one element at a time,
 * by methods that share no code with the kernels. */
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

/* Returns the number that the bits encode, by the definition of the format. */
double oracle_decode(const oracle_half *format, uint16_t bits);

/* Returns the nearest number of the format, with ties to even, by searching all
 * of them. */
uint16_t oracle_encode(const oracle_half *format, double value);

/* An element: the low bytes of one integer, or of two where an element has two
 * parts (real and imaginary). */
typedef struct oracle_value {
  uint64_t part[2];
} oracle_value;
size_t oracle_parts(gloo_dtype dtype);

/* oracle_number returns the value of one part of a float or complex number;
 * oracle_part returns the part nearest to a number. */
double oracle_number(gloo_dtype dtype, uint64_t part);
uint64_t oracle_part(gloo_dtype dtype, double number);

/* Returns true if a kernel exists. average has a separate one for low-precision
 * floats only. */
bool oracle_supports(gloo_dtype dtype, gloo_op op);
oracle_value oracle_reduce(gloo_dtype dtype, gloo_op op, oracle_value a,
                           oracle_value b);

/* Combines all n operands in this order. Sums and products of low-precision
 * floats are kept as float32 and rounded once; an average divides the sum
 * before that. */
oracle_value oracle_combine(gloo_dtype dtype, gloo_op op,
                            const oracle_value *operands, size_t n);

/* Returns the value scaled by a factor, or divided by `whole` unless that is
 * 0. */
oracle_value oracle_scale(gloo_dtype dtype, oracle_value value, double factor,
                          uint32_t whole);

#endif
