/* A cache of plans, by their parameters.
 *
 * Not thread-safe: threads that share a cache hold a lock. A plan with a holder
 * is never freed; the bound covers plans with and without holders, and evicts
 * the plans that were returned longest ago. A hit allocates nothing. */
#ifndef GLI_PLAN_CACHE_H
#define GLI_PLAN_CACHE_H

#include <stddef.h>

#include "plan/plan.h"

typedef struct gli_plan_cache gli_plan_cache;

/* A plan on loan. `user` belongs to the holder's side (a free list of run
 * states, say); it starts as NULL, stays with the plan while it is cached and
 * goes through `free_user`, when not NULL, just before the plan is freed. */
typedef struct gli_plan_ref {
  const gli_plan *plan;
  void *user;
} gli_plan_ref;

/* Keep plans of at most `max_steps` steps together (each plan counts a few
 * more, for its own size). NULL when out of memory. `free_user` may be NULL. */
gli_plan_cache *gli_plan_cache_create(size_t max_steps,
                                      void (*free_user)(void *user));

/* Free all plans. Every ref was put back. NULL is allowed. */
void gli_plan_cache_destroy(gli_plan_cache *cache);

/* The plan of `build` for `params`, made when it is not there. Each get is
 * followed by one put; the same ref may be handed out many times meanwhile.
 * Errors: those of gli_plan_make. */
gloo_status gli_plan_cache_get(gli_plan_cache *cache, gli_build_fn build,
                               const gli_plan_params *params,
                               gli_plan_ref **ref, gloo_error *error);
/* Takes a plan that has a holder already. */
void gli_plan_cache_get_again(gli_plan_cache *cache, gli_plan_ref *ref);
void gli_plan_cache_put(gli_plan_cache *cache, gli_plan_ref *ref);

/* Call this with the `user` of each plan that has one; it may change what that
 * points to, and must not use the cache. */
void gli_plan_cache_each(const gli_plan_cache *cache,
                         void (*see)(void *user, void *argument),
                         void *argument);

/* Drop all plans without a holder. */
void gli_plan_cache_drop_idle(gli_plan_cache *cache);

typedef struct gli_plan_cache_stats {
  size_t plans, steps, bytes; /* there now */
  size_t hits, misses;        /* since the cache was created */
} gli_plan_cache_stats;

void gli_plan_cache_get_stats(const gli_plan_cache *cache,
                              gli_plan_cache_stats *stats);

#endif
