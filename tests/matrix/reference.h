/* Expected results of collectives, computed without the library. Every rank's
 * elements are drawn from a short row of values, and the oracle of the kernel
 * tests computes the reductions of the first one, two, ... ranks once for each
 * place in the row. A key and the index of an element determine its place in
 * the row, so that a misplaced element is detected. */
#ifndef TESTS_MATRIX_REFERENCE_H
#define TESTS_MATRIX_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/types.h"

/* Kinds of inputs of a reduction. */
typedef enum inputs {
  INPUTS_EXACT,   /* exact numbers: the order has no effect */
  INPUTS_ROUNDED, /* random floats: results depend on the order, within the
                     bound for all orders */
  INPUTS_SPECIAL, /* infinities, NaN and zeros among exact numbers */
  INPUTS_KINDS
} inputs;

/* Operations beyond those of gloo_op without further arguments. */
enum {
  REFERENCE_NO_OP = GLOO_OP_COUNT, /* elements are only moved */
  REFERENCE_SCALED,                /* GLOO_SCALED_SUM with reference_factor */
  REFERENCE_AFFINE,                /* custom, not commutative */
  REFERENCE_BYTES,                 /* custom, commutative */
  REFERENCE_OPS
};

/* Maximum number of inputs of a rank, in calls with several buffers. */
enum { REFERENCE_MOST_INPUTS = 3 };
int reference_inputs(int op, int rank);

/* Returns the factor of a rank. */
double reference_factor(inputs kind, int rank);

/* Custom operations on bytes. Affine: a byte is the map from x to ax + b modulo
 * 16, with a and b its halves, and `left op right` applies left first, then
 * right. The other one is a sum. */
static inline uint8_t reference_custom(int op, uint8_t left, uint8_t right) {
  if (op == REFERENCE_BYTES) return (uint8_t)(left + right);
  unsigned a = left >> 4, b = left & 15U, c = right >> 4, d = right & 15U;
  return (uint8_t)((a * c & 15) << 4 | ((c * b + d) & 15));
}

enum { REFERENCE_MOST_RANKS = 16 };

typedef struct reference reference;

/* Returns the reference for `ranks` ranks, or NULL if out of memory. */
reference *reference_make(int ranks, bool several, gloo_dtype dtype, int op,
                          inputs kind, uint64_t seed);
void reference_free(reference *r);

/* Mixes two numbers with splitmix64 (Steele, Lea and Flood 2014). */
uint64_t reference_mix(uint64_t a, uint64_t b);

/* Writes n elements of one of a rank's inputs. */
void reference_input(const reference *r, int rank, int number, uint64_t key,
                     size_t n, uint8_t *to);

/* Compares n elements of this input, from its element `from` on. Returns the
 * first wrong one, or n. */
size_t reference_check_input(const reference *r, int rank, int number,
                             uint64_t key, size_t from, size_t n,
                             const uint8_t *is);

/* Compares n elements with the reduction of the first `operands` ranks, in rank
 * order. Each rank's inputs are combined first and rounded once; low-precision
 * floats are rounded after each further operation. With 0 operands all ranks
 * are combined and rounded once. */
size_t reference_check_result(const reference *r, int operands, uint64_t key,
                              size_t n, const uint8_t *is);

/* Compares n elements as above if rounding depends on the order: accepts any
 * result within the bounds. */
size_t reference_check_bounds(const reference *r, int operands, uint64_t key,
                              size_t n, const uint8_t *is);

/* Return element i of an input, and of a result (one of the correct ones). */
enum { REFERENCE_MOST_BYTES = 16 };
void reference_input_at(const reference *r, int rank, int number, uint64_t key,
                        size_t i, uint8_t *to);
void reference_result_at(const reference *r, int operands, uint64_t key,
                         size_t i, uint8_t *to);

/* Returns true if more than one result is correct. */
bool reference_is_loose(const reference *r);

#endif
