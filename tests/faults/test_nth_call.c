/* The n-th of each call fails in one rank, for n = 1, 2, 3 and so on until a
 * whole job (start, 24 collectives, end) makes fewer calls. Each rank then has
 * right results or an error, never crashes or hangs, and leaves nothing behind.
 * Several jobs run at the same time, since ranks mostly wait for the failed
 * one. Such a wait ends with an error after a timeout, so timeouts are short; a
 * job that times out without a failed call is repeated with a long timeout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "faults/faulty_job.h"

/* Values of n: all up to DENSE, then one in `stride`, until QUIET jobs in a row
 * have made fewer than n calls. The number of some calls depends on timing. */
enum {
  JOBS = 8,
  DENSE = 24,
  QUIET = 3,
  FAULTS_TOLD = 40,
  FAULTS_MAX = 60,
  TRIES = 3
};
static const int64_t short_ns = 1500000000, long_ns = 30000000000;

static const char *transport;
static int faulty_rank;
static unsigned long stride;

/* ---- counting ------------------------------------------------------------ */

typedef struct tally {
  unsigned long next; /* n of the next job */
  unsigned long last; /* largest n that failed */
  int quiet;          /* latest jobs in a row without a failed call */
  int runs, errors, right, misled, faults;
  int64_t longest_ns;
} tally;

static bool failed(const faulty_job *job) {
  return job->reports[job->plan.rank].made >= job->plan.n;
}

/* Returns true if the rank with the fault blames another rank for its own lack
 * of resources. It may blame a rank that timed out or ended for want of its
 * answer. */
static bool is_misled(const faulty_job *job) {
  const faulty_report *report = &job->reports[job->plan.rank];
  if (!failing_calls_is_lack(job->plan.call)) return false;
  if (report->status == GLOO_OK || report->named < 0) return false;
  if (report->named == job->plan.rank) return false;
  return (report->status != GLOO_ERR_TIMEOUT &&
          report->status != GLOO_ERR_PEER) ||
         strstr(report->message, failing_calls_text(job->plan.call)) != NULL;
}

static void add_fault(tally *t, const faulty_job *job) {
  if (t->faults++ >= FAULTS_TOLD) return;
  printf("# %s no. %lu in rank %d of %d, %s:\n",
         failing_calls_name(job->plan.call), job->plan.n, job->plan.rank,
         FAULTY_RANKS, transport);
  faulty_job_tell(job);
}

/* Runs a job without a failed call again: its results must be right, unless the
 * machine was so busy that a short timeout expired. */
static void run_again(tally *t, faulty_job *job) {
  faulty_plan plan = job->plan;
  plan.timeout_ns = long_ns;
  for (int i = 0; i < TRIES; i++) {
    faulty_job_begin(job, &plan);
    faulty_job_wait(job);
    if (!faulty_job_is_clean(job) || faulty_job_is_right(job)) break;
  }
  if (!failed(job) && !faulty_job_is_right(job)) add_fault(t, job);
}

static void add(tally *t, faulty_job *job) {
  t->runs++;
  for (int r = 0; r < FAULTY_RANKS; r++)
    if (job->reports[r].took_ns > t->longest_ns)
      t->longest_ns = job->reports[r].took_ns;
  bool right = faulty_job_is_right(job);
  if (!faulty_job_is_clean(job)) {
    add_fault(t, job);
    return;
  }
  t->quiet = failed(job) ? 0 : t->quiet + 1;
  if (failed(job) && job->plan.n > t->last) t->last = job->plan.n;
  if (!failed(job) && !right) run_again(t, job);
  if (right) t->right++;
  if (!right) t->errors++;
  if (!is_misled(job)) return;
  t->misled++;
  add_fault(t, job);
}

/* ---- running ------------------------------------------------------------- */

static void begin_next(tally *t, faulty_job *job, failing_call call) {
  faulty_plan plan = {.transport = transport,
                      .timeout_ns = short_ns,
                      .rank = faulty_rank,
                      .call = call,
                      .n = t->next};
  t->next += t->next < DENSE ? 1 : stride;
  faulty_job_begin(job, &plan);
}

/* Returns true if every rank makes this call on every transport, whatever the
 * timing. */
static bool is_always_made(failing_call call) {
  return call != FAILING_EVENTFD && call != FAILING_PIPE2 &&
         call != FAILING_ACCEPT && call != FAILING_READ &&
         call != FAILING_WRITE;
}

static void run_all(failing_call call) {
  static faulty_job jobs[JOBS];
  bool busy[JOBS] = {false};
  tally t = {.next = 1};
  for (int i = 0; i < JOBS; i++) faulty_job_make(&jobs[i]);
  int running = 0;
  do {
    for (int i = 0; i < JOBS; i++) {
      if (busy[i] && faulty_job_has_ended(&jobs[i])) {
        busy[i] = false;
        running--;
        add(&t, &jobs[i]);
      }
      if (busy[i] || t.quiet >= QUIET || t.faults > FAULTS_MAX) continue;
      begin_next(&t, &jobs[i], call);
      busy[i] = true;
      running++;
    }
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  } while (running > 0);
  for (int i = 0; i < JOBS; i++) faulty_job_free(&jobs[i]);
  printf(
      "# %s, %s, rank %d: %d runs, the last that failed was no. %lu, %d "
      "errors, %d right, %d "
      "blame another rank, %d faults; the longest took %.1f s\n",
      failing_calls_name(call), transport, faulty_rank, t.runs, t.last,
      t.errors, t.right, t.misled, t.faults, (double)t.longest_ns / 1e9);
  fflush(stdout);
  assert_int_equal(t.faults, 0);
  if (is_always_made(call)) assert_true(t.last > 0);
}

static void the_nth_fails(void **state) {
  run_all(*(failing_call *)*state);
}

/* Arguments: transport, rank, stride of n, optionally the only call. */
int main(int argc, char **argv) {
  static failing_call calls[FAILING_CALLS];
  struct CMUnitTest tests[FAILING_CALLS];
  transport = argc > 1 ? argv[1] : "tcp";
  faulty_rank = argc > 2 ? atoi(argv[2]) : 0;
  stride = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
  const char *only = argc > 4 ? argv[4] : NULL;
  failing_calls_begin();
  size_t n = 0;
  for (failing_call call = 0; call < FAILING_CALLS; call++) {
    if (only != NULL && strcmp(only, failing_calls_name(call)) != 0) continue;
    calls[n] = call;
    tests[n] = (struct CMUnitTest){.name = failing_calls_name(call),
                                   .test_func = the_nth_fails,
                                   .initial_state = &calls[n]};
    n++;
  }
  return _cmocka_run_group_tests("nth_call", tests, n, NULL, NULL);
}
