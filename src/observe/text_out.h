/* Text that is printed to memory as a whole before it is sent: a slow reader
 * gets all of it or nothing. */
#ifndef GLI_OBSERVE_TEXT_OUT_H
#define GLI_OBSERVE_TEXT_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "gloo_c/trace.h"

/* Prints a text. Returns false on failure. */
typedef bool (*gli_text_fn)(FILE *to, void *of);

/* Returns the output of `print`, for free(). NULL if out of memory. */
char *gli_text_print(gli_text_fn print, void *of, size_t *bytes);
/* Passes the text to the callback `write` of the public `function`, and frees
 * it. NULL: out of memory for the text, which `what` describes. */
gloo_status gli_text_hand_over(const char *function, const char *what,
                               char *text, size_t bytes, gloo_trace_fn write,
                               void *user, gloo_error *error);

#endif
