/* Measuring what links and reductions cost, when a context is made. */
#ifndef GLI_RENDEZVOUS_JOIN_MEASURE_H
#define GLI_RENDEZVOUS_JOIN_MEASURE_H

#include "engine/engine.h"

/* Rank 0 exchanges messages with one other rank on its host (unless ranks
 * outnumber cores somewhere: then what it would measure is which rank gets a
 * core) and with one on the next host, and adds up some numbers; it ends after
 * some 50 ms, or with the first messages where these take longer. It sends what
 * it found to all ranks, which choose algorithms by it from then on. Called by
 * all ranks when they have met, before any operation. Where there is nothing to
 * measure nothing is sent. Errors: those of messages, which name the rank at
 * fault; GLOO_ERR_PROTOCOL, GLOO_ERR_NO_MEMORY. */
gloo_status gli_measure(gloo_context *context, gloo_error *error);

#endif
