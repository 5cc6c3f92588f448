/* Sealed memory that has no name, and descriptors that a peer lent. Linux only.
 */
#ifndef GLI_TRANSPORT_SHM_MEMORY_H
#define GLI_TRANSPORT_SHM_MEMORY_H

#include <stddef.h>

/* Makes memory of `bytes`, reserves its first part, seals its size and maps it.
 * Returns 0, or errno with the failed step in `what`. The reserved pages exist
 * on return: their later use cannot fail for lack of memory. ENOMEM also means
 * that the machine or the control group has hardly more memory left than this.
 */
int gli_shm_memory_make(size_t bytes, size_t reserved, int *fd, void **memory,
                        const char **what);
/* Reserve the rest. 0, or errno. */
int gli_shm_memory_reserve_rest(size_t bytes, size_t reserved, int fd,
                                void *memory);

/* Maps memory of a peer: of exactly this sealed size, with this number of bytes
 * reserved. Returns 0 or errno (EINVAL: anything else). */
int gli_shm_memory_adopt(int fd, size_t bytes, size_t reserved, void **memory);

void gli_shm_memory_drop(void *memory, size_t bytes);

/* A bell, for the threads of this process. Peers never get it: a process that
 * shares a descriptor could make writes to it block. */
int gli_shm_bell_make(int *fd);
void gli_shm_bell_ring(int fd);
void gli_shm_bell_quiet(int fd);

#endif
