/* The plan cache: a hash table, and a list ordered by last use. */
#include "plan/cache.h"

#include <stdlib.h>

#include "core/error.h"
#include "plan/params.h"

#define BUCKETS 256       /* a power of two */
#define STEPS_PER_PLAN 16 /* cost of a plan besides its steps */

typedef struct entry {
  gli_plan_ref ref; /* first member, so that a ref converts to its entry */
  gli_build_fn build;
  gli_plan *plan;
  size_t holders, weight;
  struct entry *chain;         /* same bucket */
  struct entry *newer, *older; /* by time of last get */
} entry;

struct gli_plan_cache {
  entry *buckets[BUCKETS];
  entry *newest, *oldest;
  size_t max_steps;
  void (*free_user)(void *user);
  gli_plan_cache_stats stats;
};

/* ---- keys ---------------------------------------------------------------- */

/* Compares field by field, because of padding. */
static bool same_params(const gli_plan_params *a, const gli_plan_params *b) {
  return a->collective == b->collective && a->rank == b->rank &&
         a->size == b->size && a->root == b->root && a->count == b->count &&
         a->elem_bytes == b->elem_bytes && a->in_place == b->in_place &&
         a->segment_bytes == b->segment_bytes && a->hosts == b->hosts &&
         a->oversubscribed == b->oversubscribed &&
         a->low_precision == b->low_precision && a->order == b->order &&
         a->n_in == b->n_in && a->n_out == b->n_out && a->staged == b->staged &&
         gli_counts_equal(a->counts, b->counts, a->size);
}

static uint64_t plan_cache_mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

static size_t plan_cache_bucket_of(gli_build_fn build,
                                   const gli_plan_params *p) {
  uint64_t hash =
      plan_cache_mix((uint64_t)(uintptr_t)build, (uint64_t)p->collective);
  hash = plan_cache_mix(hash, (uint64_t)p->rank << 32 | p->size);
  hash =
      plan_cache_mix(hash, (uint64_t)p->root << 6 | (uint64_t)p->staged << 2 |
                               (uint64_t)p->low_precision << 1 | p->in_place);
  hash = plan_cache_mix(hash, p->count);
  hash = plan_cache_mix(hash, p->elem_bytes);
  hash = plan_cache_mix(hash, p->segment_bytes);
  hash = plan_cache_mix(hash, (uint64_t)p->n_in << 32 | p->n_out);
  hash = plan_cache_mix(hash, (uint64_t)(uintptr_t)p->hosts);
  hash = plan_cache_mix(hash, gli_counts_hash(p->counts, p->size));
  return (size_t)(hash >> 40) & (BUCKETS - 1);
}

static bool is_for(const entry *e, gli_build_fn build,
                   const gli_plan_params *params) {
  return e->build == build && same_params(&e->plan->params, params);
}

static entry *plan_cache_find(const gli_plan_cache *cache, size_t bucket,
                              gli_build_fn build,
                              const gli_plan_params *params) {
  for (entry *e = cache->buckets[bucket]; e != NULL; e = e->chain) {
    if (is_for(e, build, params)) return e;
  }
  return NULL;
}

/* ---- the list ------------------------------------------------------------ */

static void unlink_entry(gli_plan_cache *cache, entry *e) {
  *(e->newer != NULL ? &e->newer->older : &cache->newest) = e->older;
  *(e->older != NULL ? &e->older->newer : &cache->oldest) = e->newer;
}

static void link_newest(gli_plan_cache *cache, entry *e) {
  e->newer = NULL;
  e->older = cache->newest;
  *(e->older != NULL ? &e->older->newer : &cache->oldest) = e;
  cache->newest = e;
}

/* ---- eviction ------------------------------------------------------------ */

static void plan_cache_drop(gli_plan_cache *cache, entry *e) {
  entry **at =
      &cache->buckets[plan_cache_bucket_of(e->build, &e->plan->params)];
  while (*at != e) at = &(*at)->chain;
  *at = e->chain;
  unlink_entry(cache, e);
  cache->stats.plans--;
  cache->stats.steps -= e->weight;
  cache->stats.bytes -= e->plan->bytes;
  if (cache->free_user != NULL && e->ref.user != NULL) {
    cache->free_user(e->ref.user);
  }
  gli_plan_free(e->plan);
  free(e);
}

/* Drops plans without a holder, oldest first, until at most `max_steps` remain.
 */
static void plan_cache_trim(gli_plan_cache *cache, size_t max_steps) {
  entry *e = cache->oldest;
  while (e != NULL && cache->stats.steps > max_steps) {
    entry *newer = e->newer;
    if (e->holders == 0) plan_cache_drop(cache, e);
    e = newer;
  }
}

/* ---- interface ----------------------------------------------------------- */

gli_plan_cache *gli_plan_cache_create(size_t max_steps,
                                      void (*free_user)(void *user)) {
  gli_plan_cache *cache = calloc(1, sizeof *cache);
  if (cache == NULL) return NULL;
  cache->max_steps = max_steps;
  cache->free_user = free_user;
  return cache;
}

void gli_plan_cache_destroy(gli_plan_cache *cache) {
  if (cache == NULL) return;
  while (cache->oldest != NULL) plan_cache_drop(cache, cache->oldest);
  free(cache);
}

static gloo_status plan_cache_insert(gli_plan_cache *cache, size_t bucket,
                                     gli_build_fn build,
                                     const gli_plan_params *params,
                                     entry **made, gloo_error *error) {
  entry *e = calloc(1, sizeof *e);
  if (e == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a plan");
  }
  gloo_status status = gli_plan_make(build, params, &e->plan, error);
  if (status != GLOO_OK) {
    free(e);
    return status;
  }
  e->ref.plan = e->plan;
  e->build = build;
  e->weight = (size_t)e->plan->n_steps + STEPS_PER_PLAN;
  e->chain = cache->buckets[bucket];
  cache->buckets[bucket] = e;
  link_newest(cache, e);
  cache->stats.plans++;
  cache->stats.steps += e->weight;
  cache->stats.bytes += e->plan->bytes;
  *made = e;
  return GLOO_OK;
}

gloo_status gli_plan_cache_get(gli_plan_cache *cache, gli_build_fn build,
                               const gli_plan_params *params,
                               gli_plan_ref **ref, gloo_error *error) {
  entry *e = cache->newest; /* most calls repeat the last one */
  if (e != NULL && is_for(e, build, params)) {
    cache->stats.hits++;
    e->holders++;
    *ref = &e->ref;
    return GLOO_OK;
  }
  size_t bucket = plan_cache_bucket_of(build, params);
  e = plan_cache_find(cache, bucket, build, params);
  if (e != NULL) {
    cache->stats.hits++;
    unlink_entry(cache, e);
    link_newest(cache, e);
    e->holders++;
  } else {
    gloo_status status =
        plan_cache_insert(cache, bucket, build, params, &e, error);
    if (status != GLOO_OK) return status;
    cache->stats.misses++;
    e->holders++;
    plan_cache_trim(cache, cache->max_steps);
  }
  *ref = &e->ref;
  return GLOO_OK;
}

void gli_plan_cache_get_again(gli_plan_cache *cache, gli_plan_ref *ref) {
  cache->stats.hits++;
  ((entry *)ref)->holders++;
}

void gli_plan_cache_put(gli_plan_cache *cache, gli_plan_ref *ref) {
  entry *e = (entry *)ref;
  e->holders--;
  if (cache->stats.steps > cache->max_steps)
    plan_cache_trim(cache, cache->max_steps);
}

void gli_plan_cache_drop_idle(gli_plan_cache *cache) {
  plan_cache_trim(cache, 0);
}

void gli_plan_cache_each(const gli_plan_cache *cache,
                         void (*see)(void *user, void *argument),
                         void *argument) {
  for (const entry *e = cache->newest; e != NULL; e = e->older) {
    if (e->ref.user != NULL) see(e->ref.user, argument);
  }
}

void gli_plan_cache_get_stats(const gli_plan_cache *cache,
                              gli_plan_cache_stats *stats) {
  *stats = cache->stats;
}
