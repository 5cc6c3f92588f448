#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <uv.h>

#include "core/descriptor.h"
#include "hostile.h"
#include "transport/auto.h"
#include "transport_shm/address.h"
#include "transport_shm/system.h"

enum { ROUNDS = 6, PATIENCE_S = 20 };

/* ---- the test ------------------------------------------------------------ */

void hostile_demand(hostile *h, bool holds, const char *what) {
  if (holds) return;
  snprintf(h->said, HOSTILE_SAID, "%s", what);
  hostile_release(h);
  _exit(1);
}

void hostile_skip(hostile *h, const char *why) {
  snprintf(h->said, HOSTILE_SAID, "%s", why);
  _exit(HOSTILE_SKIPS);
}

bool hostile_goes_on(hostile *h) {
  return !job_ended(h->job) && job_rounds(h->job) < h->began + ROUNDS;
}

void hostile_begin(hostile *h) {
  (void)!write(h->ready, "", 1);
}

void hostile_await_held(hostile *h) {
  for (int r = 0; r < JOB_RANKS; r++)
    while (!atomic_load(&h->job->ranks[r].waits)) {
      hostile_demand(h, !job_ended(h->job), "the job has ended before");
      uv_sleep(1);
    }
}

void hostile_release(hostile *h) {
  atomic_store(&h->job->held, false);
}

/* ---- plain sockets ------------------------------------------------------- */

/* Makes a socket of the library blocking, with a limit. */
static int with_patience(int fd) {
  const struct timeval patience = {.tv_sec = PATIENCE_S};
  int no = 0;
  if (fd < 0) return -1;
  (void)ioctl(fd, FIONBIO, &no);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  return fd;
}

static struct sockaddr_in loopback(uint16_t port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

int hostile_connect_tcp(uint16_t port) {
  const struct sockaddr_in at = loopback(port);
  int fd = with_patience(gli_socket_open(AF_INET, SOCK_STREAM));
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0) return fd;
  close(fd);
  return -1;
}

struct sockaddr_un hostile_local_name(uint16_t port, socklen_t *bytes) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                   "gloo_c-store-127.0.0.1:%u", (unsigned)port);
  *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  return name;
}

int hostile_connect_local(uint16_t port) {
  socklen_t bytes;
  const struct sockaddr_un name = hostile_local_name(port, &bytes);
  int fd = with_patience(gli_socket_open(AF_UNIX, SOCK_STREAM));
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr *)&name, bytes) == 0) return fd;
  close(fd);
  return -1;
}

int hostile_connect_shm(const hostile *h, int rank) {
  gli_address parts[GLI_AUTO_CHILDREN], address = h->job->ranks[rank].address;
  gli_shm_endpoint endpoint;
  if (gli_auto_address_decode(&address, parts)) address = parts[GLI_AUTO_SHM];
  if (!gli_shm_endpoint_decode(&address, &endpoint)) return -1;
  return with_patience(gli_shm_connect(&endpoint));
}

void hostile_send(int fd, const void *data, size_t bytes) {
  (void)!send(fd, data, bytes, MSG_NOSIGNAL);
}

bool hostile_read(int fd, void *to, size_t bytes) {
  return recv(fd, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

bool hostile_is_closed_saying(int fd, char *text, size_t room) {
  size_t got = 0;
  ssize_t n;
  do {
    n = recv(fd, text + got, room - 1 - got, 0);
    if (n > 0) got += (size_t)n;
  } while (n > 0 && got + 1 < room);
  bool closed = n == 0 || (n < 0 && errno != EAGAIN);
  text[got] = '\0';
  close(fd);
  return closed;
}

bool hostile_is_closed(int fd) {
  char text[4096];
  return hostile_is_closed_saying(fd, text, sizeof text);
}

/* ---- crowds -------------------------------------------------------------- */

static void allow_files(hostile *h, size_t n) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
  if ((uint64_t)limit.rlim_cur >= n + 64) return;
  limit.rlim_cur = (rlim_t)(n + 64);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    hostile_skip(h, "too few open files are allowed here");
}

void hostile_crowd(hostile *h, size_t n, hostile_open open) {
  struct pollfd *all = calloc(n, sizeof *all);
  allow_files(h, n);
  if (all == NULL) abort();
  for (size_t i = 0; i < n; i++)
    all[i] = (struct pollfd){.fd = open(h, i), .events = POLLIN};
  hostile_release(h);
  /* Rounds count from here on. */
  h->began = job_rounds(h->job);
  while (hostile_goes_on(h)) {
    (void)poll(all, (nfds_t)n, 10);
    for (size_t i = 0; i < n && hostile_goes_on(h); i++) {
      if (all[i].fd >= 0 && all[i].revents == 0) continue;
      if (all[i].fd >= 0) close(all[i].fd);
      all[i].fd = open(h, i);
    }
  }
  for (size_t i = 0; i < n; i++)
    if (all[i].fd >= 0) close(all[i].fd);
  free(all);
}

void hostile_churn(hostile *h, hostile_open open) {
  while (hostile_goes_on(h)) {
    int fd = open(h, 0);
    if (fd >= 0) close(fd);
  }
}

void hostile_garbage(uint8_t *to, size_t bytes) {
  static uint32_t state = 12345;
  for (size_t i = 0; i < bytes; i++) {
    state = state * 1103515245 + 12345;
    to[i] = (uint8_t)(state >> 16);
  }
}

/* ---- a man in the middle ------------------------------------------------- */

static bool pass_on(hostile_relay *r, int from, const int fds[2],
                    size_t *passed) {
  uint8_t bytes[512];
  ssize_t n = recv(fds[from], bytes, sizeof bytes, 0);
  if (n <= 0) return false;
  size_t end = *passed + (size_t)n;
  if (from == r->from && r->changed >= *passed && r->changed < end)
    bytes[r->changed - *passed] ^= 1;
  *passed = end;
  if (from == 0 && r->n_said + (size_t)n <= sizeof r->said) {
    memcpy(r->said + r->n_said, bytes, (size_t)n);
    r->n_said += (size_t)n;
  }
  return send(fds[1 - from], bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void relay_run(void *argument) {
  hostile_relay *r = argument;
  size_t passed[2] = {0, 0};
  int fds[2] = {accept(r->listener, NULL, NULL), hostile_connect_tcp(r->store)};
  for (bool on = fds[0] >= 0 && fds[1] >= 0; on;) {
    struct pollfd ready[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    if (poll(ready, 2, PATIENCE_S * 1000) <= 0) break;
    for (int i = 0; i < 2 && on; i++)
      if (ready[i].revents != 0) on = pass_on(r, i, fds, &passed[i]);
  }
  close(fds[0]);
  close(fds[1]);
}

void hostile_relay_start(hostile_relay *relay) {
  struct sockaddr_in at = loopback(0);
  socklen_t bytes = sizeof at;
  relay->listener = socket(AF_INET, SOCK_STREAM, 0);
  relay->thread = malloc(sizeof(uv_thread_t));
  if (relay->listener < 0 || relay->thread == NULL ||
      bind(relay->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
      listen(relay->listener, 8) != 0 ||
      getsockname(relay->listener, (struct sockaddr *)&at, &bytes) != 0 ||
      uv_thread_create(relay->thread, relay_run, relay) != 0)
    abort();
  relay->port = ntohs(at.sin_port);
}

void hostile_relay_join(hostile_relay *relay) {
  uv_thread_join(relay->thread);
  free(relay->thread);
  close(relay->listener);
}
