/* All algorithms at 1,000 ranks, and the two rings that make an allreduce at
 * 10,000: 200 million steps each, streamed. */
#include <stdlib.h>

#include "algorithms/registry.h"
#include "plan/check.h"
#include "plan/cmocka_all.h"
#include "tools/plan_sweep.h"

static void all_are_correct_for_1000_ranks(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    gli_sweep_result result;
    gloo_error error;
    assert_int_equal(
        gli_sweep(&gli_algorithms[i], 1, 1000, 1000, 1, &result, &error),
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
  gli_checker *checker = gli_checker_create(0);
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

static void reduce_scatter_ring_is_correct_for_10000_ranks(void **state) {
  (void)state;
  check_ring(GLI_REDUCE_SCATTER, 10000, 3);
}

static void allgather_ring_is_correct_for_10000_ranks(void **state) {
  (void)state;
  check_ring(GLI_ALLGATHER, 10000, 3);
}

/* Its rounds are those of the two above. */
static void allreduce_ring_is_correct_when_streamed(void **state) {
  (void)state;
  check_ring(GLI_ALLREDUCE, 2500, 5000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_are_correct_for_1000_ranks),
      cmocka_unit_test(reduce_scatter_ring_is_correct_for_10000_ranks),
      cmocka_unit_test(allgather_ring_is_correct_for_10000_ranks),
      cmocka_unit_test(allreduce_ring_is_correct_when_streamed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
