/* Environment variables: the one place where they are read. */
#ifndef GLI_CORE_ENVIRONMENT_H
#define GLI_CORE_ENVIRONMENT_H

#include <stdbool.h>

#include "gloo_c/status.h"

/* NULL where it is not set, and where it is set to nothing: a script that says
 * NAME=$OTHER means the same with either. */
const char *gli_environment_read(const char *name);

/* Is something wanted? By `option` (above 0: yes, below: no), by the
 * environment variable `name` (1, 0) where that is 0, and by default otherwise.
 * GLOO_ERR_INVALID when the variable is something else. */
gloo_status gli_switch_read(int option, const char *name, bool by_default,
                            bool *wanted, gloo_error *error);

#endif
