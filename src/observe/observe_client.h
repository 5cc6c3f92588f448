/* A reader's HTTP connection to a socket of the observing thread, with a time
 * limit. */
#ifndef GLI_OBSERVE_OBSERVE_CLIENT_H
#define GLI_OBSERVE_OBSERVE_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gloo_c/context.h"

typedef struct gli_observe_client {
  int fd;
  uint64_t until_ns;
  const atomic_bool *ends; /* true: the thread must end, and drops the client */
} gli_observe_client;

/* Starts the time limit. */
gli_observe_client gli_observe_client_of(int fd, const atomic_bool *ends);

/* Reads the first line of a request: "GET /trace HTTP/1.0" gives "/trace".
 * Returns false if none arrives in time, or it does not fit. */
bool gli_observe_client_asks(const gli_observe_client *client, char *path,
                             size_t room);
/* Prints the head of a response with that status ("200 OK") and type. */
void gli_observe_client_head(FILE *to, const char *status, const char *type);
/* Sends the answer and closes the connection. */
void gli_observe_client_serve(const gli_observe_client *client,
                              const char *text, size_t bytes);

/* ---- answers ------------------------------------------------------------- */

typedef enum gli_observe_question {
  GLI_OBSERVE_METRICS, /* "/metrics": Prometheus text */
  GLI_OBSERVE_TRACE,   /* "/trace": as in a file of GLOO_TRACE_DIR */
  GLI_OBSERVE_NOW,     /* "/now": /trace without earlier ended operations */
  GLI_OBSERVE_NONE     /* any other path */
} gli_observe_question;

gli_observe_question gli_observe_question_read(const char *path);

/* Prints the head of an answer, to be followed by the texts of contexts. */
void gli_observe_answer_begin(FILE *to, gli_observe_question question);
/* Prints a context's text. Returns false if there is no memory for it. */
bool gli_observe_answer(FILE *to, gli_observe_question question,
                        gloo_context *context);

#endif
