/* Lengths beyond 32 bits: plans are right for them. Lengths beyond 64 bits are
 * refused. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "plan/shape.h"
#include "proof/check.h"
#include "tools/sample_counts.h"

/* ---- long ---------------------------------------------------------------- */

static void check(gli_checker *checker, const gli_algorithm *a,
                  gli_plan_params p, uint64_t most) {
  gli_sample_counts sample = {0};
  gli_check_report report;
  gloo_error error;
  bool counted = gli_collective_counted(a->collective);
  if (counted) {
    assert_true(gli_sample_counts_make(&sample, a->collective, p.size, p.root,
                                       most, most, false, p.in_place));
    p.counts = sample.of;
    p.count = sample.count;
  }
  if (gli_checker_run(checker, a->build, &p, &report, &error) != GLOO_OK) {
    fail_msg("%s: %s", a->name, error.message);
  }
  if (counted) gli_sample_counts_free(&sample);
}

static void plans_of_more_than_2_to_the_32_elements_are_right(void **state) {
  (void)state;
  static const uint32_t sizes[] = {1, 2, 3, 5, 8};
  static const uint64_t counts[] = {((uint64_t)1 << 31) + 5,
                                    ((uint64_t)1 << 35) + 3};
  gli_checker *checker = gli_checker_create(0);
  assert_non_null(checker);
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    for (size_t k = 0; k < 5 * 2 * 2 * 2; k++) {
      uint32_t size = sizes[k % 5];
      gli_plan_params p = {.collective = a->collective,
                           .size = size,
                           .root = size - 1,
                           .count = counts[k / 5 % 2],
                           .elem_bytes = k / 10 % 2 ? 1 : 16,
                           .in_place = k / 20 != 0};
      check(checker, a, p, p.count);
    }
  }
  gli_checker_destroy(checker);
}

/* ---- too long ------------------------------------------------------------ */

typedef struct too_long {
  uint64_t count, elem_bytes;
} too_long;

/* Products that wrap around to 0, to a small and to a large number. */
static const too_long lengths[] = {
    {UINT64_MAX, 1},         {UINT64_MAX, 16},
    {(uint64_t)1 << 63, 1},  {(uint64_t)1 << 62, 4},
    {(uint64_t)1 << 62, 8},  {(uint64_t)1 << 61, 8},
    {(uint64_t)1 << 60, 16}, {((uint64_t)1 << 62) + 1, 4},
    {UINT64_MAX / 3 * 2, 1}, {UINT64_MAX / 8 + 2, 8},
    {UINT64_MAX / 16, 16},
};

static bool has_buffers(const gli_plan_params *p) {
  gli_plan_params one = *p;
  uint64_t in, out;
  one.count = 1;
  assert_true(gli_plan_buffer_bytes(&one, &in, &out));
  return in > 0 || out > 0;
}

/* Fails the test: the builder must not be called. */
static void build_never(gli_builder *b, const gli_plan_params *p) {
  (void)b;
  fail_msg("%" PRIu64 " elements were let through", p->count);
}

static void refuse(const gli_plan_params *p) {
  gli_plan *plan = NULL;
  gloo_error error;
  gloo_status status = gli_plan_make(build_never, p, &plan, &error);
  if (status != GLOO_ERR_INVALID) {
    fail_msg("%s of %" PRIu64 " x %" PRIu64 " bytes: %s",
             gli_collective_name(p->collective), p->count, p->elem_bytes,
             gloo_status_string(status));
  }
  assert_non_null(strstr(error.message, "exceed the address space"));
  assert_null(plan);
}

static void refuse_counted(gli_plan_params p) {
  uint64_t all[4], first[4] = {0, 0, 0, 0};
  for (int k = 0; k < 4; k++) all[k] = p.count;
  gli_counts c = {.in = all,
                  .in_first = first,
                  .out = all,
                  .out_first = first,
                  .own = p.count};
  p.counts = &c;
  p.count = 0;
  refuse(&p);
  /* One short block that ends beyond the address space. */
  for (int k = 0; k < 4; k++) {
    all[k] = 2;
    first[k] = UINT64_MAX - 1;
  }
  c.own = 2;
  gli_shape shape;
  bool blocks = p.collective != GLI_GATHERV && p.collective != GLI_SCATTERV;
  if (blocks || p.rank == p.root) assert_false(gli_plan_shape(&p, &shape));
}

static void lengths_that_overflow_are_refused(void **state) {
  (void)state;
  size_t tried = 0;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      for (uint32_t k = 0; k < 8; k++) {
        gli_plan_params p = {.collective = (gli_collective)c,
                             .rank = k % 4,
                             .size = 4,
                             .root = 2,
                             .count = lengths[i].count,
                             .elem_bytes = lengths[i].elem_bytes,
                             .in_place = k >= 4};
        tried++;
        if (gli_collective_counted(p.collective)) {
          refuse_counted(p);
        } else if (has_buffers(&p)) {
          refuse(&p);
        } else {
          tried--;
        }
      }
    }
  }
  assert_true(tried > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans_of_more_than_2_to_the_32_elements_are_right),
      cmocka_unit_test(lengths_that_overflow_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
