/* The list of algorithms. Adding one is one file and one line in registry.c. */
#ifndef GLI_ALGORITHMS_REGISTRY_H
#define GLI_ALGORITHMS_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

typedef struct gli_algorithm {
  gli_collective collective;
  const char *name; /* unique within its collective */
  gli_build_fn build;
  /* Promised cost for P ranks, checked against the plans: the longest chain of
   * messages, and the most bytes that any rank sends, for vectors of a
   * multiple of 2 P elements. The vector is what gli_plan_vector_bytes says:
   * all inputs of a reduce-scatter, all outputs of an allgather. NULL for none
   * promised. */
  uint32_t (*rounds)(uint32_t size);
  uint64_t (*bytes)(uint32_t size, uint64_t vector_bytes);
  const char *summary; /* half a line for docs and `gloo plan --list` */
  bool flows;          /* bytes flow along long chains, in short segments */
} gli_algorithm;

extern const gli_algorithm gli_algorithms[];
extern const size_t gli_algorithm_count;

/* The order in which it combines the inputs, whatever its parameters are; the
 * checker proves it. Of those that keep rank order and are no scans,
 * low-precision elements are combined in one step
 * (gli_plan_params.low_precision). */
gli_order gli_algorithm_order(const gli_algorithm *algorithm);

/* By collective and name; NULL when there is none. */
const gli_algorithm *gli_algorithm_find(gli_collective collective,
                                        const char *name);

/* The number that stands for it in message signatures. */
uint8_t gli_algorithm_id(const gli_algorithm *algorithm);

/* And back; "unknown" for no algorithm's. */
const char *gli_algorithm_name(uint8_t id);

/* The selector's choice, for when neither the caller nor a tuning table names
 * one. Every rank must choose alike, so it looks at nothing that may differ
 * between ranks. NULL only for GLI_SENDRECV, which has no algorithms. */
const gli_algorithm *gli_algorithm_select(const gli_plan_params *params);

/* The segment size that goes with it; a function of the same things only. */
uint64_t gli_segment_bytes(const gli_algorithm *algorithm,
                           const gli_plan_params *params);

/* Both at once, quickly when they were chosen before. params->tuning comes
 * before the selector. */
typedef struct gli_choice {
  const gli_algorithm *algorithm;
  uint64_t segment_bytes;
} gli_choice;
gli_choice gli_algorithm_choose(const gli_plan_params *params);

/* Builds with the selector's choice. */
void gli_best(gli_builder *b, const gli_plan_params *params);

#endif
