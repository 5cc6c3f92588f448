/* Aligned memory: Windows frees it by another function than free. */
#ifndef GLI_CORE_ALIGNED_H
#define GLI_CORE_ALIGNED_H

#include <stddef.h>

/* Allocates memory at a multiple of `alignment`, a power of two that divides
 * `bytes`. Returns NULL if out of memory. */
void *gli_aligned_alloc(size_t alignment, size_t bytes);
/* Frees memory of gli_aligned_alloc, or, except on Windows, of malloc; NULL is
 * allowed. */
void gli_aligned_free(void *memory);

#endif
