/* States of processes, from /proc on Linux. Elsewhere nothing is known. */
#ifndef GLI_TOOLS_WATCH_PROCESS_H
#define GLI_TOOLS_WATCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if a signal or a debugger has stopped the process. */
bool gli_process_is_stopped(int64_t process);
/* Returns true if the two are the same, or `process` is a descendant of
 * `ancestor`. */
bool gli_process_is_below(int64_t process, int64_t ancestor);

#endif
