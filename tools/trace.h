/* `gloo trace`: what the ranks of a job tell of their last operations, put
 * together. */
#ifndef GLI_TOOLS_TRACE_H
#define GLI_TOOLS_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/trace_read.h"

/* A rank that runs and was asked, and that has not answered. */
typedef struct gli_trace_absent {
  int64_t rank, process;
  const char *how; /* "is stopped" */
} gli_trace_absent;

/* The files of a job, one per rank, in the order of ranks. */
typedef struct gli_traces {
  gli_trace_file *files;
  size_t n;
  int64_t size; /* ranks of the job */
  bool live;    /* not files, but answers of ranks that run */
  gli_trace_absent *absent;
  size_t n_absent;
} gli_traces;

/* The one of a rank; NULL: there is none. */
const gli_trace_file *gli_traces_of(const gli_traces *traces, int64_t rank);

/* Why there is none: "has no file", "is stopped (process 4711)". */
enum { GLI_TRACE_ABSENCE_BYTES = 64 };
const char *gli_traces_absence(const gli_traces *traces, int64_t rank,
                               char words[GLI_TRACE_ABSENCE_BYTES]);

/* Say which ranks are behind, or called something else than others, and who
 * waits for whom (trace_compare.c, trace_messages.c). How many findings there
 * were; SIZE_MAX: out of memory. */
size_t gli_trace_compare(const gli_traces *traces, FILE *to);
size_t gli_trace_compare_messages(const gli_traces *traces, FILE *to);

/* Print all that is said of a job, with a timeline if a path is given. Returns
 * the status of the command. */
int gli_trace_report(const gli_traces *traces, const char *timeline);

/* Events for Perfetto and chrome://tracing (trace_timeline.c). False: out of
 * memory. */
bool gli_trace_print_timeline(const gli_traces *traces, FILE *to);

/* ---- words (trace_words.c) ----------------------------------------------- */

enum { GLI_TRACE_WORDS_BYTES = 256 };
/* "allreduce #11 (1 x float32, sum)" */
const char *gli_traced_words(const gli_traced *o,
                             char text[GLI_TRACE_WORDS_BYTES]);
/* ", tag 7 in group 0.2"; nothing for what most calls have. */
const char *gli_traced_where(const gli_traced *o,
                             char text[GLI_TRACE_WORDS_BYTES]);

/* "rank 3", "ranks 1, 2 and 5", "ranks 1, 2, 3, 4, 5, 6 and 10 more" */
typedef struct gli_rank_list {
  char text[GLI_TRACE_WORDS_BYTES];
  int64_t ranks[6];
  size_t n;
} gli_rank_list;
void gli_rank_list_add(gli_rank_list *list, int64_t rank);
const char *gli_rank_list_words(gli_rank_list *list);

#endif
