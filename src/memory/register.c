/* gloo_memory_register and gloo_memory_deregister, which only change the table
 * of regions. Devices register a region when they first need it. */
#include <errno.h>
#include <stdint.h>

#include "core/error.h"
#include "gloo_c/memory.h"
#include "memory/region.h"

static gloo_status register_refused(const void *memory, size_t bytes, int code,
                                    const gli_region *other,
                                    gloo_error *error) {
  if (code != EEXIST)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory while registering %zu bytes at %p", bytes,
                    memory);
  if (gli_region_is_shared(other))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "cannot register %zu bytes at %p: some are from "
                    "gloo_alloc, which needs no registration",
                    bytes, memory);
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "cannot register %zu bytes at %p: they overlap %zu "
                  "registered bytes at %p; call gloo_memory_deregister first",
                  bytes, memory, other->bytes, (const void *)other->base);
}

gloo_status gloo_memory_register(void *memory, size_t bytes,
                                 gloo_error *error) {
  if (memory == NULL || bytes == 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "cannot register %zu bytes at %p: `memory` must not be "
                    "NULL and `bytes` not 0",
                    bytes, memory);
  if (bytes > UINTPTR_MAX - (uintptr_t)memory)
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "cannot register %zu bytes at %p: they exceed the address space", bytes,
        memory);
  gli_region other;
  int code = gli_region_add(memory, bytes, -1, &other);
  if (code == 0) return GLOO_OK;
  return register_refused(memory, bytes, code, &other, error);
}

gloo_status gloo_memory_deregister(void *memory, gloo_error *error) {
  gli_region region;
  if (gli_region_remove(memory, false, &region)) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "no registered memory starts at %p: pass the address that "
                  "was passed to gloo_memory_register",
                  memory);
}
