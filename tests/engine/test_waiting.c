/* Waiting on a simulated clock: a thread stops spinning if that does not help
 * because its peer needs the same core. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdlib.h>

#include "engine/drive/drive.h"
#include "engine/state/operation.h"

/* ---- a transport whose peer runs when it gets the core ------------------- */

/* The cost of a poll, so high that spinning ends before the 256th poll, when
 * deadlines are checked. Two clock readings without a poll between them are
 * therefore those around the first yield of a wait. */
enum { POLL_NS = 400 };

static struct {
  gli_transport base;
  gloo_request *awaited;
  uint64_t now_ns;
  unsigned looks; /* clock readings since the last poll */
  unsigned polls;
  unsigned comes_at; /* poll that completes it; 0: the first after a yield */
  uint64_t yield_ns; /* duration of a yield */
} one;

static const gli_transport_ops clock_ops;

static gloo_status clock_open(const gli_transport_config *config,
                              gli_transport **t, gloo_error *error) {
  (void)config;
  (void)error;
  one.base.ops = &clock_ops;
  *t = &one.base;
  return GLOO_OK;
}

static uint64_t clock_now_ns(gli_transport *t) {
  (void)t;
  if (++one.looks == 2) one.now_ns += one.yield_ns;
  return one.now_ns;
}

static int clock_poll(gli_transport *t) {
  (void)t;
  bool yielded = one.looks >= 2;
  one.looks = 0;
  one.now_ns += POLL_NS;
  one.polls++;
  bool comes = one.comes_at > 0 ? one.polls == one.comes_at : yielded;
  if (comes) one.awaited->state = GLI_OPERATION_DONE;
  return comes ? 1 : 0;
}

static void clock_block(gli_transport *t, int64_t timeout_ns) {
  (void)t;
  (void)timeout_ns;
  fail_msg("nobody needs to sleep here");
}

static void clock_close(gli_transport *t) {
  (void)t;
}

static const gli_transport_ops clock_ops = {
    .name = "clock",
    .open = clock_open,
    .now_ns = clock_now_ns,
    .poll = clock_poll,
    .sleep = clock_block,
    .close = clock_close,
};

/* ---- waiting ------------------------------------------------------------- */

enum { TIMES = 64, FEW = 4, MANY = 100 };
static const uint64_t alone_ns = 200, shared_ns = 5000, hog_ns = 3000000;

static gloo_device *device;
static gloo_request operation;

static int set_up(void **state) {
  (void)state;
  one.awaited = &operation;
  one.now_ns = 1;
  gli_transport_config config = {.streams = 1};
  gloo_error error;
  unsetenv("GLOO_WAIT");
  return gli_device_open(&clock_ops, &config, false, &device, &error);
}

static int tear_down(void **state) {
  (void)state;
  gli_device_close(device);
  return 0;
}

/* Waits `times` times, and returns the number of polls of the last wait. */
static unsigned wait_for_it(unsigned times, unsigned comes_at,
                            uint64_t yield_ns) {
  one.comes_at = comes_at;
  one.yield_ns = yield_ns;
  while (times-- > 0) {
    one.polls = one.looks = 0;
    operation.state = GLI_OPERATION_RUNNING;
    gli_device_lock(device);
    gli_device_wait(device, &operation);
    gli_device_unlock(device);
  }
  return one.polls;
}

static void spins_where_spinning_helps(void **state) {
  (void)state;
  assert_int_equal(wait_for_it(TIMES, MANY, alone_ns), MANY);
  assert_true(wait_for_it(1, 0, alone_ns) > MANY);
}

static void stops_spinning_when_a_yield_brings_it(void **state) {
  (void)state;
  assert_true(wait_for_it(1, 0, shared_ns) > MANY);
  assert_true(wait_for_it(TIMES, 0, shared_ns) <= FEW);
}

static void spins_again_once_it_is_alone(void **state) {
  (void)state;
  assert_true(wait_for_it(TIMES, 0, shared_ns) <= FEW);
  (void)wait_for_it(TIMES, FEW, alone_ns);
  assert_true(wait_for_it(1, 0, alone_ns) > MANY);
}

/* A thread keeps spinning if a yield gives the core away for long, since that
 * does not help the peer. */
static void spins_where_somebody_else_has_the_core_for_long(void **state) {
  (void)state;
  assert_true(wait_for_it(TIMES, 0, hog_ns) > MANY);
  assert_true(wait_for_it(TIMES, 0, shared_ns) <= FEW);
  (void)wait_for_it(1, 0, hog_ns);
  assert_true(wait_for_it(1, 0, hog_ns) > MANY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(spins_where_spinning_helps, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(stops_spinning_when_a_yield_brings_it,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(spins_again_once_it_is_alone, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(
          spins_where_somebody_else_has_the_core_for_long, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("how a thread waits", tests, NULL, NULL);
}
