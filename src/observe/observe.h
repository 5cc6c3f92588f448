/* The thread that tells what contexts do while their own threads may be
 * anywhere: in a call, in the program, or stuck. There is one in a process, as
 * long as some context has asked for it. */
#ifndef GLI_OBSERVE_OBSERVE_H
#define GLI_OBSERVE_OBSERVE_H

#include <stdbool.h>

#include "gloo_c/context.h"

typedef struct gli_observe_settings {
  int signal;                  /* makes it write a trace; 0: none does, */
  const char *trace_directory; /* to a new file in here */
  const char *metrics;         /* directory for a socket; NULL: none */
  bool listed; /* this user's commands can ask for it, if that is possible */
} gli_observe_settings;

/* From now on, if there is something to do. Texts are copied. GLOO_ERR_BUSY:
 * the program has a handler for the signal, which is not taken away from it, or
 * another signal was asked for before; GLOO_ERR_INVALID: no socket can be made
 * there; GLOO_ERR_NO_MEMORY, GLOO_ERR_IO: no thread, no descriptors. */
gloo_status gli_observe_begin(gloo_context *context,
                              const gli_observe_settings *settings,
                              gloo_error *error);
/* Its ranks have met: gli_context_mark is known. */
void gli_observe_met(gloo_context *context);
/* No more; a context that it never began for is allowed. When this returns the
 * thread does nothing with it. */
void gli_observe_end(gloo_context *context);

#endif
