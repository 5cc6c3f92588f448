/* Shared memory on Windows (docs/adr/0083).
 *
 * End points listen at a port of the loopback address, which any user of this
 * host reaches. A message names sections by their handles in the sender, and the
 * receiver copies them from there: a peer names no handle of this process. The
 * receiver first makes sure that the sender runs as its own user, and owns the
 * other end of the connection.
 *
 * Each message is sent at once, and a receiver leaves few unread, so that it
 * arrives whole. */
#include "transport_shm/system.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/fork.h"
#include "core/host_identity.h"
#include "core/random.h"
#include "memory/sealed.h"

/* Windows takes two seconds to find that no process listens. */
enum { CONNECT_MS = 200, FDS_MAX = 2, MESSAGE_MAX = 256 };

const char gli_shm_place_differs[] = "is on another host";

/* ---- where this process is ----------------------------------------------- */

int gli_shm_place_here(gli_shm_endpoint *endpoint, const char **what) {
  (void)what;
  (void)snprintf((char *)endpoint->boot, sizeof endpoint->boot, "%016" PRIx64,
                 gli_host_place());
  return 0;
}

void gli_shm_describe(char text[GLI_SHM_DESCRIPTION_BYTES]) {
  (void)snprintf(text, GLI_SHM_DESCRIPTION_BYTES,
                 "%s, connections of the loopback address", gli_sealed_maker);
}

/* ---- sockets ------------------------------------------------------------- */

static struct sockaddr_in system_address(uint16_t port) {
  return (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int gli_shm_listen(gli_shm_endpoint *here) {
  struct sockaddr_in at = system_address(0);
  socklen_t bytes = sizeof at;
  int fd = gli_socket_open(AF_INET, SOCK_STREAM);
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&at, bytes) == 0 &&
      listen(fd, SOMAXCONN) == 0 &&
      getsockname(fd, (struct sockaddr *)&at, &bytes) == 0) {
    gli_put_u32(here->name, ntohs(at.sin_port));
    return fd;
  }
  gli_fd_close(fd);
  return -1;
}

void gli_shm_unlisten(const gli_shm_endpoint *here) {
  (void)here;
}

static void system_undelayed(int fd) {
  const int yes = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

int gli_shm_accept(int listener) {
  int fd = gli_socket_accept(listener);
  if (fd >= 0) system_undelayed(fd);
  return fd;
}

/* Waits for a connection to this host. Returns 0 or errno. */
static int system_await(int fd) {
  struct pollfd one = {.fd = fd, .events = POLLOUT};
  int code = 0;
  socklen_t bytes = sizeof code;
  if (poll(&one, 1, CONNECT_MS) <= 0) return ECONNREFUSED;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) return errno;
  return code == 0 && (one.revents & POLLOUT) == 0 ? ECONNREFUSED : code;
}

int gli_shm_connect(const gli_shm_endpoint *there) {
  struct sockaddr_in at = system_address((uint16_t)gli_get_u32(there->name));
  int fd = gli_socket_open(AF_INET, SOCK_STREAM);
  if (fd < 0) return -1;
  int code = connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ? 0 : errno;
  if (code == EINPROGRESS) code = system_await(fd);
  if (code == 0) {
    system_undelayed(fd);
    return fd;
  }
  (void)close(fd);
  errno = code;
  return -1;
}

/* Windows tells the process of a connection only by the table of all
 * connections: messages with descriptors tell who sent them. */
int gli_shm_same_user(int socket, uint32_t user) {
  (void)socket;
  (void)user;
  return 0;
}

/* ---- statements ---------------------------------------------------------- */

/* A statement of a process about a connection, in a section of its own: its end
 * is the one with these ports. Processes of other users cannot write there, and
 * so cannot make it for the process. The nonce is new for each message, so that
 * a statement about an earlier connection with these ports does not count. */
typedef struct system_statement {
  uint64_t nonce;
  uint32_t port, peer_port;
} system_statement;

enum { STATEMENTS = 4096 };
#define STATEMENTS_BYTES (STATEMENTS * sizeof(system_statement))

typedef struct system_statements {
  int fd, code; /* errno if there is no memory for them */
  system_statement *all;
  atomic_uint next; /* a place is used again after STATEMENTS others */
} system_statements;

static system_statements ours;

/* The section stays until the process ends. */
static void system_statements_make(void) {
  const gli_sealed_want want = {.bytes = STATEMENTS_BYTES,
                                .reserved = STATEMENTS_BYTES,
                                .most_percent = 50};
  const char *what;
  void *memory;
  ours.code = gli_sealed_make(&want, &ours.fd, &memory, &what);
  if (ours.code == 0) ours.all = memory;
}

/* Gets the ports of a connection. Returns 0 or errno. */
static int system_ports(int fd, uint32_t *port, uint32_t *peer_port) {
  struct sockaddr_in here, there;
  socklen_t bytes = sizeof here, room = sizeof there;
  if (getsockname(fd, (struct sockaddr *)&here, &bytes) != 0 ||
      getpeername(fd, (struct sockaddr *)&there, &room) != 0)
    return errno;
  *port = ntohs(here.sin_port);
  *peer_port = ntohs(there.sin_port);
  return 0;
}

/* States which connection the socket is. Returns 0 or errno. */
static int system_state(int socket, uint32_t *place, uint64_t *nonce) {
  static atomic_bool once;
  const char *what;
  gli_once(&once, system_statements_make);
  system_statement made = {.nonce = 0};
  int code = ours.code;
  if (code == 0) code = gli_random(&made.nonce, sizeof made.nonce, &what);
  if (code == 0) code = system_ports(socket, &made.port, &made.peer_port);
  if (code != 0) return code;
  *place = atomic_fetch_add(&ours.next, 1) % STATEMENTS;
  *nonce = made.nonce;
  ours.all[*place] = made;
  return 0;
}

/* ---- handles ------------------------------------------------------------- */

/* Copies a section's handle from the process. Returns 0 or errno. */
static int system_take(HANDLE process, uint32_t value, int *fd) {
  HANDLE section;
  if (value == 0 || value % 4 != 0 || value >= GLI_MARK_SECTION) return EBADMSG;
  if (!DuplicateHandle(process, (HANDLE)(uintptr_t)value, GetCurrentProcess(),
                       &section, FILE_MAP_READ | FILE_MAP_WRITE | READ_CONTROL,
                       FALSE, 0)) {
    int code = gli_windows_errno(GetLastError());
    return code == EBADF || code == EACCES ? EBADMSG : code;
  }
  *fd = gli_windows_keep_section(section);
  return *fd >= 0 ? 0 : errno;
}

/* Checks that the process states that the socket's other end is its own.
 * Returns 0 or errno. */
static int system_confirm(int socket, HANDLE process, uint32_t section,
                          uint32_t place, uint64_t nonce) {
  uint32_t port, peer_port;
  void *memory;
  int fd, code = system_ports(socket, &port, &peer_port);
  if (code == 0) code = system_take(process, section, &fd);
  if (code != 0) return code;
  code = gli_sealed_check(fd, STATEMENTS_BYTES, STATEMENTS_BYTES);
  if (code == 0) code = gli_sealed_map(fd, STATEMENTS_BYTES, &memory);
  gli_sealed_close(fd);
  if (code != 0) return code;
  system_statement its = ((system_statement *)memory)[place % STATEMENTS];
  gli_sealed_unmap(memory, STATEMENTS_BYTES);
  return its.nonce == nonce && its.port == peer_port && its.peer_port == port
             ? 0
             : EPERM;
}

/* ---- messages ------------------------------------------------------------ */

/* Behind a message: 0 process  4 section with statements  8 place in it
 * 12 nonce  20 handles. All is 0 without descriptors. */
enum { NONCE_AT = 12, HANDLES_AT = 20, TAIL_BYTES = HANDLES_AT + 4 * FDS_MAX };

static int system_encode_tail(int socket, const int *fds, size_t n_fds,
                              uint8_t tail[TAIL_BYTES]) {
  uint32_t place;
  uint64_t nonce;
  memset(tail, 0, TAIL_BYTES);
  if (n_fds == 0) return 0;
  int code = system_state(socket, &place, &nonce);
  if (code != 0) return code;
  gli_put_u32(tail, (uint32_t)GetCurrentProcessId());
  gli_put_u32(tail + 4, (uint32_t)(uintptr_t)gli_windows_section(ours.fd));
  gli_put_u32(tail + 8, place);
  gli_put_u64(tail + NONCE_AT, nonce);
  for (size_t i = 0; i < n_fds; i++)
    gli_put_u32(tail + HANDLES_AT + 4 * i,
                (uint32_t)(uintptr_t)gli_windows_section(fds[i]));
  return 0;
}

int gli_shm_message_send(int socket, const void *data, size_t bytes,
                         const int *fds, size_t n_fds) {
  uint8_t message[MESSAGE_MAX];
  if (bytes > MESSAGE_MAX - TAIL_BYTES || n_fds > FDS_MAX) return EMSGSIZE;
  memcpy(message, data, bytes);
  int code = system_encode_tail(socket, fds, n_fds, message + bytes);
  if (code != 0) return code;
  bytes += TAIL_BYTES;
  ssize_t sent = gli_socket_send(socket, message, bytes);
  if (sent < 0) return errno == ECONNABORTED ? ECONNRESET : errno;
  if ((size_t)sent == bytes) return 0;
  (void)shutdown(socket, SHUT_RDWR);
  return EPIPE;
}

/* Opens the process that sent a message. Returns 0 or errno. */
static int system_sender(uint32_t number, HANDLE *process) {
  *process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_DUP_HANDLE,
                         FALSE, number);
  if (*process == NULL)
    return GetLastError() == ERROR_ACCESS_DENIED ? EPERM : ECONNRESET;
  if (gli_windows_is_own_user(*process)) return 0;
  (void)CloseHandle(*process);
  return EPERM;
}

/* Takes the descriptors of a message. Returns 0 or errno; for lack of memory, 0
 * with descriptors that stay -1. */
static int system_decode_tail(int socket, const uint8_t tail[TAIL_BYTES],
                              int *fds, size_t n_fds) {
  HANDLE process;
  int code = system_sender(gli_get_u32(tail), &process);
  if (code != 0) return code;
  code = system_confirm(socket, process, gli_get_u32(tail + 4),
                        gli_get_u32(tail + 8), gli_get_u64(tail + NONCE_AT));
  bool sure = code == 0;
  for (size_t i = 0; i < n_fds && code == 0; i++) {
    uint32_t value = gli_get_u32(tail + HANDLES_AT + 4 * i);
    if (value != 0) code = system_take(process, value, &fds[i]);
  }
  (void)CloseHandle(process);
  if (code == 0 || (gli_is_exhaustion(code) && sure)) return 0;
  for (size_t i = 0; i < n_fds; i++) {
    gli_fd_close(fds[i]);
    fds[i] = -1;
  }
  return code == EINVAL ? EPERM : code; /* not such a section */
}

ssize_t gli_shm_message_receive(int socket, void *data, size_t room,
                                size_t expected, int *fds, size_t n_fds) {
  static const uint8_t none[TAIL_BYTES];
  uint8_t message[MESSAGE_MAX];
  size_t whole = expected + TAIL_BYTES;
  errno = EMSGSIZE;
  if (expected > room || whole > MESSAGE_MAX || n_fds > FDS_MAX) return -1;
  ssize_t got = gli_socket_receive(socket, message, whole);
  if (got <= 0) return got;
  errno = EBADMSG;
  if ((size_t)got != whole) return -1;
  const uint8_t *tail = message + expected;
  int code = memcmp(tail, none, TAIL_BYTES) != 0
                 ? system_decode_tail(socket, tail, fds, n_fds)
                 : 0;
  memcpy(data, message, expected);
  errno = code;
  return code == 0 ? (ssize_t)expected : -1;
}

/* ---- the bell ------------------------------------------------------------ */

int gli_shm_bell_make(int *fd, int *ringer) {
  int ends[2];
  if (!gli_pipe_open(ends)) return errno;
  *fd = ends[0];
  *ringer = ends[1];
  return 0;
}

void gli_shm_bell_ring(int ringer) {
  gli_pipe_signal(ringer);
}

void gli_shm_bell_quiet(int fd) {
  gli_pipe_drain(fd);
}

/* ---- memory of other processes ------------------------------------------- */

int gli_shm_foreign_read(const gli_shm_foreign *process, uint64_t from,
                         void *to, size_t bytes) {
  (void)process, (void)from, (void)to, (void)bytes;
  return ENOSYS;
}

uint64_t gli_shm_foreign_from(void) {
  return GLI_SHM_READ_NEVER;
}
