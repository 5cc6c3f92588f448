/* Decisions of `gloo run` on failures, with a clock of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants those above first */
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/run_policy.h"

enum { RANKS = 4, GRACE = 1000, HOLD = 250 };

static struct {
  char said[4096];
  int signals[16], n_signals;
  bool runs[RANKS];
} job;

static void signal_ranks(void *user, int signum) {
  (void)user;
  assert_true(job.n_signals < 16);
  job.signals[job.n_signals++] = signum;
}

static bool rank_runs(void *user, int rank) {
  (void)user;
  return job.runs[rank];
}

static void say_line(void *user, const char *line) {
  (void)user;
  size_t used = strlen(job.said);
  snprintf(job.said + used, sizeof job.said - used, "%s\n", line);
}

static bool replace_rank(void *user, int rank) {
  (void)user;
  if (rank == 0) return false; /* it cannot be started */
  job.runs[rank] = true;
  return true;
}

static const gli_run_policy_ops ops = {signal_ranks, rank_runs, say_line,
                                       replace_rank};

static gli_run_policy begin(int min_ranks, uint64_t hold_ms) {
  memset(&job, 0, sizeof job);
  for (int i = 0; i < RANKS; i++) job.runs[i] = true;
  return (gli_run_policy){.ops = &ops,
                          .ranks = RANKS,
                          .min_ranks = min_ranks,
                          .grace_ms = GRACE,
                          .hold_ms = hold_ms};
}

static void end_rank(gli_run_policy *p, uint64_t now, int rank, int status,
                     int signum) {
  gli_run_end end = {.rank = rank,
                     .pid = 100 + rank,
                     .host = "h",
                     .status = status,
                     .signum = signum,
                     .memory = ""};
  job.runs[rank] = false;
  gli_run_policy_ended(p, now, &end);
}

static void assert_said(const char *text) {
  assert_string_equal(job.said, text);
  job.said[0] = '\0';
}

static void ranks_get_grace_then_sigterm_then_sigkill(void **state) {
  (void)state;
  gli_run_policy p = begin(0, 0);
  end_rank(&p, 10, 0, 0, 0);
  assert_false(p.failed);
  assert_false(gli_run_policy_tick(&p, 10));
  end_rank(&p, 20, 1, 7, 0);
  assert_said("rank 1 (pid 101 on h) failed: exit status 7\n");
  assert_true(gli_run_policy_tick(&p, 20 + GRACE - 1));
  assert_int_equal(job.n_signals, 0);
  assert_true(gli_run_policy_tick(&p, 20 + GRACE));
  assert_said("stopping ranks 2, 3\n");
  assert_int_equal(job.signals[0], SIGTERM);
  assert_int_equal(job.signals[1], SIGCONT);
  end_rank(&p, 1100, 2, 0, SIGTERM);
  assert_false(gli_run_policy_tick(&p, 20 + 2 * GRACE));
  assert_said("killing rank 3\n");
  assert_int_equal(job.signals[2], SIGKILL);
  assert_int_equal(p.also_failed, 0);
  gli_run_policy_finish(&p, false);
  assert_said("");
  gli_run_policy_finish(&p, true);
  assert_said("first failure: rank 1 (pid 101 on h) failed: exit status 7\n");
  assert_int_equal(p.exit_status, 7);
}

static void an_exit_status_waits_for_its_cause(void **state) {
  (void)state;
  gli_run_policy p = begin(0, HOLD);
  end_rank(&p, 0, 0, 1, 0);
  end_rank(&p, 1, 1, 1, 0);
  assert_true(gli_run_policy_tick(&p, HOLD - 1));
  assert_said("");
  end_rank(&p, HOLD - 1, 2, 0, SIGKILL);
  assert_int_equal(
      strncmp(job.said, "rank 2 (pid 102 on h) failed: killed", 36), 0);
  assert_int_equal(p.exit_status, 128 + SIGKILL);
  assert_int_equal(p.also_failed, 2);
}

static void without_another_cause_it_is_the_first_failure(void **state) {
  (void)state;
  gli_run_policy p = begin(0, HOLD);
  end_rank(&p, 0, 0, 3, 0);
  end_rank(&p, 1, 1, 4, 0);
  assert_true(gli_run_policy_tick(&p, HOLD));
  assert_said("rank 0 (pid 100 on h) failed: exit status 3\n");
  assert_int_equal(p.exit_status, 3);
  assert_int_equal(p.also_failed, 1);
  end_rank(&p, HOLD + 1, 2, 0, SIGSEGV);
  assert_int_equal(p.exit_status, 3);
  p = begin(0, HOLD);
  end_rank(&p, 0, 0, 3, 0);
  gli_run_policy_flush(&p, 1);
  assert_said("rank 0 (pid 100 on h) failed: exit status 3\n");
}

static void a_lost_host_precedes_exit_statuses(void **state) {
  (void)state;
  gli_run_policy p = begin(0, HOLD);
  end_rank(&p, 0, 0, 1, 0);
  gli_run_policy_lost(&p, 5, 2, "host b is lost", 1);
  assert_said("host b is lost\n");
  assert_int_equal(p.also_failed, 1);
  gli_run_policy_finish(&p, true);
  assert_said("1 more failed afterwards\nfirst failure: host b is lost\n");
}

static void ranks_are_replaced_until_restarts_run_out(void **state) {
  (void)state;
  gli_run_policy p = begin(0, 0);
  p.max_restarts = 2;
  end_rank(&p, 0, 1, 7, 0);
  assert_said(
      "rank 1 (pid 101 on h) failed: exit status 7; another process "
      "takes its place (1 of 2)\n");
  end_rank(&p, 1, 1, 0, 0);
  end_rank(&p, 2, 2, 0, SIGSEGV);
  assert_non_null(strstr(job.said, "takes its place (2 of 2)"));
  assert_false(p.failed);
  job.said[0] = '\0';
  end_rank(&p, 3, 3, 5, 0);
  assert_said("rank 3 (pid 103 on h) failed: exit status 5\n");
  assert_true(p.failed && p.exit_status == 5);
}

static void rank_without_a_replacement_ends_the_job(void **state) {
  (void)state;
  gli_run_policy p = begin(0, 0);
  p.max_restarts = 2;
  end_rank(&p, 0, 0, 7, 0);
  assert_true(p.failed && p.restarts == 0);
  p = begin(0, 0);
  p.max_restarts = 2;
  gli_run_policy_signal(&p, SIGHUP);
  end_rank(&p, 0, 1, 0, SIGHUP);
  assert_true(p.failed && p.restarts == 0);
}

static void a_job_continues_with_its_minimum_of_ranks(void **state) {
  (void)state;
  gli_run_policy p = begin(2, HOLD);
  gli_run_policy_lost(&p, 0, 2, "host b is lost", 1);
  assert_said("host b is lost; the job continues with 2\n");
  assert_false(p.failed);
  assert_int_equal(p.exit_status, 0);
  end_rank(&p, 1, 0, 5, 0);
  assert_true(gli_run_policy_tick(&p, 1 + HOLD));
  assert_said("rank 0 (pid 100 on h) failed: exit status 5\n");
  assert_int_equal(p.exit_status, 5);
  p = begin(3, HOLD);
  gli_run_policy_lost(&p, 0, 2, "host b is lost", 1);
  assert_said("host b is lost\n");
  assert_true(p.failed);
}

static void the_third_interrupt_kills(void **state) {
  (void)state;
  gli_run_policy p = begin(0, 0);
  gli_run_policy_signal(&p, SIGUSR1);
  gli_run_policy_signal(&p, SIGINT);
  assert_said("");
  gli_run_policy_signal(&p, SIGTERM);
  assert_said("a third SIGINT or SIGTERM will kill ranks 0, 1, 2, 3\n");
  gli_run_policy_signal(&p, SIGINT);
  const int expected[] = {SIGUSR1, SIGINT, SIGTERM, SIGKILL};
  assert_memory_equal(job.signals, expected, sizeof expected);
  end_rank(&p, 0, 0, 0, SIGINT);
  assert_non_null(strstr(job.said, "terminated by the forwarded signal 2"));
  p = begin(0, 0);
  for (int i = 0; i < 3; i++) gli_run_policy_signal(&p, SIGINT);
  end_rank(&p, 0, 1, 0, SIGKILL);
  assert_non_null(strstr(job.said, "killed by the third SIGINT or SIGTERM"));
}

static void a_job_stops_without_grace(void **state) {
  (void)state;
  gli_run_policy p = begin(0, HOLD);
  gli_run_policy_stop(&p, 7, "cannot start rank 3", 126);
  assert_true(gli_run_policy_tick(&p, 7));
  assert_said("cannot start rank 3\nstopping ranks 0, 1, 2, 3\n");
  assert_int_equal(p.exit_status, 126);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_get_grace_then_sigterm_then_sigkill),
      cmocka_unit_test(an_exit_status_waits_for_its_cause),
      cmocka_unit_test(without_another_cause_it_is_the_first_failure),
      cmocka_unit_test(a_lost_host_precedes_exit_statuses),
      cmocka_unit_test(ranks_are_replaced_until_restarts_run_out),
      cmocka_unit_test(rank_without_a_replacement_ends_the_job),
      cmocka_unit_test(a_job_continues_with_its_minimum_of_ranks),
      cmocka_unit_test(the_third_interrupt_kills),
      cmocka_unit_test(a_job_stops_without_grace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
