/* The watch on a job's port: after the rendezvous rank 0 keeps serving it for a
 * while, if no job id identifies the job. This detects a second job at the same
 * port, whose ranks may have mixed with these. */
#ifndef GLI_RENDEZVOUS_JOIN_PORT_WATCH_H
#define GLI_RENDEZVOUS_JOIN_PORT_WATCH_H

#include "gloo_c/context.h"

/* Takes over the store that this process serves, and destroys it after a few
 * seconds. If a process of another job arrives (gli_bootstrap_contend), the
 * context fails on all ranks. */
void gli_port_watch_begin(gloo_context *context, gloo_store *store);

/* Ends the watch at once: the port is free on return. Called before a context
 * is closed; NULL ends all watches. */
void gli_port_watch_end(const gloo_context *context);

#endif
