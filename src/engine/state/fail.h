/* Failures: what goes wrong is recorded here, and acted on when the poll that
 * is under way is over (contexts/close.c). */
#ifndef GLI_ENGINE_STATE_FAIL_H
#define GLI_ENGINE_STATE_FAIL_H

#include "engine/state/context.h"

/* The first error wins, and takes all contexts of the family with it, for a
 * pair cannot be made to forget what one of them has begun. Operations end, and
 * links are closed, in gli_context_finish_teardown, for a transport must not
 * lose a pair from under its feet; until then no message finds an operation. */
void gli_context_poison(gloo_context *context, const gloo_error *cause);
/* The error of a call that wants to use it then. */
gloo_status gli_context_unusable(const gloo_context *context,
                                 gloo_error *error);
/* A link does not work any more; a better reason may come within a moment. */
void gli_link_suspect(gli_link *link, const gloo_error *cause);

#endif
