/* Thousands of simulated jobs on the real engine. SIM_SEEDS sets the number per
 * test (the default suits every build), and SIM_FIRST the first seed:
 * SIM_FIRST=123 SIM_SEEDS=1 replays one. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdlib.h>

#include "core/environment.h"
#include "gloo_c/log.h"
#include "job.h"

static uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *value = gli_environment_read(name);
  return value ? strtoull(value, NULL, 10) : otherwise;
}

static void run_seeds(job_fault fault, uint64_t seeds) {
  uint64_t first = from_environment("SIM_FIRST", 1);
  char text[JOB_TEXT_BYTES];
  seeds = from_environment("SIM_SEEDS", seeds);
  for (uint64_t seed = first; seed < first + seeds; seed++) {
    if (!job_run(seed, fault, text)) fail_msg("%s", text);
  }
}

static void all_ranks_get_the_right_data(void **state) {
  (void)state;
  run_seeds(JOB_NO_FAULT, 3000);
}

static void killed_rank_is_named_by_all_that_need_it(void **state) {
  (void)state;
  run_seeds(JOB_KILL, 1000);
}

static void frozen_rank_costs_no_more_than_the_timeout(void **state) {
  (void)state;
  run_seeds(JOB_FREEZE, 300);
}

static void cut_connection_ends_both_sides(void **state) {
  (void)state;
  run_seeds(JOB_CUT, 500);
}

static void rank_that_leaves_early_is_named(void **state) {
  (void)state;
  run_seeds(JOB_LEAVE, 1500);
}

static void cancelled_call_ends_on_all_ranks(void **state) {
  (void)state;
  run_seeds(JOB_CANCEL, 500);
}

static void disagreement_is_a_mismatch_on_all_ranks(void **state) {
  (void)state;
  run_seeds(JOB_DISAGREE, 500);
}

static void seed_replays_exactly(void **state) {
  (void)state;
  uint64_t first = from_environment("SIM_FIRST", 1);
  char text[JOB_TEXT_BYTES];
  for (uint64_t seed = first; seed < first + 20; seed++) {
    for (int fault = 0; fault < JOB_FAULTS; fault++) {
      uint64_t once, again;
      assert_true(job_run_traced(seed, (job_fault)fault, text, &once));
      assert_true(job_run_traced(seed, (job_fault)fault, text, &again));
      if (once != again) fail_msg("seed %d, fault %d", (int)seed, fault);
    }
  }
}

int main(void) {
  gloo_log_set_level(GLOO_LOG_OFF);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ranks_get_the_right_data),
      cmocka_unit_test(killed_rank_is_named_by_all_that_need_it),
      cmocka_unit_test(frozen_rank_costs_no_more_than_the_timeout),
      cmocka_unit_test(cut_connection_ends_both_sides),
      cmocka_unit_test(rank_that_leaves_early_is_named),
      cmocka_unit_test(cancelled_call_ends_on_all_ranks),
      cmocka_unit_test(disagreement_is_a_mismatch_on_all_ranks),
      cmocka_unit_test(seed_replays_exactly),
  };
  return cmocka_run_group_tests_name("engine seeds", tests, NULL, NULL);
}
