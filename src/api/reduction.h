/* Options of reductions beyond the arguments: a custom operation, a factor, an
 * order. */
#ifndef GLI_API_REDUCTION_H
#define GLI_API_REDUCTION_H

#include "algorithms/registry.h"
#include "api/call.h"

/* Do type, operation and options go together? */
gloo_status gli_reduction_check(const gli_arguments *a, const gloo_options *o,
                                gloo_error *error);

/* Is it a reduction with an operation of the caller's own? */
bool gli_reduction_is_custom(const gli_arguments *a);

/* Returns the size of an element of the call; 0 when it is unknown. */
size_t gli_reduction_element_bytes(const gli_arguments *a,
                                   const gloo_options *o);

/* Add it to a call whose shape is known. */
gloo_status gli_reduction_fill(const gli_arguments *a, const gloo_options *o,
                               gli_call *call, gloo_error *error);

/* Decides how the chosen algorithm computes an average. Sets `*changed` if the
 * plan now has other elements. */
gloo_status gli_reduction_decide(const gli_arguments *a, gli_call *call,
                                 const gli_algorithm *algorithm, bool *changed,
                                 gloo_error *error);

/* Does the algorithm keep the order that the call needs? */
gloo_status gli_reduction_allows(const gli_arguments *a, const gloo_options *o,
                                 const gli_call *call,
                                 const gli_algorithm *algorithm,
                                 gloo_error *error);

#endif
