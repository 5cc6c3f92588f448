/* The order in which plans combine, and the number of roundings: the checker
 * reports both for known plans, and algorithms marked with an order keep it. */
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "proof/check.h"
#include "proof/print.h"

static gli_check_report report_of(gli_build_fn build,
                                  const gli_plan_params *p) {
  gli_checker *checker = gli_checker_create(0);
  assert_non_null(checker);
  gli_check_report report;
  gloo_error error;
  gloo_status status = gli_checker_run(checker, build, p, &report, &error);
  gli_checker_destroy(checker);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  return report;
}

/* ---- known plans --------------------------------------------------------- */

/* The order in which rank 0 adds four inputs. */
typedef enum way {
  ONE_BY_ONE,
  AT_ONCE,
  IN_PAIRS,       /* (0 + 1) + (2 + 3) */
  FROM_THE_RIGHT, /* 0 + (1 + (2 + 3)) */
  SWAPPED,        /* ((1 + 0) + 2) + 3 */
  BACKWARDS,      /* ((3 + 2) + 1) + 0 */
  SKIPPING,       /* ((0 + 2) + 1) + 3 */
  HALF_AND_HALF   /* one by one, but SWAPPED in the last element */
} way;

static way now;

static void fold(gli_builder *b, gli_range at, gli_range dst,
                 const uint32_t order[4]) {
  gli_range in[4], held;
  for (uint32_t k = 0; k < 4; k++) {
    in[k] = dst;
    in[k].buffer = k == 0 ? GLI_IN : GLI_SCRATCH;
    if (k > 0) in[k].offset += at.offset + (k - 1) * 64;
  }
  held = in[order[0]];
  for (int i = 1; i < 4; i++) {
    gli_reduce(b, held, in[order[i]], dst);
    held = dst;
  }
}

static void at_once(gli_builder *b, gli_range at, gli_range dst) {
  gli_range in = dst;
  in.buffer = GLI_IN;
  gli_many many = {.local = in, .dst = dst, .n = 3, .blocks = at, .stride = 64};
  many.blocks.bytes = dst.bytes;
  gli_reduce_many(b, &many);
}

/* Adds in pairs, or from the right. */
static void bracket(gli_builder *b, gli_range at, gli_range dst) {
  gli_range in = dst, x[3], sum = gli_scratch(b, dst.bytes);
  in.buffer = GLI_IN;
  for (uint32_t k = 0; k < 3; k++)
    x[k] = gli_bytes(GLI_SCRATCH, at.offset + k * 64, dst.bytes);
  gli_reduce(b, x[1], x[2], sum);
  if (now == IN_PAIRS) {
    gli_reduce(b, in, x[0], dst);
    gli_reduce(b, dst, sum, dst);
  } else {
    gli_reduce(b, x[0], sum, sum);
    gli_reduce(b, in, sum, dst);
  }
}

static void build(gli_builder *b, const gli_plan_params *p) {
  static const uint32_t orders[][4] = {[ONE_BY_ONE] = {0, 1, 2, 3},
                                       [SWAPPED] = {1, 0, 2, 3},
                                       [BACKWARDS] = {3, 2, 1, 0},
                                       [SKIPPING] = {0, 2, 1, 3},
                                       [HALF_AND_HALF] = {0, 1, 2, 3}};
  gli_range in = gli_own(p, GLI_IN);
  if (p->rank > 0) {
    gli_send(b, 0, in);
    return;
  }
  gli_range at = gli_scratch(b, 3 * 64), dst = gli_own(p, GLI_OUT);
  for (uint32_t k = 1; k < 4; k++) {
    gli_recv(b, k, gli_bytes(GLI_SCRATCH, at.offset + (k - 1) * 64, in.bytes));
  }
  if (now == AT_ONCE) {
    at_once(b, at, dst);
  } else if (now == IN_PAIRS || now == FROM_THE_RIGHT) {
    bracket(b, at, dst);
  } else if (now == HALF_AND_HALF) {
    gli_range most = dst, last = dst;
    most.bytes -= p->elem_bytes;
    last.offset += most.bytes;
    last.bytes = p->elem_bytes;
    fold(b, at, most, orders[ONE_BY_ONE]);
    fold(b, at, last, orders[SWAPPED]);
  } else {
    fold(b, at, dst, orders[now]);
  }
}

static gli_check_report added(way how) {
  now = how;
  return report_of(
      build,
      &(gli_plan_params){
          .collective = GLI_REDUCE, .size = 4, .count = 5, .elem_bytes = 4});
}

static void the_order_is_seen(void **state) {
  (void)state;
  assert_int_equal(added(ONE_BY_ONE).order, GLI_ORDER_FOLD);
  assert_int_equal(added(AT_ONCE).order, GLI_ORDER_FOLD);
  assert_int_equal(added(IN_PAIRS).order, GLI_ORDER_RANKS);
  assert_int_equal(added(FROM_THE_RIGHT).order, GLI_ORDER_RANKS);
  assert_int_equal(added(SWAPPED).order, GLI_ORDER_ANY);
  assert_int_equal(added(BACKWARDS).order, GLI_ORDER_ANY);
  assert_int_equal(added(SKIPPING).order, GLI_ORDER_ANY);
  assert_int_equal(added(HALF_AND_HALF).order, GLI_ORDER_ANY);
}

static void additions_and_roundings_are_counted(void **state) {
  (void)state;
  assert_int_equal(added(ONE_BY_ONE).adds, 3);
  assert_int_equal(added(ONE_BY_ONE).roundings, 3);
  assert_int_equal(added(AT_ONCE).adds, 3);
  assert_int_equal(added(AT_ONCE).roundings, 1);
  assert_int_equal(added(IN_PAIRS).adds, 2);
  assert_int_equal(added(IN_PAIRS).roundings, 2);
}

/* ---- rules of the builder ------------------------------------------------ */

typedef enum slip {
  NO_SLIP,
  NO_BLOCKS,
  OWN_IS_NONE,    /* of the operands */
  BLOCKS_OVERLAP, /* each other */
  BLOCKS_END,     /* behind the scratch memory */
  RESULT_IN_THEM,
  SLIPS
} slip;

static slip slipped;

static void build_many(gli_builder *b, const gli_plan_params *p) {
  gli_range scratch = gli_scratch(b, 3 * 16), out = gli_own(p, GLI_OUT);
  gli_many m = {.local = gli_own(p, GLI_IN),
                .dst = out,
                .own = 1,
                .n = 3,
                .blocks = gli_bytes(GLI_SCRATCH, scratch.offset, out.bytes),
                .stride = 16};
  if (slipped == NO_BLOCKS) m.n = m.own = 0;
  if (slipped == OWN_IS_NONE) m.own = 4;
  if (slipped == BLOCKS_OVERLAP) m.stride = 8;
  if (slipped == BLOCKS_END) m.n = 4;
  if (slipped == RESULT_IN_THEM) m.dst = m.blocks, m.dst.offset += 16;
  gli_reduce_many(b, &m);
}

static void only_sound_blocks_are_reduced(void **state) {
  (void)state;
  static const char *const words[SLIPS] = {
      "",        "without blocks", "not among the blocks",
      "overlap", "exceeds",        "overwrites"};
  gli_plan_params p = {
      .collective = GLI_ALLREDUCE, .size = 4, .count = 4, .elem_bytes = 4};
  for (int s = 0; s < SLIPS; s++) {
    slipped = (slip)s;
    gli_plan *plan = NULL;
    gloo_error error;
    gloo_status status = gli_plan_make(build_many, &p, &plan, &error);
    if (s == NO_SLIP) {
      assert_int_equal(status, GLOO_OK);
      assert_int_equal(plan->n_operands, 4);
      char text[200];
      gli_print_step(&p, &plan->steps[0], 0, text, sizeof(text));
      assert_string_equal(text,
                          "REDUCE_MANY: OUT[0..4) = SCRATCH[0..4) op IN[0..4) "
                          "op SCRATCH[4..8) and 1 more, 16B apart");
    } else {
      assert_int_equal(status, GLOO_ERR_INTERNAL);
      if (strstr(error.message, words[s]) == NULL)
        fail_msg("%s", error.message);
    }
    gli_plan_free(plan);
  }
}

/* ---- the registry -------------------------------------------------------- */

static void check_order(const gli_algorithm *a, const gli_plan_params *p) {
  gli_check_report r = report_of(a->build, p);
  bool scans = p->collective == GLI_SCAN || p->collective == GLI_EXSCAN;
  bool once =
      p->low_precision && !scans && gli_algorithm_order(a) == GLI_ORDER_FOLD;
  if (r.order >= gli_algorithm_order(a) && (!once || r.roundings <= 1)) return;
  fail_msg("%s %s, %u ranks, root %u: order %d, roundings %u",
           gli_collective_name(a->collective), a->name, p->size, p->root,
           (int)r.order, r.roundings);
}

/* Checks several roots, in place and not. */
static void check_roots(const gli_algorithm *a, uint32_t size, bool narrow) {
  for (uint32_t i = 0; i < 6; i++) {
    gli_plan_params p = {.collective = a->collective,
                         .size = size,
                         .root = i / 2 * (size - 1) / 2,
                         .count = size + 1,
                         .elem_bytes = 2,
                         .in_place = i % 2 != 0,
                         .low_precision = narrow};
    if (i >= 2 && !gli_collective_rooted(a->collective)) break;
    check_order(a, &p);
  }
}

static void marked_algorithms_keep_the_order_of_1_to_64_ranks(void **state) {
  (void)state;
  size_t n = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    bool counted = gli_collective_counted(a->collective); /* see gli_sweep */
    if (counted || gli_algorithm_order(a) == GLI_ORDER_ANY) continue;
    for (uint32_t size = 1; size <= 64; size++) {
      check_roots(a, size, false);
      check_roots(a, size, true);
    }
    n++;
  }
  assert_true(n >= 11);
}

/* Ordered calls and non-commutative operations need such an algorithm. */
static void every_reduction_can_be_ordered(void **state) {
  (void)state;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    bool found = !gli_collective_reduces((gli_collective)c);
    for (size_t i = 0; i < gli_algorithm_count; i++) {
      const gli_algorithm *a = &gli_algorithms[i];
      found = found || ((int)a->collective == c &&
                        gli_algorithm_order(a) == GLI_ORDER_FOLD);
    }
    if (!found) fail_msg("%s", gli_collective_name((gli_collective)c));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_order_is_seen),
      cmocka_unit_test(additions_and_roundings_are_counted),
      cmocka_unit_test(only_sound_blocks_are_reduced),
      cmocka_unit_test(marked_algorithms_keep_the_order_of_1_to_64_ranks),
      cmocka_unit_test(every_reduction_can_be_ordered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
