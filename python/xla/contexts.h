/* The contexts that compiled functions of JAX call, by number: a function may
 * outlive the context that it was made for. */
#ifndef GLOO_C_XLA_CONTEXTS_H
#define GLOO_C_XLA_CONTEXTS_H

#include <gloo_c/gloo_c.h>
#include <stdint.h>

typedef struct xla_context xla_context;

/* A number for a context, which must stay until it is taken out; 0 when there
 * is no memory. */
int64_t xla_context_add(gloo_context *context);
/* Take it out, and return when no call is on it any more. Those that are still
 * on it after so many nanoseconds (below 0: no limit) are ended by
 * gloo_context_abort. */
void xla_context_remove(int64_t number, int64_t patience_ns);

/* For the time of a call; NULL when it was taken out. */
xla_context *xla_context_enter(int64_t number, gloo_context **context);
void xla_context_leave(xla_context *context);

#endif
