/* Lengths of blocks as values: compared, hashed and copied, for plans that keep
 * them and for finding those plans again. */
#ifndef GLI_PLAN_COUNTS_H
#define GLI_PLAN_COUNTS_H

#include <stddef.h>

#include "plan/builder.h"

/* Either may be NULL. */
bool gli_counts_equal(const gli_counts *a, const gli_counts *b, uint32_t size);
uint64_t gli_counts_hash(const gli_counts *counts, uint32_t size);

/* How many numbers the arrays of `counts` (may be NULL) hold. */
size_t gli_counts_numbers(const gli_counts *counts, uint32_t size);

/* A copy whose arrays are in `numbers`, which has room for them. */
void gli_counts_copy(const gli_counts *counts, uint32_t size, gli_counts *copy,
                     uint64_t *numbers);

#endif
