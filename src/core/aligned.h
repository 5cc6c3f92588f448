/* Aligned memory from malloc: not every system frees that of aligned_alloc by
 * free. */
#ifndef GLI_CORE_ALIGNED_H
#define GLI_CORE_ALIGNED_H

#include <stddef.h>

/* Allocates memory at a multiple of `alignment`, a power of two. Returns NULL
 * if out of memory. */
void *gli_aligned_alloc(size_t alignment, size_t bytes);
/* Frees such memory; NULL is allowed. */
void gli_aligned_free(void *memory);

#endif
