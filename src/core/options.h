/* Loading of option structs from callers. */
#ifndef GLI_CORE_OPTIONS_H
#define GLI_CORE_OPTIONS_H

#include <stddef.h>

#include "gloo_c/status.h"

/* Copies the caller's struct, which starts with its size, to ours of `size`
 * bytes. In a shorter struct (an older program) the missing fields become zero;
 * a longer one (a newer program) is valid if the excess bytes are zero. NULL
 * gives the default: all zero. `name` is for the message. */
gloo_status gli_options_load(void *ours, size_t size, const void *theirs,
                             const char *name, gloo_error *error);

#endif
