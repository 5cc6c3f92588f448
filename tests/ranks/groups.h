/* What tests of groups share. */
#ifndef TESTS_RANKS_GROUPS_H
#define TESTS_RANKS_GROUPS_H

#include "ranks.h"

/* Of its ranks' numbers in the root context. */
int64_t group_sum_of_worlds(const gloo_context *group);
/* Collectives and messages, of all kinds. */
void group_all_works(rank_env *env, gloo_context *group);

/* NULL, with a failure noted: it could not be made. */
gloo_context *group_split(rank_env *env, gloo_context *context, int color,
                          int key);
gloo_context *group_subset(rank_env *env, gloo_context *context,
                           const int *ranks, size_t n, uint32_t tag);

#endif
