/* A Unix socket that serves the metrics of a context. */
#ifndef GLI_OBSERVE_METRICS_SOCKET_H
#define GLI_OBSERVE_METRICS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "gloo_c/context.h"

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
