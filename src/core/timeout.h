/* Times in seconds that the environment sets, and the time limits that a
 * program leaves at GLOO_TIMEOUT_DEFAULT. */
#ifndef GLI_CORE_TIMEOUT_H
#define GLI_CORE_TIMEOUT_H

#include <stdint.h>

#include "gloo_c/status.h"

/* The default of both limits. */
#define GLI_TIMEOUT_NS INT64_C(30000000000)

/* The range of a variable: seconds between `least_ms` and `most_ms`, or the
 * word `none`, which means `none_ns`. */
typedef struct gli_seconds {
  const char *name, *none;
  int64_t least_ms, most_ms, none_ns, usual_ns;
} gli_seconds;

/* The variable's value; `usual_ns` where it is not set. The decimal point is a
 * dot in every locale. GLOO_ERR_INVALID for other values. */
gloo_status gli_seconds_read(const gli_seconds *variable, int64_t *ns,
                             gloo_error *error);

/* A time limit of a call of the program: `option_ns`, and where that is
 * GLOO_TIMEOUT_DEFAULT what the environment says of its kind. */
gloo_status gli_timeout_of_start(int64_t option_ns, int64_t *ns,
                                 gloo_error *error);
gloo_status gli_timeout_of_operations(int64_t option_ns, int64_t *ns,
                                      gloo_error *error);

#endif
