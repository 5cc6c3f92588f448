/* A connection of a reader to one of the observing thread's sockets, as of
 * HTTP. It gets a limited time, whatever the reader does. */
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
  const atomic_bool *ends; /* true: the thread has to end, and drops it */
} gli_observe_client;

/* Starts the time. */
gli_observe_client gli_observe_client_of(int fd, const atomic_bool *ends);

/* Reads the first line of a request: "GET /trace HTTP/1.0" makes "/trace".
 * Returns false if none came in time, or none that fits. */
bool gli_observe_client_asks(const gli_observe_client *client, char *path,
                             size_t room);
/* Prints what precedes an answer of that status ("200 OK") and type. */
void gli_observe_client_head(FILE *to, const char *status, const char *type);
/* Sends the answer and closes the connection. */
void gli_observe_client_serve(const gli_observe_client *client,
                              const char *text, size_t bytes);

/* ---- answers ------------------------------------------------------------- */

typedef enum gli_observe_question {
  GLI_OBSERVE_METRICS, /* "/metrics": OpenMetrics */
  GLI_OBSERVE_TRACE,   /* "/trace": as in a file of GLOO_TRACE_DIR */
  GLI_OBSERVE_NOW,     /* "/now": the same without what ended before the last */
  GLI_OBSERVE_NONE     /* any other path */
} gli_observe_question;

gli_observe_question gli_observe_question_read(const char *path);

/* Prints the head of an answer, to be followed by the texts of contexts. */
void gli_observe_answer_begin(FILE *to, gli_observe_question question);
/* Prints a context's text. Returns false if there is no memory for it. */
bool gli_observe_answer(FILE *to, gli_observe_question question,
                        gloo_context *context);

#endif
