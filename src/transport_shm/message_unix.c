/* Messages with descriptors on Unix sockets, for Linux and other POSIX
 * systems. */
#define _DEFAULT_SOURCE /* CMSG_SPACE */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/user.h"
#include "transport_shm/system.h"

int gli_shm_accept(int listener) {
  return gli_socket_accept(listener);
}

int gli_shm_same_user(int socket, uint32_t user) {
  int64_t process;
  uint32_t its;
  int code = gli_socket_peer(socket, &process, &its);
  if (code != 0) return code;
  return user != GLI_USER_NONE && its == user ? 0 : -1;
}

/* Space for descriptors, with ANCILLARY_BYTES at most in use: CMSG_SPACE is not
 * constant on every system. The kernel closes any that do not fit. */
enum { ANCILLARY_BYTES = 64 };
typedef union ancillary {
  char bytes[ANCILLARY_BYTES];
  struct cmsghdr align;
} ancillary;

int gli_shm_message_send(int socket, const void *data, size_t bytes,
                         const int *fds, size_t n_fds) {
  struct iovec part = {(void *)(uintptr_t)data, bytes};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  ancillary room;
  size_t fds_bytes = n_fds * sizeof *fds;
  if (n_fds > 0) {
    memset(&room, 0, sizeof room);
    message.msg_control = room.bytes;
    message.msg_controllen = (socklen_t)CMSG_SPACE(fds_bytes);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = (socklen_t)CMSG_LEN(fds_bytes);
    memcpy(CMSG_DATA(head), fds, fds_bytes);
  }
  ssize_t sent;
  do sent = gli_shm_packet_send(socket, &message, bytes);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno;
  return (size_t)sent == bytes ? 0 : EMSGSIZE;
}

#if defined(__clang__) /* musl's CMSG_NXTHDR compares types of two signs */
#pragma clang diagnostic ignored "-Wsign-compare"
#endif

/* Takes the first `n_fds` received descriptors, and closes the others. */
static void take_descriptors(struct msghdr *message, int *fds, size_t n_fds) {
  size_t taken = 0;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
       head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      if (taken < n_fds)
        fds[taken++] = gli_shm_packet_fd(fd);
      else
        close(fd);
    }
  }
}

ssize_t gli_shm_message_receive(int socket, void *data, size_t room,
                                size_t expected, int *fds, size_t n_fds) {
  struct iovec part = {data, room};
  ancillary space;
  struct msghdr message = {
      .msg_iov = &part,
      .msg_iovlen = 1,
      .msg_control = space.bytes,
      .msg_controllen = (socklen_t)CMSG_SPACE(n_fds * sizeof(int))};
  ssize_t got;
  /* The kernel reports a reset once, before the packets sent until then. */
  int resets = 0;
  do got = gli_shm_packet_receive(socket, &message, expected);
  while (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
  if (got > 0) take_descriptors(&message, fds, n_fds);
  return got;
}
