/* Reading another process's memory where the kernel allows it
 * (process_vm_readv). Linux only.
 *
 * A process number says little: it may be reused, and a forked child has its
 * parent's addresses. So each side of a pair puts a random number somewhere and
 * tells the other what and where; it is read together with every piece of data,
 * after it, and shows whose the data was. */
#ifndef GLI_TRANSPORT_SHM_FOREIGN_H
#define GLI_TRANSPORT_SHM_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

typedef struct gli_shm_foreign {
  int64_t pid; /* 0: not known */
  uint64_t proof_at, proof;
} gli_shm_foreign;

/* The process at the other end of a socket; 0: not known here. */
int64_t gli_shm_peer_pid(int socket);

/* Copies `bytes` from address `from` of the process. Returns 0 or errno:
 * EFAULT: no memory there; ESRCH: the process has ended; others: the kernel
 * refuses. */
int gli_shm_foreign_read(const gli_shm_foreign *process, uint64_t from,
                         void *to, size_t bytes);

#endif
