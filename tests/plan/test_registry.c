/* Every algorithm of the registry is correct, and has the declared cost.
 * usage: test_plan_registry [RANKS]: for 1 to RANKS ranks, and for 10,000 */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/cmocka_all.h"
#include "proof/check.h"
#include "tools/plan_sweep.h"

static uint32_t most_ranks = 24, huge = 1000;

/* An algorithm that keeps an order for all numbers of ranks declares it. */
static void all_are_marked(const gli_sweep_result *r) {
  const gli_algorithm *a = r->algorithm;
  bool composed = a->rounds == NULL; /* its parts depend on the hosts */
  if (composed || !gli_collective_reduces(a->collective)) return;
  if (r->order == gli_algorithm_order(a)) return;
  fail_msg(
      "%s %s keeps the order of ranks (%d) but is not marked in "
      "GLI_ORDER_LIST",
      gli_collective_name(a->collective), a->name, (int)r->order);
}

static void all_are_correct_from_one_rank_on(void **state) {
  (void)state;
  gli_sweep_result *results = calloc(gli_algorithm_count, sizeof(*results));
  assert_non_null(results);
  gloo_error error;
  gloo_status status = gli_sweep(gli_algorithms, gli_algorithm_count, 1,
                                 most_ranks, 2, results, &error);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (results[i].failures != 0) fail_msg("%s", results[i].first.message);
    assert_true(results[i].plans > 0);
    all_are_marked(&results[i]);
  }
  free(results);
}

static bool plan_is_short(const gli_algorithm *a, uint32_t size) {
  gli_plan_params p = {.collective = a->collective,
                       .size = size,
                       .count = size,
                       .elem_bytes = 4};
  gli_plan *plan;
  assert_int_equal(gli_plan_make(a->build, &p, &plan, NULL), GLOO_OK);
  bool is_short = plan->n_steps <= 500;
  gli_plan_free(plan);
  return is_short;
}

static void logarithmic_ones_are_correct_for_very_many_ranks(void **state) {
  (void)state;
  size_t n = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!plan_is_short(a, huge)) continue;
    gli_sweep_result result;
    gloo_error error;
    assert_int_equal(gli_sweep(a, 1, huge, huge, 1, &result, &error), GLOO_OK);
    if (result.failures != 0) fail_msg("%s", result.first.message);
    n++;
  }
  assert_true(n >= 7);
}

/* An algorithm that is wrong, or exceeds its declared cost, is reported. */
static void build_nothing(gli_builder *b, const gli_plan_params *p) {
  (void)b;
  (void)p;
}
static uint32_t one_round(uint32_t size) {
  return size > 1 ? 1 : 0;
}
static uint64_t no_bytes(uint32_t size, uint64_t bytes) {
  (void)size;
  (void)bytes;
  return 0;
}

static void wrong_ones_and_broken_promises_are_reported(void **state) {
  (void)state;
  const gli_algorithm *ring = gli_algorithm_find(GLI_ALLREDUCE, "ring");
  assert_non_null(ring);
  gli_algorithm planted[3] = {*ring, *ring, *ring};
  planted[0].build = build_nothing;
  planted[1].rounds = one_round;
  planted[2].bytes = no_bytes;
  gli_sweep_result results[3];
  gloo_error error;
  assert_int_equal(gli_sweep(planted, 3, 2, 5, 2, results, &error), GLOO_OK);
  for (int i = 0; i < 3; i++) assert_true(results[i].failures > 0);
  assert_non_null(strstr(results[0].first.message, "no step writes element"));
  assert_non_null(strstr(results[0].first.message, "2 ranks"));
  assert_non_null(strstr(results[1].first.message, "declares 1"));
  assert_non_null(strstr(results[2].first.message, "declares 0"));
}

int main(int argc, char **argv) {
  if (argc > 1) {
    most_ranks = (uint32_t)strtoul(argv[1], NULL, 10);
    huge = 10000;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_are_correct_from_one_rank_on),
      cmocka_unit_test(logarithmic_ones_are_correct_for_very_many_ranks),
      cmocka_unit_test(wrong_ones_and_broken_promises_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
