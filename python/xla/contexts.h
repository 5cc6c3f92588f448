/* The contexts that compiled functions of JAX call, by number: a function may
 * outlive the context that it was made for. */
#ifndef GLOO_C_XLA_CONTEXTS_H
#define GLOO_C_XLA_CONTEXTS_H

#include <gloo_c/gloo_c.h>
#include <stdint.h>

typedef struct xla_context xla_context;

/* Returns a number for a context, which must exist until it is removed, or 0 if
 * memory runs out. */
int64_t xla_context_add(gloo_context *context);
/* Removes a context and returns after the last call on it. After `patience_ns`
 * (below 0: no limit) gloo_context_abort ends the pending calls. */
void xla_context_remove(int64_t number, int64_t patience_ns);

/* Enters a context for the duration of a call. Returns NULL if it was
 * removed. */
xla_context *xla_context_enter(int64_t number, gloo_context **context);
void xla_context_leave(xla_context *context);

#endif
