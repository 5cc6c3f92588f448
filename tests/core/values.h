/* Operands for tests of the kernels: numbers at which arithmetic is likely to
 * go wrong, then random bits. */
#ifndef TESTS_CORE_VALUES_H
#define TESTS_CORE_VALUES_H

#include "oracle.h"

/* Returns value i of the left or the right sequence: all pairs of special
 * numbers, then random bits. */
#define VALUES_SPECIAL ((size_t)26)
#define VALUES_PAIRS (VALUES_SPECIAL * VALUES_SPECIAL)
oracle_value value_left(gloo_dtype dtype, size_t i, uint64_t *seed);
oracle_value value_right(gloo_dtype dtype, size_t i, uint64_t *seed);

/* Returns random bits, and sometimes a special number. */
oracle_value value_any(gloo_dtype dtype, uint64_t *seed);

/* Stores an element as the library expects it in memory. */
void value_put(uint8_t *at, gloo_dtype dtype, oracle_value value);
oracle_value value_get(const uint8_t *at, gloo_dtype dtype);

#endif
