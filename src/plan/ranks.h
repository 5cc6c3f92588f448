/* Sets of ranks, small and cheap to copy, for the checker.
 *
 * Nearly every set in a collective is a run of consecutive ranks, modulo the
 * number of ranks: that is stored in the value itself. Others are lists of such
 * runs, each kept once in a pool, so that equal sets are equal values. */
#ifndef GLI_PLAN_RANKS_H
#define GLI_PLAN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GLI_RANKS_LISTED UINT32_MAX

/* Ranks first ... first + n - 1 modulo the size; all of them is {0, size}. When
 * n is GLI_RANKS_LISTED, `first` is a number in the pool. No set is empty. */
typedef struct gli_ranks {
  uint32_t first, n;
} gli_ranks;

typedef struct gli_ranks_pool gli_ranks_pool;

/* A pool for ranks 0 ... size - 1. NULL when out of memory. */
gli_ranks_pool *gli_ranks_pool_create(uint32_t size);
void gli_ranks_pool_destroy(gli_ranks_pool *pool);

/* Forget all sets and begin again for another size. */
void gli_ranks_pool_reset(gli_ranks_pool *pool, uint32_t size);

static inline bool gli_ranks_equal(gli_ranks a, gli_ranks b) {
  return a.first == b.first && a.n == b.n;
}

typedef enum gli_ranks_result {
  GLI_RANKS_OK,
  GLI_RANKS_COMMON, /* both have a rank */
  GLI_RANKS_NO_MEMORY
} gli_ranks_result;

/* Union of two sets that have no rank in common; when they have one, *common
 * is such a rank. */
gli_ranks_result gli_ranks_add(gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                               gli_ranks *sum, uint32_t *common);

/* Union of any two sets. */
gli_ranks_result gli_ranks_merge(gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                                 gli_ranks *sum);

/* The smallest rank that is in `a` but not in `b`; false when there is none. */
bool gli_ranks_first_extra(const gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                           uint32_t *rank);

/* "0-3, 7", cut with "..." when it does not fit. */
void gli_ranks_print(const gli_ranks_pool *pool, gli_ranks set, char *text,
                     size_t bytes);

#endif
