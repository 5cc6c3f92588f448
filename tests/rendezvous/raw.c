#include "raw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in loopback(uint16_t port) {
  struct sockaddr_in address;
  memset(&address, 0, sizeof(address));
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int raw_try_connect(uint16_t port) {
  struct sockaddr_in address = loopback(port);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
    return fd;
  close(fd);
  return -1;
}

int raw_connect(uint16_t port) {
  int fd = raw_try_connect(port);
  assert_true(fd >= 0);
  return fd;
}

/* The peer may have closed already, which is not a failure. */
void raw_send(int fd, const void *data, size_t bytes) {
  send(fd, data, bytes, MSG_NOSIGNAL);
}

void raw_make_hello(gli_frame *frame, uint64_t magic, uint64_t epoch,
                    const char *job) {
  gli_frame_begin(frame, 64);
  gli_frame_put_u64(frame, magic);
  gli_frame_put_u32(frame, GLI_TCP_VERSION);
  gli_frame_put_u32(frame, GLI_TCP_BY_NAME);
  gli_frame_put_u64(frame, epoch);
  gli_frame_put_key(frame, job);
}

size_t raw_read_all(int fd, char *to, size_t room) {
  size_t got = 0;
  for (ssize_t n = 1; n > 0 && got + 1 < room; got += (size_t)n) {
    n = read(fd, to + got, room - 1 - got);
    assert_true(n >= 0);
  }
  to[got] = '\0';
  return got;
}

void raw_expect_closed(int fd) {
  char buffer[4096];
  while (recv(fd, buffer, sizeof(buffer), 0) > 0) {
  }
  close(fd);
}

int raw_listen(uint16_t *port) {
  struct sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof(address);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)),
                   0);
  assert_int_equal(listen(fd, 8), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
  *port = ntohs(address.sin_port);
  return fd;
}
