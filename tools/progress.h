/* A line on the terminal of standard error that tells what a long command is
 * doing: from the third second on, once per second. Nothing is written if
 * standard error is not a terminal. One per process; the functions may be
 * called from one thread, but gli_progress_step from any. */
#ifndef GLI_TOOLS_PROGRESS_H
#define GLI_TOOLS_PROGRESS_H

#include <stdint.h>

#include "core/error.h"

/* Begins with `total` steps; 0: the number is not known. */
void gli_progress_begin(const char *command, uint64_t total);
/* Says what is done now. */
void gli_progress_say(const char *format, ...) GLI_PRINTF(1, 2);
/* Counts a step that is done. */
void gli_progress_step(void);
/* Removes the line before other output; it returns with the next second. */
void gli_progress_hide(void);
void gli_progress_end(void);

#endif
