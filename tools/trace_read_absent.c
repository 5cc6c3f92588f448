/* Traces in a build without jansson: none is read. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/trace_read.h"

static const char remedy[] =
    "this build reads no traces: configure it with jansson installed (Debian: "
    "libjansson-dev)";

bool gli_trace_readable(const char *name) {
  fprintf(stderr, "gloo %s: %s\n", name, remedy);
  return false;
}

bool gli_trace_parse(gli_trace_file *file, const char *path, char *text,
                     size_t bytes, char why[GLI_TRACE_WHY_BYTES]) {
  (void)bytes;
  free(text);
  *file = (gli_trace_file){.path = path};
  snprintf(why, GLI_TRACE_WHY_BYTES, "%s: %s", path, remedy);
  return false;
}

bool gli_trace_load(gli_trace_file *file, const char *path,
                    char why[GLI_TRACE_WHY_BYTES]) {
  return gli_trace_parse(file, path, NULL, 0, why);
}

void gli_trace_unload(gli_trace_file *file) {
  *file = (gli_trace_file){.path = NULL};
}

bool gli_trace_in_group(const gli_trace_file *file, const char *group,
                        int64_t rank) {
  (void)file;
  (void)group;
  (void)rank;
  return false;
}

bool gli_traced_waits_for(const gli_traced *operation, int64_t rank) {
  (void)operation;
  (void)rank;
  return false;
}
