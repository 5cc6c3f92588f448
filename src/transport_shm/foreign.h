/* Reads of another process's memory, if the kernel permits them
 * (process_vm_readv). Linux only.
 *
 * A process id is not reliable: it may be reused, and a forked child has its
 * parent's addresses. Each side of a pair therefore stores a random number and
 * tells the other its value and address. The number is read together with each
 * piece of data, after it, and shows which process the data is from. */
#ifndef GLI_TRANSPORT_SHM_FOREIGN_H
#define GLI_TRANSPORT_SHM_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

typedef struct gli_shm_foreign {
  int64_t pid; /* 0 if unknown */
  uint64_t proof_at, proof;
} gli_shm_foreign;

/* Returns the process at the other end of a socket, or 0 if it is unknown. */
int64_t gli_shm_peer_pid(int socket);

/* Copies `bytes` from address `from` of the process. Returns 0 or errno: EFAULT
 * if there is no memory at the address, ESRCH if the process has ended, other
 * values if the kernel refuses. */
int gli_shm_foreign_read(const gli_shm_foreign *process, uint64_t from,
                         void *to, size_t bytes);

#endif
