#include "rendezvous/tcp_socket.h"

#include <errno.h>
#include <netinet/in.h>

#include "core/descriptor.h"

enum { KEEPALIVE_IDLE_S = 10, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 10 };

socklen_t gli_store_address_bytes(const struct sockaddr_storage *address) {
  return address->ss_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                        : (socklen_t)sizeof(struct sockaddr_in);
}

void gli_store_socket_tune(int fd) {
  gli_socket_tune(fd, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES);
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
