/* The check of `gloo bench`: right results pass, and a single wrong byte,
 * wherever it is, does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka.h wants those above first */
#include <cmocka.h>

#include "tools/bench_case.h"

static gloo_store *store;
static gloo_context *alone;

static int open_context(void **state) {
  (void)state;
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = "inproc";
  static gloo_device *device;
  if (gloo_store_memory_create(&store, NULL) != GLOO_OK) return -1;
  if (gloo_device_create(&options, &device, NULL) != GLOO_OK) return -1;
  *state = device;
  return gloo_context_create(0, 1, store, device, NULL, &alone, NULL);
}

static int close_context(void **state) {
  gloo_context_destroy(alone);
  gloo_device_destroy(*state);
  gloo_store_destroy(store);
  return 0;
}

/* Run the call, then change bytes one after the other. */
static void check_call(gli_collective collective, bool in_place) {
  gli_bench_call call = {.collective = collective,
                         .dtype = GLOO_INT32,
                         .op = GLOO_SUM,
                         .in_place = in_place};
  gli_bench_case c;
  gli_bench_buffers buffers;
  gloo_error error;
  char where[GLI_CASE_WHERE];
  gli_case_init(&c, &call, alone, 5003);
  assert_int_equal(c.bytes, 5000);
  assert_true(gli_case_allocate(&c, &buffers));
  gli_case_fill(&c, &buffers);
  assert_int_equal(gli_case_run(&c, &buffers, &error), GLOO_OK);
  assert_true(gli_case_check(&c, &buffers, where));

  static const size_t places[] = {0, 3, 2500, 4083, 4084, 4999};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    uint8_t *byte = (uint8_t *)buffers.out + places[i];
    char expected[32];
    snprintf(expected, sizeof expected, "element %zu of", places[i] / 4);
    *byte ^= 1;
    assert_false(gli_case_check(&c, &buffers, where));
    assert_memory_equal(where, expected, strlen(expected));
    *byte ^= 1;
  }
  assert_true(gli_case_check(&c, &buffers, where));
  gli_case_free(&buffers);
}

static void a_wrong_byte_is_found(void **state) {
  (void)state;
  check_call(GLI_SENDRECV, false);
  for (int in_place = 0; in_place < 2; in_place++) {
    check_call(GLI_BROADCAST, in_place == 1);
    check_call(GLI_ALLREDUCE, in_place == 1);
    check_call(GLI_REDUCE_SCATTER, in_place == 1);
    check_call(GLI_ALLGATHER, in_place == 1);
    check_call(GLI_ALLTOALL, in_place == 1);
  }
}

/* A call that does nothing must not look right: outputs start as nonsense. */
static void nothing_done_is_found(void **state) {
  (void)state;
  static const gli_collective all[] = {GLI_BROADCAST,      GLI_ALLREDUCE,
                                       GLI_REDUCE_SCATTER, GLI_ALLGATHER,
                                       GLI_ALLTOALL,       GLI_SENDRECV};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    gli_bench_call call = {.collective = all[i], .dtype = GLOO_FLOAT32};
    gli_bench_case c;
    gli_bench_buffers buffers;
    char where[GLI_CASE_WHERE];
    gli_case_init(&c, &call, alone, 64);
    assert_true(gli_case_allocate(&c, &buffers));
    gli_case_fill(&c, &buffers);
    assert_false(gli_case_check(&c, &buffers, where));
    gli_case_free(&buffers);
  }
}

/* Memory from gloo_alloc holds the same results. */
static void shareable_buffers_are_used(void **state) {
  (void)state;
  gli_bench_call call = {
      .collective = GLI_ALLREDUCE, .dtype = GLOO_FLOAT32, .shareable = true};
  gli_bench_case c;
  gli_bench_buffers buffers;
  gloo_error error;
  char where[GLI_CASE_WHERE];
  gli_case_init(&c, &call, alone, 100000);
  assert_true(gli_case_allocate(&c, &buffers));
  assert_true(buffers.shareable);
  gli_case_fill(&c, &buffers);
  assert_false(gli_case_check(&c, &buffers, where));
  assert_int_equal(gli_case_run(&c, &buffers, &error), GLOO_OK);
  assert_true(gli_case_check(&c, &buffers, where));
  gli_case_free(&buffers);
  assert_null(buffers.in);
}

static void sizes_are_rounded_to_whole_elements(void **state) {
  (void)state;
  gli_bench_call call = {.collective = GLI_ALLGATHER, .dtype = GLOO_INT64};
  assert_int_equal(gli_case_bytes(&call, 3, 1), 24);
  assert_int_equal(gli_case_bytes(&call, 3, 47), 24);
  assert_int_equal(gli_case_bytes(&call, 3, 48), 48);
  call.collective = GLI_ALLREDUCE;
  assert_int_equal(gli_case_bytes(&call, 3, 47), 40);
  call.collective = GLI_BARRIER;
  assert_int_equal(gli_case_bytes(&call, 3, 47), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wrong_byte_is_found),
      cmocka_unit_test(shareable_buffers_are_used),
      cmocka_unit_test(nothing_done_is_found),
      cmocka_unit_test(sizes_are_rounded_to_whole_elements),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
