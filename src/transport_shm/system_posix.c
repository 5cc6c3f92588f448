/* Shared memory on POSIX systems other than Linux: Unix sockets in a private
 * directory, and a pipe.
 *
 * The file of a socket exists as long as its end point does, because pairs
 * connect when they are first used. The kernel closes the listener with its
 * process, so a file that refuses connections, and whose process has ended, is
 * stale: the next process of the user that opens an end point removes it, and so
 * does `gloo run` after its ranks have ended. The name holds the process and a
 * random number.
 *
 * The sockets are streams, which every system has. Notes have one length, and
 * are read one by one, so that each comes with its own descriptors. */
#define _DEFAULT_SOURCE /* MSG_CMSG_CLOEXEC */
#include "transport_shm/system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "core/host_identity.h"
#include "core/run_directory.h"
#include "memory/sealed.h"

#if !defined(MSG_NOSIGNAL) /* SO_NOSIGPIPE is set instead */
#define MSG_NOSIGNAL 0
#endif
#if !defined(MSG_CMSG_CLOEXEC) /* gli_shm_packet_fd sets the flag */
#define MSG_CMSG_CLOEXEC 0
#endif

enum { BACKLOG = 512, RANDOM_BYTES = GLI_SHM_NAME_BYTES - 4 };

/* Directories that all processes of a user choose alike, whatever their
 * environment. */
static const gli_run_directory places[] = {GLI_RUN_DIRECTORY_USER,
                                           GLI_RUN_DIRECTORY_TMP};
enum { PLACES = sizeof places / sizeof places[0] };

const char gli_shm_place_differs[] =
    "has another directory for its sockets: it runs in another container, or "
    "the directory was replaced";

/* ---- where this process is ----------------------------------------------- */

/* Finds the first directory that can be used. */
static bool system_directory(bool create, char *path, struct stat *status) {
  for (int i = 0; i < PLACES; i++)
    if (gli_run_socket_directory(places[i], create, path) &&
        stat(path, status) == 0)
      return true;
  return false;
}

int gli_shm_place_here(gli_shm_endpoint *endpoint, const char **what) {
  char path[GLI_RUN_SOCKET_BYTES];
  struct stat status;
  *what =
      "its sockets need /run/user/UID/gloo_c or /tmp/gloo_c-UID, with the mode "
      "0700 and your user as owner";
  if (!system_directory(true, path, &status)) return errno;
  (void)snprintf((char *)endpoint->boot, sizeof endpoint->boot, "%016" PRIx64,
                 gli_host_place());
  endpoint->device = (uint64_t)status.st_dev;
  endpoint->inode = (uint64_t)status.st_ino;
  gli_put_u32(endpoint->name + RANDOM_BYTES, (uint32_t)getpid());
  return 0;
}

void gli_shm_describe(char text[GLI_SHM_DESCRIPTION_BYTES]) {
  char path[GLI_RUN_SOCKET_BYTES];
  struct stat status;
  if (!system_directory(true, path, &status)) (void)strcpy(path, "none");
  (void)snprintf(text, GLI_SHM_DESCRIPTION_BYTES, "%s, sockets in %s",
                 gli_sealed_maker, path);
}

/* ---- sockets ------------------------------------------------------------- */

/* Gets the path of an end point's socket, in the directory that it has named.
 * Returns false with errno. */
static bool system_path(const gli_shm_endpoint *endpoint, char *path) {
  struct stat status;
  if (!system_directory(false, path, &status)) return false;
  errno = ENOENT;
  if ((uint64_t)status.st_dev != endpoint->device ||
      (uint64_t)status.st_ino != endpoint->inode)
    return false;
  size_t used = strlen(path), room = GLI_RUN_SOCKET_BYTES - used;
  int n = snprintf(path + used, room,
                   "/shm-%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "-pid%" PRIu32
                   ".sock",
                   gli_get_u32(endpoint->name), gli_get_u32(endpoint->name + 4),
                   gli_get_u32(endpoint->name + 8),
                   gli_get_u32(endpoint->name + RANDOM_BYTES));
  errno = ENAMETOOLONG;
  return n > 0 && (size_t)n < room;
}

int gli_shm_listen(gli_shm_endpoint *here) {
  char path[GLI_RUN_SOCKET_BYTES];
  if (!system_path(here, path)) return -1;
  gli_run_socket_sweep();
  int fd = gli_socket_open(AF_UNIX, SOCK_STREAM);
  if (fd < 0 || gli_run_socket_listen(fd, path, BACKLOG)) return fd;
  gli_fd_close(fd);
  return -1;
}

int gli_shm_connect(const gli_shm_endpoint *there) {
  char path[GLI_RUN_SOCKET_BYTES];
  if (!system_path(there, path)) return -1;
  int fd = gli_socket_open(AF_UNIX, SOCK_STREAM);
  if (fd < 0 || gli_socket_connect_to(fd, path)) return fd;
  gli_fd_close(fd);
  return -1;
}

void gli_shm_unlisten(const gli_shm_endpoint *here) {
  char path[GLI_RUN_SOCKET_BYTES];
  if (system_path(here, path)) (void)unlink(path);
}

/* Ends the connection after a part of a message, which the peer must not take
 * for a whole one. This happens only when a peer reads nothing. */
ssize_t gli_shm_packet_send(int socket, const struct msghdr *message,
                            size_t expected) {
  ssize_t sent = sendmsg(socket, message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 || (size_t)sent == expected) return sent;
  (void)shutdown(socket, SHUT_RDWR);
  errno = EPIPE;
  return -1;
}

ssize_t gli_shm_packet_receive(int socket, struct msghdr *message,
                               size_t expected) {
  message->msg_iov[0].iov_len = expected;
  return recvmsg(socket, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
}

int gli_shm_packet_fd(int fd) {
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  return gli_fd_keep(fd);
}

/* ---- the bell ------------------------------------------------------------ */

int gli_shm_bell_make(int *fd, int *ringer) {
  int ends[2];
  if (!gli_pipe_open(ends)) return errno;
  *fd = ends[0];
  *ringer = ends[1];
  return 0;
}

void gli_shm_bell_ring(int ringer) {
  gli_pipe_signal(ringer);
}

void gli_shm_bell_quiet(int fd) {
  gli_pipe_drain(fd);
}

/* ---- memory of other processes ------------------------------------------- */

int gli_shm_foreign_read(const gli_shm_foreign *process, uint64_t from,
                         void *to, size_t bytes) {
  (void)process, (void)from, (void)to, (void)bytes;
  return ENOSYS;
}

uint64_t gli_shm_foreign_from(void) {
  return GLI_SHM_READ_NEVER;
}
