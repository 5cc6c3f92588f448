/* Errors, checked arithmetic, bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"

static void fail_fills_in_everything(void **state) {
  gloo_error error;
  (void)state;
  memset(&error, 0x5a, sizeof error);
  gloo_status status =
      gli_fail(&error, GLOO_ERR_PEER, 3, "rank %d left after %s", 3, "lunch");
  assert_int_equal(status, GLOO_ERR_PEER);
  assert_int_equal(error.status, GLOO_ERR_PEER);
  assert_int_equal(error.rank, 3);
  assert_string_equal(error.message, "rank 3 left after lunch");
}

static void nobody_listening_is_fine(void **state) {
  (void)state;
  assert_int_equal(gli_fail(NULL, GLOO_ERR_IO, -1, "%s", "x"), GLOO_ERR_IO);
  gli_error_prefix(NULL, "%s", "x");
  gli_error_clear(NULL);
}

static void long_messages_are_cut(void **state) {
  gloo_error error;
  char text[2 * GLOO_ERROR_MESSAGE_BYTES];
  (void)state;
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  gli_fail(&error, GLOO_ERR_INVALID, -1, "%s", text);
  assert_int_equal(strlen(error.message), GLOO_ERROR_MESSAGE_BYTES - 1);
  gli_error_prefix(&error, "%s", "store: ");
  assert_int_equal(strlen(error.message), GLOO_ERROR_MESSAGE_BYTES - 1);
  assert_memory_equal(error.message, "store: xxx", 10);
  gli_error_prefix(&error, "%s", text);
  assert_int_equal(strlen(error.message), GLOO_ERROR_MESSAGE_BYTES - 1);
  assert_int_equal(error.message[0], 'x');
}

static void a_message_may_quote_itself(void **state) {
  gloo_error error;
  (void)state;
  gli_fail(&error, GLOO_ERR_IO, 1, "no space");
  gli_fail(&error, GLOO_ERR_IO, 1, "writing: %s", error.message);
  assert_string_equal(error.message, "writing: no space");
  gli_error_prefix(&error, "%s, so ", error.message);
  assert_string_equal(error.message, "writing: no space, so writing: no space");
}

/* Arguments of a message may come from an untrusted peer. */
static void messages_hold_no_control_characters(void **state) {
  gloo_error error;
  (void)state;
  gli_fail(&error, GLOO_ERR_IO, 1, "rank 1 reports: %s",
           "\033[2Jdone\r\nok \xc2\x9b"
           "31m \x9d"
           "0;x\a \xc3\xa4");
  assert_string_equal(error.message,
                      "rank 1 reports:  [2Jdone  ok   31m  0;x  \xc3\xa4");
  gli_error_prefix(&error, "%s: ", "a\033b");
  assert_memory_equal(error.message, "a b: rank 1", 11);
}

static void clear_means_all_is_well(void **state) {
  gloo_error error;
  (void)state;
  gli_fail(&error, GLOO_ERR_IO, 7, "no");
  gli_error_clear(&error);
  assert_int_equal(error.status, GLOO_OK);
  assert_int_equal(error.rank, -1);
  assert_string_equal(error.message, "");
}

static void sizes_do_not_overflow(void **state) {
  uint64_t r = 42;
  (void)state;
  assert_true(gli_add_u64(1, UINT64_MAX - 1, &r) && r == UINT64_MAX);
  assert_false(gli_add_u64(2, UINT64_MAX - 1, &r));
  assert_true(gli_mul_u64(0, UINT64_MAX, &r) && r == 0);
  assert_true(gli_mul_u64(UINT64_MAX, 0, &r) && r == 0);
  assert_true(gli_mul_u64(UINT32_MAX, UINT32_MAX, &r));
  r = 42;
  assert_false(gli_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &r));
  assert_false(gli_mul_u64(UINT64_MAX, 2, &r));
  assert_int_equal(r, 42);
}

static void bounds_hold_at_the_edges(void **state) {
  (void)state;
  assert_true(gli_in_bounds(0, 0, 0));
  assert_true(gli_in_bounds(4, 4, 8));
  assert_true(gli_in_bounds(8, 0, 8));
  assert_false(gli_in_bounds(9, 0, 8));
  assert_false(gli_in_bounds(5, 4, 8));
  assert_false(gli_in_bounds(UINT64_MAX, 2, 8));
  assert_false(gli_in_bounds(2, UINT64_MAX, 8));
}

static void bytes_are_little_endian(void **state) {
  uint8_t at[8];
  (void)state;
  gli_put_u32(at, 0x04030201u);
  assert_memory_equal(at, "\1\2\3\4", 4);
  assert_true(gli_get_u32(at) == 0x04030201u);
  gli_put_u64(at, UINT64_C(0xf807060504030201));
  assert_memory_equal(at, "\1\2\3\4\5\6\7\xf8", 8);
  assert_true(gli_get_u64(at) == UINT64_C(0xf807060504030201));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fail_fills_in_everything),
      cmocka_unit_test(nobody_listening_is_fine),
      cmocka_unit_test(long_messages_are_cut),
      cmocka_unit_test(a_message_may_quote_itself),
      cmocka_unit_test(messages_hold_no_control_characters),
      cmocka_unit_test(clear_means_all_is_well),
      cmocka_unit_test(sizes_do_not_overflow),
      cmocka_unit_test(bounds_hold_at_the_edges),
      cmocka_unit_test(bytes_are_little_endian),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
