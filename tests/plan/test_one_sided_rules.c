/* Memory of other ranks: the builder refuses broken rules. */
#include <stdlib.h>
#include <string.h>

#include "plan/builder.h"
#include "plan/cmocka_all.h"
#include "plan/plan.h"

static const gli_plan_params one_of_three = {.collective = GLI_ALLREDUCE,
                                             .size = 3,
                                             .rank = 1,
                                             .count = 10,
                                             .elem_bytes = 4};

/* The rule that the next plan breaks. */
static int rule;

static const char *const rules[] = {
    "a window that gli_windows did not return",
    "a window that gli_windows did not return",
    "a window that gli_windows did not return",
    "a window that gli_windows did not return",
    "a window that gli_windows did not return",
    "a window that gli_windows did not return",
    "receives a get outside of SCRATCH",
    "TOKEN, which has no bytes",
    "TOKEN, which has no bytes",
    "writes IN",
    "writes IN",
    "exceeds its",
    "different lengths",
    "different lengths",
    "reduces without gets",
    "is not among the gets",
    "blocks outside SCRATCH",
    "blocks that overlap",
    "exceeds its 100 bytes",
    "exceeds its 100 bytes",
    "overwrites a block",
    "overlaps part of the result",
    "reduces part of an element",
    "no such buffer",
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static void break_message(gli_builder *b, gli_range scratch) {
  gli_range out = gli_bytes(GLI_OUT, 0, 16), token = gli_bytes(GLI_TOKEN, 0, 1);
  if (rule == 0) gli_recv_get(b, 0, scratch, 6);
  if (rule == 1) gli_recv_window(b, 0, 16, UINT32_MAX);
  if (rule == 2) gli_put(b, 0, out, 6);
  if (rule == 3) gli_recv_reduce_get(b, 0, out, out, true, 5, 2);
  if (rule == 6) gli_recv_get(b, 0, out, 0);
  if (rule == 7) gli_expose_get(b, 0, token);
  if (rule == 8) gli_put(b, 0, token, 0);
  if (rule == 9) gli_expose_put(b, 0, gli_bytes(GLI_IN, 0, 16));
  if (rule == 10) gli_await(b, 0, gli_bytes(GLI_IN, 0, 16));
  if (rule == 11) gli_recv_put(b, 0, gli_bytes(GLI_OUT, 36, 16));
  if (rule == 23) gli_signal(b, 0, gli_bytes(GLI_WINDOW, 0, 1));
}

static void break_reduction(gli_builder *b, gli_range scratch) {
  gli_reduction r = {.local = gli_bytes(GLI_IN, 0, 16),
                     .dst = gli_bytes(GLI_OUT, 0, 16),
                     .own = 1,
                     .n = 2,
                     .blocks = scratch,
                     .stride = 64,
                     .get = 0,
                     .put = 2,
                     .n_puts = 2};
  if (rule == 4) r.get = 5;
  if (rule == 5) r.n_puts = UINT32_MAX;
  if (rule == 12) r.dst.bytes = 12;
  if (rule == 13) r.blocks.bytes = 12;
  if (rule == 14) r.n = 0;
  if (rule == 15) r.own = 3;
  if (rule == 16) r.blocks.buffer = GLI_OUT;
  if (rule == 17) r.stride = 12;
  if (rule == 18) r.stride = 88;
  if (rule == 19) r.stride = UINT64_MAX - 3;
  if (rule == 20) r.dst = gli_bytes(GLI_SCRATCH, 72, 16);
  if (rule == 21) r.local = gli_bytes(GLI_OUT, 8, 16);
  if (rule == 22) r.local.bytes = r.dst.bytes = r.blocks.bytes = 14;
  gli_reduce_all(b, &r);
}

static void build_broken(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_range scratch = gli_scratch(b, 100);
  scratch.bytes = 16;
  gli_windows(b, 6);
  break_message(b, scratch);
  break_reduction(b, scratch);
}

static void builder_refuses_broken_rules(void **state) {
  (void)state;
  gli_plan_params p = one_of_three;
  for (rule = 0; rule < RULES; rule++) {
    gli_plan *plan = NULL;
    gloo_error error;
    assert_int_equal(gli_plan_make(build_broken, &p, &plan, &error),
                     GLOO_ERR_INTERNAL);
    assert_null(plan);
    if (strstr(error.message, rules[rule]) != NULL) continue;
    fail_msg("rule %d: '%s' does not tell '%s'", rule, error.message,
             rules[rule]);
  }
  gli_plan *plan;
  assert_int_equal(gli_plan_make(build_broken, &p, &plan, NULL), GLOO_OK);
  gli_plan_free(plan);
}

static void build_too_many_windows(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_windows(b, UINT32_MAX);
  gli_windows(b, 1);
}

static void build_empty(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_range none = gli_bytes(GLI_OUT, 40, 0);
  gli_windows(b, 1);
  gli_expose_put(b, 0, none);
  gli_expose_get(b, 0, none);
  gli_recv_window(b, 0, 0, 0);
  gli_recv_get(b, 0, gli_scratch(b, 0), 0);
  gli_put(b, 0, none, 0);
  gli_recv_put(b, 0, none);
  gli_signal(b, 0, none);
  gli_await(b, 0, none);
  gli_recv_reduce_get(b, 0, none, none, true, 0, 1);
  gli_reduction r = {
      .local = none, .dst = none, .n = 1, .blocks = gli_scratch(b, 0)};
  gli_reduce_all(b, &r);
}

static void empty_ranges_vanish_and_windows_do_not_wrap(void **state) {
  (void)state;
  gli_plan_params p = one_of_three;
  gli_plan *plan = NULL;
  assert_int_equal(gli_plan_make(build_empty, &p, &plan, NULL), GLOO_OK);
  assert_int_equal(plan->n_steps, 0);
  assert_int_equal(plan->n_windows, 1);
  gli_plan_free(plan);
  assert_int_equal(gli_plan_make(build_too_many_windows, &p, &plan, NULL),
                   GLOO_ERR_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(builder_refuses_broken_rules),
      cmocka_unit_test(empty_ranges_vanish_and_windows_do_not_wrap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
