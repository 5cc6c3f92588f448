/* The variables that `gloo run` carries to other hosts. */
#ifndef GLI_TOOLS_RUN_CARRIED_H
#define GLI_TOOLS_RUN_CARRIED_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* Returns the length of the name if the variable is one of gloo_c that is not
 * set for each rank, else 0. */
size_t gli_run_carried_name(const char *variable);

/* Returns the entries of the environment to carry, ended by NULL: those of
 * gloo_c, paths of programs and packages, OpenMP's, and the variables whose names
 * `more` (or NULL) lists, separated by commas. The array is allocated, the strings
 * are borrowed. Returns NULL with an error if `more` is wrong. */
char **gli_run_carried(const char *more, gloo_error *error);

#endif
