/* Operands for tests of the kernels: numbers at which arithmetic is likely to
 * go wrong, then any bits. */
#ifndef TESTS_CORE_VALUES_H
#define TESTS_CORE_VALUES_H

#include "oracle.h"

/* All pairs of special numbers come first, value i of the left and of the right
 * sequence; any bits after them. */
#define VALUES_SPECIAL ((size_t)26)
#define VALUES_PAIRS (VALUES_SPECIAL * VALUES_SPECIAL)
oracle_value value_left(gloo_dtype dtype, size_t i, uint64_t *seed);
oracle_value value_right(gloo_dtype dtype, size_t i, uint64_t *seed);

/* A special number now and then, and any bits otherwise. */
oracle_value value_any(gloo_dtype dtype, uint64_t *seed);

/* Store an element as the library would find it in memory. */
void value_put(uint8_t *at, gloo_dtype dtype, oracle_value value);
oracle_value value_get(const uint8_t *at, gloo_dtype dtype);

#endif
