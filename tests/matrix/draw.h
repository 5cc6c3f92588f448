/* Numbers to reduce. */
#ifndef TESTS_MATRIX_DRAW_H
#define TESTS_MATRIX_DRAW_H

#include "core/oracle.h"
#include "reference.h"

typedef struct draw {
  gloo_dtype dtype;
  int op; /* REFERENCE_NO_OP: any bits */
  inputs kind;
  int inputs, input;
  uint64_t group, random; /* the same for all inputs; this one's own */
} draw;
oracle_value draw_value(const draw *d);

/* May results differ with the order of operands? */
bool draw_is_loose(gloo_dtype dtype, int op, inputs kind);

/* Kinds of inputs that there are for a type and an operation. */
bool draw_has(gloo_dtype dtype, int op, inputs kind);

/* Bits of a float's significand, the hidden one included; 0: no float. */
int draw_precision(gloo_dtype dtype);

/* The exponent of the smallest number. */
int draw_least(gloo_dtype dtype);

#endif
