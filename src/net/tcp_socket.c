#include "net/tcp_socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>

#include "core/descriptor.h"
#include "net/time_limit.h"

enum { KEEPALIVE_IDLE_S = 10, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 10 };

socklen_t gli_store_address_bytes(const struct sockaddr_storage *address) {
  return address->ss_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                        : (socklen_t)sizeof(struct sockaddr_in);
}

int gli_store_socket_wait(int fd, short events, uint64_t deadline_ns) {
  struct pollfd ready = {.fd = fd, .events = events};
  for (;;) {
    int64_t left = gli_deadline_left(deadline_ns);
    int64_t ms = left < 0 ? -1 : left / 1000000 + (left % 1000000 != 0);
    int n = poll(&ready, 1, ms > INT_MAX ? INT_MAX : (int)ms);
    if (n > 0) return 0;
    if (n < 0 && errno != EINTR) return errno;
    if (gli_deadline_left(deadline_ns) == 0) return -1;
  }
}

int gli_store_socket_connect(int fd, const struct sockaddr_storage *address,
                             uint64_t deadline_ns) {
  int code = 0;
  socklen_t bytes = sizeof code;
  if (connect(fd, (const struct sockaddr *)address,
              gli_store_address_bytes(address)) == 0)
    return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  code = gli_store_socket_wait(fd, POLLOUT, deadline_ns);
  if (code != 0) return code;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes) == 0 ? code
                                                                  : errno;
}

void gli_store_socket_tune(int fd) {
  gli_socket_tune(fd, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES);
}

ssize_t gli_store_socket_send(int fd, const void *data, size_t bytes) {
  return gli_socket_send(fd, data, bytes);
}

ssize_t gli_store_socket_receive(int fd, void *data, size_t bytes) {
  return gli_socket_receive(fd, data, bytes);
}
