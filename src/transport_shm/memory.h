/* Sealed anonymous memory of rings and pages. */
#ifndef GLI_TRANSPORT_SHM_MEMORY_H
#define GLI_TRANSPORT_SHM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes memory of `bytes`, reserves its first part, seals its size and maps it.
 * Returns 0, or errno with the failed step in `what`. The reserved pages exist
 * on return: later accesses cannot fail for lack of memory. ENOMEM also means
 * that the machine or the control group has little more memory than this. */
int gli_shm_memory_make(size_t bytes, size_t reserved, int *fd, void **memory,
                        const char **what);
/* Reserves the bytes [from, until) of it. With `must`, the caller cannot go on
 * without them, and gets more of the memory that is left. Returns 0 or
 * errno. */
int gli_shm_memory_grow(int fd, void *memory, size_t from, size_t until,
                        bool must);

/* Maps memory of a peer, which must have exactly this sealed size and at least
 * this number of reserved bytes. Returns 0 or errno (EINVAL if it does not). */
int gli_shm_memory_adopt(int fd, size_t bytes, size_t reserved, void **memory);

void gli_shm_memory_drop(void *memory, size_t bytes);

#endif
