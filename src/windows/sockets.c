/* Sockets by Winsock. */
#include "windows/posix.h"
#undef BOOL
#undef WORD
#undef socket
#undef accept
#undef bind
#undef listen
#undef connect
#undef shutdown
#undef getsockname
#undef getpeername
#undef setsockopt
#undef getsockopt
#undef send
#undef recv
#undef gethostname
#undef getaddrinfo

enum { PARTS_MAX = 16 };
/* More in one call than any socket takes at once. */
#define PART_BYTES ((size_t)1 << 30)

static BOOL CALLBACK sockets_begin(INIT_ONCE *once, void *code, void **unused) {
  WSADATA data;
  (void)once;
  (void)unused;
  *(int *)code = WSAStartup(MAKEWORD(2, 2), &data);
  return *(int *)code == 0;
}

/* Begins the use of Winsock in this process, once. */
static bool sockets_start(void) {
  static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
  int code = 0;
  if (InitOnceExecuteOnce(&once, sockets_begin, &code, NULL)) return true;
  WSASetLastError(code);
  return false;
}

static int sockets_fail(void) {
  errno = gli_windows_errno((DWORD)WSAGetLastError());
  return -1;
}

static int sockets_result(int result) {
  return result == SOCKET_ERROR ? sockets_fail() : result;
}

int gli_windows_keep(SOCKET opened) {
  if (opened == INVALID_SOCKET) return sockets_fail();
  (void)SetHandleInformation((HANDLE)opened, HANDLE_FLAG_INHERIT, 0);
  if ((opened & (SOCKET)GLI_MARKS) == 0 && opened < GLI_MARKS)
    return (int)opened | GLI_MARK_SOCKET;
  (void)closesocket(opened);
  errno = EMFILE;
  return -1;
}

SOCKET gli_windows_socket(int fd) {
  if (fd > 0 && (fd & GLI_MARKS) == GLI_MARK_SOCKET)
    return (SOCKET)(fd & ~GLI_MARKS);
  errno = fd < 0 ? EBADF : ENOTSOCK;
  WSASetLastError(fd < 0 ? WSAEBADF : WSAENOTSOCK);
  return INVALID_SOCKET;
}

/* ---- opening ------------------------------------------------------------- */

int gli_windows_socket_open(int family, int type, int protocol) {
  if (!sockets_start()) return sockets_fail();
  return gli_windows_keep(
      WSASocketW(family, type, protocol, NULL, 0, WSA_FLAG_OVERLAPPED));
}

int gli_windows_accept(int fd, struct sockaddr *address, socklen_t *bytes) {
  int room = bytes != NULL ? (int)*bytes : 0;
  SOCKET s = accept(gli_windows_socket(fd), address, bytes ? &room : NULL);
  if (bytes != NULL) *bytes = (socklen_t)room;
  return gli_windows_keep(s);
}

/* No other process may take the port, of this user or of another. */
int gli_windows_bind(int fd, const struct sockaddr *address, socklen_t bytes) {
  SOCKET s = gli_windows_socket(fd);
  const BOOL yes = TRUE;
  (void)setsockopt(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&yes,
                   sizeof yes);
  return sockets_result(bind(s, address, (int)bytes));
}

int gli_windows_listen(int fd, int backlog) {
  return sockets_result(listen(gli_windows_socket(fd), backlog));
}

int gli_windows_connect(int fd, const struct sockaddr *to, socklen_t bytes) {
  int code = sockets_result(connect(gli_windows_socket(fd), to, (int)bytes));
  if (code != 0 && errno == EAGAIN) errno = EINPROGRESS;
  return code;
}

int gli_windows_shutdown(int fd, int how) {
  return sockets_result(shutdown(gli_windows_socket(fd), how));
}

/* ---- names and options --------------------------------------------------- */

int gli_windows_getsockname(int fd, struct sockaddr *address,
                            socklen_t *bytes) {
  int room = (int)*bytes;
  int code =
      sockets_result(getsockname(gli_windows_socket(fd), address, &room));
  *bytes = (socklen_t)room;
  return code;
}

int gli_windows_getpeername(int fd, struct sockaddr *address,
                            socklen_t *bytes) {
  int room = (int)*bytes;
  int code =
      sockets_result(getpeername(gli_windows_socket(fd), address, &room));
  *bytes = (socklen_t)room;
  return code;
}

int gli_windows_setsockopt(int fd, int level, int option, const void *value,
                           socklen_t bytes) {
  if (level == SOL_SOCKET && option == SO_REUSEADDR) return 0;
  return sockets_result(
      setsockopt(gli_windows_socket(fd), level, option, value, (int)bytes));
}

int gli_windows_getsockopt(int fd, int level, int option, void *value,
                           socklen_t *bytes) {
  int room = (int)*bytes;
  int code = sockets_result(
      getsockopt(gli_windows_socket(fd), level, option, value, &room));
  *bytes = (socklen_t)room;
  if (code == 0 && level == SOL_SOCKET && option == SO_ERROR) {
    int *error = value;
    if (*error != 0) *error = gli_windows_errno((DWORD)*error);
  }
  return code;
}

/* ---- data ---------------------------------------------------------------- */

ssize_t gli_windows_send(int fd, const void *data, size_t bytes, int flags) {
  if (bytes > PART_BYTES) bytes = PART_BYTES;
  return sockets_result(send(gli_windows_socket(fd), data, (int)bytes, flags));
}

ssize_t gli_windows_recv(int fd, void *data, size_t bytes, int flags) {
  if (bytes > PART_BYTES) bytes = PART_BYTES;
  return sockets_result(recv(gli_windows_socket(fd), data, (int)bytes, flags));
}

static DWORD sockets_parts(const struct msghdr *message,
                           WSABUF parts[PARTS_MAX]) {
  size_t n = message->msg_iovlen < PARTS_MAX ? message->msg_iovlen : PARTS_MAX;
  for (size_t i = 0; i < n; i++) {
    size_t bytes = message->msg_iov[i].iov_len;
    if (bytes > PART_BYTES / PARTS_MAX) bytes = PART_BYTES / PARTS_MAX;
    parts[i].buf = message->msg_iov[i].iov_base;
    parts[i].len = (ULONG)bytes;
    if (bytes < message->msg_iov[i].iov_len) n = i + 1;
  }
  return (DWORD)n;
}

ssize_t gli_windows_sendmsg(int fd, const struct msghdr *message, int flags) {
  WSABUF parts[PARTS_MAX];
  DWORD n = sockets_parts(message, parts), sent = 0;
  if (WSASend(gli_windows_socket(fd), parts, n, &sent, (DWORD)flags, NULL,
              NULL) != 0)
    return sockets_fail();
  return (ssize_t)sent;
}

ssize_t gli_windows_recvmsg(int fd, struct msghdr *message, int flags) {
  WSABUF parts[PARTS_MAX];
  DWORD n = sockets_parts(message, parts), got = 0, with = (DWORD)flags;
  if (WSARecv(gli_windows_socket(fd), parts, n, &got, &with, NULL, NULL) != 0)
    return sockets_fail();
  return (ssize_t)got;
}

/* ---- pairs --------------------------------------------------------------- */

static bool pair_loopback(int fd, struct sockaddr_in *at) {
  socklen_t bytes = sizeof *at;
  memset(at, 0, sizeof *at);
  at->sin_family = AF_INET;
  at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return gli_windows_bind(fd, (struct sockaddr *)at, sizeof *at) == 0 &&
         gli_windows_getsockname(fd, (struct sockaddr *)at, &bytes) == 0;
}

/* Accepts the connection from `from`, and no other: any process may connect. */
static int pair_accept(int listener, const struct sockaddr_in *from) {
  for (;;) {
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    int fd = gli_windows_accept(listener, (struct sockaddr *)&peer, &bytes);
    if (fd < 0 || (peer.sin_port == from->sin_port &&
                   peer.sin_addr.s_addr == from->sin_addr.s_addr))
      return fd;
    (void)gli_windows_close(fd);
  }
}

static void pair_drop(int fd) {
  int code = errno;
  if (fd >= 0) (void)gli_windows_close(fd);
  errno = code;
}

int gli_windows_socketpair(int family, int type, int protocol, int fds[2]) {
  struct sockaddr_in at, from;
  const BOOL yes = TRUE;
  (void)family;
  int listener = gli_windows_socket_open(AF_INET, type, protocol);
  fds[0] = -1;
  fds[1] =
      listener >= 0 ? gli_windows_socket_open(AF_INET, type, protocol) : -1;
  if (fds[1] >= 0 && pair_loopback(listener, &at) &&
      gli_windows_listen(listener, 4) == 0 && pair_loopback(fds[1], &from) &&
      gli_windows_connect(fds[1], (struct sockaddr *)&at, sizeof at) == 0)
    fds[0] = pair_accept(listener, &from);
  pair_drop(listener);
  if (fds[0] < 0) {
    pair_drop(fds[1]);
    return -1;
  }
  for (int i = 0; i < 2; i++)
    (void)gli_windows_setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &yes,
                                 sizeof yes);
  return 0;
}

int gli_windows_pipe(int fds[2]) {
  return gli_windows_socketpair(AF_INET, SOCK_STREAM, 0, fds);
}

/* ---- names of hosts ------------------------------------------------------ */

int gli_windows_gethostname(char *name, size_t room) {
  wchar_t wide[256];
  DWORD n = sizeof wide / sizeof wide[0];
  if (!GetComputerNameExW(ComputerNameDnsHostname, wide, &n))
    return gli_windows_fail();
  char *text = gli_windows_narrow(wide);
  if (text == NULL) return -1;
  bool fits = strlen(text) < room;
  if (fits) memcpy(name, text, strlen(text) + 1);
  free(text);
  if (fits) return 0;
  errno = ENAMETOOLONG;
  return -1;
}

int gli_windows_getaddrinfo(const char *host, const char *port,
                            const struct addrinfo *hints,
                            struct addrinfo **list) {
  if (!sockets_start()) return EAI_FAIL;
  if (host != NULL && host[0] == '\0') return EAI_NONAME; /* not this host */
  return getaddrinfo(host, port, hints, list);
}
