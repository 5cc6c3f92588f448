/* The metrics of all ranks of a host, read for a page at a time. */
#ifndef GLI_TOOLS_METRICS_READ_H
#define GLI_TOOLS_METRICS_READ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/metrics_page.h"

typedef struct gli_metrics_known gli_metrics_known;

/* Remembers the ranks between readings, since the sockets of a directory do not
 * name the job. Zero it, except for the settings. */
typedef struct gli_metrics_reader {
  const char
      *directory;    /* value of GLOO_METRICS; NULL: all jobs of this user */
  double patience_s; /* how long to wait for answers */
  atomic_bool ends;  /* set by another thread to end a reading early */
  gli_metrics_known *known;
  size_t n_known;
} gli_metrics_reader;

/* The text of a page in each format, to be released with
 * gli_metrics_text_free. */
typedef struct gli_metrics_text {
  char *text[GLI_METRICS_FORMATS];
  size_t bytes[GLI_METRICS_FORMATS];
} gli_metrics_text;

/* Reads all ranks at the same time; a rank without an answer in time does not
 * stop the others. Returns false with errno if the directory cannot be read, or
 * out of memory. */
bool gli_metrics_read(gli_metrics_reader *reader, gli_metrics_text *text);
void gli_metrics_text_free(gli_metrics_text *text);
void gli_metrics_reader_end(gli_metrics_reader *reader);

#endif
