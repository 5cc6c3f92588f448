/* Functions that differ by system: system_linux.c, system_windows.c, or
 * system_posix.c elsewhere; and message_unix.c, except on Windows. Those for
 * memory are in memory/sealed.h. */
#ifndef GLI_TRANSPORT_SHM_SYSTEM_H
#define GLI_TRANSPORT_SHM_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "transport_shm/address.h"

/* ---- where this process is ----------------------------------------------- */

/* Fills the fields of the end point that tell which processes reach it. Returns
 * 0, or errno with the failed step in `what`. */
int gli_shm_place_here(gli_shm_endpoint *endpoint, const char **what);
/* End of a sentence about a rank of this host that is out of reach. */
extern const char gli_shm_place_differs[];

enum { GLI_SHM_DESCRIPTION_BYTES = 160 };
/* Describes memory and sockets, for `gloo info`. */
void gli_shm_describe(char text[GLI_SHM_DESCRIPTION_BYTES]);

/* ---- sockets ------------------------------------------------------------- */

/* Make sockets. Each returns a descriptor, or -1 with errno: ENOENT or
 * ECONNREFUSED if no process listens. gli_shm_listen may complete the name. */
int gli_shm_listen(gli_shm_endpoint *here);
int gli_shm_accept(int listener);
int gli_shm_connect(const gli_shm_endpoint *there);
/* Removes the name of the listener, if it has one. */
void gli_shm_unlisten(const gli_shm_endpoint *here);

/* Returns 0 if the process at the other end runs as `user`, -1 if it runs as
 * another user, or errno if the system cannot tell. On Windows it also returns
 * 0 if the system cannot tell yet, and gli_shm_message_receive finds out. */
int gli_shm_same_user(int socket, uint32_t user);

/* Send and receive messages of `bytes` or `expected` bytes, completely or not
 * at all, without blocking or signals, with descriptors that both ends then
 * have. Of a message of another length, fewer or more bytes are received, or
 * the next message is wrong. gli_shm_message_send returns 0 or errno.
 * gli_shm_message_receive returns the number of bytes, 0 if the peer has closed,
 * or -1 with errno: EPERM if another user sent descriptors, EBADMSG if the
 * message names none that exist. */
int gli_shm_message_send(int socket, const void *data, size_t bytes,
                         const int *fds, size_t n_fds);
ssize_t gli_shm_message_receive(int socket, void *data, size_t room,
                                size_t expected, int *fds, size_t n_fds);

/* Parts of message_unix.c that differ between systems: sendmsg and recvmsg
 * without blocking or signals, for a message of `expected` bytes. */
struct msghdr;
ssize_t gli_shm_packet_send(int socket, const struct msghdr *message,
                            size_t expected);
ssize_t gli_shm_packet_receive(int socket, struct msghdr *message,
                               size_t expected);
/* Takes a descriptor that was received: close-on-exec, and not below 3. */
int gli_shm_packet_fd(int fd);

/* ---- the bell ------------------------------------------------------------ */

/* Bell: a descriptor that wakes threads of this process. It is rung through
 * `ringer`, which may be the same one. Peers get neither, because a process
 * that shares one can make writes to it block. */
int gli_shm_bell_make(int *fd, int *ringer);
void gli_shm_bell_ring(int ringer);
void gli_shm_bell_quiet(int fd);

/* ---- memory of other processes ------------------------------------------- */

/* Process whose memory the kernel may let this one read (process_vm_readv, on
 * Linux).
 *
 * A process id is not reliable: it may be reused, and a forked child has its
 * parent's addresses. Each side of a pair therefore stores a random number and
 * tells the other its value and address. The number is read together with each
 * piece of data, after it, and shows which process the data is from. */
typedef struct gli_shm_foreign {
  int64_t pid; /* 0 if unknown */
  uint64_t proof_at, proof;
} gli_shm_foreign;

/* Copies `bytes` from address `from` of the process. Returns 0 or errno: EFAULT
 * if there is no memory at the address, ESRCH if the process has ended, other
 * values if the kernel refuses. */
int gli_shm_foreign_read(const gli_shm_foreign *process, uint64_t from,
                         void *to, size_t bytes);

/* Returns the length from which that is faster than a ring for a rank that
 * would otherwise copy more than its peer, or GLI_SHM_READ_NEVER. */
#define GLI_SHM_READ_NEVER UINT64_MAX
uint64_t gli_shm_foreign_from(void);

#endif
