/* Long buffers filled from a short row of values. A key and the index of an
 * element determine its value, so that a misplaced element is detected. */
#ifndef TESTS_MATRIX_PATTERN_H
#define TESTS_MATRIX_PATTERN_H

#include <stddef.h>
#include <stdint.h>

enum { PATTERN_PLACES = 64 };

/* Must be called first, before threads use the other functions. */
void pattern_prepare(void);

/* Returns the place in the row from which element i has its value. */
size_t pattern_place(uint64_t key, size_t i);

/* Writes n elements of `size` bytes, at most 16, from a row of
 * PATTERN_PLACES. */
void pattern_fill(const uint8_t *row, size_t size, uint64_t key, size_t n,
                  uint8_t *to);

/* Compares n elements, from element `from` of a buffer on, with those that
 * pattern_fill writes. Returns the first that differs, or n. */
size_t pattern_check(const uint8_t *row, size_t size, uint64_t key, size_t from,
                     size_t n, const uint8_t *is);

#endif
