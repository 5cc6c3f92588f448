/* Calls with several inputs and outputs per rank. */
#ifndef GLI_API_LISTS_H
#define GLI_API_LISTS_H

#include "api/call.h"
#include "plan/shape.h"

/* Sets the number of buffers, and the shape that the algorithm sees. */
gloo_status gli_lists_read(const gli_arguments *arguments, gli_call *call,
                           gloo_error *error);

/* Decide whether it is in place, and refuse NULL and overlapping buffers. The
 * shapes are those of one input and one output, as they are and in place. */
gloo_status gli_lists_check(const gli_arguments *arguments, gli_call *call,
                            const gli_shape *shape_out_of_place,
                            const gli_shape *shape_in_place, gloo_error *error);

#endif
