/* Answers to readers of a process's socket. */
#ifndef GLI_OBSERVE_OBSERVE_ANSWER_H
#define GLI_OBSERVE_OBSERVE_ANSWER_H

#include <stdbool.h>
#include <stdio.h>

#include "gloo_c/context.h"

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
