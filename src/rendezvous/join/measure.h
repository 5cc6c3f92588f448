/* Measurement of link and reduction costs, when a context is made. */
#ifndef GLI_RENDEZVOUS_JOIN_MEASURE_H
#define GLI_RENDEZVOUS_JOIN_MEASURE_H

#include "engine/engine.h"

/* Measures costs and sends them to all ranks, which use them to choose
 * algorithms. All ranks call it after the rendezvous, before any operation.
 * Rank 0 exchanges messages with one other rank on its host and with one on the
 * next host, and times a reduction. It skips its own host if ranks are
 * oversubscribed somewhere: it would measure the scheduler. It ends after about
 * 50 ms, or after the first messages if these take longer. Nothing is sent if
 * there is nothing to measure. Errors: those of messages, which name the rank
 * at fault; GLOO_ERR_PROTOCOL, GLOO_ERR_NO_MEMORY. */
gloo_status gli_measure(gloo_context *context, gloo_error *error);

#endif
