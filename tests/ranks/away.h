/* Ranks that compute: they make no call until other ranks report a receipt. */
#ifndef TESTS_RANKS_AWAY_H
#define TESTS_RANKS_AWAY_H

#include <uv.h>

#include "ranks.h"

/* State shared by the ranks of a test, as their `user`. */
typedef struct away {
  uv_mutex_t lock;
  uv_cond_t changed;
  int got; /* number of receipts */
} away;

void away_begin(away *a);
void away_end(away *a);

/* Reports that this rank has received its data. */
void away_tell(rank_env *env);
/* Blocks outside the library until `n` receipts are reported in all. Fails the
 * test if that takes too long. */
void away_until(rank_env *env, int n);

#endif
