/* Counts to try algorithms on: uneven blocks, some of them empty. */
#ifndef GLI_TOOLS_SAMPLE_COUNTS_H
#define GLI_TOOLS_SAMPLE_COUNTS_H

#include "plan/plan.h"

typedef struct gli_sample_counts {
  gli_counts *of; /* [size] as gli_checker_run wants them */
  uint64_t *numbers;
  uint64_t count; /* for gli_plan_params */
} gli_sample_counts;

/* For a collective with given counts. Block lengths are drawn from 0 to `most`
 * by `seed`, alike on both ends of every message; seed 0 makes all of them
 * `most`. With `gaps`, blocks of a buffer that may have gaps between them do,
 * and lie in descending order. `in_place`: as its calls in place have them.
 * False when out of memory. */
bool gli_sample_counts_make(gli_sample_counts *sample,
                            gli_collective collective, uint32_t size,
                            uint32_t root, uint64_t most, uint64_t seed,
                            bool gaps, bool in_place);
void gli_sample_counts_free(gli_sample_counts *sample);

#endif
