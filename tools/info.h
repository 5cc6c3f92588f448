/* `gloo info`: what is shown of the job that it is run in. */
#ifndef GLI_TOOLS_INFO_H
#define GLI_TOOLS_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "plan/builder.h"

/* Called by every rank of a job. Rank 0 prints for each rank where it is and
 * how it waits, and for each pair of ranks what they talk through and why not
 * through something better. Every pair is made to talk for that. `out` is NULL
 * for text. Returns the exit status. */
int gli_info_job(gli_json *out);

/* For which ranks choices are shown: those of a job, or so many on one host. */
typedef struct gli_info_tuning {
  const struct gloo_context *context; /* NULL: there is none */
  int64_t ranks;
  gli_locality locality;
} gli_info_tuning;

/* Print which algorithm is chosen for each collective, from which size on, in
 * the form of a tuning file. Returns the exit status. */
int gli_info_print_tuning(const gli_info_tuning *what, gli_json *out);

#endif
