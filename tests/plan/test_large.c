/* All algorithms at 1,000 ranks, and the two rings that make an allreduce at
 * 10,000: 200 million steps each, streamed.
 * usage: test_plan_large [RANKS]: replaces 1,000, and scales the rest and the
 * memory in proportion */
#include <stdlib.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "proof/check.h"
#include "tools/plan_sweep.h"

static uint32_t ranks = 1000;
static uint64_t steps_in_memory; /* 0: the default */

static void all_are_correct_for_many_ranks(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    gli_sweep_result result;
    gloo_error error;
    assert_int_equal(
        gli_sweep(&gli_algorithms[i], 1, ranks, ranks, 1, &result, &error),
        GLOO_OK);
    if (result.failures != 0) fail_msg("%s", result.first.message);
  }
}

static void check_ring(gli_collective collective, uint32_t size,
                       uint64_t count) {
  const gli_algorithm *a = gli_algorithm_find(collective, "ring");
  assert_non_null(a);
  gli_plan_params p = {
      .collective = collective, .size = size, .count = count, .elem_bytes = 4};
  gli_checker *checker = gli_checker_create(steps_in_memory);
  assert_non_null(checker);
  gli_check_report report;
  gloo_error error;
  gloo_status status = gli_checker_run(checker, a->build, &p, &report, &error);
  gli_checker_destroy(checker);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  assert_true(report.streamed);
  uint64_t vector = collective == GLI_ALLREDUCE ? count : count * p.size;
  assert_int_equal(report.max_sent_bytes,
                   a->bytes(p.size, vector * p.elem_bytes));
}

static void reduce_scatter_ring_is_correct_for_very_many_ranks(void **state) {
  (void)state;
  check_ring(GLI_REDUCE_SCATTER, 10 * ranks, 3);
}

static void allgather_ring_is_correct_for_very_many_ranks(void **state) {
  (void)state;
  check_ring(GLI_ALLGATHER, 10 * ranks, 3);
}

/* The allreduce has the rounds of the two rings above. */
static void allreduce_ring_is_correct_when_streamed(void **state) {
  (void)state;
  check_ring(GLI_ALLREDUCE, ranks * 5 / 2, (uint64_t)ranks * 5);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    ranks = (uint32_t)strtoul(argv[1], NULL, 10);
    steps_in_memory = 10000;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_are_correct_for_many_ranks),
      cmocka_unit_test(reduce_scatter_ring_is_correct_for_very_many_ranks),
      cmocka_unit_test(allgather_ring_is_correct_for_very_many_ranks),
      cmocka_unit_test(allreduce_ring_is_correct_when_streamed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
