/* Making descriptors, on every system the same: closed on exec, non-blocking,
 * and never one of the first three. A program may have closed those, and a log
 * line for standard error would then go into what the library had opened as
 * number 2. Each function fails with -1 (or false) and errno. */
#ifndef GLI_CORE_DESCRIPTOR_H
#define GLI_CORE_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes a descriptor, or the -1 of a function that failed: the same one, or
 * another for the same file if it is one of the first three. */
int gli_fd_keep(int fd);

int gli_socket_open(int family, int type);
int gli_socket_accept(int listener);
bool gli_pipe_open(int fds[2]);

/* Are more than half of the descriptors that this process may have in use, when
 * `fd` is the highest of those that strangers have? Systems give the lowest
 * that is free. Strangers are not to take the others: where there are more than
 * a few, one gives way to the next. */
enum { GLI_STRANGERS_FEW = 8 };
bool gli_fd_is_scarce(int fd);

/* Binds a Unix socket to a path, which must not exist, with mode 0600, and
 * listens. No client gets in before the mode is set. Returns false with errno,
 * and leaves no file, on failure. */
bool gli_socket_listen_at(int fd, const char *path, int backlog);
/* Connects a Unix socket to a path. Returns false with errno on failure. */
bool gli_socket_connect_to(int fd, const char *path);

/* Gets the process at the other end of a Unix socket, and its user, from the
 * system (see core/user.h). Returns 0, or errno with both unknown (-1,
 * UINT32_MAX). */
int gli_socket_peer(int fd, int64_t *process, uint32_t *user);

/* For a TCP connection: no Nagle, no signal where the peer is gone, and
 * keepalive: after so many seconds without traffic the system asks the peer's,
 * so often, until it gives the connection up. */
void gli_socket_tune(int fd, int idle_s, int interval_s, int probes);

/* Is `code`, from errno, "nothing now, try again when ready"? */
bool gli_would_block(int code);

/* Write a byte into a pipe for the thread that waits at its other end: again
 * where a signal came, or the system had no memory for it just then. A pipe
 * that is full has what to say already. */
void gli_pipe_signal(int fd);
/* Take such a byte out of the other end. */
void gli_pipe_drain(int fd);

/* As send and recv, over interruptions; sending raises no signal where the
 * system can be asked for that. */
ssize_t gli_socket_send(int fd, const void *data, size_t bytes);
ssize_t gli_socket_receive(int fd, void *data, size_t bytes);

/* close() that leaves errno alone; -1 is allowed. */
void gli_fd_close(int fd);

/* All of it, to a file. -1 with errno. */
int gli_fd_write_all(int fd, const char *data, size_t bytes);

/* ---- sleeping until one is readable -------------------------------------- */

enum { GLI_SLEEP_FDS = 8 };

/* Events that end a sleep. Start with {.fds = 0}. */
typedef struct gli_sleep {
  int fds;
  int fd[GLI_SLEEP_FDS];
  uint64_t due_ns; /* 0: none */
} gli_sleep;

/* Add a descriptor (-1: none) and a time (0: none). */
void gli_sleep_add(gli_sleep *sleep, int fd, uint64_t due_ns);

/* Wait for it, at most timeout_ns (below 0: no limit). `now_ns` is the time by
 * the clock of due_ns. May return early. */
void gli_sleep_wait(const gli_sleep *sleep, uint64_t now_ns,
                    int64_t timeout_ns);

#endif
