/* gloo plan --check and --check-all: runs the checker. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "core/text.h"
#include "proof/check.h"
#include "tools/plan_sweep.h"
#include "tools/plan_tool.h"
#include "tools/progress.h"
#include "tools/tools.h"

static int complain(const gloo_error *error) {
  fprintf(stderr, "gloo plan: %s\n", error->message);
  return GLI_EXIT_FAILED;
}

int gli_plan_check(const gli_plan_question *q) {
  gloo_error error;
  gli_checker *checker = gli_checker_create(0);
  if (checker == NULL) {
    fprintf(stderr, "gloo plan: out of memory for a checker\n");
    return GLI_EXIT_FAILED;
  }
  gli_plan_params p = gli_plan_params_for(q, q->algorithm);
  gli_check_report report;
  gli_progress_begin("gloo plan", 0);
  gli_progress_say("checking %s", gli_count(p.size, "rank").text);
  gloo_status status =
      gli_checker_run(checker, q->algorithm->build, &p, &report, &error);
  gli_progress_end();
  gli_checker_destroy(checker);
  if (status != GLOO_OK) return complain(&error);
  printf("%s %s: %s, %s, %s: correct\n", gli_collective_name(p.collective),
         q->algorithm->name, gli_count(p.size, "plan").text,
         gli_count(report.steps, "step").text,
         gli_count(report.messages, "message").text);
  if (!report.streamed) {
    printf("longest chain of messages: %u\n", report.rounds);
  }
  printf("most bytes sent by one rank: %" PRIu64 "\n", report.max_sent_bytes);
  printf("most scratch memory of one rank: %s\n",
         gli_count(report.max_scratch_bytes, "byte").text);
  return GLI_EXIT_OK;
}

static unsigned cores(void) {
  uv_cpu_info_t *info;
  int count;
  if (uv_cpu_info(&info, &count) != 0) return 1;
  uv_free_cpu_info(info, count);
  return count > 0 ? (unsigned)count : 1;
}

static int print_results(const gli_sweep_result *results, double seconds) {
  uint64_t plans = 0, steps = 0, failures = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_sweep_result *r = &results[i];
    printf("%-14s  %-18s  %10" PRIu64 " plans  %12" PRIu64 " steps  ",
           gli_collective_name(r->algorithm->collective), r->algorithm->name,
           r->plans, r->steps);
    if (r->failures == 0) printf("ok\n");
    if (r->failures != 0) printf("%" PRIu64 " WRONG\n", r->failures);
    plans += r->plans;
    steps += r->steps;
    failures += r->failures;
  }
  printf("%s, %s checked in %.1f s: ", gli_count(plans, "plan").text,
         gli_count(steps, "step").text, seconds);
  if (failures == 0) {
    printf("all correct\n");
    return GLI_EXIT_OK;
  }
  printf("%s failed\n", gli_count(failures, "check").text);
  fflush(stdout);
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (results[i].failures != 0) complain(&results[i].first);
  }
  return GLI_EXIT_FAILED;
}

int gli_plan_check_all(uint32_t from, uint32_t to) {
  gloo_error error;
  gli_sweep_result *results = calloc(gli_algorithm_count, sizeof(*results));
  if (results == NULL) {
    fprintf(stderr, "gloo plan: out of memory\n");
    return GLI_EXIT_FAILED;
  }
  uint64_t start = uv_hrtime();
  gli_progress_begin("gloo plan", gli_algorithm_count * (to - from + 1));
  gli_progress_say("checking up to %s", gli_count(to, "rank").text);
  gloo_status status = gli_sweep(gli_algorithms, gli_algorithm_count, from, to,
                                 cores(), results, &error);
  gli_progress_end();
  double seconds = (double)(uv_hrtime() - start) / 1e9;
  int exit_status =
      status == GLOO_OK ? print_results(results, seconds) : complain(&error);
  free(results);
  return exit_status;
}
