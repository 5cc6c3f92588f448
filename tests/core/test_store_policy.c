/* Stores through the caches or past them: trials, timing and decisions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>

#include "kernels/store_policy.h"

static const gli_store_bars BARS = {.to_nontemporal = 3, .to_cache = 2};

enum { BYTES = 65536 };

static void note(gli_store_policy *s, bool nontemporal, uint64_t ns,
                 int times) {
  for (int i = 0; i < times; i++)
    gli_store_policy_learn(s, BARS, nontemporal, ns, BYTES);
}

/* Stores `times` times with the given durations. Returns the number of
 * non-temporal stores. */
static int store(gli_store_policy *s, int times, uint64_t cached_ns,
                 uint64_t streamed_ns) {
  int nontemporal = 0;
  for (int i = 0; i < times; i++) {
    gli_store_way way = gli_store_policy_next(s);
    uint64_t ns = way.nontemporal ? streamed_ns : cached_ns;
    nontemporal += way.nontemporal;
    if (way.timed) gli_store_policy_learn(s, BARS, way.nontemporal, ns, BYTES);
  }
  return nontemporal;
}

static void bars_are_for_changing_and_for_staying(void **state) {
  (void)state;
  gli_store_policy s = {.nontemporal = false};
  note(&s, true, 1000, 1);
  assert_false(s.nontemporal); /* the other way is not timed yet */
  note(&s, false, 1400, 30);
  assert_false(s.nontemporal);
  note(&s, false, 1700, 30);
  assert_true(s.nontemporal);
  note(&s, false, 1200, 30);
  assert_true(s.nontemporal);
  note(&s, false, 900, 30);
  assert_false(s.nontemporal);
}

static void the_other_way_is_tried_ever_more_rarely(void **state) {
  (void)state;
  gli_store_policy s = {.nontemporal = false};
  assert_int_equal(store(&s, 16, 1000, 1000), 0);
  assert_int_equal(store(&s, 1, 1000, 1000), 1);
  assert_int_equal(store(&s, 32, 1000, 1000), 1);
  assert_int_equal(store(&s, 64, 1000, 1000), 1);
  store(&s, 1000, 1000, 1000);
  int tries = store(&s, 2560, 1000, 1000);
  assert_in_range(tries, 9, 11);
  assert_false(s.nontemporal);
}

static void what_is_faster_is_found_and_followed(void **state) {
  (void)state;
  gli_store_policy s = {.nontemporal = false};
  store(&s, 100, 5000, 1000);
  assert_true(s.nontemporal);
  assert_in_range(store(&s, 1000, 5000, 1000), 990, 1000);
  store(&s, 3000, 500, 1000);
  assert_false(s.nontemporal);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bars_are_for_changing_and_for_staying),
      cmocka_unit_test(the_other_way_is_tried_ever_more_rarely),
      cmocka_unit_test(what_is_faster_is_found_and_followed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
