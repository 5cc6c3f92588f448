/* Creation of descriptors with the same properties on every system:
 * close-on-exec, non-blocking, and never 0, 1 or 2. A program may have closed
 * the standard descriptors; a log line for standard error would then go into
 * the library's descriptor 2. Each function fails with -1 (or false) and errno.
 */
#ifndef GLI_CORE_DESCRIPTOR_H
#define GLI_CORE_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes a descriptor, or the -1 of a failed function. Returns it, or a
 * duplicate with a higher number if it is 0, 1 or 2, which is then closed. */
int gli_fd_keep(int fd);

int gli_socket_open(int family, int type);
int gli_socket_accept(int listener);
bool gli_pipe_open(int fds[2]);

/* Returns true if more than half of the allowed descriptors are in use, judged
 * by `fd`, the highest descriptor of unauthenticated peers: systems assign the
 * lowest free number. The other half is reserved: with more than
 * GLI_STRANGERS_FEW unauthenticated peers, a new one replaces an old one. */
enum { GLI_STRANGERS_FEW = 8 };
bool gli_fd_is_scarce(int fd);

/* Binds a Unix socket to a path, which must not exist, with mode 0600, and
 * listens. No client can connect before the mode is set. Returns false with
 * errno, and leaves no file, on failure. */
bool gli_socket_listen_at(int fd, const char *path, int backlog);
/* Connects a Unix socket to a path. Returns false with errno on failure. */
bool gli_socket_connect_to(int fd, const char *path);
/* Returns true if no process listens at the socket's file. The BSDs also refuse
 * connections beyond the backlog. */
bool gli_socket_is_left(const char *path);

/* Gets the process at the other end of a Unix socket, and its user, from the
 * system (see core/user.h). Returns 0, or errno with both unknown (-1,
 * UINT32_MAX). The BSDs do not tell the process. */
int gli_socket_peer(int fd, int64_t *process, uint32_t *user);

/* Configures a TCP connection: disables Nagle's algorithm, disables SIGPIPE
 * where this is a socket option, and enables keepalive. After `idle_s` seconds
 * without traffic the system sends a probe every `interval_s` seconds, and
 * drops the connection after `probes` of them without a reply. */
void gli_socket_tune(int fd, int idle_s, int interval_s, int probes);

/* Returns true if `code`, from errno, means that the call would block. */
bool gli_would_block(int code);

/* Writes a byte into a pipe to wake the thread that waits at the other end.
 * Retries after a signal or a temporary lack of kernel memory. A full pipe
 * needs no further byte. */
void gli_pipe_signal(int fd);
/* Removes all such bytes from the other end. */
void gli_pipe_drain(int fd);

/* Behave like send and recv, but retry after interruptions. Sending raises no
 * SIGPIPE if the system has MSG_NOSIGNAL. */
ssize_t gli_socket_send(int fd, const void *data, size_t bytes);
ssize_t gli_socket_receive(int fd, void *data, size_t bytes);

/* Closes a descriptor and preserves errno; -1 is allowed. */
void gli_fd_close(int fd);
/* Ends the connection of a socket, of which a forked child may have a copy, and
 * closes it. */
void gli_socket_end(int fd);

/* Writes all bytes to a file. Returns 0, or -1 with errno. */
int gli_fd_write_all(int fd, const char *data, size_t bytes);

/* ---- sleeping until a descriptor is readable ----------------------------- */

enum { GLI_SLEEP_FDS = 8 };

/* Events that end a sleep. Initialise with {.fds = 0}. */
typedef struct gli_sleep {
  int fds;
  int fd[GLI_SLEEP_FDS];
  uint64_t due_ns; /* deadline; 0 if none */
} gli_sleep;

/* Adds a descriptor (-1: none) and a deadline (0: none). */
void gli_sleep_add(gli_sleep *sleep, int fd, uint64_t due_ns);

/* Sleeps until such an event, at most timeout_ns (negative: no limit). `now_ns`
 * is the current time of the clock that due_ns uses. May return early. */
void gli_sleep_wait(const gli_sleep *sleep, uint64_t now_ns,
                    int64_t timeout_ns);

#endif
