/* Several buffers per rank: inputs that become one before an algorithm begins,
 * and outputs that are filled when it is done with the first.
 *
 * An algorithm knows nothing of this: it runs on one input and one output. Of a
 * plan with n_in inputs the builder makes one first. In a collective that
 * reduces, inputs have the length of IN each and are combined (LOCAL_REDUCE of
 * all of them); in the others each has an equal share of IN, and they are laid
 * one behind the other (LOCAL_REDUCE of one at a time). The result is where IN
 * would be in place, where there is room for it, and in SCRATCH elsewhere: IN
 * is there from then on. Of a plan with n_out outputs each gets a copy of what
 * the algorithm leaves in the first (LOCAL_BCAST). These steps are cut into
 * segments like all others, so sending begins when the first segment is joined.
 *
 * In place, the inputs of a collective that reduces are the outputs (n_in is
 * n_out, or at ranks that have no output how many there are); those of the
 * others are one, in the first output. Ranks may differ in both numbers. */
#ifndef GLI_PLAN_LISTS_H
#define GLI_PLAN_LISTS_H

#include "plan/raw.h"

static inline bool gli_lists_has_inputs(const gli_plan_params *p) {
  return p->n_in > 1;
}

static inline bool gli_lists_has_outputs(const gli_plan_params *p) {
  return p->n_out > 1;
}

/* Bytes of one of several inputs, of a rank whose IN has in_bytes. */
uint64_t gli_lists_input_bytes(const gli_plan_params *p, uint64_t in_bytes);

/* Adds the steps before the algorithm; `inner` gets the algorithm's parameters.
 */
void gli_lists_local_reduce(gli_builder *b, gli_plan_params *inner);

/* What comes after it. */
void gli_lists_local_bcast(gli_builder *b);

#endif
