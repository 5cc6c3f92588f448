/* Figures as text, and the Unix socket of a context that serves them. */
#ifndef GLI_OBSERVE_METRICS_H
#define GLI_OBSERVE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "gloo_c/context.h"
#include "gloo_c/metrics.h"

#define GLI_METRICS_TYPE \
  "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* OpenMetrics; false: out of memory. */
bool gli_metrics_print(FILE *to, gloo_context *context);

/* ---- the socket (metrics_socket.c) --------------------------------------- */

typedef struct gli_metrics_socket {
  int fd;         /* it listens; -1: there is none */
  char path[128]; /* longer than any system lets it be */
} gli_metrics_socket;

/* GLOO_ERR_INVALID: no socket can be made in that directory, and why. */
gloo_status gli_metrics_listen(const char *directory, gloo_context *context,
                               gli_metrics_socket *made, gloo_error *error);
void gli_metrics_close(gli_metrics_socket *made);

/* Returns the HTTP response that a client gets, for free(). NULL: out of
 * memory. */
char *gli_metrics_answer(gloo_context *context, size_t *bytes);

#endif
