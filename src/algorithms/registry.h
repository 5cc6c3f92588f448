/* The list of algorithms. To add one, add a file, and a line in registry.c. */
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
   * messages, and the most bytes that any rank sends, for vectors of a multiple
   * of 2 P elements. gli_plan_vector_bytes defines the vector: all inputs of a
   * reduce-scatter, all outputs of an allgather. NULL if no cost is promised.
   */
  uint32_t (*rounds)(uint32_t size);
  uint64_t (*bytes)(uint32_t size, uint64_t vector_bytes);
  const char *summary; /* half a line for docs and `gloo plan --list` */
  bool flows;          /* bytes flow along long chains, in short segments */
} gli_algorithm;

extern const gli_algorithm gli_algorithms[];
extern const size_t gli_algorithm_count;

/* Returns the order in which the algorithm combines the inputs, for all
 * parameters; the checker proves it. Algorithms that keep rank order, except
 * for scans, combine low-precision elements in one step
 * (gli_plan_params.low_precision). */
gli_order gli_algorithm_order(const gli_algorithm *algorithm);

/* Finds an algorithm by collective and name; NULL if there is none. */
const gli_algorithm *gli_algorithm_find(gli_collective collective,
                                        const char *name);

/* Returns the number of the algorithm in message signatures. */
uint8_t gli_algorithm_id(const gli_algorithm *algorithm);

/* Returns the name for such a number, or "unknown". */
const char *gli_algorithm_name(uint8_t id);

/* Returns the selector's choice, used if neither the caller nor a tuning table
 * names an algorithm. Every rank must choose alike, so it depends on nothing
 * that may differ between ranks. NULL for GLI_SENDRECV only. */
const gli_algorithm *gli_algorithm_select(const gli_plan_params *params);

/* Returns the algorithm's segment size, which depends on the same inputs. */
uint64_t gli_segment_bytes(const gli_algorithm *algorithm,
                           const gli_plan_params *params);

/* Chooses algorithm and segment size; params->tuning has precedence. */
typedef struct gli_choice {
  const gli_algorithm *algorithm;
  uint64_t segment_bytes;
} gli_choice;
gli_choice gli_algorithm_choose(const gli_plan_params *params);

/* Builds with the selector's choice. */
void gli_best(gli_builder *b, const gli_plan_params *params);

#endif
