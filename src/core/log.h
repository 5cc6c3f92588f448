/* Writing log lines; the public half is gloo_c/log.h. */
#ifndef GLI_CORE_LOG_H
#define GLI_CORE_LOG_H

#include <stdbool.h>

#include "core/error.h"
#include "gloo_c/log.h"

/* Would a line of this level be written? For lines that cost work to make. */
bool gli_log_enabled(gloo_log_level level);

/* Write one line. No newline at the end of `format`. */
void gli_log(gloo_log_level level, const char *format, ...) GLI_PRINTF(2, 3);

#endif
