/* Environment variables, which only this file reads, and the time limits of a
 * program that passes GLOO_TIMEOUT_DEFAULT. */
#ifndef GLI_CORE_ENVIRONMENT_H
#define GLI_CORE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text.h"
#include "gloo_c/status.h"

/* Returns the value, or NULL if the variable is unset or empty: a script that
 * sets NAME=$OTHER gets the same result in both cases. */
const char *gli_environment_read(const char *name);

/* Reads a switch: `option` if it is not 0 (positive: on, negative: off), else
 * the environment variable `name` (1 or 0), else the default. Returns
 * GLOO_ERR_INVALID for other values of the variable. */
gloo_status gli_switch_read(int option, const char *name, bool by_default,
                            bool *wanted, gloo_error *error);

/* Lists variables whose names begin with GLOO_ and that docs/environment.md
 * does not name, each with a similar name if there is one; "" if there are
 * none. */
gli_long_text gli_environment_unknown(void);
/* Logs them, once per process. */
void gli_environment_check(void);

/* ---- times --------------------------------------------------------------- */

/* Default of both time limits. */
#define GLI_TIMEOUT_NS INT64_C(30000000000)

/* Range of a variable: seconds between `least_ms` and `most_ms`, or the word
 * `none`, which means `none_ns`. */
typedef struct gli_seconds {
  const char *name, *none;
  int64_t least_ms, most_ms, none_ns, usual_ns;
} gli_seconds;

/* Gets the variable's value, or `usual_ns` if it is unset. The decimal point is
 * a dot in every locale. Returns GLOO_ERR_INVALID for other values. */
gloo_status gli_seconds_read(const gli_seconds *variable, int64_t *ns,
                             gloo_error *error);

/* Gets the time limit of a call: `option_ns`, or the value of the environment
 * if that is GLOO_TIMEOUT_DEFAULT. */
gloo_status gli_timeout_of_start(int64_t option_ns, int64_t *ns,
                                 gloo_error *error);
gloo_status gli_timeout_of_operations(int64_t option_ns, int64_t *ns,
                                      gloo_error *error);

#endif
