/* What a reduction must give, worked out slowly, one element at a time, in ways
 * that share nothing with the kernels. */
#ifndef TESTS_CORE_ORACLE_H
#define TESTS_CORE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/types.h"

/* A 16-bit float format, spelled out. */
typedef struct oracle_half {
  int exponent_bits, mantissa_bits;
} oracle_half;
extern const oracle_half oracle_float16, oracle_bfloat16;

/* The number that the bits stand for, by the definition of the format. */
double oracle_decode(const oracle_half *format, uint16_t bits);

/* The nearest number of the format, ties to the even one, found by searching
 * among all of them. */
uint16_t oracle_encode(const oracle_half *format, double value);

/* Elements are the low bytes of the integers. */
bool oracle_supports(gloo_dtype dtype, gloo_op op);
uint64_t oracle_reduce(gloo_dtype dtype, gloo_op op, uint64_t a, uint64_t b);

#endif
