#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "tools/limits.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* A piece stays in the caches until it is received. */
enum { PIECE = 256 << 10 };
enum { STREAM_ROUND_BYTES = 64 << 20, MEET_FROM = 64 << 10, READ_EVERY = 64 };

/* ---- sending and receiving, spinning ------------------------------------- */

/* Returns the bytes moved, 0 if none can be moved now, -1 if the other side has
 * closed. */
static ssize_t try_send(int fd, const char *data, size_t bytes) {
  ssize_t n = send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n >= 0) return n;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

static ssize_t try_recv(int fd, char *data, size_t bytes) {
  ssize_t n = recv(fd, data, bytes, MSG_DONTWAIT);
  if (n > 0) return n;
  if (n == 0) return -1;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

/* Sends `to_send` and receives `to_recv` bytes, in any order, `unit` at a time,
 * through buffers of `unit` bytes. */
static bool exchange(int fd, char *out, char *in, uint64_t unit,
                     uint64_t to_send, uint64_t to_recv) {
  uint64_t sent = 0, received = 0;
  unsigned tries = 0;
  while (sent < to_send || received < to_recv) {
    ssize_t moved = 0;
    if (sent < to_send) {
      uint64_t at = sent % unit, left = unit - at;
      if (left > to_send - sent) left = to_send - sent;
      if (left > PIECE) left = PIECE;
      ssize_t n = try_send(fd, out + at, (size_t)left);
      if (n < 0) return false;
      sent += (uint64_t)n;
      moved += n;
    }
    if (received < to_recv) {
      uint64_t at = received % unit, left = unit - at;
      if (left > to_recv - received) left = to_recv - received;
      if (left > PIECE) left = PIECE;
      ssize_t n = try_recv(fd, in + at, (size_t)left);
      if (n < 0) return false;
      received += (uint64_t)n;
      moved += n;
    }
    tries = moved == 0 ? tries + 1 : 0;
    if (moved == 0) gli_spin(tries);
  }
  return true;
}

/* ---- two connected processes --------------------------------------------- */

/* One round, as both sides repeat it; `first` is the side that measures.
 * Returns nanoseconds, or -1 if the other side has closed. */
typedef int64_t (*round_fn)(int fd, bool first, char *out, char *in,
                            uint64_t bytes);

static int64_t pingpong_round(int fd, bool first, char *out, char *in,
                              uint64_t bytes) {
  uint64_t start = uv_hrtime();
  if (first && !exchange(fd, out, in, bytes, bytes, 0)) return -1;
  if (!exchange(fd, out, in, bytes, 0, bytes)) return -1;
  if (!first && !exchange(fd, out, in, bytes, bytes, 0)) return -1;
  return (int64_t)(uv_hrtime() - start);
}

/* Streams one way; the receiver replies with one byte once it has everything.
 */
static int64_t stream_round(int fd, bool first, char *out, char *in,
                            uint64_t bytes) {
  uint64_t start = uv_hrtime();
  uint64_t forth = first ? STREAM_ROUND_BYTES : 0;
  uint64_t back = first ? 0 : STREAM_ROUND_BYTES;
  if (!exchange(fd, out, in, bytes, forth, back)) return -1;
  if (!exchange(fd, out, in, bytes, first ? 0 : 1, first ? 1 : 0)) return -1;
  return (int64_t)(uv_hrtime() - start);
}

/* Exchanges memory as programs use it: written before, and read after. Short
 * exchanges need no meeting, because each round ends the one before. */
static int64_t exchange_round(int fd, bool first, char *out, char *in,
                              uint64_t bytes) {
  (void)first;
  memset(out, in[0] + 1, (size_t)bytes);
  if (bytes >= MEET_FROM && !exchange(fd, out, in, 1, 1, 1)) return -1;
  uint64_t start = uv_hrtime();
  if (!exchange(fd, out, in, bytes, bytes, bytes)) return -1;
  int64_t ns = (int64_t)(uv_hrtime() - start);
  char sum = 0;
  for (uint64_t i = 0; i < bytes; i += READ_EVERY) sum ^= in[i];
  in[0] = sum;
  return ns;
}

/* Creates a connected pair of TCP sockets over 127.0.0.1. */
static bool connect_pair(int fds[2], gloo_error *error) {
  struct sockaddr_in address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct sockaddr *generic = (struct sockaddr *)&address;
  socklen_t length = sizeof address;
  int yes = 1;
  fds[0] = fds[1] = -1;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0) goto failed;
  if (bind(listener, generic, length) != 0) goto failed;
  if (listen(listener, 1) != 0) goto failed;
  if (getsockname(listener, generic, &length) != 0) goto failed;
  fds[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (fds[0] < 0) goto failed;
  if (connect(fds[0], generic, length) != 0) goto failed;
  fds[1] = accept(listener, NULL, NULL);
  if (fds[1] < 0) goto failed;
  for (int i = 0; i < 2; i++) {
    if (setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) {
      goto failed;
    }
  }
  close(listener);
  return true;
failed:
  gli_fail(error, GLOO_ERR_IO, -1, "cannot connect over 127.0.0.1: %s",
           strerror(errno));
  if (listener >= 0) close(listener);
  if (fds[0] >= 0) close(fds[0]);
  if (fds[1] >= 0) close(fds[1]);
  return false;
}

/* The memory of one process. It is allocated after the fork, because shared
 * pages are copied one by one, and stay slow afterwards. */
typedef struct memory {
  char *out, *in;
} memory;

static bool make_memory(memory *m, uint64_t bytes) {
  m->out = calloc(1, (size_t)bytes);
  m->in = calloc(1, (size_t)bytes);
  return m->out != NULL && m->in != NULL;
}

static void free_memory(const memory *m) {
  free(m->out);
  free(m->in);
}

/* Runs the other process, until the first closes the connection. */
static void second_side(int fd, round_fn round, uint64_t bytes) {
  memory m;
  bool good = make_memory(&m, bytes);
  while (good && round(fd, false, m.out, m.in, bytes) >= 0) {
  }
  _exit(0);
}

/* Computes the median of one round in nanoseconds. */
static bool measure_rounds(int fd, round_fn round, uint64_t bytes,
                           const gli_limit_effort *effort, double *ns,
                           gloo_error *error) {
  memory m;
  gli_samples samples = {.values = NULL};
  bool good = make_memory(&m, bytes) && gli_samples_begin(&samples, effort);
  if (!good) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    goto free_all;
  }
  int64_t took = round(fd, true, m.out, m.in, bytes); /* not counted */
  while (took >= 0 && gli_samples_wanted(&samples)) {
    took = round(fd, true, m.out, m.in, bytes);
    gli_samples_add(&samples, (double)took);
  }
  *ns = gli_samples_end(&samples);
  good = took >= 0;
  if (!good)
    gli_fail(error, GLOO_ERR_IO, -1, "the second process exited early");
free_all:
  free_memory(&m);
  return good;
}

static bool measure(round_fn round, uint64_t bytes,
                    const gli_limit_effort *effort, double *ns,
                    gloo_error *error) {
  int fds[2];
  bool good = false;
  if (!connect_pair(fds, error)) return false;
  pid_t child = fork();
  if (child == 0) {
    close(fds[0]);
    second_side(fds[1], round, bytes);
  }
  close(fds[1]);
  if (child > 0)
    good = measure_rounds(fds[0], round, bytes, effort, ns, error);
  else
    gli_fail(error, GLOO_ERR_IO, -1, "cannot start a second process: %s",
             strerror(errno));
  close(fds[0]);
  if (child > 0) waitpid(child, NULL, 0);
  return good;
}

bool gli_limit_tcp_pingpong(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error) {
  if (!measure(pingpong_round, bytes, effort, value, error)) return false;
  *value /= 1e3;
  return true;
}

bool gli_limit_tcp_exchange(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error) {
  if (!measure(exchange_round, bytes, effort, value, error)) return false;
  *value /= 1e3;
  return true;
}

bool gli_limit_tcp_stream(uint64_t bytes, const gli_limit_effort *effort,
                          double *value, gloo_error *error) {
  if (!measure(stream_round, bytes, effort, value, error)) return false;
  *value = (double)STREAM_ROUND_BYTES / *value;
  return true;
}
