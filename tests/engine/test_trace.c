/* The ring of trace records: which records it holds, and their contents. */
#include <stdlib.h>
#include <string.h>

#include "engine/state/trace_buffer.h"
#include "plan/cmocka_all.h"

static void put(gli_trace *trace, uint64_t number) {
  gli_trace_record *r = gli_trace_next(trace);
  *r = (gli_trace_record){.operation = number, .about = {.tag = 7}};
}

static void the_last_are_there_and_no_others(void **state) {
  (void)state;
  gli_trace *trace = gli_trace_new(0);
  assert_non_null(trace);
  assert_null(gli_trace_last(trace, 0));
  for (uint64_t i = 0; i < 3 * GLI_TRACE_LEAST + 5; i++) {
    put(trace, i);
    uint64_t there = i + 1 < GLI_TRACE_LEAST ? i + 1 : GLI_TRACE_LEAST;
    assert_int_equal(gli_trace_last(trace, 0)->operation, i);
    assert_int_equal(gli_trace_last(trace, there - 1)->operation,
                     i + 1 - there);
    assert_null(gli_trace_last(trace, there));
  }
  gli_trace_free(trace);
}

static void room_is_a_power_of_two_and_bounded(void **state) {
  (void)state;
  static const uint64_t asked[] = {0, 1, 256, 257, 1000, 1024, 4097};
  static const uint64_t room[] = {256, 256, 256, 512, 1024, 1024, 8192};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    gli_trace *trace = gli_trace_new(asked[i]);
    assert_non_null(trace);
    assert_int_equal(trace->mask + 1, room[i]);
    assert_int_equal(trace->kept, asked[i]);
    assert_int_equal((uintptr_t)trace->records % GLI_TRACE_LINE, 0);
    gli_trace_free(trace);
  }
  gli_trace *most = gli_trace_new(UINT64_MAX);
  assert_non_null(most);
  assert_int_equal(most->kept, GLI_TRACE_MOST);
  gli_trace_free(most);
}

static void record_has_the_signature(void **state) {
  (void)state;
  const gli_trace_record r = {.about = {.tuning = 1,
                                        .collective = 2,
                                        .dtype = 3,
                                        .op = 4,
                                        .algorithm = 5,
                                        .tag = 6,
                                        .root = 7,
                                        .count = 8},
                              .operation = 9};
  gli_header h;
  gli_trace_signature(&r, &h);
  assert_int_equal(h.tuning, 1);
  assert_int_equal(h.collective, 2);
  assert_int_equal(h.dtype, 3);
  assert_int_equal(h.op, 4);
  assert_int_equal(h.algorithm, 5);
  assert_int_equal(h.tag, 6);
  assert_int_equal(h.root, 7);
  assert_int_equal(h.count, 8);
  assert_int_equal(h.operation, 9);
}

static void ticks_become_times(void **state) {
  (void)state;
  const gli_moment first = {1000, 50, 0};
  const gli_moment now = {4000, 1000000050, 0};
  assert_int_equal(gli_ticks_to_ns(&first, &now, 4000), 1000000050);
  assert_in_range(gli_ticks_to_ns(&first, &now, 2500), 499999950, 500000150);
  assert_in_range(gli_ticks_to_ns(&first, &now, 1000), 0, 150);
  /* Times before the first clock reading, and after the last. */
  assert_int_equal(gli_ticks_to_ns(&first, &now, 0), 0);
  assert_true(gli_ticks_to_ns(&first, &now, 4003) > 1000000050);
  /* No time has passed. */
  assert_int_equal(gli_ticks_to_ns(&now, &now, 4000), 1000000050);
}

static void ticks_go_on(void **state) {
  (void)state;
  gli_moment first = gli_moment_now(), now = first;
  while (now.monotonic_ns < first.monotonic_ns + 20000000)
    now = gli_moment_now();
  assert_true(now.ticks > first.ticks && now.wall_ns > 0);
  uint64_t between = first.ticks + (now.ticks - first.ticks) / 2;
  uint64_t at = gli_ticks_to_ns(&first, &now, between);
  assert_true(at > first.monotonic_ns && at < now.monotonic_ns);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_are_there_and_no_others),
      cmocka_unit_test(room_is_a_power_of_two_and_bounded),
      cmocka_unit_test(record_has_the_signature),
      cmocka_unit_test(ticks_become_times),
      cmocka_unit_test(ticks_go_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
