/* Rank 0 keeps the port of its job for a while after the ranks have met, where
 * no job id tells the job from others: a second job at the same port, whose
 * ranks may have got mixed with these, is noticed then. */
#ifndef GLI_RENDEZVOUS_JOIN_PORT_WATCH_H
#define GLI_RENDEZVOUS_JOIN_PORT_WATCH_H

#include "gloo_c/context.h"

/* Take over the store that this process serves, and destroy it in a few
 * seconds. If a process of another job comes (gli_bootstrap_contend), the
 * context fails, on all ranks. */
void gli_port_watch_begin(gloo_context *context, gloo_store *store);

/* End it at once: the port is free when this returns. Before a context is
 * closed; NULL: whatever the context. */
void gli_port_watch_end(const gloo_context *context);

#endif
