/* Frequent signals, as from a profiler. Interrupted calls are repeated, calls
 * whose work the kernel undoes are repeated for smaller parts, and no call
 * repeats without end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "faults/faulty_job.h"
#include "memory/region.h"

static const char *transport;

/* ---- gloo_alloc ---------------------------------------------------------- */

static bool is_shared(const void *memory, size_t bytes) {
  gli_region region;
  return gli_region_find(memory, bytes, &region);
}

static void *allocate(size_t bytes, size_t longest) {
  void *memory = NULL;
  gloo_error error;
  failing_calls_interrupt_fallocate(longest);
  gloo_status status = gloo_alloc(bytes, &memory, &error);
  bool undone = failing_calls_interrupted() > 0;
  failing_calls_interrupt_fallocate(SIZE_MAX);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  assert_true(undone);
  memset(memory, 1, bytes);
  return memory;
}

/* Sizes that the kernel can reserve between two ticks at 100, 1,000 and 5,000
 * Hz. */
static void memory_is_had_in_parts_that_end_between_ticks(void **state) {
  static const struct {
    size_t bytes, longest;
  } cases[] = {{32 << 20, 1 << 20}, {8 << 20, 64 << 10}, {1 << 20, 4096}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    void *memory = allocate(cases[i].bytes, cases[i].longest);
    assert_true(is_shared(memory, cases[i].bytes));
    gloo_free(memory);
  }
}

static void memory_that_is_never_had_is_replaced_by_ordinary(void **state) {
  (void)state;
  size_t bytes = 8 << 20;
  void *memory = allocate(bytes, 1);
  assert_false(is_shared(memory, bytes));
  gloo_free(memory);
}

/* ---- jobs ---------------------------------------------------------------- */

static void run(faulty_job *job, faulty_plan plan) {
  plan.transport = transport;
  plan.rank = FAULTY_ALL;
  plan.timeout_ns = INT64_C(30000000000);
  faulty_job_make(job);
  faulty_job_begin(job, &plan);
  faulty_job_wait(job);
  bool interrupted = plan.interrupt_often;
  for (int r = 0; r < FAULTY_RANKS; r++)
    interrupted = interrupted || job->reports[r].interrupted > 0;
  if (!faulty_job_is_clean(job) || !interrupted) {
    faulty_job_tell(job);
    fail();
  }
}

static void assert_right(faulty_job *job) {
  if (!faulty_job_is_right(job)) {
    faulty_job_tell(job);
    fail();
  }
  faulty_job_free(job);
}

static void jobs_start_while_long_reservations_are_undone(void **state) {
  (void)state;
  faulty_job job;
  run(&job, (faulty_plan){.longest_fallocate = 16 << 10});
  assert_right(&job);
}

static void jobs_without_reservations_use_tcp_or_say_so(void **state) {
  (void)state;
  faulty_job job;
  run(&job, (faulty_plan){.longest_fallocate = 1});
  if (strcmp(transport, "shm") != 0) {
    assert_right(&job);
    return;
  }
  for (int r = 0; r < FAULTY_RANKS; r++)
    assert_int_not_equal(job.reports[r].status, GLOO_OK);
  faulty_job_free(&job);
}

static void jobs_go_on_while_every_second_call_is_interrupted(void **state) {
  (void)state;
  faulty_job job;
  run(&job, (faulty_plan){.interrupt_often = true});
  for (int r = 0; r < FAULTY_RANKS; r++)
    assert_true(job.reports[r].interrupted > 0);
  assert_right(&job);
}

/* Argument: the transport. */
int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  failing_calls_begin();
  alarm(250); /* stops a call that repeats without end */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_had_in_parts_that_end_between_ticks),
      cmocka_unit_test(memory_that_is_never_had_is_replaced_by_ordinary),
      cmocka_unit_test(jobs_start_while_long_reservations_are_undone),
      cmocka_unit_test(jobs_without_reservations_use_tcp_or_say_so),
      cmocka_unit_test(jobs_go_on_while_every_second_call_is_interrupted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
