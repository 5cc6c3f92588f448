/* The list of algorithms and the choice among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <string.h>

#include "algorithms/registry.h"

static gli_plan_params params(gli_collective collective, uint32_t size,
                              uint64_t count) {
  return (gli_plan_params){.collective = collective,
                           .size = size,
                           .count = collective == GLI_BARRIER ? 0 : count,
                           .elem_bytes = collective == GLI_BARRIER ? 1 : 4};
}

static const char *choice(gli_collective collective, uint32_t size,
                          uint64_t count) {
  gli_plan_params p = params(collective, size, count);
  return gli_algorithm_select(&p)->name;
}

static void names_and_numbers_find_their_algorithm(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    assert_ptr_equal(gli_algorithm_find(a->collective, a->name), a);
    assert_int_equal(gli_algorithm_id(a), i);
    assert_true(strlen(a->summary) > 0);
  }
  assert_null(gli_algorithm_find(GLI_ALLREDUCE, "binomial"));
  assert_null(gli_algorithm_find(GLI_ALLREDUCE, ""));
  assert_null(gli_algorithm_find(GLI_SENDRECV, "ring"));
}

static void every_call_has_a_choice(void **state) {
  (void)state;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    for (uint64_t size = 1; size <= 1u << 20; size += size / 3 + 1) {
      for (int bits = 0; bits < 64; bits++) {
        gli_plan_params p = params((gli_collective)c, (uint32_t)size,
                                   bits == 0 ? 0 : UINT64_MAX >> (64 - bits));
        const gli_algorithm *a = gli_algorithm_select(&p);
        if (c == GLI_SENDRECV) {
          assert_null(a);
          continue;
        }
        assert_non_null(a);
        assert_int_equal(a->collective, c);
      }
    }
  }
}

static void short_vectors_take_few_rounds(void **state) {
  (void)state;
  for (uint32_t size = 4; size <= 1024; size++) {
    assert_string_equal(choice(GLI_ALLREDUCE, size, 1), "recursive_doubling");
    assert_string_equal(choice(GLI_BROADCAST, size, 1), "binomial");
    assert_string_equal(choice(GLI_ALLGATHER, size, 1), "recursive");
    assert_string_equal(choice(GLI_REDUCE_SCATTER, size, 1), "recursive");
  }
}

static void long_vectors_take_few_bytes(void **state) {
  (void)state;
  uint64_t count = (uint64_t)1 << 33;
  for (uint32_t size = 3; size <= 1024; size++) {
    assert_string_equal(choice(GLI_ALLREDUCE, size, count), "ring");
    assert_string_equal(choice(GLI_BROADCAST, size, count),
                        "scatter_allgather");
    assert_string_equal(choice(GLI_ALLGATHER, size, count), "ring");
    assert_string_equal(choice(GLI_REDUCE_SCATTER, size, count), "ring");
  }
  assert_string_equal(choice(GLI_ALLREDUCE, 64, 1 << 18), "halving_doubling");
  assert_string_equal(choice(GLI_ALLREDUCE, 10000, 1 << 24),
                      "halving_doubling");
}

static void choice_ignores_what_may_differ_between_ranks(void **state) {
  (void)state;
  for (int c = 0; c < GLI_SENDRECV; c++) {
    for (uint64_t count = 0; count < (uint64_t)1 << 40;
         count += count / 2 + 1) {
      gli_plan_params first = params((gli_collective)c, 12, count);
      gli_plan_params last = first;
      last.rank = 11;
      const gli_algorithm *a = gli_algorithm_select(&first);
      assert_ptr_equal(a, gli_algorithm_select(&last));
      assert_int_equal(gli_segment_bytes(a, &first),
                       gli_segment_bytes(a, &last));
    }
  }
}

/* ---- segments ----------------------------------------------------------- */

static void short_vectors_are_not_cut(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    gli_plan_params p = params(a->collective, 8, 1000);
    assert_int_equal(gli_segment_bytes(a, &p), 0);
  }
}

static void segments_are_whole_elements(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    for (uint64_t elem = 1; elem <= 24; elem++) {
      for (uint64_t count = 1 << 20; count < (uint64_t)1 << 36; count *= 3) {
        gli_plan_params p = params(a->collective, 5, count);
        if (a->collective == GLI_BARRIER) continue;
        p.elem_bytes = elem;
        uint64_t bytes = gli_segment_bytes(a, &p);
        assert_true(bytes >= 256 << 10);
        assert_int_equal(bytes % elem, 0);
      }
    }
  }
}

static void plans_of_huge_vectors_stay_short(void **state) {
  (void)state;
  const uint32_t sizes[] = {1, 2, 3, 5, 8, 64, 100};
  for (size_t i = 0; i < gli_algorithm_count * 7; i++) {
    const gli_algorithm *a = &gli_algorithms[i / 7];
    for (uint64_t count = 1 << 20; count <= (uint64_t)1 << 38; count *= 4) {
      gli_plan_params p = params(a->collective, sizes[i % 7], count + 1);
      p.rank = p.root = p.size / 2;
      p.segment_bytes = gli_segment_bytes(a, &p);
      gli_plan *plan;
      assert_int_equal(gli_plan_make(a->build, &p, &plan, NULL), GLOO_OK);
      assert_true(plan->n_steps <= 8000);
      gli_plan_free(plan);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_numbers_find_their_algorithm),
      cmocka_unit_test(every_call_has_a_choice),
      cmocka_unit_test(short_vectors_take_few_rounds),
      cmocka_unit_test(long_vectors_take_few_bytes),
      cmocka_unit_test(choice_ignores_what_may_differ_between_ranks),
      cmocka_unit_test(short_vectors_are_not_cut),
      cmocka_unit_test(segments_are_whole_elements),
      cmocka_unit_test(plans_of_huge_vectors_stay_short),
  };
  return cmocka_run_group_tests_name("algorithms/select", tests, NULL, NULL);
}
