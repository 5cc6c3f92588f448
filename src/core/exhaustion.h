/* Errors of an exhausted resource of this process or its host. No peer causes
 * them, so the resulting error names no other rank. */
#ifndef GLI_CORE_EXHAUSTION_H
#define GLI_CORE_EXHAUSTION_H

#include <stdbool.h>

#include "gloo_c/status.h"

/* Returns true if `code` (errno) means that a local resource is exhausted. */
bool gli_is_exhaustion(int code);

/* Returns GLOO_ERR_NO_MEMORY, or else GLOO_ERR_IO. */
gloo_status gli_exhaustion_status(int code);

/* Returns a clause with the exhausted resource and its remedy, or
 * strerror(code) for any other error. */
const char *gli_exhaustion_text(int code);

#endif
