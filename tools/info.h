/* `gloo info`: describes the job in which it runs. */
#ifndef GLI_TOOLS_INFO_H
#define GLI_TOOLS_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "plan/builder.h"

/* Groups of consecutive ranks that each rank makes; `count` may be 0. */
typedef struct gli_info_groups {
  int64_t count, members;
} gli_info_groups;

/* Prints, on rank 0, host and cores of each rank and how it waits. For each pair
 * of ranks it prints the transport and the reason why no better one is used,
 * and last the memory of a rank. Every rank of a job calls it. It makes every pair
 * communicate. `out` is NULL for text. Returns the exit status. */
int gli_info_job(const gli_info_groups *groups, gli_json *out);

/* The ranks for which choices are shown: those of a job, or `ranks` ranks on
 * one host. */
typedef struct gli_info_tuning {
  const struct gloo_context *context; /* NULL: no job */
  int64_t ranks;
  gli_locality locality;
} gli_info_tuning;

/* Prints which algorithm is chosen for each collective from which size on, as a
 * tuning file. Returns the exit status. */
int gli_info_print_tuning(const gli_info_tuning *what, gli_json *out);

#endif
