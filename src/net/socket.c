/* TCP sockets. All differences between systems are in this file. */
#if GLI_LINUX
#define _GNU_SOURCE
#endif

#include "net/socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#if GLI_LINUX
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

#include "core/descriptor.h"
#include "net/events.h"
#include "net/time_limit.h"

enum { KEEPALIVE_IDLE_S = 15, KEEPALIVE_INTERVAL_S = 5, KEEPALIVE_PROBES = 6 };

/* Keepalive detects a vanished host while the connection is idle. The kernel of
 * a busy process still answers its probes. TCP_USER_TIMEOUT would break such
 * connections, because it also counts time with a closed window. A host that
 * vanishes while data is in flight is left to the deadlines of operations. */
void gli_tcp_socket_tune(int fd) {
  gli_socket_tune(fd, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES);
}

void gli_tcp_socket_set_control(int fd, const char *control) {
#if GLI_LINUX
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control,
                   (socklen_t)strlen(control));
#else
  (void)fd;
  (void)control;
#endif
}

/* Loopback has no congestion to control. The system's default algorithm may
 * hold packets back (BBR paces them) or open the window slowly. Reno does
 * neither while no packet is lost, and every system with a choice has it. */
void gli_tcp_socket_tune_local(int fd) {
  gli_tcp_socket_set_control(fd, "reno");
}

/* Replaces BBR only. Linux continues to pace a connection that BBR has started
 * to pace, even after its algorithm is changed. Other algorithms leave no such
 * state. What an algorithm negotiates with the peer during the handshake (DCTCP
 * does) stays as the system configures it. */
void gli_tcp_socket_tune_listener(int fd, char control[GLI_TCP_CONTROL_BYTES]) {
  memset(control, 0, GLI_TCP_CONTROL_BYTES);
#if GLI_LINUX
  char name[GLI_TCP_CONTROL_BYTES + 1] = "";
  socklen_t bytes = GLI_TCP_CONTROL_BYTES;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0) return;
  if (strncmp(name, "bbr", 3) != 0) return;
  memcpy(control, name, GLI_TCP_CONTROL_BYTES - 1);
  gli_tcp_socket_tune_local(fd);
#else
  (void)fd;
#endif
}

int gli_tcp_socket_connect(int fd, const gli_endpoint *to) {
  if (connect(fd, &to->any, gli_endpoint_bytes(to)) == 0) return 0;
  return errno == EINPROGRESS || errno == EINTR ? 0 : errno;
}

/* A connect of datagrams sends no packet. Some systems refuse port 0. */
int gli_tcp_socket_source(const gli_endpoint *to, gli_endpoint *from) {
  enum { DISCARD = 9 };
  gli_endpoint at = *to;
  socklen_t bytes = sizeof *from;
  int fd = gli_socket_open(at.any.sa_family, SOCK_DGRAM);
  if (fd < 0) return errno;
  gli_endpoint_set_port(&at, DISCARD);
  int code = connect(fd, &at.any, gli_endpoint_bytes(&at)) == 0 &&
                     getsockname(fd, &from->any, &bytes) == 0
                 ? 0
                 : errno;
  gli_fd_close(fd);
  return code;
}

int gli_tcp_socket_wait(int fd, int events, uint64_t deadline_ns) {
  struct pollfd ready = {.fd = fd};
  if ((events & GLI_READABLE) != 0) ready.events |= POLLIN;
  if ((events & GLI_WRITABLE) != 0) ready.events |= POLLOUT;
  for (;;) {
    int64_t left = gli_deadline_left(deadline_ns);
    int64_t ms = left < 0 ? -1 : left / 1000000 + (left % 1000000 != 0);
    int n = poll(&ready, 1, ms > INT_MAX ? INT_MAX : (int)ms);
    if (n > 0) return 0;
    if (n < 0 && errno != EINTR) return errno;
    if (gli_deadline_left(deadline_ns) == 0) return -1;
  }
}

int gli_tcp_socket_error(int fd) {
  int code = 0;
  socklen_t bytes = sizeof code;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) return errno;
  return code;
}

/* The number of parts is a size_t in glibc, and an int elsewhere. */
static struct msghdr tcp_socket_message(const struct iovec *parts, int count) {
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = (struct iovec *)(uintptr_t)parts;
  message.msg_iovlen = (__typeof__(message.msg_iovlen))count;
  return message;
}

ssize_t gli_tcp_socket_send(int fd, const struct iovec *parts, int count) {
#if defined(MSG_NOSIGNAL)
  const int flags = MSG_NOSIGNAL;
#else
  const int flags = 0;
#endif
  ssize_t bytes;
  if (count == 1) { /* send is cheaper than sendmsg */
    do bytes = send(fd, parts->iov_base, parts->iov_len, flags);
    while (bytes < 0 && errno == EINTR);
    return bytes;
  }
  struct msghdr message = tcp_socket_message(parts, count);
  do bytes = sendmsg(fd, &message, flags);
  while (bytes < 0 && errno == EINTR);
  return bytes;
}

static ssize_t tcp_socket_receive(int fd, void *buffer, size_t length,
                                  int flags) {
  ssize_t bytes;
  do bytes = recv(fd, buffer, length, flags);
  while (bytes < 0 && errno == EINTR);
  return bytes;
}

ssize_t gli_tcp_socket_peek(int fd, void *buffer, size_t bytes) {
  return tcp_socket_receive(fd, buffer, bytes, MSG_PEEK);
}

ssize_t gli_tcp_socket_read(int fd, void *buffer, size_t bytes) {
  return tcp_socket_receive(fd, buffer, bytes, 0);
}

/* Linux delays the acknowledgement of data that was read if it expects an
 * answer to carry it. It expects one again after every answer, and otherwise
 * acknowledges immediately only every second message of 536 bytes or more. The
 * sender waits for the acknowledgement, so request it with TCP_QUICKACK. */
ssize_t gli_tcp_socket_skip(int fd, void *room, size_t bytes) {
#if GLI_LINUX
  const int yes = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
  return tcp_socket_receive(fd, room, bytes, MSG_TRUNC);
#else
  char waste[4096];
  (void)room;
  return tcp_socket_receive(fd, waste,
                            bytes < sizeof waste ? bytes : sizeof waste, 0);
#endif
}

ssize_t gli_tcp_socket_receive(int fd, const struct iovec *parts, int count) {
  if (count == 1)
    return tcp_socket_receive(fd, parts->iov_base, parts->iov_len, 0);
  ssize_t bytes;
  struct msghdr message = tcp_socket_message(parts, count);
  do bytes = recvmsg(fd, &message, 0);
  while (bytes < 0 && errno == EINTR);
  return bytes;
}

int64_t gli_tcp_socket_silence_ns(int fd) {
#if GLI_LINUX
  struct tcp_info info;
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return -1;
  return (int64_t)info.tcpi_last_data_recv * 1000000;
#else
  (void)fd;
  return -1;
#endif
}

int gli_tcp_socket_unacknowledged(int fd) {
#if defined(SIOCOUTQ)
  int bytes;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
#else
  (void)fd;
  return -1;
#endif
}
