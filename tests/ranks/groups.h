/* Helpers for tests of groups. */
#ifndef TESTS_RANKS_GROUPS_H
#define TESTS_RANKS_GROUPS_H

#include "ranks.h"

/* Returns the sum of the group's ranks in the root context. */
int64_t group_sum_of_worlds(const gloo_context *group);
/* Checks collectives and messages of all kinds. */
void group_all_works(rank_env *env, gloo_context *group);

/* Return NULL if the group cannot be made, and record a failure. */
gloo_context *group_split(rank_env *env, gloo_context *context, int color,
                          int key);
gloo_context *group_subset(rank_env *env, gloo_context *context,
                           const int *ranks, size_t n, uint32_t tag);

#endif
