/* Counts and displacements of the caller, as a plan wants them. */
#ifndef GLI_API_COUNTS_H
#define GLI_API_COUNTS_H

#include "api/call.h"

enum { GLI_FEW_RANKS = 32 };

/* The numbers of one call. */
typedef struct gli_numbers {
  gli_counts counts;
  uint64_t few[4 * GLI_FEW_RANKS]; /* memory of the arrays of few ranks */
  uint64_t *many;                  /* of more; NULL: not needed */
} gli_numbers;

/* Read them for params->collective, and set params->counts and ->count.
 * `in_place`: the caller says that it is. GLOO_ERR_INVALID when something is
 * missing or contradicts, GLOO_ERR_NO_MEMORY. Free `numbers` in any case. */
gloo_status gli_numbers_read(gli_numbers *numbers,
                             const gli_arguments *arguments,
                             gli_plan_params *params, gloo_error *error);
void gli_numbers_free(gli_numbers *numbers);

#endif
