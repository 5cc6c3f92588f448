/* Small allocations that share a region of memory, and with it one descriptor.
 * Any thread may call anything here. */
#ifndef GLI_MEMORY_SLAB_H
#define GLI_MEMORY_SLAB_H

#include <stdbool.h>
#include <stddef.h>

#define GLI_SLAB_BYTES ((size_t)1 << 20)        /* of a region */
#define GLI_SLAB_TAKE_MAX (GLI_SLAB_BYTES / 16) /* of an allocation */

/* `bytes` of whole pages, at most GLI_SLAB_TAKE_MAX, filled with zeros. NULL:
 * there is no room in any slab. */
void *gli_slab_take(size_t bytes);

/* Makes a slab of a region of GLI_SLAB_BYTES that begins at `base`. Returns
 * false if out of memory. */
bool gli_slab_add(void *base);

/* Give back what gli_slab_take gave; false: it was not from there. `empty` is a
 * region that is no slab any more, to be freed, or NULL. */
bool gli_slab_give(void *memory, void **empty);

#endif
