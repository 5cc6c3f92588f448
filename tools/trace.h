/* `gloo trace`: combines the last operations of a job's ranks. */
#ifndef GLI_TOOLS_TRACE_H
#define GLI_TOOLS_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/trace_read.h"

/* A running rank that was asked, and has not answered. */
typedef struct gli_trace_absent {
  int64_t rank, process;
  const char *how; /* "is stopped" */
} gli_trace_absent;

/* The files of a job, one per rank, in the order of ranks. */
typedef struct gli_traces {
  gli_trace_file *files;
  size_t n;
  int64_t size; /* ranks of the job */
  bool live;    /* true for answers of running ranks instead of files */
  gli_trace_absent *absent;
  size_t n_absent;
} gli_traces;

/* Returns the file of a rank; NULL if there is none. */
const gli_trace_file *gli_traces_of(const gli_traces *traces, int64_t rank);

/* Returns why there is none: "has no file", "is stopped (process 4711)". */
enum { GLI_TRACE_ABSENCE_BYTES = 64 };
const char *gli_traces_absence(const gli_traces *traces, int64_t rank,
                               char words[GLI_TRACE_ABSENCE_BYTES]);

/* Prints which ranks are behind, or made other calls than the others, and which
 * ranks wait for which (trace_compare.c, trace_messages.c). Returns the number
 * of findings; SIZE_MAX: out of memory. */
size_t gli_trace_compare(const gli_traces *traces, FILE *to);
size_t gli_trace_compare_messages(const gli_traces *traces, FILE *to);

/* Prints the report of a job, with a timeline if a path is given. Returns the
 * status of the command. */
int gli_trace_report(const gli_traces *traces, const char *timeline);

/* Prints events for Perfetto and chrome://tracing (trace_timeline.c). Returns
 * false if out of memory. */
bool gli_trace_print_timeline(const gli_traces *traces, FILE *to);

/* ---- words (trace_words.c) ----------------------------------------------- */

enum { GLI_TRACE_WORDS_BYTES = 256 };
/* Writes "allreduce #11 (1 x float32, sum)". */
const char *gli_traced_words(const gli_traced *o,
                             char text[GLI_TRACE_WORDS_BYTES]);
/* Writes ", tag 7 in group 0.2"; nothing for default values. */
const char *gli_traced_where(const gli_traced *o,
                             char text[GLI_TRACE_WORDS_BYTES]);

/* A text such as "rank 3", "ranks 1, 2 and 5", "ranks 1, 2, 3, 4, 5, 6 and 10
 * more". */
typedef struct gli_rank_list {
  char text[GLI_TRACE_WORDS_BYTES];
  int64_t ranks[6];
  size_t n;
} gli_rank_list;
void gli_rank_list_add(gli_rank_list *list, int64_t rank);
const char *gli_rank_list_words(gli_rank_list *list);

#endif
