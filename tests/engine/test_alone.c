/* A rank that cannot reach any peer: several threads that wait on one device
 * (none sleeps through a completion), and the state after calls that fail.
 *
 * Poll and sleep of this transport force two threads into the order that a test
 * needs. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/error.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/life/life.h"
#include "engine/state/operation.h"
#include "gloo_c/gloo_c.h"

/* ---- a transport that controls the order --------------------------------- */

typedef struct lead {
  gli_transport base;
  gloo_device *device;
  gloo_request *watched;
  atomic_bool hold;    /* the next poll waits for a second thread */
  atomic_bool holding; /* the poll waits */
  atomic_bool sleep_here;
  atomic_int asleep, slept_over, wakes;
} lead;

static lead one;
static const gli_transport_ops lead_ops;

static gloo_status lead_open(const gli_transport_config *config,
                             gli_transport **t, gloo_error *error) {
  (void)config;
  (void)error;
  one.base.ops = &lead_ops;
  *t = &one.base;
  return GLOO_OK;
}

static void lead_address(const gli_transport *t, gli_address *address) {
  (void)t;
  *address = (gli_address){.bytes = 1};
}

static uint64_t lead_now_ns(gli_transport *t) {
  (void)t;
  return uv_hrtime();
}

static gloo_status lead_pair_open(gli_transport *t,
                                  const gli_pair_config *config,
                                  gli_pair **pair, gloo_error *error) {
  (void)t;
  (void)pair;
  return gli_fail(error, GLOO_ERR_ADDRESS, (int)config->peer_rank,
                  "rank %u is nowhere", config->peer_rank);
}

static int lead_poll(gli_transport *t) {
  (void)t;
  if (!atomic_exchange(&one.hold, false)) return 0;
  atomic_store(&one.holding, true);
  while (atomic_load(&one.device->lock_wanted) == 0) uv_sleep(1);
  return 0;
}

static bool is_done(gloo_request *op) {
  gli_device_lock(one.device);
  bool done = op && op->state == GLI_OPERATION_DONE;
  gli_device_unlock(one.device);
  return done;
}

static void lead_sleep(gli_transport *t, int64_t timeout_ns) {
  (void)t;
  (void)timeout_ns;
  /* A thread that completes the operation while others are about to sleep wakes
   * them. */
  bool done = is_done(one.watched);
  int wakes = atomic_load(&one.wakes);
  if (done && wakes == 0) atomic_fetch_add(&one.slept_over, 1);
  atomic_fetch_add(&one.asleep, 1);
  while (atomic_load(&one.sleep_here) && atomic_load(&one.wakes) == wakes) {
    uv_sleep(1);
  }
  atomic_fetch_sub(&one.asleep, 1);
}

static void lead_wake(gli_transport *t) {
  (void)t;
  atomic_fetch_add(&one.wakes, 1);
}

static void lead_close(gli_transport *t) {
  (void)t;
}

static const gli_transport_ops lead_ops = {
    .name = "lead",
    .open = lead_open,
    .address = lead_address,
    .now_ns = lead_now_ns,
    .pair_open = lead_pair_open,
    .poll = lead_poll,
    .sleep = lead_sleep,
    .wake = lead_wake,
    .close = lead_close,
};

/* ---- a context of two ranks, one of which is nowhere --------------------- */

static gloo_context *context;
static int32_t received;

static int set_up(void **state) {
  (void)state;
  one = (lead){.watched = NULL};
  gli_transport_config config = {.streams = 1};
  gloo_error error;
  setenv("GLOO_WAIT", "sleep", 1);
  if (gli_device_open(&lead_ops, &config, false, &one.device, &error) != 0)
    return -1;
  return gli_context_open(one.device, 0, 2, 1, NULL, -1, &context, &error);
}

static int tear_down(void **state) {
  (void)state;
  gloo_request_destroy(one.watched);
  gli_context_close(context);
  gli_device_close(one.device);
  return 0;
}

static void wait_for_it(void *status) {
  *(gloo_status *)status =
      gloo_request_wait(one.watched, GLOO_TIMEOUT_DEFAULT, NULL);
}

/* A thread that has lent the lock checks its operation again before it sleeps:
 * the borrower may have completed it. */
static void completed_while_the_lock_was_lent(void **state) {
  (void)state;
  const int32_t sent = 42;
  gloo_status status = GLOO_IN_PROGRESS;
  uv_thread_t thread;
  assert_int_equal(gloo_recv_start(context, &received, 1, GLOO_INT32, 0, NULL,
                                   &one.watched, NULL),
                   GLOO_OK);
  atomic_store(&one.hold, true);
  uv_thread_create(&thread, wait_for_it, &status);
  while (!atomic_load(&one.holding)) uv_sleep(1);
  assert_int_equal(gloo_send(context, &sent, 1, GLOO_INT32, 0, NULL, NULL),
                   GLOO_OK);
  uv_thread_join(&thread);
  assert_int_equal(status, GLOO_OK);
  assert_int_equal(received, 42);
  assert_int_equal(atomic_load(&one.slept_over), 0);
}

/* A call that fails immediately completes the operations of other threads,
 * which are asleep. */
static void failed_start_wakes_sleepers(void **state) {
  (void)state;
  const int32_t sent = 42;
  gloo_status status = GLOO_IN_PROGRESS;
  uv_thread_t thread;
  atomic_store(&one.sleep_here, true);
  assert_int_equal(gloo_recv_start(context, &received, 1, GLOO_INT32, 0, NULL,
                                   &one.watched, NULL),
                   GLOO_OK);
  uv_thread_create(&thread, wait_for_it, &status);
  while (atomic_load(&one.asleep) == 0) uv_sleep(1);
  assert_int_equal(gloo_send(context, &sent, 1, GLOO_INT32, 1, NULL, NULL),
                   GLOO_ERR_ADDRESS);
  int wakes = atomic_load(&one.wakes);
  atomic_store(&one.sleep_here, false);
  uv_thread_join(&thread);
  assert_true(wakes > 0);
  assert_int_equal(status, GLOO_ERR_ADDRESS);
}

/* ---- operations started behind others ------------------------------------ */

static gloo_request *start_recv(int32_t *value, uint32_t tag) {
  gloo_options options = GLOO_OPTIONS_INIT;
  gloo_request *op = NULL;
  options.tag = tag;
  assert_int_equal(
      gloo_recv_start(context, value, 1, GLOO_INT32, 0, &options, &op, NULL),
      GLOO_OK);
  return op;
}

static gloo_request *start_send(const int32_t *value) {
  gloo_request *op = NULL;
  assert_int_equal(
      gloo_send_start(context, value, 1, GLOO_INT32, 0, NULL, &op, NULL),
      GLOO_OK);
  return op;
}

/* Sets up an operation in progress without a helper thread: an operation
 * started now is deferred. */
static int set_up_busy(void **state) {
  int failed = set_up(state);
  if (failed) return failed;
  one.device->helper.exists = true;
  one.watched = start_recv(&received, 9);
  return 0;
}

static int tear_down_busy(void **state) {
  one.device->helper.exists = false;
  return tear_down(state);
}

static void expect_next(int32_t value) {
  int32_t got = -1;
  assert_int_equal(gloo_recv(context, &got, 1, GLOO_INT32, 0, NULL, NULL),
                   GLOO_OK);
  assert_int_equal(got, value);
}

static void what_is_deferred_is_not_overtaken(void **state) {
  (void)state;
  const int32_t sent[] = {0, 1, 2, 3, 4};
  int32_t fourth = -1;
  gloo_request *first = start_send(&sent[0]), *second = start_send(&sent[1]);
  assert_true(first->deferred && second->deferred);
  assert_int_equal(gloo_send(context, &sent[2], 1, GLOO_INT32, 0, NULL, NULL),
                   GLOO_OK);
  for (int32_t i = 0; i < 3; i++) expect_next(i);
  assert_int_equal(gloo_request_wait(first, GLOO_TIMEOUT_DEFAULT, NULL),
                   GLOO_OK);
  assert_int_equal(gloo_request_wait(second, GLOO_TIMEOUT_DEFAULT, NULL),
                   GLOO_OK);
  gloo_request_destroy(first);
  gloo_request_destroy(second);

  first = start_send(&sent[3]);
  assert_int_equal(gloo_sendrecv(context, &sent[4], 1, 0, &fourth, 1, 0,
                                 GLOO_INT32, NULL, NULL),
                   GLOO_OK);
  assert_int_equal(fourth, 3);
  expect_next(4);
  assert_int_equal(gloo_request_wait(first, GLOO_TIMEOUT_DEFAULT, NULL),
                   GLOO_OK);
  gloo_request_destroy(first);
}

static void what_is_deferred_can_be_taken_back(void **state) {
  (void)state;
  const int32_t sent[] = {0, 1};
  gloo_error error;
  gloo_request *op = start_send(&sent[0]);
  assert_int_equal(gloo_request_cancel(op, NULL), GLOO_OK);
  assert_int_equal(gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL),
                   GLOO_ERR_CANCELLED);
  gloo_request_destroy(op);
  assert_int_equal(gloo_context_error(context, &error), GLOO_OK);
  assert_int_equal(gloo_send(context, &sent[1], 1, GLOO_INT32, 0, NULL, NULL),
                   GLOO_OK);
  expect_next(1);
}

/* ---- calls that fail ----------------------------------------------------- */

static const int32_t word = 42;

/* A program built with fewer options has a smaller struct_size; the library
 * must not read beyond it. */
static void options_end_where_they_say(void **state) {
  (void)state;
  struct {
    size_t struct_size;
    int64_t timeout_ns;
    const char *algorithm;
    uint32_t tag;
    gloo_custom_op *not_ours;
  } older = {offsetof(gloo_options, custom), 0, NULL, 0, NULL};
  older.not_ours = (gloo_custom_op *)(uintptr_t)1;
  gloo_request *op;
  assert_int_equal(
      gloo_send_start(context, &word, 1, GLOO_INT32, 1,
                      (const gloo_options *)(const void *)&older, &op, NULL),
      GLOO_ERR_ADDRESS);
}

static void refused_start_tells_why(void **state) {
  (void)state;
  gloo_error error;
  gloo_request *op;
  assert_int_equal(gloo_barrier_init(context, NULL, &op, NULL), GLOO_OK);
  assert_int_equal(gloo_send(context, &word, 1, GLOO_INT32, 1, NULL, NULL),
                   GLOO_ERR_ADDRESS);
  assert_int_equal(gloo_request_error(op, &error), GLOO_OK);
  assert_int_equal(gloo_request_start(op, NULL), GLOO_ERR_POISONED);
  assert_int_equal(gloo_request_error(op, &error), GLOO_ERR_POISONED);
  assert_non_null(strstr(error.message, "nowhere"));
  gloo_request_destroy(op);
}

static void no_details_need_be_asked_for(void **state) {
  (void)state;
  gloo_request *op;
  assert_int_equal(gli_context_join_tree(context, NULL), GLOO_ERR_ADDRESS);
  assert_int_equal(gloo_barrier_init(context, NULL, &op, NULL), GLOO_OK);
  assert_int_equal(gloo_request_error(op, NULL), GLOO_OK);
  assert_int_equal(gloo_context_error(context, NULL), GLOO_OK);
  assert_int_equal(gloo_send(context, &word, 1, GLOO_INT32, 1, NULL, NULL),
                   GLOO_ERR_ADDRESS);
  assert_int_equal(gloo_request_start(op, NULL), GLOO_ERR_POISONED);
  assert_int_equal(gloo_request_error(op, NULL), GLOO_ERR_POISONED);
  assert_int_equal(gloo_context_error(context, NULL), GLOO_ERR_ADDRESS);
  gloo_request_destroy(op);
}

static void source_is_set_only_on_success(void **state) {
  (void)state;
  int source = 77;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.timeout_ns = 1000000;
  const int peer = 0;
  assert_int_equal(gloo_recv_any(context, &received, 1, GLOO_INT32, &peer, 1,
                                 &o, &source, NULL),
                   GLOO_ERR_TIMEOUT);
  assert_int_equal(source, 77);
}

/* ---- memory -------------------------------------------------------------- */

static void build_with_scratch(gli_builder *b, const gli_plan_params *p) {
  gli_range scratch = gli_scratch(b, (uint64_t)p->count << 20);
  gli_copy(b, gli_elems(p, GLI_IN, 0, 1),
           gli_bytes(GLI_SCRATCH, scratch.offset, 1));
}

/* Scratch memory is not kept for every size that a program has used. */
static void scratch_of_the_past_is_given_back(void **state) {
  enum { SIZES = 40, MIB = 1 << 20 };
  (void)state;
  uint8_t in[SIZES], out[SIZES];
  gloo_request *ops[SIZES];
  gloo_error error;
  for (uint64_t round = 0; round < 2; round++) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < SIZES; i++) {
      gli_call call = {.build = build_with_scratch,
                       .params = {.collective = GLI_ALLREDUCE,
                                  .size = 2,
                                  .count = i + 1,
                                  .elem_bytes = 1,
                                  .segment_bytes = 1 << 20},
                       .input = in,
                       .output = out};
      assert_int_equal(gli_operation_prepare(context, &call, &ops[i], &error),
                       GLOO_OK);
      assert_int_equal(gloo_request_start(ops[i], NULL), GLOO_OK);
      assert_int_equal(gloo_request_wait(ops[i], GLOO_TIMEOUT_DEFAULT, NULL),
                       GLOO_OK);
      gloo_request_destroy(ops[i]);
    }
    /* The operations are in the pools of their plans now. */
    for (uint64_t i = 0; i < SIZES; i++) {
      if (ops[i]->scratch) kept += (i + 1) * MIB;
    }
    assert_true(kept >= SIZES * (uint64_t)MIB);
    assert_true(kept <= GLI_IDLE_SCRATCH);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(completed_while_the_lock_was_lent, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(failed_start_wakes_sleepers, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(what_is_deferred_is_not_overtaken,
                                      set_up_busy, tear_down_busy),
      cmocka_unit_test_setup_teardown(what_is_deferred_can_be_taken_back,
                                      set_up_busy, tear_down_busy),
      cmocka_unit_test_setup_teardown(options_end_where_they_say, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(refused_start_tells_why, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(no_details_need_be_asked_for, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(source_is_set_only_on_success, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(scratch_of_the_past_is_given_back, set_up,
                                      tear_down),
  };
  return cmocka_run_group_tests_name("alone", tests, NULL, NULL);
}
