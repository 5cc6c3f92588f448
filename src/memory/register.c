/* gloo_memory_register and gloo_memory_deregister: only what the table of
 * regions says. Devices register what they find there when they first need it.
 */
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
                    "no memory to note that %zu bytes at %p are registered",
                    bytes, memory);
  if (gli_region_is_shared(other))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%zu bytes at %p cannot be registered: some of them are "
                    "from gloo_alloc, and need not be",
                    bytes, memory);
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "%zu bytes at %p cannot be registered: %zu bytes at %p are, "
                  "and overlap them; gloo_memory_deregister first",
                  bytes, memory, other->bytes, (const void *)other->base);
}

gloo_status gloo_memory_register(void *memory, size_t bytes,
                                 gloo_error *error) {
  if (memory == NULL || bytes == 0)
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "%zu bytes at %p cannot be registered: gloo_memory_register "
        "needs memory, and how many bytes it is",
        bytes, memory);
  if (bytes > UINTPTR_MAX - (uintptr_t)memory)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%zu bytes at %p cannot be registered: they would go on "
                    "beyond the last address",
                    bytes, memory);
  gli_region other;
  int code = gli_region_add(memory, bytes, -1, &other);
  if (code == 0) return GLOO_OK;
  return register_refused(memory, bytes, code, &other, error);
}

gloo_status gloo_memory_deregister(void *memory, gloo_error *error) {
  gli_region region;
  if (gli_region_remove(memory, false, &region)) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "no registered memory begins at %p: gloo_memory_deregister "
                  "takes the address that gloo_memory_register was given",
                  memory);
}
