/* Timeouts in seconds from the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"

#define NAME "GLOO_START_TIMEOUT"

static void seconds_are_decimal_numbers(void **state) {
  static const struct {
    const char *text;
    int64_t ns;
  } goods[] = {
      {"1", INT64_C(1000000000)},
      {"0.001", 1000000},
      {"2.5", INT64_C(2500000000)},
      {"90.", INT64_C(90000000000)},
      {"1.0000000019", INT64_C(1000000001)},
      {"1000000", INT64_C(1000000000000000)},
      {"none", GLOO_TIMEOUT_NONE},
      {"", GLI_TIMEOUT_NS},
  };
  (void)state;
  for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
    int64_t ns = 7;
    assert_int_equal(setenv(NAME, goods[i].text, 1), 0);
    assert_int_equal(gli_timeout_of_start(GLOO_TIMEOUT_DEFAULT, &ns, NULL),
                     GLOO_OK);
    assert_int_equal(ns, goods[i].ns);
  }
}

static void other_values_are_named(void **state) {
  static const char *const bads[] = {"0",
                                     "0.0001",
                                     "-1",
                                     "1e3",
                                     "nan",
                                     "inf",
                                     "0x10",
                                     " 1",
                                     "1 s",
                                     ".5",
                                     "1000000.1",
                                     "1,5",
                                     "99999999999999999999999999"};
  (void)state;
  for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
    int64_t ns;
    gloo_error error;
    assert_int_equal(setenv(NAME, bads[i], 1), 0);
    if (gli_timeout_of_start(GLOO_TIMEOUT_DEFAULT, &ns, &error) !=
        GLOO_ERR_INVALID)
      fail_msg("'%s' is taken", bads[i]);
    if (strstr(error.message, NAME) == NULL ||
        strstr(error.message, "from 0.001 to 1000000, or 'none'") == NULL)
      fail_msg("%s", error.message);
  }
}

static void a_limit_of_the_program_comes_first(void **state) {
  int64_t ns;
  (void)state;
  assert_int_equal(setenv(NAME, "bad", 1), 0);
  assert_int_equal(setenv("GLOO_TIMEOUT", "7", 1), 0);
  assert_int_equal(gli_timeout_of_start(5, &ns, NULL), GLOO_OK);
  assert_int_equal(ns, 5);
  assert_int_equal(gli_timeout_of_operations(-9, &ns, NULL), GLOO_OK);
  assert_int_equal(ns, -9);
  assert_int_equal(gli_timeout_of_operations(0, &ns, NULL), GLOO_OK);
  assert_int_equal(ns, INT64_C(7000000000));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(seconds_are_decimal_numbers),
      cmocka_unit_test(other_values_are_named),
      cmocka_unit_test(a_limit_of_the_program_comes_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
