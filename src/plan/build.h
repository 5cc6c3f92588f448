/* Shared parts of the builder: checks, and taking steps. The checks note an
 * error when they fail. */
#ifndef GLI_PLAN_BUILD_H
#define GLI_PLAN_BUILD_H

#include "plan/raw.h"

bool gli_build_failed(const gli_builder *b);
void gli_build_fail(gli_builder *b, gloo_status status, const char *what);

/* Is it a range of its buffer? */
bool gli_build_range(gli_builder *b, gli_range r);

/* May it be read or written? Maps it to where it is in the end. */
bool gli_build_reads(gli_builder *b, gli_range *r);
bool gli_build_writes(gli_builder *b, gli_range *r);

/* Is an operand where the result goes, or elsewhere, but not half of each? */
bool gli_build_apart(gli_builder *b, gli_range r, gli_range dst);
bool gli_build_memory(gli_builder *b, gli_range r);
bool gli_build_same(gli_builder *b, uint64_t x, uint64_t y);
bool gli_build_reduces(gli_builder *b, gli_range dst);

/* Are `n` blocks, `stride` apart, within SCRATCH, apart from each other and
 * from the result? */
bool gli_build_blocks(gli_builder *b, gli_range first, uint32_t n,
                      uint64_t stride, gli_range dst);

/* The step that reduces many, checked but for places and not yet added. False:
 * it is wrong, or has no bytes. */
bool gli_build_many(gli_builder *b, gli_step_kind kind, const gli_many *m,
                    gli_step *s);

/* The index of a peer; GLI_NO_PEER on failure. */
uint32_t gli_build_peer(gli_builder *b, uint32_t rank);

/* Take a step, cut into segments. How it is cut follows from its length alone,
 * so the two ends of a message cut it alike. */
void gli_build_push(gli_builder *b, gli_step *s);

/* Does no rank have an element, though all must say so all the same? What the
 * ranks tell each other then, instead of what the algorithm does. (empty.c) */
bool gli_build_is_empty(const gli_plan_params *p);
void gli_build_empty(gli_builder *b, const gli_plan_params *p);

/* Take a step for memory of other ranks, as it is. */
void gli_build_whole(gli_builder *b, gli_step *s);

#endif
