/* Reading the option structs that callers hand in. */
#ifndef GLI_CORE_OPTIONS_H
#define GLI_CORE_OPTIONS_H

#include <stddef.h>

#include "gloo_c/status.h"

/* Copy the caller's struct, which starts with its size, to ours of `size`
 * bytes. A shorter one (an older program) gets zeros in the fields it does not
 * know; a longer one (a newer program) is fine as long as what we do not know
 * is zero. NULL gives the default: all zero. `name` is for the message. */
gloo_status gli_options_load(void *ours, size_t size, const void *theirs,
                             const char *name, gloo_error *error);

#endif
