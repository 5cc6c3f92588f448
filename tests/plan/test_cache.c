/* The cache: hits cost no memory, held plans stay, the bound is kept. */
#include <stdlib.h>

#include "plan/cache.h"
#include "plan/cmocka_all.h"

/* ---- counting allocations (linked with --wrap) --------------------------- */

static size_t allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  allocations++;
  return __real_malloc(bytes);
}
void *__wrap_calloc(size_t n, size_t bytes) {
  allocations++;
  return __real_calloc(n, bytes);
}
void *__wrap_realloc(void *old, size_t bytes) {
  allocations++;
  return __real_realloc(old, bytes);
}

/* ---- plans --------------------------------------------------------------- */

static int builds;

static void build(gli_builder *b, const gli_plan_params *p) {
  builds++;
  for (uint64_t i = 0; i < p->count; i++) {
    gli_send(b, 0, gli_elems(p, GLI_IN, i, 1));
  }
}

static void build_other(gli_builder *b, const gli_plan_params *p) {
  build(b, p);
}

static void build_wrong(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, p->rank, gli_elems(p, GLI_IN, 0, 1));
}

static gli_plan_params params(uint64_t count) {
  return (gli_plan_params){.collective = GLI_ALLREDUCE,
                           .rank = 1,
                           .size = 4,
                           .count = count,
                           .elem_bytes = 4};
}

static gli_plan_ref *get(gli_plan_cache *cache, gli_build_fn fn,
                         gli_plan_params p) {
  gli_plan_ref *ref = NULL;
  gloo_error error;
  gloo_status status = gli_plan_cache_get(cache, fn, &p, &ref, &error);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  return ref;
}

static int freed_users;
static void free_user(void *user) {
  freed_users++;
  free(user);
}

static gli_plan_cache_stats stats(const gli_plan_cache *cache) {
  gli_plan_cache_stats s;
  gli_plan_cache_get_stats(cache, &s);
  return s;
}

static void hit_gives_the_same_plan_without_allocating(void **state) {
  (void)state;
  gli_plan_cache *cache = gli_plan_cache_create(1000, NULL);
  gli_plan_ref *first = get(cache, build, params(5));
  gli_plan_cache_put(cache, first);
  builds = 0;
  size_t before = allocations;
  assert_true(before > 0); /* the counting works */
  gli_plan_params p = params(5);
  for (int i = 0; i < 100; i++) {
    gli_plan_ref *ref = NULL;
    assert_int_equal(gli_plan_cache_get(cache, build, &p, &ref, NULL), GLOO_OK);
    assert_ptr_equal(ref, first);
    gli_plan_cache_put(cache, ref);
  }
  assert_int_equal(allocations, before);
  assert_int_equal(builds, 0);
  assert_int_equal(stats(cache).hits, 100);
  assert_int_equal(stats(cache).misses, 1);
  gli_plan_cache_destroy(cache);
}

static void every_parameter_makes_a_plan_of_its_own(void **state) {
  (void)state;
  gli_plan_cache *cache = gli_plan_cache_create(1000, NULL);
  gli_plan_params base = params(5), all[8];
  for (int i = 0; i < 8; i++) all[i] = base;
  all[1].rank = 2;
  all[2].size = 5;
  all[3].root = 1;
  all[4].count = 6;
  all[5].elem_bytes = 8;
  all[6].in_place = true;
  all[7].segment_bytes = 2;
  for (int i = 0; i < 8; i++) {
    gli_plan_cache_put(cache, get(cache, build, all[i]));
  }
  base.collective = GLI_REDUCE_SCATTER;
  gli_plan_cache_put(cache, get(cache, build, base));
  gli_plan_cache_put(cache, get(cache, build_other, params(5)));
  assert_int_equal(stats(cache).misses, 10);
  assert_int_equal(stats(cache).plans, 10);
  gli_plan_cache_destroy(cache);
}

static void build_own(gli_builder *b, const gli_plan_params *p) {
  builds++;
  gli_copy(b, gli_own(p, GLI_IN), gli_block(p, GLI_OUT, p->rank));
}

/* Lists are compared by content, and a plan keeps a copy. */
static void given_counts_belong_to_the_plan(void **state) {
  (void)state;
  gli_plan_cache *cache = gli_plan_cache_create(1000, NULL);
  uint64_t lengths[] = {1, 2, 3, 4}, first[] = {0, 1, 3, 6};
  gli_counts counts = {
      .out = lengths, .out_first = first, .own = 2, .packed = true};
  gli_plan_params p = params(10);
  p.collective = GLI_ALLGATHERV;
  p.counts = &counts;
  gli_plan_ref *ref = get(cache, build_own, p);
  lengths[3] = 5;
  gli_plan_ref *other = get(cache, build_own, p);
  first[3] = 7;
  gli_plan_ref *moved = get(cache, build_own, p);
  assert_int_equal(stats(cache).misses, 3);
  assert_int_equal(ref->plan->params.counts->out[3], 4);
  assert_int_equal(ref->plan->params.counts->out_first[3], 6);
  assert_int_equal(ref->plan->out_bytes, 40);
  assert_int_equal(moved->plan->out_bytes, 48);
  uint64_t same_lengths[] = {1, 2, 3, 4}, same_first[] = {0, 1, 3, 6};
  counts.out = same_lengths;
  counts.out_first = same_first;
  gli_plan_ref *again = get(cache, build_own, p);
  assert_ptr_equal(again, ref);
  gli_plan_cache_put(cache, ref);
  gli_plan_cache_put(cache, other);
  gli_plan_cache_put(cache, moved);
  gli_plan_cache_put(cache, again);
  gli_plan_cache_destroy(cache);
}

static void bound_is_kept_by_dropping_the_oldest(void **state) {
  (void)state;
  freed_users = 0;
  gli_plan_cache *cache = gli_plan_cache_create(300, free_user);
  for (uint64_t count = 1; count <= 50; count++) {
    gli_plan_ref *ref = get(cache, build, params(count));
    if (ref->user == NULL) ref->user = malloc(1);
    gli_plan_cache_put(cache, ref);
    gli_plan_cache_put(cache, get(cache, build, params(1))); /* stays young */
    assert_true(stats(cache).steps <= 300);
  }
  size_t misses = stats(cache).misses;
  assert_int_equal(misses, 50); /* count 1 was never dropped */
  assert_int_equal(freed_users, 50 - stats(cache).plans);
  gli_plan_cache_put(cache, get(cache, build, params(50)));
  assert_int_equal(stats(cache).misses, misses);
  gli_plan_cache_put(cache, get(cache, build, params(2)));
  assert_int_equal(stats(cache).misses, misses + 1);
  gli_plan_cache_destroy(cache);
  assert_int_equal(freed_users, 50);
}

static void held_plan_survives_eviction(void **state) {
  (void)state;
  gli_plan_cache *cache = gli_plan_cache_create(100, NULL);
  gli_plan_ref *held = get(cache, build, params(60));
  gli_plan_ref *again = get(cache, build, params(60));
  assert_ptr_equal(held, again);
  for (uint64_t count = 61; count < 90; count++) {
    gli_plan_cache_put(cache, get(cache, build, params(count)));
  }
  assert_int_equal(held->plan->n_steps, 60);
  assert_int_equal(held->plan->steps[59].a, 236);
  gli_plan_cache_put(cache, again);
  assert_int_equal(held->plan->steps[59].a, 236);
  gli_plan_cache_put(cache, held);
  assert_true(stats(cache).steps <= 100);
  gli_plan_cache_destroy(cache);
}

static void plan_larger_than_the_cache_can_be_used(void **state) {
  (void)state;
  gli_plan_cache *cache = gli_plan_cache_create(10, NULL);
  gli_plan_ref *ref = get(cache, build, params(500));
  assert_int_equal(ref->plan->n_steps, 500);
  gli_plan_cache_put(cache, ref);
  assert_int_equal(stats(cache).plans, 0);
  assert_int_equal(stats(cache).steps, 0);
  gli_plan_cache_destroy(cache);
}

static void failure_leaves_nothing_behind(void **state) {
  (void)state;
  gli_plan_cache *cache = gli_plan_cache_create(100, NULL);
  gli_plan_params p = params(5);
  gli_plan_ref *ref = NULL;
  gloo_error error;
  assert_int_equal(gli_plan_cache_get(cache, build_wrong, &p, &ref, &error),
                   GLOO_ERR_INTERNAL);
  assert_null(ref);
  assert_int_equal(stats(cache).plans, 0);
  gli_plan_cache_destroy(cache);
  gli_plan_cache_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hit_gives_the_same_plan_without_allocating),
      cmocka_unit_test(every_parameter_makes_a_plan_of_its_own),
      cmocka_unit_test(given_counts_belong_to_the_plan),
      cmocka_unit_test(bound_is_kept_by_dropping_the_oldest),
      cmocka_unit_test(held_plan_survives_eviction),
      cmocka_unit_test(plan_larger_than_the_cache_can_be_used),
      cmocka_unit_test(failure_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
