/* Determines which buffers of a call are in memory that the host does not
 * access. */
#ifndef GLI_API_PLACES_H
#define GLI_API_PLACES_H

#include "api/call.h"

/* Stages the plan of a call, once it is chosen, where a buffer is in GPU memory
 * (plan/staged.h). Refuses a buffer that spans devices, and a stream that
 * cannot be used. */
gloo_status gli_places_read(const gli_arguments *arguments,
                            const gloo_options *options, gli_call *call,
                            gloo_error *error);

#endif
