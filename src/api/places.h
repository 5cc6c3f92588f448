/* Where the buffers of a call are: which of them the host does not touch. */
#ifndef GLI_API_PLACES_H
#define GLI_API_PLACES_H

#include "api/call.h"

/* Of a call that has been read, and its plan chosen: have the plan staged where
 * a buffer is a GPU's (plan/staged.h). Refuses a buffer that is not all of one
 * device's, and a stream that cannot be used. */
gloo_status gli_places_read(const gli_arguments *arguments,
                            const gloo_options *options, gli_call *call,
                            gloo_error *error);

#endif
