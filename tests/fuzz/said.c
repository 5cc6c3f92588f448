/* Replaces net/socket.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn.h"
#include "store_use.h"

static const uint8_t *said;
static size_t said_bytes;
static unsigned said_pieces;

void said_by_server(const void *data, size_t bytes) {
  said = data;
  said_bytes = bytes;
  said_pieces = 0;
}

/* The server only sends when a call waits for it. */
int gli_tcp_socket_wait(int fd, int events, uint64_t deadline_ns) {
  (void)fd;
  return events == GLI_READABLE && deadline_ns == 0 ? -1 : 0;
}

int gli_tcp_socket_connect(int fd, const gli_endpoint *to) {
  (void)fd;
  (void)to;
  return said_bytes > 0 ? 0 : ECONNREFUSED;
}

int gli_tcp_socket_source(const gli_endpoint *to, gli_endpoint *from) {
  *from = *to;
  return 0;
}

int gli_tcp_socket_error(int fd) {
  (void)fd;
  return 0;
}

ssize_t gli_tcp_socket_send(int fd, const struct iovec *parts, int count) {
  size_t bytes = 0;
  (void)fd;
  for (int i = 0; i < count; i++) {
    fuzz_check(parts[i].iov_len == 0 || parts[i].iov_base != NULL,
               "there is something to send");
    bytes += parts[i].iov_len;
  }
  return (ssize_t)bytes;
}

/* Sometimes fails with EAGAIN. */
ssize_t gli_tcp_socket_read(int fd, void *data, size_t bytes) {
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

/* A client without TLS never peeks or reads into several parts. */
ssize_t gli_tcp_socket_peek(int fd, void *data, size_t bytes) {
  (void)fd;
  (void)data;
  (void)bytes;
  abort();
}
