/* What a collective must give, worked out without the library: every rank's
 * elements are drawn from a short row of values, and what reductions of the
 * first one, two, ... ranks give is worked out once for each place in the row,
 * by the oracle of the kernels' tests. Which place an element of a buffer has
 * follows from a key and its index alone, so that an element that ends up
 * elsewhere is noticed. */
#ifndef TESTS_MATRIX_REFERENCE_H
#define TESTS_MATRIX_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/types.h"

/* What is reduced. */
typedef enum inputs {
  INPUTS_EXACT,   /* whatever the order, the result is the same number */
  INPUTS_ROUNDED, /* floats at random: results differ with the order, within
                     the bound for all orders */
  INPUTS_SPECIAL, /* infinities, NaN and zeros among exact numbers */
  INPUTS_KINDS
} inputs;

/* Operations: those of gloo_op that take nothing else, and these. */
enum {
  REFERENCE_NO_OP = GLOO_OP_COUNT, /* elements are moved only */
  REFERENCE_SCALED,                /* GLOO_SCALED_SUM, by reference_factor */
  REFERENCE_AFFINE,                /* custom, not commutative */
  REFERENCE_BYTES,                 /* custom, commutative */
  REFERENCE_OPS
};

/* With several buffers per rank: how many inputs a rank has. */
enum { REFERENCE_MOST_INPUTS = 3 };
int reference_inputs(int op, int rank);

/* The factor of a rank. */
double reference_factor(inputs kind, int rank);

/* Custom operations, byte by byte. Affine: a byte is the map from x to ax + b
 * modulo 16, a and b its halves, and left op right is left first, then right.
 * The other is a sum. */
static inline uint8_t reference_custom(int op, uint8_t left, uint8_t right) {
  if (op == REFERENCE_BYTES) return (uint8_t)(left + right);
  unsigned a = left >> 4, b = left & 15U, c = right >> 4, d = right & 15U;
  return (uint8_t)((a * c & 15) << 4 | ((c * b + d) & 15));
}

enum { REFERENCE_MOST_RANKS = 16 };

typedef struct reference reference;

/* For `ranks` ranks. NULL: out of memory. */
reference *reference_make(int ranks, bool several, gloo_dtype dtype, int op,
                          inputs kind, uint64_t seed);
void reference_free(reference *r);

/* splitmix64 (Steele, Lea and Flood 2014) of two numbers. */
uint64_t reference_mix(uint64_t a, uint64_t b);

/* n elements of one of a rank's inputs. */
void reference_input(const reference *r, int rank, int number, uint64_t key,
                     size_t n, uint8_t *to);

/* The first of n elements of such an input, from its element `from` on, that is
 * not what it should be; n when all are. */
size_t reference_check_input(const reference *r, int rank, int number,
                             uint64_t key, size_t from, size_t n,
                             const uint8_t *is);

/* The same for what the reduction of the first `operands` ranks gives, in rank
 * order, where each rank's inputs are combined first, and rounded once. After
 * each operation low-precision floats are rounded. 0 operands: of all ranks,
 * and they are rounded once. */
size_t reference_check_result(const reference *r, int operands, uint64_t key,
                              size_t n, const uint8_t *is);

/* The same where rounding depends on the order: any result within the bounds.
 */
size_t reference_check_bounds(const reference *r, int operands, uint64_t key,
                              size_t n, const uint8_t *is);

/* Element i: of an input, and of a result (one of those that are right). */
enum { REFERENCE_MOST_BYTES = 16 };
void reference_input_at(const reference *r, int rank, int number, uint64_t key,
                        size_t i, uint8_t *to);
void reference_result_at(const reference *r, int operands, uint64_t key,
                         size_t i, uint8_t *to);

/* Is there more than one right result? */
bool reference_is_loose(const reference *r);

#endif
