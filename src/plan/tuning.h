/* The inputs of algorithm choices: rules of a tuning table, which override the
 * selector (algorithms/tuning.h describes their text format), and costs, which
 * the selector compares. */
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
  GLI_TUNING_TCP  /* any other set of ranks */
} gli_tuning_link;

typedef struct gli_tuning_rule {
  gli_collective collective;
  gli_tuning_link link;
  uint32_t ranks;      /* 0: any number */
  uint64_t from, last; /* bytes, as gli_plan_vector_bytes counts them */
  bool forced; /* applies even if the algorithm does not: an error then */
  const void *algorithm; /* gli_algorithm */
} gli_tuning_rule;

/* Immutable; one block of memory, for free(). */
typedef struct gli_tuning {
  uint64_t hash; /* hash of rules and costs; never 0 */
  gli_costs costs;
  size_t n;
  gli_tuning_rule rules[]; /* the first that applies is used */
} gli_tuning;

#endif
