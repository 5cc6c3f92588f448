/* Ranks that share cores, in full or in part, and whether they are
 * oversubscribed. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <string.h>

#include "rendezvous/join/cores.h"

/* Returns a rank that may use the cores of `mask`; `usable` 0: all of them. */
static gli_cores on(uint64_t system, uint64_t mask, uint32_t usable) {
  gli_cores c = {.system = system, .usable = usable};
  for (int i = 0; i < 64; i++) {
    if (usable == 0 && mask >> i & 1) c.usable++;
    if (mask >> i & 1) c.mask[i / 8] |= (uint8_t)(1 << i % 8);
  }
  return c;
}

static void expect(const gli_cores *of, uint32_t size, uint32_t rank,
                   uint32_t ranks, uint32_t cores, bool oversubscribed) {
  gli_sharing s = gli_cores_shared(of, size, rank);
  assert_int_equal(s.ranks, ranks);
  assert_int_equal(s.cores, cores);
  assert_int_equal(s.oversubscribed, oversubscribed);
}

static void ranks_bound_to_cores_of_their_own_share_none(void **state) {
  (void)state;
  const gli_cores of[] = {on(1, 1, 0), on(1, 2, 0), on(1, 12, 0)};
  expect(of, 3, 0, 1, 1, false);
  expect(of, 3, 2, 1, 2, false);
}

static void ranks_that_may_use_all_share_all(void **state) {
  (void)state;
  const gli_cores of[] = {on(1, 3, 0), on(1, 3, 0), on(1, 3, 0)};
  expect(of, 2, 0, 2, 2, false);
  expect(of, 3, 0, 3, 2, true);
}

/* Ranks 0 and 2 share no core, but each shares some with rank 1. */
static void masks_that_overlap_count_together(void **state) {
  (void)state;
  const gli_cores of[] = {on(1, 3, 0), on(1, 6, 0), on(1, 12, 0), on(1, 16, 0)};
  for (uint32_t rank = 0; rank < 3; rank++) expect(of, 4, rank, 3, 4, false);
  expect(of, 4, 3, 1, 1, false);
  const gli_cores few[] = {on(1, 3, 0), on(1, 3, 0), on(1, 1, 0)};
  for (uint32_t rank = 0; rank < 3; rank++) expect(few, 3, rank, 3, 2, true);
}

/* All ranks have enough cores together, but two may use only the same one. */
static void those_with_few_cores_may_be_oversubscribed_beside_others(
    void **state) {
  (void)state;
  const gli_cores of[] = {on(1, 1, 0), on(1, 255, 0), on(1, 1, 0)};
  expect(of, 3, 0, 3, 8, true);
  expect(of, 3, 2, 3, 8, true);
  expect(of, 3, 1, 3, 8, false);
}

static void cores_of_another_system_are_others(void **state) {
  (void)state;
  const gli_cores of[] = {on(1, 1, 0), on(2, 1, 0)};
  expect(of, 2, 0, 1, 1, false);
}

static void a_limit_of_time_counts(void **state) {
  (void)state;
  const gli_cores of[] = {on(1, 15, 1), on(1, 15, 1)};
  expect(of, 2, 0, 2, 1, true);
}

static void without_masks_all_of_a_system_share_what_is_usable(void **state) {
  (void)state;
  const gli_cores of[] = {on(1, 0, 2), on(1, 0, 2), on(1, 0, 2)};
  for (int i = 0; i < 3; i++) assert_int_equal(of[i].usable, 2);
  expect(of, 2, 0, 2, 2, false);
  expect(of, 3, 0, 3, 2, true);
}

/* Each rank is bound to one core, and most share it with their neighbour. */
static void neighbours_on_a_core_are_pinned(void **state) {
  (void)state;
  const gli_cores pairs[] = {on(1, 1, 0), on(1, 1, 0), on(1, 2, 0),
                             on(1, 2, 0)};
  assert_int_equal(gli_cores_subscription(pairs, 4), GLI_PINNED);
  assert_int_equal(gli_cores_subscription(pairs, 3), GLI_OVERSUBSCRIBED);
  assert_int_equal(gli_cores_subscription(pairs, 2), GLI_PINNED);
  assert_int_equal(gli_cores_subscription(pairs, 1), GLI_CORE_EACH);
  const gli_cores dealt[] = {on(1, 1, 0), on(1, 2, 0), on(1, 1, 0),
                             on(1, 2, 0)};
  assert_int_equal(gli_cores_subscription(dealt, 2), GLI_CORE_EACH);
  assert_int_equal(gli_cores_subscription(dealt, 4), GLI_OVERSUBSCRIBED);
  const gli_cores roaming[] = {on(1, 1, 0), on(1, 1, 0), on(1, 6, 0),
                               on(1, 6, 0), on(1, 6, 0)};
  assert_int_equal(gli_cores_subscription(roaming, 5), GLI_OVERSUBSCRIBED);
  const gli_cores hosts[] = {on(1, 1, 0), on(1, 1, 0), on(2, 1, 0),
                             on(2, 1, 0)};
  assert_int_equal(gli_cores_subscription(hosts, 4), GLI_PINNED);
  const gli_cores unknown[] = {on(1, 0, 1), on(1, 0, 1)};
  assert_int_equal(gli_cores_subscription(unknown, 2), GLI_OVERSUBSCRIBED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_bound_to_cores_of_their_own_share_none),
      cmocka_unit_test(ranks_that_may_use_all_share_all),
      cmocka_unit_test(masks_that_overlap_count_together),
      cmocka_unit_test(
          those_with_few_cores_may_be_oversubscribed_beside_others),
      cmocka_unit_test(cores_of_another_system_are_others),
      cmocka_unit_test(a_limit_of_time_counts),
      cmocka_unit_test(without_masks_all_of_a_system_share_what_is_usable),
      cmocka_unit_test(neighbours_on_a_core_are_pinned),
  };
  return cmocka_run_group_tests_name("api/cores", tests, NULL, NULL);
}
