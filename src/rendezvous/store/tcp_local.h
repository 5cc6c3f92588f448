/* The local door of a TCP store: beside its port the server has a Unix socket,
 * at which the system tells each end whose process the other one is. Ranks of
 * one host need no secret to be among themselves.
 *
 * The socket has an abstract name, which any process of the network namespace
 * may take first. It is then in a directory that belongs to this user alone
 * (core/run_directory.h), where clients look when the abstract socket is not
 * their own user's. Linux only; elsewhere, and where a program may not have
 * such sockets at all, all of this fails with EAFNOSUPPORT. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_LOCAL_H
#define GLI_RENDEZVOUS_STORE_TCP_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/run_directory.h"
#include "core/user.h"

/* ---- paths --------------------------------------------------------------- */

/* A directory that another user owns, or may enter, is left out, so what others
 * put there in advance keeps nothing from working. */

/* As long as a Unix socket's may be. */
typedef struct gli_tcp_local_path {
  char text[108]; /* "": none */
} gli_tcp_local_path;

enum { GLI_TCP_LOCAL_PLACES = GLI_RUN_DIRECTORIES };

/* The path of the socket for a server at `host` (its address in figures, or
 * "*") and `port`, in the i-th directory; `create` makes that. The name is
 * another one in each network namespace and on each host, which may share the
 * directory. False: there is no such directory. */
bool gli_tcp_local_place(int i, bool create, const char *host, uint16_t port,
                         gli_tcp_local_path *path);

/* ---- both ends ----------------------------------------------------------- */

/* The process at the other end of a local socket. */
typedef struct gli_tcp_process {
  bool local;      /* false: it came over TCP, which tells nothing */
  bool own;        /* it is this user's, or root's */
  bool overflow;   /* its user has no number here (core/user.h) */
  int code;        /* errno: the system does not say whose it is */
  int64_t process; /* -1: unknown */
  uint32_t user;   /* GLI_USER_NONE: unknown */
} gli_tcp_process;

gli_tcp_process gli_tcp_local_peer(int fd, const gli_user *here);

/* "user 1000", or what is known of the process instead, for messages. */
enum { GLI_TCP_WHOSE_BYTES = 112 };
void gli_tcp_local_whose(const gli_tcp_process *process,
                         char text[GLI_TCP_WHOSE_BYTES]);

/* A listening socket with the abstract name that belongs to a server's address.
 * Returns -1 with errno on failure: EADDRINUSE where another process holds the
 * name. */
int gli_tcp_local_listen(const struct sockaddr_storage *address);

/* The process that listens with that name. Returns false where no process does,
 * or where it does not answer. */
bool gli_tcp_local_holder(const struct sockaddr_storage *address,
                          const gli_user *here, gli_tcp_process *holder);

/* A listening socket in the user's directory instead. Returns -1 with errno on
 * failure; gli_tcp_local_unlink removes the path. */
int gli_tcp_local_listen_privately(const struct sockaddr_storage *address,
                                   gli_tcp_local_path *path);
void gli_tcp_local_unlink(gli_tcp_local_path *path);

/* Result of gli_tcp_local_connect: a connection to a server of this user or of
 * root that listens at one address of this host, or at all. */
typedef struct gli_tcp_local_way {
  int fd;                 /* -1: no connection */
  int code;               /* errno; ECONNREFUSED: no process listens */
  gli_tcp_process holder; /* `local`: another process listens there */
} gli_tcp_local_way;

gli_tcp_local_way gli_tcp_local_connect(const struct sockaddr_storage *address);

#endif
