/* The local socket of a TCP store: beside its port the server has a Unix
 * socket, on which the system tells each side the user of the other process.
 * Ranks of one host need no secret to exclude other users.
 *
 * The socket has an abstract name, which any process of the network namespace
 * may take first. In that case it is in a directory that belongs to this user
 * alone (core/run_directory.h), where clients look if the abstract socket is
 * not their own user's. Linux only; elsewhere, and if a program may not have
 * such sockets, all functions fail with EAFNOSUPPORT. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_LOCAL_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/run_directory.h"
#include "core/user.h"

/* ---- paths --------------------------------------------------------------- */

/* Directories that another user owns or may enter are skipped, so that files
 * placed there in advance do no harm. */

/* The path of a Unix socket, with its maximum length. */
typedef struct gli_tcp_local_path {
  char text[108]; /* "" if there is none */
} gli_tcp_local_path;

enum { GLI_TCP_LOCAL_PLACES = GLI_RUN_DIRECTORIES };

/* Forms the path of the socket of a server at `host` (its numeric address, or
 * "*") and `port`, in the i-th directory; `create` makes the directory. The
 * name differs between hosts and network namespaces, which may share the
 * directory. Returns false if there is no such directory. */
bool gli_tcp_local_place(int i, bool create, const char *host, uint16_t port,
                         gli_tcp_local_path *path);

/* ---- both ends ----------------------------------------------------------- */

/* The process at the other end of a local socket. */
typedef struct gli_tcp_process {
  bool local;      /* false if it came over TCP, which identifies no process */
  bool own;        /* true if it is this user's, or root's */
  bool overflow;   /* its user has no number here (core/user.h) */
  int code;        /* errno if the system does not identify it */
  int64_t process; /* -1 if unknown */
  uint32_t user;   /* GLI_USER_NONE if unknown */
} gli_tcp_process;

gli_tcp_process gli_tcp_local_peer(int fd, const gli_user *here);

/* Formats "user 1000" for messages, or the other known facts. */
enum { GLI_TCP_WHOSE_BYTES = 112 };
void gli_tcp_local_whose(const gli_tcp_process *process,
                         char text[GLI_TCP_WHOSE_BYTES]);

/* Opens a listening socket with the abstract name of a server's address.
 * Returns -1 with errno: EADDRINUSE if another process has the name. */
int gli_tcp_local_listen(const struct sockaddr_storage *address);

/* Finds the process that listens with that name. Returns false if there is
 * none, or it does not answer. */
bool gli_tcp_local_holder(const struct sockaddr_storage *address,
                          const gli_user *here, gli_tcp_process *holder);

/* Opens a listening socket in the user's directory instead. Returns -1 with
 * errno on failure; gli_tcp_local_unlink removes the path. */
int gli_tcp_local_listen_privately(const struct sockaddr_storage *address,
                                   gli_tcp_local_path *path);
void gli_tcp_local_unlink(gli_tcp_local_path *path);

/* Result of gli_tcp_local_connect: a connection to a server of this user or of
 * root that listens at one address of this host, or at all. */
typedef struct gli_tcp_local_way {
  int fd;                 /* -1 without a connection */
  int code;               /* errno; ECONNREFUSED if no process listens */
  gli_tcp_process holder; /* another user's listener, if `local` */
} gli_tcp_local_way;

gli_tcp_local_way gli_tcp_local_connect(const struct sockaddr_storage *address);

#endif
