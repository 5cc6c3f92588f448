/* What an algorithm promises to cost is what its plans cost, as counted in
 * two ways. */
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
#include "plan/check.h"

static void no_reduction(void *dst, const void *left, const void *right,
                         size_t count) {
  (void)dst, (void)left, (void)right, (void)count;
}

/* Parameters whose vector is 6 bytes for each rank. */
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

static void promised_cost_is_what_a_run_costs(void **state) {
  (void)state;
  bool kept = true;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->rounds == NULL) continue; /* made of others */
    for (uint32_t size = 1; size <= 130; size++) {
      world w;
      assert_true(world_open(&w, a->build, params(a, size), WORLD_APART, 1));
      assert_true(world_run(&w, no_reduction, WORLD_ALL, 1));
      if (!keeps_promise(a, size, w.depth, w.moved_bytes_max)) kept = false;
      world_close(&w);
    }
  }
  assert_true(kept);
}

static bool checker_agrees(gli_checker *checker, const gli_algorithm *a,
                           uint32_t size) {
  gli_plan_params p = params(a, size);
  gli_check_report report;
  gloo_error error;
  if (gli_checker_run(checker, a->build, &p, &report, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  /* Rounds are not counted when plans are too long to hold. */
  uint32_t rounds = report.streamed ? a->rounds(size) : report.rounds;
  return keeps_promise(a, size, rounds, report.max_sent_bytes);
}

/* Those with a step for every other rank or more are for the tests of plans. */
static bool plan_is_short(const gli_algorithm *a, uint32_t size) {
  gli_plan_params p = params(a, size);
  gli_plan *plan;
  assert_int_equal(gli_plan_make(a->build, &p, &plan, NULL), GLOO_OK);
  bool is_short = plan->n_steps <= 500;
  gli_plan_free(plan);
  return is_short;
}

static void promised_cost_is_what_the_checker_counts(void **state) {
  (void)state;
  gli_checker *checker = gli_checker_create(0);
  assert_non_null(checker);
  bool kept = true;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->rounds == NULL) continue; /* made of others */
    for (uint32_t size = 1; size <= 64; size++)
      if (!checker_agrees(checker, a, size)) kept = false;
    if (!plan_is_short(a, 10000)) continue;
    if (!checker_agrees(checker, a, 1000)) kept = false;
    if (!checker_agrees(checker, a, 10000)) kept = false;
  }
  gli_checker_destroy(checker);
  assert_true(kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(promised_cost_is_what_a_run_costs),
      cmocka_unit_test(promised_cost_is_what_the_checker_counts),
  };
  return cmocka_run_group_tests_name("algorithms/cost", tests, NULL, NULL);
}
