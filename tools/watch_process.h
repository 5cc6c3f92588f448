/* What Linux tells of processes in /proc. Elsewhere nothing is known. */
#ifndef GLI_TOOLS_WATCH_PROCESS_H
#define GLI_TOOLS_WATCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if a signal or a debugger has stopped it. */
bool gli_process_is_stopped(int64_t process);
/* Returns true if the two are the same, or `process` was started by `ancestor`
 * or by a process below it. */
bool gli_process_is_below(int64_t process, int64_t ancestor);

#endif
