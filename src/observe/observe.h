/* The thread that reports the state of contexts while their own threads may be
 * in a call, in the program or stuck. A process has one while a context needs
 * it. */
#ifndef GLI_OBSERVE_OBSERVE_H
#define GLI_OBSERVE_OBSERVE_H

#include <stdbool.h>

#include "gloo_c/context.h"

typedef struct gli_observe_settings {
  int signal;                  /* signal that writes a trace; 0 if none does */
  const char *trace_directory; /* directory of trace files */
  const char *metrics; /* directory of a socket; NULL if there is none */
  bool listed; /* true to list it at the process's socket, if possible */
} gli_observe_settings;

/* Begins observing, if the settings ask for it. Strings are copied.
 * GLOO_ERR_BUSY: the program has a handler for the signal, which is not
 * replaced, or another signal was set before; GLOO_ERR_INVALID: no socket can
 * be made there; GLOO_ERR_NO_MEMORY, GLOO_ERR_IO: no thread, no descriptors. */
gloo_status gli_observe_begin(gloo_context *context,
                              const gli_observe_settings *settings,
                              gloo_error *error);
/* Notes that the ranks have met: gli_context_mark is known. */
void gli_observe_met(gloo_context *context);
/* Ends observing, also of a context for which it never began. On return the
 * thread does not use the context. */
void gli_observe_end(gloo_context *context);

#endif
