/* Sets of ranks, small and cheap to copy, used by the checker.
 *
 * Nearly every set in a collective is a run of consecutive ranks, modulo the
 * number of ranks, and is stored in the value itself. Any other set is a list
 * of runs, interned in a pool, so that equal sets are equal values. */
#ifndef GLI_PLAN_RANKS_H
#define GLI_PLAN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GLI_RANKS_LISTED UINT32_MAX

/* Ranks first ... first + n - 1 modulo the size; the full set is {0, size}. If
 * n is GLI_RANKS_LISTED, `first` is a number in the pool. No set is empty. */
typedef struct gli_ranks {
  uint32_t first, n;
} gli_ranks;

typedef struct gli_ranks_pool gli_ranks_pool;

/* Returns a pool for ranks 0 ... size - 1, or NULL if out of memory. */
gli_ranks_pool *gli_ranks_pool_create(uint32_t size);
void gli_ranks_pool_destroy(gli_ranks_pool *pool);

/* Drops all sets, and sets another size. */
void gli_ranks_pool_reset(gli_ranks_pool *pool, uint32_t size);

static inline bool gli_ranks_equal(gli_ranks a, gli_ranks b) {
  return a.first == b.first && a.n == b.n;
}

typedef enum gli_ranks_result {
  GLI_RANKS_OK,
  GLI_RANKS_COMMON, /* the sets share a rank */
  GLI_RANKS_NO_MEMORY
} gli_ranks_result;

/* Union of disjoint sets; if they are not disjoint, *common is in both. */
gli_ranks_result gli_ranks_add(gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                               gli_ranks *sum, uint32_t *common);

/* Union of any two sets. */
gli_ranks_result gli_ranks_merge(gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                                 gli_ranks *sum);

/* Finds the smallest rank in `a` but not in `b`; returns false if none. */
bool gli_ranks_first_extra(const gli_ranks_pool *pool, gli_ranks a, gli_ranks b,
                           uint32_t *rank);

/* Writes "0-3, 7", cut with "..." if it does not fit. */
void gli_ranks_print(const gli_ranks_pool *pool, gli_ranks set, char *text,
                     size_t bytes);

#endif
