/* The thread that tells what contexts do while their own threads may be
 * anywhere: in a call, in the program, or stuck. There is one in a process, as
 * long as some context has asked for it. */
#ifndef GLI_API_OBSERVE_H
#define GLI_API_OBSERVE_H

#include "gloo_c/context.h"

/* From now on the signal makes it write a trace of the context to a new file in
 * the directory (a copy is made). GLOO_ERR_BUSY: the program has a handler for
 * the signal, which is not taken away from it, or another signal was asked for
 * before; GLOO_ERR_NO_MEMORY, GLOO_ERR_IO: no thread, no descriptors. */
gloo_status gli_observe_begin(gloo_context *context, const char *directory,
                              int signal, gloo_error *error);
/* No more; a context that it never began for is allowed. When this returns the
 * thread does nothing with it. */
void gli_observe_end(gloo_context *context);

#endif
