/* HTTP requests for metrics, which are not trusted. */
#ifndef GLI_TOOLS_METRICS_HTTP_H
#define GLI_TOOLS_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/metrics_page.h"

/* Longest request, without a body. */
enum { GLI_HTTP_HEAD_BYTES = 8192 };

typedef struct gli_http_request {
  bool head; /* the response has no body */
  gli_metrics_format format;
} gli_http_request;

/* Reads a request for "/metrics". Returns 0 if more bytes are needed, or else
 * the status of the response: 200, or the reason for a refusal. */
int gli_http_read(const char *bytes, size_t n, gli_http_request *request);

/* Returns the words of a status that gli_http_read returns. */
const char *gli_http_words(int status);

#endif
