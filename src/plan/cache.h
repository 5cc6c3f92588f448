/* A cache of plans, keyed by their parameters.
 *
 * Not thread-safe: threads that share a cache hold a lock. A plan with a holder
 * is never freed; the bound covers plans with and without holders, and the
 * least recently used plans are evicted. A hit allocates nothing. */
#ifndef GLI_PLAN_CACHE_H
#define GLI_PLAN_CACHE_H

#include <stddef.h>

#include "plan/plan.h"

typedef struct gli_plan_cache gli_plan_cache;

/* A held plan. `user` belongs to the holders (for example a free list of run
 * states). It starts as NULL, stays with the plan while the plan is cached, and
 * is passed to `free_user`, if not NULL, just before the plan is freed. */
typedef struct gli_plan_ref {
  const gli_plan *plan;
  void *user;
} gli_plan_ref;

/* Returns a cache that keeps plans of at most `max_steps` steps in total (each
 * plan counts a few more, for its size), or NULL if out of memory. `free_user`
 * may be NULL. */
gli_plan_cache *gli_plan_cache_create(size_t max_steps,
                                      void (*free_user)(void *user));

/* Frees all plans. Every ref must have been put back. NULL is allowed. */
void gli_plan_cache_destroy(gli_plan_cache *cache);

/* Returns the plan of `build` for `params`, built on a miss. Each get is
 * followed by one put; the same ref may be returned many times meanwhile.
 * Errors: those of gli_plan_make. */
gloo_status gli_plan_cache_get(gli_plan_cache *cache, gli_build_fn build,
                               const gli_plan_params *params,
                               gli_plan_ref **ref, gloo_error *error);
/* Adds a holder to a plan that has one already. */
void gli_plan_cache_get_again(gli_plan_cache *cache, gli_plan_ref *ref);
void gli_plan_cache_put(gli_plan_cache *cache, gli_plan_ref *ref);

/* Calls `see` with the `user` of each plan that has one. `see` may change what
 * `user` points to, and must not use the cache. */
void gli_plan_cache_each(const gli_plan_cache *cache,
                         void (*see)(void *user, void *argument),
                         void *argument);

/* Drops all plans without a holder. */
void gli_plan_cache_drop_idle(gli_plan_cache *cache);

typedef struct gli_plan_cache_stats {
  size_t plans, steps, bytes; /* currently in the cache */
  size_t hits, misses;        /* since the cache was created */
} gli_plan_cache_stats;

void gli_plan_cache_get_stats(const gli_plan_cache *cache,
                              gli_plan_cache_stats *stats);

#endif
