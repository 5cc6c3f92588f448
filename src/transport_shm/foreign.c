#define _GNU_SOURCE
#include "transport_shm/foreign.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/descriptor.h"

/* Limit on a single read; the kernel transfers at most 2 GiB at once. */
static const size_t piece_bytes = (size_t)1 << 30;

int64_t gli_shm_peer_pid(int socket) {
  int64_t process;
  uint32_t user;
  return gli_socket_peer(socket, &process, &user) == 0 ? process : 0;
}

static int read_piece(const gli_shm_foreign *process, uint64_t from, void *to,
                      size_t bytes) {
  uint64_t proof = 0;
  struct iovec ours[] = {{to, bytes}, {&proof, sizeof proof}};
  struct iovec theirs[] = {
      {(void *)(uintptr_t)from, bytes},
      {(void *)(uintptr_t)process->proof_at, sizeof proof}};
  int skip = bytes == 0;
  ssize_t got =
      process_vm_readv((pid_t)process->pid, ours + skip, (unsigned)(2 - skip),
                       theirs + skip, (unsigned)(2 - skip), 0);
  if (got < 0) return errno;
  if ((size_t)got != bytes + sizeof proof) return EFAULT;
  return proof == process->proof ? 0 : ESRCH;
}

int gli_shm_foreign_read(const gli_shm_foreign *process, uint64_t from,
                         void *to, size_t bytes) {
  if (process->pid <= 0) return ESRCH;
  int code = 0;
  size_t done = 0;
  do {
    size_t piece = bytes - done < piece_bytes ? bytes - done : piece_bytes;
    code = read_piece(process, from + done, (char *)to + done, piece);
    done += piece;
  } while (code == 0 && done < bytes);
  return code;
}
