/* The declared cost of an algorithm equals the cost of a run of its plans.
 * tests/plan/test_registry.c compares the checker's counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "executor.h"

static void no_reduction(void *dst, const void *left, const void *right,
                         size_t count) {
  (void)dst, (void)left, (void)right, (void)count;
}

/* Returns parameters with a vector of 6 bytes for each rank. */
static gli_plan_params params(const gli_algorithm *a, uint32_t size) {
  gli_plan_params one = {
      .collective = a->collective, .size = 2, .count = 1, .elem_bytes = 1};
  bool shared = gli_plan_vector_bytes(&one) > 1; /* a block for each rank */
  return (gli_plan_params){
      .collective = a->collective,
      .size = size,
      .root = a->collective == GLI_BROADCAST ? size / 2 : 0,
      .count = a->collective == GLI_BARRIER ? 0
               : shared                     ? 6
                                            : 6 * size,
      .elem_bytes = 1};
}

static bool keeps_promise(const gli_algorithm *a, uint32_t size,
                          uint32_t rounds, uint64_t bytes) {
  uint64_t promised = a->bytes(size, (uint64_t)6 * size);
  if (rounds == a->rounds(size) && bytes == promised) return true;
  printf(
      "# %s %s, %u ranks: %u rounds, promised %u; %llu bytes, promised "
      "%llu\n",
      gli_collective_name(a->collective), a->name, size, rounds,
      a->rounds(size), (unsigned long long)bytes, (unsigned long long)promised);
  return false;
}

/* Numbers of ranks: all small ones, and those around powers of two. */
static const uint32_t large_sizes[] = {48, 63, 64, 65, 96, 127, 128, 129, 130};
enum { SMALL_SIZES = 40, LARGE_SIZES = 9 };

static uint32_t size_at(uint32_t i) {
  return i < SMALL_SIZES ? i + 1 : large_sizes[i - SMALL_SIZES];
}

static void promised_cost_is_what_a_run_costs(void **state) {
  (void)state;
  bool kept = true;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->rounds == NULL) continue; /* composed of others */
    for (uint32_t k = 0; k < SMALL_SIZES + LARGE_SIZES; k++) {
      uint32_t size = size_at(k);
      world w;
      assert_true(world_open(&w, a->build, params(a, size), WORLD_APART, 1));
      assert_true(world_run(&w, no_reduction, WORLD_ALL, 1));
      if (!keeps_promise(a, size, w.depth, w.moved_bytes_max)) kept = false;
      world_close(&w);
    }
  }
  assert_true(kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(promised_cost_is_what_a_run_costs),
  };
  return cmocka_run_group_tests_name("algorithms/cost", tests, NULL, NULL);
}
