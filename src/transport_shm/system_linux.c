/* Shared memory on Linux: abstract Unix sockets that preserve packets, an
 * eventfd, process_vm_readv. Nothing has a name in a file system. */
#define _GNU_SOURCE
#include "transport_shm/system.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/host_identity.h"

enum { BACKLOG = 512 };

_Static_assert((int)GLI_SHM_BOOT_BYTES == (int)GLI_BOOT_ID_BYTES, "an id fits");

const char gli_shm_place_differs[] = "is in another network namespace";

int gli_shm_place_here(gli_shm_endpoint *endpoint, const char **what) {
  *what = "cannot identify this host and its network namespace";
  int code = gli_boot_id_read(endpoint->boot);
  if (code != 0) return code;
  struct stat net;
  if (stat("/proc/self/ns/net", &net) != 0) return errno;
  endpoint->device = (uint64_t)net.st_dev;
  endpoint->inode = (uint64_t)net.st_ino;
  return 0;
}

void gli_shm_describe(char text[GLI_SHM_DESCRIPTION_BYTES]) {
  (void)snprintf(text, GLI_SHM_DESCRIPTION_BYTES,
                 "sealed memfd, abstract sockets");
}

/* ---- sockets ------------------------------------------------------------- */

/* Makes an abstract socket name, which disappears with its socket. */
static socklen_t system_name(const gli_shm_endpoint *endpoint,
                             struct sockaddr_un *name) {
  static const char prefix[] = "gloo_c-";
  static const char digits[] = "0123456789abcdef";
  memset(name, 0, sizeof *name);
  name->sun_family = AF_UNIX;
  char *at = name->sun_path + 1;
  memcpy(at, prefix, sizeof prefix - 1);
  at += sizeof prefix - 1;
  for (int i = 0; i < GLI_SHM_NAME_BYTES; i++) {
    *at++ = digits[endpoint->name[i] >> 4];
    *at++ = digits[endpoint->name[i] & 15];
  }
  return (socklen_t)(at - (char *)name);
}

static int system_give_up(int fd) {
  gli_fd_close(fd);
  return -1;
}

int gli_shm_listen(gli_shm_endpoint *here) {
  struct sockaddr_un name;
  socklen_t bytes = system_name(here, &name);
  int fd = gli_socket_open(AF_UNIX, SOCK_SEQPACKET);
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&name, bytes) != 0) return system_give_up(fd);
  if (listen(fd, BACKLOG) != 0) return system_give_up(fd);
  return fd;
}

int gli_shm_connect(const gli_shm_endpoint *there) {
  struct sockaddr_un name;
  socklen_t bytes = system_name(there, &name);
  int fd = gli_socket_open(AF_UNIX, SOCK_SEQPACKET);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&name, bytes) != 0)
    return system_give_up(fd);
  return fd;
}

void gli_shm_unlisten(const gli_shm_endpoint *here) {
  (void)here;
}

ssize_t gli_shm_packet_send(int socket, const struct msghdr *message,
                            size_t expected) {
  (void)expected;
  return sendmsg(socket, message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t gli_shm_packet_receive(int socket, struct msghdr *message,
                               size_t expected) {
  (void)expected;
  return recvmsg(socket, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
}

int gli_shm_packet_fd(int fd) {
  return gli_fd_keep(fd);
}

/* ---- the bell ------------------------------------------------------------ */

int gli_shm_bell_make(int *fd, int *ringer) {
  int made = gli_fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (made < 0) return errno;
  *fd = *ringer = made;
  return 0;
}

void gli_shm_bell_ring(int ringer) {
  /* a full counter is readable, so a failure is harmless */
  eventfd_t one = 1;
  ssize_t written;
  do written = write(ringer, &one, sizeof one);
  while (written < 0 && errno == EINTR);
}

void gli_shm_bell_quiet(int fd) {
  eventfd_t count;
  ssize_t got;
  do got = read(fd, &count, sizeof count);
  while (got < 0 && errno == EINTR);
}

/* ---- memory of other processes ------------------------------------------- */

/* Limit on a single read; the kernel transfers at most 2 GiB at once. */
static const size_t piece_bytes = (size_t)1 << 30;

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

/* Returns true if processes of a user may read each other's memory. Where Yama
 * forbids that, an attempt would leave a line in the kernel's log. */
static bool may_read_others(void) {
  FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
  if (file == NULL) return true;
  bool may = fgetc(file) == '0';
  fclose(file);
  return may;
}

/* On Intel's processors the kernel's copy costs less than two copies through a
 * ring, on AMD's it costs more; on others it has not been measured
 * (docs/lab/shared-memory.md). */
static bool reads_fast(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
#else
  return false;
#endif
}

uint64_t gli_shm_foreign_from(void) {
  return reads_fast() && may_read_others() ? (uint64_t)64 * 1024
                                           : GLI_SHM_READ_NEVER;
}
