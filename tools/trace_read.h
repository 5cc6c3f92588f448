/* The last operations of one rank: a file of GLOO_TRACE_DIR, or the output of
 * gloo_context_trace. */
#ifndef GLI_TOOLS_TRACE_READ_H
#define GLI_TOOLS_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t; /* jansson */

typedef enum gli_traced_state {
  GLI_TRACED_SCHEDULED,
  GLI_TRACED_STARTED,
  GLI_TRACED_COMPLETED,
  GLI_TRACED_FAILED
} gli_traced_state;

/* Texts are never NULL; missing numbers are -1. Times are nanoseconds since
 * 1970 by the clock of the rank's host. */
typedef struct gli_traced {
  const char *call, *group;
  bool message, receives; /* "send", "receive" */
  int64_t tag, request, sequence;
  int64_t count, bytes, root, peer, last;
  const char *dtype, *op, *algorithm, *status;
  gli_traced_state state;
  int64_t started_ns, ended_ns; /* ended_ns: time of the trace if in progress */
  const struct json_t *waits;   /* integers; NULL: none */
} gli_traced;

typedef struct gli_trace_file {
  const char *path;
  int64_t rank, size, process, ended, now_ns;
  const char *job; /* the same for all ranks of a context; "": unknown */
  const char *host, *reason;
  const char *error; /* NULL: it has not failed */
  int64_t error_rank;
  const struct json_t *groups;
  gli_traced *operations;
  size_t n_operations;
  struct json_t *tree;
} gli_trace_file;

enum { GLI_TRACE_WHY_BYTES = 256 };
/* Returns false in a build without jansson, which reads no traces, after
 * printing "gloo NAME: " and the remedy. */
bool gli_trace_readable(const char *name);

/* Parses a trace. Returns false, with the reason in `why` and nothing to free,
 * on failure. Takes ownership of `text` in any case. */
bool gli_trace_parse(gli_trace_file *file, const char *path, char *text,
                     size_t bytes, char why[GLI_TRACE_WHY_BYTES]);
bool gli_trace_load(gli_trace_file *file, const char *path,
                    char why[GLI_TRACE_WHY_BYTES]);
void gli_trace_unload(gli_trace_file *file);

/* Returns true if this rank is in the group; false for a group that the file
 * does not know. */
bool gli_trace_in_group(const gli_trace_file *file, const char *group,
                        int64_t rank);
bool gli_traced_waits_for(const gli_traced *operation, int64_t rank);

#endif
