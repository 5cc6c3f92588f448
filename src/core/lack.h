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

/* What ran out and what to do, to end a sentence with; strerror(code) if it is
 * about nothing of this kind. */
const char *gli_lack_text(int code);

#endif
