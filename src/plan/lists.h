/* Several buffers per rank: inputs that are joined before an algorithm begins,
 * and outputs that are filled after it ends.
 *
 * An algorithm does not know about this: it runs on one input and one output.
 * For a plan with n_in inputs the builder first makes one. In a collective that
 * reduces, each input has the length of IN, and they are combined (LOCAL_REDUCE
 * of all of them). In other collectives each input has an equal share of IN,
 * and they are concatenated (LOCAL_REDUCE of one at a time). The result is put
 * where IN would be in place if it fits there, otherwise in SCRATCH; the
 * algorithm reads IN from there. For a plan with n_out outputs, each further
 * output gets a copy of the first (LOCAL_BCAST). These steps are cut into
 * segments like all others, so sending begins once the first segment is joined.
 *
 * In place, the inputs of a collective that reduces are the outputs: n_in is
 * n_out (on ranks without an output, n_in is the number of inputs). Other
 * collectives then have one input, in the first output. Both numbers may differ
 * between ranks. */
#ifndef GLI_PLAN_LISTS_H
#define GLI_PLAN_LISTS_H

#include "plan/raw.h"

static inline bool gli_lists_has_inputs(const gli_plan_params *p) {
  return p->n_in > 1;
}

static inline bool gli_lists_has_outputs(const gli_plan_params *p) {
  return p->n_out > 1;
}

/* Returns the bytes of one of several inputs if IN has in_bytes. */
uint64_t gli_lists_input_bytes(const gli_plan_params *p, uint64_t in_bytes);

/* Adds the steps before the algorithm; `inner` gets its parameters. */
void gli_lists_local_reduce(gli_builder *b, gli_plan_params *inner);

/* Adds the steps after the algorithm. */
void gli_lists_local_bcast(gli_builder *b);

#endif
