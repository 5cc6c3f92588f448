/* Sealed memory that has no name, and descriptors that a peer lent. Linux only.
 */
#ifndef GLI_TRANSPORT_SHM_MEMORY_H
#define GLI_TRANSPORT_SHM_MEMORY_H

#include <stddef.h>

/* Make memory of `bytes`, reserve the first of it, seal its size and map it. 0;
 * or errno, and `what` says what failed. The reserved pages are there when this
 * returns: using them later cannot fail for want of memory. ENOMEM also when
 * the machine or the control group has some left, but not much more than all of
 * it. */
int gli_shm_memory_make(size_t bytes, size_t reserved, int *fd, void **memory,
                        const char **what);
/* Reserve the rest. 0, or errno. */
int gli_shm_memory_reserve_rest(size_t bytes, size_t reserved, int fd,
                                void *memory);

/* Map memory that a peer made: of just this size, which cannot change any more,
 * with so many bytes reserved. 0, or errno (EINVAL: it is something else). */
int gli_shm_memory_adopt(int fd, size_t bytes, size_t reserved, void **memory);

void gli_shm_memory_drop(void *memory, size_t bytes);

/* A bell, for the threads of this process. It is never given to a peer: a
 * process that shares a descriptor could make writing to it block. */
int gli_shm_bell_make(int *fd);
void gli_shm_bell_ring(int fd);
void gli_shm_bell_quiet(int fd);

#endif
