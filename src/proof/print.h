/* Prints plans in readable form. */
#ifndef GLI_PROOF_PRINT_H
#define GLI_PROOF_PRINT_H

#include <stdio.h>

#include "plan/plan.h"

/* Formats one step, without its number: "SEND to 4, slot 2: OUT[0..25)".
 * Ignores `peer_rank` for local steps. Truncates text that does not fit. */
void gli_print_step(const gli_plan_params *params, const gli_step *step,
                    uint32_t peer_rank, char *text, size_t bytes);

/* Prints the whole plan of one rank as a table: each step with its number, and
 * the steps it waits for. Returns false if out of memory. */
bool gli_print_plan(const gli_plan *plan, FILE *out);

#endif
