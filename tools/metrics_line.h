/* The lines of a rank's metrics, which are not trusted. */
#ifndef GLI_TOOLS_METRICS_LINE_H
#define GLI_TOOLS_METRICS_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* A part of a line. */
typedef struct gli_part_text {
  const char *at;
  size_t bytes;
} gli_part_text;

typedef enum gli_metrics_kind {
  GLI_METRICS_TYPE_LINE, /* "# TYPE name text" */
  GLI_METRICS_HELP_LINE, /* "# HELP name text" */
  GLI_METRICS_SAMPLE,    /* "name{labels} text" */
  GLI_METRICS_END,       /* "# EOF" */
  GLI_METRICS_COMMENT,   /* any other comment, or an empty line */
  GLI_METRICS_MALFORMED
} gli_metrics_kind;

typedef struct gli_metrics_line {
  gli_metrics_kind kind;
  gli_part_text name, labels, text; /* `labels` as they stand between braces */
  const char *next;                 /* the next line */
} gli_metrics_line;

/* Reads the line at `text`, which ends in a 0. Lines have printable ASCII
 * characters only, names begin with "gloo_", and a sample's text is a number.
 */
gli_metrics_line gli_metrics_line_read(const char *text);

/* Takes the next label off the labels of a sample. The value keeps its escapes.
 * Returns false if none is left. */
bool gli_metrics_label_next(gli_part_text *labels, gli_part_text *name,
                            gli_part_text *value);
bool gli_part_is(gli_part_text part, const char *text);
bool gli_part_ends(gli_part_text part, const char *end);

#endif
