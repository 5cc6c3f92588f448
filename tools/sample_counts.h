/* Counts to test algorithms with: uneven blocks, some of them empty. */
#ifndef GLI_TOOLS_SAMPLE_COUNTS_H
#define GLI_TOOLS_SAMPLE_COUNTS_H

#include "plan/plan.h"

typedef struct gli_sample_counts {
  gli_counts *of; /* [size] in the form of gli_checker_run */
  uint64_t *numbers;
  uint64_t count; /* for gli_plan_params */
} gli_sample_counts;

/* Makes counts for a collective with given counts. Block lengths are drawn from
 * 0 to `most` by `seed`, equal on both ends of every message; seed 0 makes all
 * of them `most`. With `gaps`, blocks of a buffer that may have gaps do have
 * them, and are in descending order. `in_place` makes counts that calls in
 * place allow. Returns false if out of memory. */
bool gli_sample_counts_make(gli_sample_counts *sample,
                            gli_collective collective, uint32_t size,
                            uint32_t root, uint64_t most, uint64_t seed,
                            bool gaps, bool in_place);
void gli_sample_counts_free(gli_sample_counts *sample);

#endif
