/* Paths of local sockets in directories that belong to one user alone
 * (core/run_directory.h). A directory that another user owns, or may enter, is
 * left out, so what others put there in advance keeps nothing from working.
 * Linux only. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_LOCAL_PLACE_H
#define GLI_RENDEZVOUS_STORE_TCP_LOCAL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/run_directory.h"
#include "net/endpoint.h"

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

#endif
