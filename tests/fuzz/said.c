/* In place of net/tcp_socket.c. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "net/tcp_socket.h"
#include "store_use.h"

static const uint8_t *said;
static size_t said_bytes;
static unsigned said_pieces;

void said_by_server(const void *data, size_t bytes) {
  said = data;
  said_bytes = bytes;
  said_pieces = 0;
}

socklen_t gli_store_address_bytes(const struct sockaddr_storage *address) {
  return address->ss_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                        : (socklen_t)sizeof(struct sockaddr_in);
}

/* A server is silent as long as it is not waited for. */
int gli_store_socket_wait(int fd, short events, uint64_t deadline_ns) {
  (void)fd;
  return events == POLLIN && deadline_ns == 0 ? -1 : 0;
}

int gli_store_socket_connect(int fd, const struct sockaddr_storage *address,
                             uint64_t deadline_ns) {
  (void)fd;
  (void)address;
  (void)deadline_ns;
  return said_bytes > 0 ? 0 : ECONNREFUSED;
}

void gli_store_socket_tune(int fd) {
  (void)fd;
}

ssize_t gli_store_socket_send(int fd, const void *data, size_t bytes) {
  (void)fd;
  fuzz_check(bytes == 0 || data != NULL, "there is something to send");
  return (ssize_t)bytes;
}

/* Now and then it has to be asked again. */
ssize_t gli_store_socket_receive(int fd, void *data, size_t bytes) {
  size_t n = 1 + ++said_pieces * 7 % 61;
  (void)fd;
  if (said_bytes == 0) return 0;
  if (said_pieces % 5 == 0) {
    errno = EAGAIN;
    return -1;
  }
  if (n > bytes) n = bytes;
  if (n > said_bytes) n = said_bytes;
  memcpy(data, said, n);
  said += n;
  said_bytes -= n;
  return (ssize_t)n;
}
