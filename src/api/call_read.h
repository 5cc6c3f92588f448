/* From arguments to a call that the engine can execute, and the steps of that:
 * reductions, counts, lists of buffers, separate blocks, GPU memory. */
#ifndef GLI_API_CALL_READ_H
#define GLI_API_CALL_READ_H

#include "algorithms/registry.h"
#include "api/call.h"
#include "plan/shape.h"

enum { GLI_FEW_RANKS = 32 };

/* The counts and displacements of one call, as a plan reads them. */
typedef struct gli_given_counts {
  gli_counts counts;
  uint64_t few[4 * GLI_FEW_RANKS]; /* arrays for few ranks */
  uint64_t *many;                  /* arrays for more ranks, or NULL */
} gli_given_counts;

/* Checks the arguments and options, and chooses the algorithm. On success the
 * caller owns `given`; on failure the context has recorded the error. */
gloo_status gli_call_read(gloo_context *context, const gli_arguments *arguments,
                          const gloo_options *options, gli_call *call,
                          gli_given_counts *given, gloo_error *error);

/* Reads a call without its buffers: only its algorithm is chosen. */
gloo_status gli_call_choice(gloo_context *context, const gli_arguments *a,
                            const gloo_options *options, gli_call *call,
                            gloo_error *error);

/* Returns true if the ranges have a byte in common. */
static inline bool gli_overlap(const void *a, uint64_t a_bytes, const void *b,
                               uint64_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

/* Returns true if the call is in place. `shape_in_place` is its shape in that
 * case. */
static inline bool gli_call_in_place(const gli_arguments *a,
                                     const gli_shape *shape_in_place) {
  if (!shape_in_place->in_place) return false;
  if (a->input == GLOO_IN_PLACE) return true;
  if (a->collective == GLI_ALLTOALLV) return false; /* it has two lists */
  if (a->output == NULL || shape_in_place->in_bytes == 0) return false;
  return a->input == (const uint8_t *)a->output + shape_in_place->in_shift;
}

/* ---- reductions (reduction.c) -------------------------------------------- */

/* Checks that type, operation and options are compatible. */
gloo_status gli_reduction_check(const gli_arguments *a, const gloo_options *o,
                                gloo_error *error);

/* Returns true for a reduction with an operation of the caller. */
bool gli_reduction_is_custom(const gli_arguments *a);

/* Returns the size of an element of the call; 0 if unknown. */
size_t gli_reduction_element_bytes(const gli_arguments *a,
                                   const gloo_options *o);

/* Adds the reduction to a call whose shape is known. */
gloo_status gli_reduction_fill(const gli_arguments *a, const gloo_options *o,
                               gli_call *call, gloo_error *error);

/* Decides how the chosen algorithm computes an average. Sets `*changed` if the
 * plan now has other elements. */
gloo_status gli_reduction_decide(const gli_arguments *a, gli_call *call,
                                 const gli_algorithm *algorithm, bool *changed,
                                 gloo_error *error);

/* Checks that the algorithm keeps the order that the call needs. */
gloo_status gli_reduction_allows(const gli_arguments *a, const gloo_options *o,
                                 const gli_call *call,
                                 const gli_algorithm *algorithm,
                                 gloo_error *error);

/* ---- one count per rank (counts.c) --------------------------------------- */

/* Reads the counts for params->collective, and sets params->counts and ->count.
 * Errors: GLOO_ERR_INVALID for missing or contradictory counts, and
 * GLOO_ERR_NO_MEMORY. The caller frees `given` in any case. */
gloo_status gli_given_counts_read(gli_given_counts *given,
                                  const gli_arguments *arguments,
                                  gli_plan_params *params, gloo_error *error);
void gli_given_counts_free(gli_given_counts *given);

/* Returns a hash of the counts that this rank would read, without checks. */
uint64_t gli_given_counts_hash(const gli_arguments *arguments, uint32_t rank,
                               uint32_t size);
/* Returns true if reading the arguments would give `counts`, which are from a
 * call that was in place if and only if this one is. */
bool gli_given_counts_same(const gli_arguments *arguments,
                           const gli_counts *counts, uint32_t size);

/* ---- several inputs and outputs per rank (multi.c) ----------------------- */

/* Sets the number of buffers, and the shape that the algorithm sees. */
gloo_status gli_lists_read(const gli_arguments *arguments, gli_call *call,
                           gloo_error *error);

/* Decides whether the call is in place, and refuses NULL and overlapping
 * buffers. The shapes are those of one input and one output, out of place and
 * in place. */
gloo_status gli_lists_check(const gli_arguments *arguments, gli_call *call,
                            const gli_shape *shape_out_of_place,
                            const gli_shape *shape_in_place, gloo_error *error);

/* ---- separate blocks (staging.c) ----------------------------------------- */

/* Refuses lists of blocks (gloo_c/lists.h) that are missing, incomplete or
 * overlapping, and sets *plain to the call without lists that the engine
 * executes. It uses the caller's memory if blocks are contiguous, and otherwise
 * that of *staging, which the caller frees (NULL if not needed). */
gloo_status gli_staging_make(const gli_arguments *arguments, uint32_t rank,
                             uint32_t size, uint64_t elem_bytes,
                             gli_arguments *plain, gli_staging **staging,
                             gloo_error *error);

/* ---- GPU memory (device_buffers.c) --------------------------------------- */

/* Stages the plan of a call, once it is chosen, if a buffer is in GPU memory
 * (plan/staged.h). Refuses a buffer that spans devices, or an unusable stream.
 */
gloo_status gli_places_read(const gli_arguments *arguments,
                            const gloo_options *options, gli_call *call,
                            gloo_error *error);

#endif
