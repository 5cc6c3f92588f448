/* Ranks that compute: they make no call until others have got something. */
#ifndef TESTS_RANKS_AWAY_H
#define TESTS_RANKS_AWAY_H

#include <uv.h>

#include "ranks.h"

/* Shared by the ranks of a test, as their `user`. */
typedef struct away {
  uv_mutex_t lock;
  uv_cond_t changed;
  int got; /* how often something has been got */
} away;

void away_begin(away *a);
void away_end(away *a);

/* This rank has got what it waited for. */
void away_tell(rank_env *env);
/* Stay out of the library until that has happened `n` times in all. A failure,
 * if it takes too long. */
void away_until(rank_env *env, int n);

#endif
