/* The HTTP server of `gloo metrics`. */
#ifndef GLI_TOOLS_METRICS_SERVER_H
#define GLI_TOOLS_METRICS_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "tools/metrics_read.h"

/* Serves the ranks of `reader` at `address`, HOST:PORT, until SIGINT or
 * SIGTERM. Prints the URL once it listens. Returns an exit status, after a
 * message if it is not GLI_EXIT_OK. */
int gli_metrics_serve(const char *address, gli_metrics_reader *reader);

/* ---- the listening socket (metrics_listen.c) ----------------------------- */

/* Listens at `address`: HOST:PORT, [IPv6]:PORT, or :PORT for all addresses.
 * Port 0 stands for a free one. Calls `arrived` for each client. Initializes
 * *tcp in any case; the caller closes it. Returns false after a message. */
bool gli_metrics_listen_at(uv_loop_t *loop, const char *address, uv_tcp_t *tcp,
                           uv_connection_cb arrived);
/* Prints the URL of the metrics. */
void gli_metrics_print_url(const uv_tcp_t *tcp);

#endif
