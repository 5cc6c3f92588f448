/* From arguments to a call that the engine can carry out. */
#ifndef GLI_API_CALL_READ_H
#define GLI_API_CALL_READ_H

#include "api/call.h"
#include "api/counts.h"
#include "plan/shape.h"

/* Check the arguments and options, and choose the algorithm. On success what is
 * `given` belongs to the caller; on failure the context has noted the error. */
gloo_status gli_call_read(gloo_context *context, const gli_arguments *arguments,
                          const gloo_options *options, gli_call *call,
                          gli_given_counts *given, gloo_error *error);

/* Reads a call without its buffers: only its algorithm is chosen. */
gloo_status gli_call_choice(gloo_context *context, const gli_arguments *a,
                            const gloo_options *options, gli_call *call,
                            gloo_error *error);

/* Do these ranges have a byte in common? */
static inline bool gli_overlap(const void *a, uint64_t a_bytes, const void *b,
                               uint64_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

/* Is it in place? `within` is the shape that it has then. */
static inline bool gli_call_in_place(const gli_arguments *a,
                                     const gli_shape *shape_in_place) {
  if (!shape_in_place->in_place) return false;
  if (a->input == GLOO_IN_PLACE) return true;
  if (a->collective == GLI_ALLTOALLV) return false; /* it has two lists */
  if (a->output == NULL || shape_in_place->in_bytes == 0) return false;
  return a->input == (const uint8_t *)a->output + shape_in_place->in_shift;
}

#endif
