/* Forgetting what is secret. */
#ifndef GLI_CORE_WIPE_H
#define GLI_CORE_WIPE_H

#include <stddef.h>
#include <stdint.h>

/* Fills memory with zeros, which the compiler does not remove. */
static inline void gli_wipe(void *memory, size_t bytes) {
  volatile uint8_t *at = memory;
  for (size_t i = 0; i < bytes; i++) at[i] = 0;
}

#endif
