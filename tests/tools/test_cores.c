/* The cores to which `gloo run` binds ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants those above first */
#include <cmocka.h>

#include "tools/run.h"

enum { MOST = 24 };

static void all_cores_are_shared_out_evenly_or_not_at_all(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 3 * MOST; ranks++) {
    for (int cores = 1; cores <= MOST; cores++) {
      int ranks_of[MOST] = {0};
      for (int rank = 0; rank < ranks; rank++) {
        gli_run_share s = gli_run_share_of(rank, ranks, cores);
        assert_true(s.first >= 0 && s.cores > 0 && s.first + s.cores <= cores);
        if (ranks <= cores) assert_int_equal(s.cores, cores);
        for (int i = 0; i < s.cores; i++) ranks_of[s.first + i]++;
      }
      for (int i = 1; i < cores; i++) {
        assert_int_equal(ranks_of[i], ranks_of[0]);
      }
    }
  }
}

static void assert_share(int rank, int ranks, int cores, int first, int count) {
  gli_run_share s = gli_run_share_of(rank, ranks, cores);
  assert_int_equal(s.first, first);
  assert_int_equal(s.cores, count);
}

static void shares_are_as_small_as_can_be(void **state) {
  (void)state;
  assert_share(0, 4, 2, 0, 1);
  assert_share(1, 4, 2, 0, 1);
  assert_share(2, 4, 2, 1, 1);
  assert_share(2, 6, 4, 0, 2); /* three ranks on each pair of cores */
  assert_share(3, 6, 4, 2, 2);
  assert_share(2, 3, 2, 0, 2); /* not evenly */
  assert_share(7, 8, 1, 0, 1);
  assert_share(1, 4, 4, 0, 4); /* one core for each rank */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_cores_are_shared_out_evenly_or_not_at_all),
      cmocka_unit_test(shares_are_as_small_as_can_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
