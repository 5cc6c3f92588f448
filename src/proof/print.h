/* Plans for people to read. */
#ifndef GLI_PROOF_PRINT_H
#define GLI_PROOF_PRINT_H

#include <stdio.h>

#include "plan/plan.h"

/* One step in words, without its number: "SEND to 4, slot 2: OUT[0..25)".
 * `peer_rank` is ignored for local steps. Cut when it does not fit. */
void gli_print_step(const gli_plan_params *params, const gli_step *step,
                    uint32_t peer_rank, char *text, size_t bytes);

/* The whole plan of one rank as a table: each step with its number, and the
 * steps it waits for. False when out of memory. */
bool gli_print_plan(const gli_plan *plan, FILE *out);

#endif
