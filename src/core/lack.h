/* Errors that say what this process, or its host, has run out of. They are no
 * peer's fault: an error made of one names no other rank. */
#ifndef GLI_CORE_LACK_H
#define GLI_CORE_LACK_H

#include <stdbool.h>

#include "gloo_c/status.h"

/* Is `code` (errno) about something that is missing here? */
bool gli_lacking(int code);

/* GLOO_ERR_NO_MEMORY, or GLOO_ERR_IO for descriptors. */
gloo_status gli_lack_status(int code);

/* Returns a clause with the exhausted resource and its remedy, or
 * strerror(code) for any other error. */
const char *gli_lack_text(int code);

#endif
