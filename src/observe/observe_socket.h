/* The socket at which this user's commands learn what the contexts of a process
 * do. It exists by default, and does nothing until a reader connects. */
#ifndef GLI_OBSERVE_OBSERVE_SOCKET_H
#define GLI_OBSERVE_OBSERVE_SOCKET_H

#include <stdbool.h>

#include "core/user.h"
#include "gloo_c/status.h"
#include "observe/observe_name.h"

typedef struct gli_observe_socket {
  int fd; /* -1: there is none */
  gli_user user;
  char directory[GLI_OBSERVE_PATH_BYTES], path[GLI_OBSERVE_PATH_BYTES];
} gli_observe_socket;

/* Opens the socket of this process. Errors: no directory for it, no descriptor,
 * or more than half of the descriptors of the process in use. */
gloo_status gli_observe_socket_open(gli_observe_socket *made,
                                    const gli_observe_name *name,
                                    gloo_error *error);
/* Renames the socket; it keeps its name on failure. */
void gli_observe_socket_rename(gli_observe_socket *made,
                               const gli_observe_name *name);
void gli_observe_socket_close(gli_observe_socket *made);

/* Accepts a reader. Returns -1 with errno if none waits; one of another user is
 * turned away. */
int gli_observe_socket_accept(const gli_observe_socket *made);

/* Removes sockets of ended processes from a directory. */
void gli_observe_socket_sweep(const char *directory);

#endif
