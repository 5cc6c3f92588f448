/* Clients of the HTTP server of `gloo metrics`, and its state. */
#ifndef GLI_TOOLS_METRICS_CLIENT_H
#define GLI_TOOLS_METRICS_CLIENT_H

#include <stdbool.h>
#include <uv.h>

#include "tools/metrics_http.h"
#include "tools/metrics_read.h"

/* Texts that clients share while they are sent. */
typedef struct gli_metrics_shared {
  gli_metrics_text text;
  size_t holders;
} gli_metrics_shared;
void gli_metrics_release(gli_metrics_shared *shared);

/*   state    next                      ends after
 *   request  answer, last              a few seconds, or for another client
 *   wait     last, with a new reading  its end
 *   answer   last                      half a minute
 *   last     closed                    a second */
typedef enum gli_client_state {
  GLI_CLIENT_REQUEST, /* its request is incomplete */
  GLI_CLIENT_WAIT,    /* waits for a reading of the ranks */
  GLI_CLIENT_ANSWER,  /* is being sent its answer */
  GLI_CLIENT_LAST,    /* has its answer, and must close */
  GLI_CLIENT_CLOSED
} gli_client_state;

typedef struct gli_client {
  struct gli_client *next; /* newer one */
  struct gli_clients *all;
  gli_client_state state;
  uv_tcp_t tcp;
  uv_timer_t timer;
  int handles; /* open ones */
  uv_write_t write;
  uv_shutdown_t shutdown;
  gli_http_request request;
  gli_metrics_shared *shared; /* its answer's body; NULL if none */
  char head[1024];            /* head of the answer, and a short body */
  char bytes[GLI_HTTP_HEAD_BYTES];
  size_t used;
} gli_client;

typedef struct gli_clients {
  gli_client *first; /* oldest */
  size_t n;
  uv_loop_t *loop;
  void (*wants)(struct gli_clients *clients); /* a client waits */
  void *user;
} gli_clients;

/* Accepts a client. If there are too many, closes the oldest one without a
 * complete request, or else the new one. */
void gli_client_accept(gli_clients *clients, uv_stream_t *server);
/* Answers the waiting clients with a text, or (NULL) with an error in words. */
void gli_clients_answer(gli_clients *clients, gli_metrics_shared *shared,
                        const char *error);
/* Closes all. */
void gli_clients_end(gli_clients *clients);

#endif
