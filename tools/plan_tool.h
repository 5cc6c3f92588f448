/* Shared parts of `gloo plan`. */
#ifndef GLI_TOOLS_PLAN_TOOL_H
#define GLI_TOOLS_PLAN_TOOL_H

#include "algorithms/registry.h"
#include "proof/simulate.h"

/* One request of the command line. */
typedef struct gli_plan_question {
  gli_plan_params params;
  const gli_algorithm *algorithm;
  bool algorithm_given, segment_given;
} gli_plan_question;

/* Returns the parameters, with the segment size that the library would use for
 * this algorithm unless one was given. */
gli_plan_params gli_plan_params_for(const gli_plan_question *question,
                                    const gli_algorithm *algorithm);

/* Parses the text of --hosts; sets `hosts` on success only. */
gloo_status gli_plan_hosts(const char *text, uint32_t size, gli_hosts **hosts,
                           gloo_error *error);

/* The subcommands print to standard output, or errors to standard error, and
 * return the exit status. */
int gli_plan_list(void);
int gli_plan_print(const gli_plan_question *question);
int gli_plan_check(const gli_plan_question *question);
int gli_plan_check_all(uint32_t from, uint32_t to);
int gli_plan_simulate(const gli_plan_question *question,
                      const gli_sim_model *model);
/* Simulates the start of a job of params.size ranks on params.hosts. */
int gli_plan_bootstrap(const gli_plan_question *question,
                       const gli_sim_model *model);
int gli_plan_docs(void);

void gli_plan_print_links(const gli_sim_model *model);

#endif
