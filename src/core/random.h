/* Random bytes that no other process can guess (keys, names, nonces), and the
 * removal of secrets from memory. */
#ifndef GLI_CORE_RANDOM_H
#define GLI_CORE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* Fills `to`. Returns 0, or errno with the failed call in `what`. */
int gli_random(void *to, size_t bytes, const char **what);

/* Behaves like gli_random, with an error on failure. */
gloo_status gli_random_draw(void *to, size_t bytes, gloo_error *error);

/* Fills memory with zeros by stores that the compiler does not remove. */
static inline void gli_wipe(void *memory, size_t bytes) {
  volatile uint8_t *at = memory;
  for (size_t i = 0; i < bytes; i++) at[i] = 0;
}

#endif
