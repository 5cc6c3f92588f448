/* gloo plan --simulate: runs the simulator. */
#include <inttypes.h>
#include <stdio.h>

#include "core/text.h"
#include "tools/plan_tool.h"
#include "tools/tools.h"

static int simulate_one(const gli_plan_question *q, const gli_algorithm *a,
                        const gli_sim_model *model) {
  gloo_error error;
  gli_sim_report r;
  gli_plan_params p = gli_plan_params_for(q, a);
  gloo_status status = gli_simulate(a->build, &p, model, &r, NULL, &error);
  if (status != GLOO_OK) {
    fprintf(stderr, "gloo plan: %s %s: %s\n", gli_collective_name(p.collective),
            a->name, error.message);
    return GLI_EXIT_FAILED;
  }
  printf("%-20s %14.3f %14.3f %12" PRIu64 " %16" PRIu64 " %16" PRIu64 "%s\n",
         a->name, r.total_ns / 1000, r.first_done_ns / 1000, r.messages,
         r.bytes_inside, r.bytes_across,
         a == q->algorithm && !q->algorithm_given ? "  <- chosen" : "");
  return GLI_EXIT_OK;
}

static void print_link(const char *name, const gli_sim_link *l) {
  printf("%s: latency %.3f us, overhead %.3f us, gap %.3f us, %.3f GB/s\n",
         name, l->latency_ns / 1000, l->overhead_ns / 1000, l->gap_ns / 1000,
         l->per_byte_ns > 0 ? 1 / l->per_byte_ns : 0);
}

void gli_plan_print_links(const gli_sim_model *model) {
  print_link("inside a host", &model->inside);
  print_link("across hosts ", &model->across);
}

/* Compares all algorithms of the collective if none is given. */
int gli_plan_simulate(const gli_plan_question *q, const gli_sim_model *model) {
  const gli_plan_params *p = &q->params;
  printf("%s of %s on %s, count %" PRIu64 " of %" PRIu64 " bytes%s\n",
         gli_collective_name(p->collective), gli_count(p->size, "rank").text,
         gli_count(p->hosts != NULL ? p->hosts->n : 1, "host").text, p->count,
         p->elem_bytes, p->in_place ? ", in place" : "");
  gli_plan_print_links(model);
  printf("\n%-20s %14s %14s %12s %16s %16s\n", "algorithm", "last done us",
         "first done us", "messages", "bytes inside", "bytes across");
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective != p->collective) continue;
    if (q->algorithm_given && a != q->algorithm) continue;
    int exit_status = simulate_one(q, a, model);
    if (exit_status != GLI_EXIT_OK) return exit_status;
  }
  return GLI_EXIT_OK;
}
