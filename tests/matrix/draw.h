/* Random inputs of reductions. */
#ifndef TESTS_MATRIX_DRAW_H
#define TESTS_MATRIX_DRAW_H

#include "core/oracle.h"
#include "reference.h"

typedef struct draw {
  gloo_dtype dtype;
  int op; /* REFERENCE_NO_OP: any bits */
  inputs kind;
  int inputs, input;
  uint64_t group, random; /* common to all inputs; specific to this one */
} draw;
oracle_value draw_value(const draw *d);

/* Returns true if results may differ with the order of operands. */
bool draw_is_loose(gloo_dtype dtype, int op, inputs kind);

/* Returns true if a type and an operation have this kind of inputs. */
bool draw_has(gloo_dtype dtype, int op, inputs kind);

/* Returns the bits of a float's significand, including the hidden one, or 0 if
 * the type is not a float. */
int draw_precision(gloo_dtype dtype);

/* Returns the exponent of the smallest number. */
int draw_least(gloo_dtype dtype);

#endif
