/* Text that is printed to memory as a whole before it is handed out: a slow
 * reader gets all of it or nothing. */
#ifndef GLI_OBSERVE_TEXT_OUT_H
#define GLI_OBSERVE_TEXT_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "gloo_c/trace.h"

/* False: it could not. */
typedef bool (*gli_text_fn)(FILE *to, void *of);

/* Returns what `print` prints, for free(). NULL: out of memory. */
char *gli_text_print(gli_text_fn print, void *of, size_t *bytes);
/* Hand it to the function that the caller of `function` gave, and free it.
 * NULL: there was no memory for it, which is of `what`. */
gloo_status gli_text_hand_over(const char *function, const char *what,
                               char *text, size_t bytes, gloo_trace_fn write,
                               void *user, gloo_error *error);

#endif
