/* Calls from the instrumented code to the explorer, for tsan.c. */
#ifndef GLI_TESTS_MODEL_RUNTIME_H
#define GLI_TESTS_MODEL_RUNTIME_H

#include "state.h"

/* Called before plain memory is read or written. */
void model_read(const volatile void *at, size_t bytes);
void model_write(const volatile void *at, size_t bytes);
/* Replaces an atomic operation. */
uint64_t model_operate(model_action action, const volatile void *at,
                       size_t bytes, uint64_t value, int order);
void model_fence(int order);
_Noreturn void model_not_covered(const char *what);

/* Replaces memcpy, so that it is always a call. */
void *model_memcpy(void *to, const void *from, size_t bytes);

#endif
