/* Counts and displacements of the caller, as a plan wants them. */
#ifndef GLI_API_COUNTS_H
#define GLI_API_COUNTS_H

#include "api/call.h"

enum { GLI_FEW_RANKS = 32 };

/* The numbers of one call. */
typedef struct gli_given_counts {
  gli_counts counts;
  uint64_t few[4 * GLI_FEW_RANKS]; /* memory of the arrays of few ranks */
  uint64_t *many;                  /* of more; NULL: not needed */
} gli_given_counts;

/* Read them for params->collective, and set params->counts and ->count.
 * `in_place`: the caller says that it is. GLOO_ERR_INVALID when something is
 * missing or contradicts, GLOO_ERR_NO_MEMORY. Free `numbers` in any case. */
gloo_status gli_given_counts_read(gli_given_counts *given,
                                  const gli_arguments *arguments,
                                  gli_plan_params *params, gloo_error *error);
void gli_given_counts_free(gli_given_counts *given);

/* Returns a hash of what this rank would read from them, without checks. */
uint64_t gli_given_counts_hash(const gli_arguments *arguments, uint32_t rank,
                               uint32_t size);
/* Would reading them give these counts? That of a call that was in place or not
 * just as this one. */
bool gli_given_counts_same(const gli_arguments *arguments,
                           const gli_counts *counts, uint32_t size);

#endif
