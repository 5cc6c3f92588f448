#define _GNU_SOURCE /* accept4, pipe2, ppoll, struct ucred */

#include "core/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_OF_OURS = 3 }; /* number after standard input, output and error */

void gli_pipe_drain(int fd) {
  char bytes[64];
  ssize_t got;
  do got = read(fd, bytes, sizeof bytes);
  while (got == (ssize_t)sizeof bytes || (got < 0 && errno == EINTR));
}

ssize_t gli_socket_send(int fd, const void *data, size_t bytes) {
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

ssize_t gli_socket_receive(int fd, void *data, size_t bytes) {
  ssize_t n;
  do n = recv(fd, data, bytes, 0);
  while (n < 0 && errno == EINTR);
  return n;
}

void gli_fd_close(int fd) {
  int code = errno;
  if (fd >= 0) close(fd);
  errno = code;
}

void gli_socket_end(int fd) {
  (void)shutdown(fd, SHUT_RDWR);
  gli_fd_close(fd);
}

int gli_fd_keep(int fd) {
  if (fd < 0 || fd >= FIRST_OF_OURS) return fd;
  int kept = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OF_OURS);
  gli_fd_close(fd);
  return kept;
}

bool gli_fd_is_scarce(int fd) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
         (rlim_t)fd >= limit.rlim_cur / 2;
}

static void set_option(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof value);
}

#if !GLI_LINUX
static int with_flags(int fd) {
  if (fd < 0) return -1;
#if defined(SO_NOSIGPIPE) /* where MSG_NOSIGNAL is missing; fails for pipes */
  set_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
  int flags = fcntl(fd, F_GETFL);
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && flags >= 0 &&
      fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
    return fd;
  gli_fd_close(fd);
  return -1;
}
#endif

int gli_socket_open(int family, int type) {
#if GLI_LINUX
  return gli_fd_keep(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
#else
  return gli_fd_keep(with_flags(socket(family, type, 0)));
#endif
}

int gli_socket_accept(int listener) {
#if GLI_LINUX
  return gli_fd_keep(
      accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
#else
  return gli_fd_keep(with_flags(accept(listener, NULL, NULL)));
#endif
}

int gli_socket_peer(int fd, int64_t *process, uint32_t *user) {
  *process = -1;
  *user = UINT32_MAX;
#if defined(__linux__)
  struct ucred peer;
  socklen_t bytes = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return errno;
  *process = peer.pid;
  *user = (uint32_t)peer.uid;
#else /* BSD, macOS */
  uid_t its_user;
  gid_t its_group;
  if (getpeereid(fd, &its_user, &its_group) != 0) return errno;
  *user = (uint32_t)its_user;
#if defined(LOCAL_PEERPID)
  pid_t pid;
  socklen_t bytes = sizeof pid;
  if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &pid, &bytes) == 0)
    *process = pid;
#endif
#endif
  return 0;
}

void gli_socket_tune(int fd, int idle_s, int interval_s, int probes) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
#elif defined(TCP_KEEPALIVE)
  set_option(fd, IPPROTO_TCP, TCP_KEEPALIVE, idle_s);
#endif
#if defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes);
#endif
#if defined(SO_NOSIGPIPE)
  set_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
}

bool gli_would_block(int code) {
  return code == EAGAIN || code == EWOULDBLOCK;
}

bool gli_pipe_open(int fds[2]) {
#if GLI_LINUX
  if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) return false;
#else
  if (pipe(fds) != 0) return false;
  fds[0] = with_flags(fds[0]);
  fds[1] = with_flags(fds[1]);
#endif
  fds[0] = gli_fd_keep(fds[0]);
  fds[1] = gli_fd_keep(fds[1]);
  if (fds[0] >= 0 && fds[1] >= 0) return true;
  gli_fd_close(fds[0]);
  gli_fd_close(fds[1]);
  return false;
}

void gli_pipe_signal(int fd) {
  enum { TRIES = 1000 };
  for (int i = 0; i < TRIES; i++) {
    if (write(fd, "", 1) == 1) return;
    if (gli_would_block(errno) || errno == EBADF) return;
    if (errno != EINTR) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

int gli_fd_write_all(int fd, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO; /* prevents an endless loop */
    if (n <= 0) return -1;
    data += n;
    bytes -= (size_t)n;
  }
  return 0;
}

/* ---- Unix sockets in the file system ------------------------------------- */

static bool descriptor_address(const char *path, struct sockaddr_un *address) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  errno = ENAMETOOLONG;
  if (strlen(path) >= sizeof address->sun_path) return false;
  memcpy(address->sun_path, path, strlen(path));
  return true;
}

bool gli_socket_listen_at(int fd, const char *path, int backlog) {
  struct sockaddr_un address;
  if (!descriptor_address(path, &address) ||
      bind(fd, (const struct sockaddr *)&address, sizeof address) != 0)
    return false;
  if (chmod(path, S_IRUSR | S_IWUSR) == 0 && listen(fd, backlog) == 0)
    return true;
  int code = errno;
  (void)unlink(path);
  errno = code;
  return false;
}

bool gli_socket_connect_to(int fd, const char *path) {
  struct sockaddr_un address;
  return descriptor_address(path, &address) &&
         connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
}

bool gli_socket_is_left(const char *path) {
  int fd = gli_socket_open(AF_UNIX, SOCK_STREAM);
  if (fd < 0) return false;
  bool refused = !gli_socket_connect_to(fd, path) && errno == ECONNREFUSED;
  gli_fd_close(fd);
  return refused;
}

/* ---- sleeping until one is readable -------------------------------------- */

void gli_sleep_add(gli_sleep *sleep, int fd, uint64_t due_ns) {
  if (fd >= 0 && sleep->fds < GLI_SLEEP_FDS) sleep->fd[sleep->fds++] = fd;
  if (due_ns == 0) return;
  if (sleep->due_ns == 0 || due_ns < sleep->due_ns) sleep->due_ns = due_ns;
}

static int64_t sleep_limit(const gli_sleep *sleep, uint64_t now_ns,
                           int64_t timeout_ns) {
  if (sleep->due_ns == 0) return timeout_ns;
  uint64_t left = sleep->due_ns > now_ns ? sleep->due_ns - now_ns : 0;
  if (timeout_ns >= 0 && left > (uint64_t)timeout_ns) return timeout_ns;
  return left > INT64_MAX ? INT64_MAX : (int64_t)left;
}

void gli_sleep_wait(const gli_sleep *sleep, uint64_t now_ns,
                    int64_t timeout_ns) {
  struct pollfd fds[GLI_SLEEP_FDS];
  for (int i = 0; i < sleep->fds; i++)
    fds[i] = (struct pollfd){.fd = sleep->fd[i], .events = POLLIN};
  int64_t limit_ns = sleep_limit(sleep, now_ns, timeout_ns);
#if GLI_LINUX
  struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000),
                           .tv_nsec = (long)(limit_ns % 1000000000)};
  (void)ppoll(fds, (nfds_t)sleep->fds, limit_ns < 0 ? NULL : &limit, NULL);
#else
  const int64_t longest_ms = 1000000000;
  int64_t ms = limit_ns < 0 ? -1 : limit_ns / 1000000 + 1;
  (void)poll(fds, (nfds_t)sleep->fds, (int)(ms > longest_ms ? longest_ms : ms));
#endif
}
