/* Long buffers made of a short row of values: which of them an element has
 * follows from a key and its index alone, so that one that ends up elsewhere is
 * noticed. */
#ifndef TESTS_MATRIX_PATTERN_H
#define TESTS_MATRIX_PATTERN_H

#include <stddef.h>
#include <stdint.h>

enum { PATTERN_PLACES = 64 };

/* Before anything else, and before there are threads that use this. */
void pattern_prepare(void);

/* The place in the row that element i has its value from. */
size_t pattern_place(uint64_t key, size_t i);

/* Write n elements of `size` bytes, at most 16, by a row of PATTERN_PLACES. */
void pattern_fill(const uint8_t *row, size_t size, uint64_t key, size_t n,
                  uint8_t *to);

/* `is` are n elements, from element `from` of a buffer on: the first that is
 * not as written by pattern_fill; n when all are. */
size_t pattern_check(const uint8_t *row, size_t size, uint64_t key, size_t from,
                     size_t n, const uint8_t *is);

#endif
