/* The contexts that compiled functions of JAX and operators of PyTorch call, by
 * number or name: such a call may come after the end of its context. */
#ifndef GLOO_C_NATIVE_CONTEXTS_H
#define GLOO_C_NATIVE_CONTEXTS_H

#include <gloo_c/gloo_c.h>
#include <stddef.h>
#include <stdint.h>

typedef struct native_context native_context;

/* Returns a number for a context, which must exist until it is removed, or 0 if
 * memory runs out. `name` is copied; NULL: the context has no name. */
int64_t native_context_add(gloo_context *context, const char *name);
/* Removes a context and returns after the last call on it. After `patience_ns`
 * (below 0: no limit) gloo_context_abort ends the pending calls. */
void native_context_remove(int64_t number, int64_t patience_ns);

/* Enters a context for the duration of a call. Returns NULL if it was
 * removed. */
native_context *native_context_enter(int64_t number, gloo_context **context);
/* Enters a context by its name of `length` bytes. Returns NULL if no context has
 * that name, or if several contexts do; `*several` is then 1. */
native_context *native_context_enter_named(const char *name, size_t length,
                                           gloo_context **context,
                                           int *several);
void native_context_leave(native_context *context);

#endif
