/* Several inputs and outputs: the steps that are put around every algorithm. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "plan/raw.h"
#include "proof/check.h"

static gloo_status check(gli_checker *checker, gli_build_fn build,
                         const gli_plan_params *p, gloo_error *error) {
  gli_check_report report;
  return gli_checker_run(checker, build, p, &report, error);
}

/* Returns true if the algorithm can run with these numbers of buffers. */
static bool suits(const gli_algorithm *a, const gli_plan_params *p) {
  if (a->collective == GLI_BARRIER || a->collective == GLI_EXSCAN) return false;
  if (gli_collective_counted(a->collective)) return false;
  bool combines = gli_collective_reduces(a->collective);
  if (p->n_in > 1 && a->collective == GLI_BROADCAST) return false;
  /* The in-place result is in the middle of the output. */
  if (p->in_place && a->collective == GLI_SCATTER) return false;
  return combines || p->n_in <= 1 || !p->in_place;
}

static void every_algorithm_works_on_several_buffers(void **state) {
  (void)state;
  static const uint32_t numbers[][2] = {{1, 3}, {3, 1}, {2, 2}, {4, 5}};
  gli_checker *checker = gli_checker_create(0);
  size_t plans = 0;
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    for (uint32_t size = 1; size <= 9; size++) {
      for (uint32_t k = 0; k < 16; k++) {
        gli_plan_params p = {.collective = gli_algorithms[a].collective,
                             .size = size,
                             .root = size / 2,
                             .count = k & 8 ? 12 * 8 : 12 * 5,
                             .elem_bytes = 4,
                             .n_in = numbers[k & 3][0],
                             .n_out = numbers[k & 3][1],
                             .in_place = (k & 4) != 0,
                             .segment_bytes = k & 8 ? 64 : 0};
        if (!suits(&gli_algorithms[a], &p)) continue;
        gloo_error error;
        if (check(checker, gli_algorithms[a].build, &p, &error) != GLOO_OK) {
          fail_msg("%s", error.message);
        }
        plans++;
      }
    }
  }
  assert_true(plans > 1000);
  gli_checker_destroy(checker);
}

/* ---- the steps ----------------------------------------------------------- */

static void build_sum(gli_builder *b, const gli_plan_params *p) {
  gli_algorithm_find(p->collective, "ring")->build(b, p);
}

static gli_plan *make(gli_plan_params p) {
  gli_plan *plan;
  assert_int_equal(gli_plan_make(build_sum, &p, &plan, NULL), GLOO_OK);
  return plan;
}

static gli_plan_params sum_of(uint32_t n_in, uint32_t n_out) {
  return (gli_plan_params){.collective = GLI_ALLREDUCE,
                           .rank = 1,
                           .size = 3,
                           .count = 30,
                           .elem_bytes = 4,
                           .n_in = n_in,
                           .n_out = n_out};
}

static size_t count_kind(const gli_plan *plan, gli_step_kind kind) {
  size_t n = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) n += plan->steps[i].kind == kind;
  return n;
}

static void one_buffer_costs_nothing(void **state) {
  (void)state;
  gli_plan *zero = make(sum_of(0, 0)), *one = make(sum_of(1, 1));
  assert_int_equal(count_kind(zero, GLI_STEP_LOCAL_REDUCE), 0);
  assert_int_equal(count_kind(zero, GLI_STEP_LOCAL_BCAST), 0);
  assert_int_equal(one->n_steps, zero->n_steps);
  gli_plan_free(zero);
  gli_plan_free(one);
}

/* All inputs are joined at once, into the output, without scratch memory. */
static void inputs_are_joined_once_where_the_result_goes(void **state) {
  (void)state;
  gli_plan *plan = make(sum_of(3, 2));
  const gli_step *first = &plan->steps[0], *last = first + plan->n_steps - 1;
  assert_int_equal(count_kind(plan, GLI_STEP_LOCAL_REDUCE), 1);
  assert_int_equal(first->kind, GLI_STEP_LOCAL_REDUCE);
  assert_int_equal(first->n, 3);
  assert_int_equal(first->a_buffer, GLI_INS);
  assert_int_equal(first->dst_buffer, GLI_OUT);
  assert_int_equal(first->bytes, 120);
  assert_int_equal(count_kind(plan, GLI_STEP_LOCAL_BCAST), 1);
  assert_int_equal(last->kind, GLI_STEP_LOCAL_BCAST);
  assert_int_equal(last->n, 1);
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    bool reads = s->kind != GLI_STEP_RECV;
    assert_false(reads && s->a_buffer == GLI_IN);
  }
  gli_plan_free(plan);
}

/* The first send waits only for the part that it sends. */
static void sending_begins_when_the_first_part_is_joined(void **state) {
  (void)state;
  gli_plan_params p = sum_of(2, 2);
  p.segment_bytes = 8;
  gli_plan *plan = make(p);
  uint32_t sends_early = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    if (plan->steps[i].kind == GLI_STEP_SEND && plan->n_deps[i] == 1) {
      sends_early++;
    }
  }
  assert_int_equal(count_kind(plan, GLI_STEP_LOCAL_REDUCE), 15);
  assert_int_equal(count_kind(plan, GLI_STEP_LOCAL_BCAST), 15);
  assert_true(sends_early >= 5);
  gli_plan_free(plan);
}

/* ---- planted errors ------------------------------------------------------ */

static void refuse(gli_build_fn build, const char *words) {
  gli_checker *checker = gli_checker_create(0);
  gli_plan_params p = sum_of(3, 3);
  gloo_error error;
  assert_int_equal(check(checker, build, &p, &error), GLOO_ERR_INTERNAL);
  if (!strstr(error.message, words)) fail_msg("%s", error.message);
  gli_checker_destroy(checker);
}

static void build_joins_two(gli_builder *b, const gli_plan_params *p) {
  gli_step s = {.kind = GLI_STEP_LOCAL_REDUCE,
                .a_buffer = GLI_INS,
                .dst_buffer = GLI_OUT,
                .bytes = 120,
                .n = 2,
                .peer = GLI_NO_PEER};
  gli_build_push(b, &s);
  build_sum(b, p);
}

static void build_forgets_outputs(gli_builder *b, const gli_plan_params *p) {
  build_sum(b, p);
  b->params.n_out = 1;
}

static void build_fills_one(gli_builder *b, const gli_plan_params *p) {
  build_sum(b, p);
  b->params.n_out = 2;
}

static void build_fills_too_early(gli_builder *b, const gli_plan_params *p) {
  gli_step s = {.kind = GLI_STEP_LOCAL_BCAST,
                .a_buffer = GLI_OUT,
                .dst_buffer = GLI_OUTS,
                .bytes = 120,
                .n = 2,
                .peer = GLI_NO_PEER};
  gli_build_push(b, &s);
  build_forgets_outputs(b, p);
}

static void wrong_lists_are_found(void **state) {
  (void)state;
  refuse(build_joins_two, "uses inputs that do not exist");
  refuse(build_forgets_outputs, "differs between the outputs");
  refuse(build_fills_one, "fills outputs that do not exist");
  refuse(build_fills_too_early, "differs between the outputs");
}

/* In place, the first output holds one input of several until they are joined.
 */
static void build_unjoined(gli_builder *b, const gli_plan_params *p) {
  b->n_steps = 0; /* forget the LOCAL_REDUCE */
  b->n_seen = 0;
  build_sum(b, p);
}

static void reading_before_joining_is_found(void **state) {
  (void)state;
  gli_checker *checker = gli_checker_create(0);
  gli_plan_params p = sum_of(2, 2);
  p.in_place = true;
  gloo_error error;
  assert_int_equal(check(checker, build_sum, &p, &error), GLOO_OK);
  assert_int_equal(check(checker, build_unjoined, &p, &error),
                   GLOO_ERR_INTERNAL);
  assert_non_null(strstr(error.message, "was never written"));
  gli_checker_destroy(checker);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_algorithm_works_on_several_buffers),
      cmocka_unit_test(one_buffer_costs_nothing),
      cmocka_unit_test(inputs_are_joined_once_where_the_result_goes),
      cmocka_unit_test(sending_begins_when_the_first_part_is_joined),
      cmocka_unit_test(wrong_lists_are_found),
      cmocka_unit_test(reading_before_joining_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
