/* One page of metrics from the texts of many contexts: the samples of a family
 * stand together, and have the labels job, host and rank. */
#ifndef GLI_TOOLS_METRICS_PAGE_H
#define GLI_TOOLS_METRICS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The rank of samples. */
typedef struct gli_metrics_rank {
  uint64_t job; /* see gli_context_mark */
  int64_t rank;
} gli_metrics_rank;

typedef struct gli_metrics_page gli_metrics_page;

typedef enum gli_metrics_format {
  GLI_METRICS_CLASSIC, /* Prometheus's text format 0.0.4 */
  GLI_METRICS_OPEN     /* OpenMetrics 1.0.0 */
} gli_metrics_format;
enum { GLI_METRICS_FORMATS = 2 };
extern const char *const gli_metrics_types[GLI_METRICS_FORMATS];

/* Returns an empty page for the ranks of `host`, any text. NULL if out of
 * memory. */
gli_metrics_page *gli_metrics_page_new(const char *host);
void gli_metrics_page_free(gli_metrics_page *page);

/* Checks the text of one context, of gloo_context_metrics, and finds its rank.
 * Returns the rest of `text`, which ends in a 0; NULL if the text is malformed
 * or truncated. The rank is -1 if its context has not met the others. */
const char *gli_metrics_check(const char *text, gli_metrics_rank *rank);

/* Adds a checked text up to `end`. Its own labels job, host and rank are
 * replaced. Returns false if out of memory, or if the families disagree. */
bool gli_metrics_page_add(gli_metrics_page *page, const gli_metrics_rank *rank,
                          const char *text, const char *end);
/* Adds a sample of a gauge. Returns false if out of memory. */
bool gli_metrics_page_gauge(gli_metrics_page *page, const char *name,
                            const char *help, const gli_metrics_rank *rank,
                            int value);

/* Prints the page. Returns false if that failed. */
bool gli_metrics_page_print(const gli_metrics_page *page,
                            gli_metrics_format format, FILE *to);

#endif
