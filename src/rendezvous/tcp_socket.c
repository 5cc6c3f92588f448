#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#elif defined(__FreeBSD__)
#undef _POSIX_C_SOURCE /* hides all that is not POSIX */
#endif

#include "rendezvous/tcp_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

enum { KEEPALIVE_IDLE_S = 10, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 10 };

socklen_t gli_store_address_bytes(const struct sockaddr_storage *address) {
  return address->ss_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                        : (socklen_t)sizeof(struct sockaddr_in);
}

static void set_option(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void gli_store_socket_tune(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
#elif defined(TCP_KEEPALIVE)
  set_option(fd, IPPROTO_TCP, TCP_KEEPALIVE, KEEPALIVE_IDLE_S);
#endif
#if defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
#endif
#if defined(SO_NOSIGPIPE)
  set_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
}

ssize_t gli_store_socket_send(int fd, const void *data, size_t bytes) {
#if defined(MSG_NOSIGNAL)
  const int flags = MSG_NOSIGNAL;
#else
  const int flags = 0;
#endif
  ssize_t n;
  do n = send(fd, data, bytes, flags);
  while (n < 0 && errno == EINTR);
  return n;
}

ssize_t gli_store_socket_receive(int fd, void *data, size_t bytes) {
  ssize_t n;
  do n = recv(fd, data, bytes, 0);
  while (n < 0 && errno == EINTR);
  return n;
}

bool gli_store_would_block(int code) {
  return code == EAGAIN || code == EWOULDBLOCK;
}
