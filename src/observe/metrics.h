/* Metrics as text, and the Unix socket of a context that serves them. */
#ifndef GLI_OBSERVE_METRICS_H
#define GLI_OBSERVE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "gloo_c/context.h"
#include "gloo_c/metrics.h"

#define GLI_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Prints Prometheus text. Returns false if out of memory. */
bool gli_metrics_print(FILE *to, gloo_context *context);

/* ---- the socket (metrics_socket.c) --------------------------------------- */

typedef struct gli_metrics_socket {
  int fd;         /* listening socket; -1 if there is none */
  char path[128]; /* longer than any system allows */
} gli_metrics_socket;

/* Listens at a new socket in that directory. GLOO_ERR_INVALID holds the reason
 * if that is impossible. */
gloo_status gli_metrics_listen(const char *directory, gloo_context *context,
                               gli_metrics_socket *made, gloo_error *error);
void gli_metrics_close(gli_metrics_socket *made);

/* Returns the HTTP response to a client, for free(). NULL if out of memory. */
char *gli_metrics_answer(gloo_context *context, size_t *bytes);

#endif
