/* Traces of running jobs: answers of their processes instead of files. */
#ifndef GLI_TOOLS_TRACE_LIVE_H
#define GLI_TOOLS_TRACE_LIVE_H

#include "tools/trace.h"
#include "tools/watch.h"

/* One file for each root context of each process, by job and rank. */
typedef struct gli_live {
  gli_trace_file *files;
  size_t n;
} gli_live;

/* Reads the answers. Skips an answer that is not a trace. Returns false if out
 * of memory. */
bool gli_live_read(gli_live *live, const gli_watch *watch);
void gli_live_free(gli_live *live);

/* Prints a report of each chosen job. Returns the status of `gloo trace`. */
int gli_trace_running(const gli_watch_choice *choice, double patience_s,
                      const char *timeline);

#endif
