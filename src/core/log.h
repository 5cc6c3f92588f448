/* Log output; gloo_c/log.h is the public part. */
#ifndef GLI_CORE_LOG_H
#define GLI_CORE_LOG_H

#include <stdbool.h>

#include "core/error.h"
#include "gloo_c/log.h"

/* Returns true if a line of this level would be written. */
bool gli_log_enabled(gloo_log_level level);

/* Writes one line. `format` has no newline at the end. */
void gli_log(gloo_log_level level, const char *format, ...) GLI_PRINTF(2, 3);

#endif
