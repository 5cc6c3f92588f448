/* The inputs of algorithm choices: rules of a tuning table, which replace the
 * selector (see algorithms/tuning.h for the texts that they are read from), and
 * costs, which the selector compares. */
#ifndef GLI_PLAN_TUNING_H
#define GLI_PLAN_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/collective.h"
#include "plan/costs.h"

typedef enum gli_tuning_link {
  GLI_TUNING_ANY_LINK,
  GLI_TUNING_SHM, /* all ranks share a host and can share memory */
  GLI_TUNING_TCP  /* they do not */
} gli_tuning_link;

typedef struct gli_tuning_rule {
  gli_collective collective;
  gli_tuning_link link;
  uint32_t ranks;      /* 0: any number */
  uint64_t from, last; /* bytes, as gli_plan_vector_bytes counts them */
  bool forced; /* applies also where the algorithm does not: an error then */
  const void *algorithm; /* gli_algorithm */
} gli_tuning_rule;

/* Never changes; one block of memory, for free(). */
typedef struct gli_tuning {
  uint64_t hash; /* of rules and costs; never 0 */
  gli_costs costs;
  size_t n;
  gli_tuning_rule rules[]; /* the first that applies counts */
} gli_tuning;

#endif
