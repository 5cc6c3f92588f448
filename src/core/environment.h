/* Environment variables: the one place where they are read, and the time limits
 * that a program leaves at GLOO_TIMEOUT_DEFAULT. */
#ifndef GLI_CORE_ENVIRONMENT_H
#define GLI_CORE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* NULL where it is not set, and where it is set to nothing: a script that says
 * NAME=$OTHER means the same with either. */
const char *gli_environment_read(const char *name);

/* Is something wanted? By `option` (above 0: yes, below: no), by the
 * environment variable `name` (1, 0) where that is 0, and by default otherwise.
 * GLOO_ERR_INVALID when the variable is something else. */
gloo_status gli_switch_read(int option, const char *name, bool by_default,
                            bool *wanted, gloo_error *error);

/* ---- times --------------------------------------------------------------- */

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
