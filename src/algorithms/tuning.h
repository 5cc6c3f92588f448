/* Reads tuning tables: choices of algorithms that override the selector.
 *
 * The grammar of the environment variable and of files:
 *
 *   text   = entry { (";" | newline) entry }     "#": the rest is a comment
 *   entry  = collective { "@" where } ":" range "=" algorithm
 *            { "," range "=" algorithm }
 *   where  = "shm" | "tcp" | "ranks=" number
 *   range  = from "-" [ to ]                     from <= bytes < to
 *
 * Example: `allreduce:0-4k=recursive_doubling,4k-=ring;broadcast:0-=binomial`.
 * Sizes are bytes of the longest buffer that any rank has, with K, M or G for
 * powers of 1,024; if no rank knows that length (gatherv, scatterv, alltoallv)
 * it counts as 0. Ranges of an entry ascend. Sizes in no range are left to
 * later entries, and finally to the selector; so is, unless the text is forced,
 * a reduction that needs an order that the algorithm does not keep. */
#ifndef GLI_ALGORITHMS_TUNING_H
#define GLI_ALGORITHMS_TUNING_H

#include "algorithms/registry.h"
#include "core/error.h"
#include "plan/tuning.h"

enum { GLI_TUNING_MAX_RULES = 4096 };

typedef struct gli_tuning_text {
  const char *name; /* name of the file or variable, for messages */
  const char *text;
  bool forced; /* see gli_tuning_rule */
} gli_tuning_text;

/* Reads texts; earlier texts take precedence. *tuning is NULL if they have no
 * entry; otherwise free() it. Errors: GLOO_ERR_INVALID names text, line and the
 * word that is wrong; GLOO_ERR_NO_MEMORY. */
gloo_status gli_tuning_parse(const gli_tuning_text *texts, size_t n,
                             gli_tuning **tuning, gloo_error *error);

/* Copies the rules (NULL: none) with other costs; free() the copy. Errors:
 * GLOO_ERR_NO_MEMORY. */
gloo_status gli_tuning_with_costs(const gli_tuning *rules,
                                  const gli_costs *costs, gli_tuning **tuning,
                                  gloo_error *error);

/* Returns the rule for these parameters, or NULL. `tuning` may be NULL. */
const gli_algorithm *gli_tuning_find(const gli_tuning *tuning,
                                     const gli_plan_params *params);

#endif
