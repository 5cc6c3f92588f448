/* Names and sizes of types, operations, collectives and statuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/collective.h"
#include "gloo_c/gloo_c.h"
#include "kernels/reduce.h"

static void types_have_names_and_sizes(void **state) {
  static const size_t sizes[] = {1, 2, 4, 8, 1,  2, 4, 8, 2,
                                 2, 4, 8, 8, 16, 1, 1, 1};
  (void)state;
  assert_int_equal(GLOO_DTYPE_COUNT, sizeof sizes / sizeof sizes[0]);
  for (int i = 0; i < GLOO_DTYPE_COUNT; i++) {
    gloo_dtype found = GLOO_DTYPE_COUNT;
    assert_int_equal(gloo_dtype_size((gloo_dtype)i), sizes[i]);
    assert_true(gli_dtype_from_name(gloo_dtype_name((gloo_dtype)i), &found));
    assert_int_equal(found, i);
  }
  assert_string_equal(gloo_dtype_name(GLOO_BFLOAT16), "bfloat16");
  assert_string_equal(gloo_dtype_name(GLOO_FLOAT8_E5M2), "float8_e5m2");
}

static void operations_have_names(void **state) {
  (void)state;
  for (int i = 0; i < GLOO_OP_COUNT; i++) {
    gloo_op found = GLOO_OP_COUNT;
    assert_true(gli_op_from_name(gloo_op_name((gloo_op)i), &found));
    assert_int_equal(found, i);
  }
  assert_string_equal(gloo_op_name(GLOO_BXOR), "bxor");
  assert_string_equal(gloo_op_name(GLOO_LXOR), "lxor");
}

static void collectives_have_names(void **state) {
  (void)state;
  for (int i = 0; i < GLI_COLLECTIVES; i++) {
    gli_collective found = GLI_COLLECTIVES;
    const char *name = gli_collective_name((gli_collective)i);
    assert_true(gli_collective_from_name(name, &found));
    assert_int_equal(found, i);
  }
  assert_true(gli_collective_reduces(GLI_ALLREDUCE));
  assert_false(gli_collective_reduces(GLI_ALLGATHER));
  assert_true(gli_collective_rooted(GLI_BROADCAST));
  assert_false(gli_collective_rooted(GLI_BARRIER));
}

static void unknown_values_are_called_unknown(void **state) {
  gloo_dtype dtype;
  gloo_op op;
  gli_collective collective;
  (void)state;
  assert_string_equal(gloo_dtype_name(GLOO_DTYPE_COUNT), "unknown");
  assert_string_equal(gloo_dtype_name((gloo_dtype)-1), "unknown");
  assert_int_equal(gloo_dtype_size(GLOO_DTYPE_COUNT), 0);
  assert_int_equal(gloo_dtype_size((gloo_dtype)-1), 0);
  assert_string_equal(gloo_op_name((gloo_op)-1), "unknown");
  assert_string_equal(gloo_op_name(GLOO_OP_COUNT), "unknown");
  assert_string_equal(gli_collective_name((gli_collective)-1), "unknown");
  assert_false(gli_collective_reduces(GLI_COLLECTIVES));
  assert_false(gli_collective_rooted((gli_collective)-1));
  assert_false(gli_dtype_from_name("float", &dtype));
  assert_false(gli_dtype_from_name("", &dtype));
  assert_false(gli_dtype_from_name(NULL, &dtype));
  assert_false(gli_op_from_name("SUM", &op));
  assert_false(gli_op_from_name(NULL, &op));
  assert_false(gli_collective_from_name("all", &collective));
  assert_false(gli_collective_from_name(NULL, &collective));
}

static void statuses_have_texts(void **state) {
  (void)state;
  assert_string_equal(gloo_status_string(GLOO_OK), "success");
  assert_string_equal(gloo_status_string(GLOO_ERR_TIMEOUT), "deadline passed");
  assert_string_equal(gloo_status_string((gloo_status)-1000), "unknown status");
  assert_string_equal(gloo_status_string((gloo_status)77), "unknown status");
}

static void versions_agree(void **state) {
  char header[32];
  (void)state;
  snprintf(header, sizeof header, "%d.%d.%d", GLOO_VERSION_MAJOR,
           GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
  assert_string_equal(gloo_version(), header);
  assert_string_equal(gloo_version(), PROJECT_VERSION);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_have_names_and_sizes),
      cmocka_unit_test(operations_have_names),
      cmocka_unit_test(collectives_have_names),
      cmocka_unit_test(unknown_values_are_called_unknown),
      cmocka_unit_test(statuses_have_texts),
      cmocka_unit_test(versions_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
