/* The values that `gloo bench` verifies with are exact in any order of
 * combination, and reveal errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h wants those above first */
#include <cmocka.h>

#include "kernels/reduce.h"
#include "tools/bench_values.h"

typedef void (*visit_fn)(gloo_dtype dtype, gloo_op op, int ranks);

static void each_reduction(visit_fn visit) {
  static const int sizes[] = {1, 2, 3, 8, 33, 300};
  for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
    for (int o = 0; o < GLOO_OP_COUNT; o++) {
      if (gli_reduce_refusal((gloo_dtype)d, (gloo_op)o) != NULL) continue;
      for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        visit((gloo_dtype)d, (gloo_op)o, sizes[i]);
      }
    }
  }
}

static gli_reduce_fn kernel_between(gloo_dtype dtype, gloo_op op) {
  return gli_reduce_kernel(dtype, gli_op_between(op));
}

/* Completes the result after the last operand: divides an average. */
static void finish(gli_period *result, gloo_dtype dtype, gloo_op op,
                   int ranks) {
  if (op != GLOO_AVERAGE) return;
  gli_scale_kernel(dtype)(result->data, result->data, GLI_VALUES_PERIOD,
                          1.0 / ranks);
}

/* Combines [from, to) as a tree, which is about as far from rank order as an
 * algorithm gets. */
static void combine_tree(gli_period *result, gloo_dtype dtype, gloo_op op,
                         int ranks, int from, int to) {
  if (to - from == 1) {
    gli_period_input(result, dtype, op, ranks, from);
    return;
  }
  gli_period *other = malloc(sizeof *other);
  assert_non_null(other);
  int middle = (from + to) / 2;
  combine_tree(result, dtype, op, ranks, from, middle);
  combine_tree(other, dtype, op, ranks, middle, to);
  kernel_between(dtype, op)(result->data, other->data, result->data,
                            GLI_VALUES_PERIOD);
  free(other);
}

static void check_tree(gloo_dtype dtype, gloo_op op, int ranks) {
  gli_period expected, result;
  gli_period_reduced(&expected, dtype, op, ranks, ranks);
  combine_tree(&result, dtype, op, ranks, 0, ranks);
  finish(&result, dtype, op, ranks);
  size_t bytes = GLI_VALUES_PERIOD * expected.elem_bytes;
  assert_memory_equal(expected.data, result.data, bytes);
}

static void the_library_kernels_agree_in_a_tree(void **state) {
  (void)state;
  each_reduction(check_tree);
}

/* Checks rank order, forward and backward. */
static void check_order(gloo_dtype dtype, gloo_op op, int ranks) {
  gli_period expected, input, up, down;
  gli_reduce_fn kernel = kernel_between(dtype, op);
  gli_period_reduced(&expected, dtype, op, ranks, ranks);
  gli_period_input(&up, dtype, op, ranks, 0);
  gli_period_input(&down, dtype, op, ranks, ranks - 1);
  for (int r = 1; r < ranks; r++) {
    gli_period_input(&input, dtype, op, ranks, r);
    kernel(up.data, up.data, input.data, GLI_VALUES_PERIOD);
    gli_period_input(&input, dtype, op, ranks, ranks - 1 - r);
    kernel(down.data, down.data, input.data, GLI_VALUES_PERIOD);
  }
  finish(&up, dtype, op, ranks);
  finish(&down, dtype, op, ranks);
  size_t bytes = GLI_VALUES_PERIOD * expected.elem_bytes;
  assert_memory_equal(expected.data, up.data, bytes);
  assert_memory_equal(expected.data, down.data, bytes);
}

static void the_library_kernels_agree_in_rank_order(void **state) {
  (void)state;
  each_reduction(check_order);
}

/* The expected result of a scan: the sum of the first ranks' inputs. */
static void some_of_the_ranks_are_expected(void **state) {
  (void)state;
  enum { RANKS = 5 };
  gli_period expected, sum, input;
  gli_period_input(&sum, GLOO_FLOAT16, GLOO_SUM, RANKS, 0);
  for (int n = 1; n <= RANKS; n++) {
    gli_period_reduced(&expected, GLOO_FLOAT16, GLOO_SUM, RANKS, n);
    assert_memory_equal(expected.data, sum.data, 2 * GLI_VALUES_PERIOD);
    if (n == RANKS) break;
    gli_period_input(&input, GLOO_FLOAT16, GLOO_SUM, RANKS, n);
    kernel_between(GLOO_FLOAT16, GLOO_SUM)(sum.data, sum.data, input.data,
                                           GLI_VALUES_PERIOD);
  }
}

static void a_wrong_element_is_found(void **state) {
  (void)state;
  enum { COUNT = 5000, FIRST = 77 };
  gli_period period;
  gli_period_reduced(&period, GLOO_FLOAT32, GLOO_SUM, 4, 4);
  float *data = malloc(COUNT * sizeof *data);
  assert_non_null(data);
  gli_period_fill(&period, data, FIRST, COUNT);
  assert_int_equal(gli_period_mismatch(&period, data, FIRST, COUNT), COUNT);
  static const size_t places[] = {0, 1, 943, 944, 1021, 2500, COUNT - 1};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    data[places[i]] += 1;
    assert_int_equal(gli_period_mismatch(&period, data, FIRST, COUNT),
                     places[i]);
    data[places[i]] -= 1;
  }
  assert_int_equal(gli_period_mismatch(&period, data, FIRST, 0), 0);
  free(data);
}

/* A block from another place or another rank, or with one rank's part missing
 * or doubled, must be detected. */
static void a_wrong_block_is_found(void **state) {
  (void)state;
  gli_period moved, other, all, without;
  float data[256];
  gli_period_moved(&moved, GLOO_FLOAT32, 1);
  gli_period_moved(&other, GLOO_FLOAT32, 2);
  for (size_t shift = 1; shift <= 1 << 20; shift *= 2) {
    gli_period_fill(&moved, data, shift, 256);
    assert_true(gli_period_mismatch(&moved, data, 0, 256) < 256);
  }
  gli_period_fill(&other, data, 0, 256);
  assert_true(gli_period_mismatch(&moved, data, 0, 256) < 256);

  gli_reduce_fn add = gli_reduce_kernel(GLOO_FLOAT32, GLOO_SUM);
  gli_period_reduced(&all, GLOO_FLOAT32, GLOO_SUM, 4, 4);
  for (int r = 0; r < 4; r++) {
    gli_period_input(&without, GLOO_FLOAT32, GLOO_SUM, 4, r);
    gli_period_fill(&all, data, 0, 256);
    add(data, data, without.data, 256);
    assert_int_equal(gli_period_mismatch(&all, data, 0, 256), 0);
  }
}

static void elements_as_text(void **state) {
  (void)state;
  char text[GLI_ELEMENT_TEXT];
  int8_t i8 = -3;
  uint64_t u64 = UINT64_MAX;
  uint16_t half = 0x3c00;
  double f64 = -0.5;
  assert_string_equal(gli_element_text(GLOO_INT8, &i8, text), "-3");
  assert_string_equal(gli_element_text(GLOO_UINT8, &i8, text), "253");
  assert_string_equal(gli_element_text(GLOO_UINT64, &u64, text),
                      "18446744073709551615");
  assert_string_equal(gli_element_text(GLOO_FLOAT16, &half, text), "0x3c00");
  assert_string_equal(gli_element_text(GLOO_FLOAT64, &f64, text), "-0.5");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_library_kernels_agree_in_a_tree),
      cmocka_unit_test(the_library_kernels_agree_in_rank_order),
      cmocka_unit_test(some_of_the_ranks_are_expected),
      cmocka_unit_test(a_wrong_element_is_found),
      cmocka_unit_test(a_wrong_block_is_found),
      cmocka_unit_test(elements_as_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
