/* The socket at which this user's commands read the state of a process's
 * contexts. It exists by default, and costs nothing until a reader connects. */
#ifndef GLI_OBSERVE_OBSERVE_SOCKET_H
#define GLI_OBSERVE_OBSERVE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/run_directory.h"
#include "core/user.h"
#include "gloo_c/status.h"

/* ---- file names ---------------------------------------------------------- */

/* Format of the names, shared by library and commands. A stopped process does
 * not answer, so the name identifies it:
 *   DIRECTORY/job-3fa94c0d12ab-rank2-pid4711.sock */

enum { GLI_OBSERVE_PATH_BYTES = GLI_RUN_SOCKET_BYTES };

typedef struct gli_observe_name {
  /* Mark of the first root context (gli_context_mark); 0 until its ranks meet.
   */
  uint64_t job;
  int64_t rank; /* rank in that context */
  int64_t process;
} gli_observe_name;

/* Returns false if the path is too long for a socket. */
bool gli_observe_name_print(const char *directory, const gli_observe_name *name,
                            char path[GLI_OBSERVE_PATH_BYTES]);
/* Returns false for the names of other files. */
bool gli_observe_name_parse(const char *file, gli_observe_name *name);

/* Gets the n-th directory for such sockets; `create` makes it. Returns false if
 * it does not exist, or another user can write there. */
enum { GLI_OBSERVE_DIRECTORIES = 3 };
bool gli_observe_directory(int n, bool create,
                           char directory[GLI_OBSERVE_PATH_BYTES]);

/* ---- the socket ---------------------------------------------------------- */

typedef struct gli_observe_socket {
  int fd; /* -1 if there is none */
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

/* Accepts a reader, and closes connections of other users. Returns -1 with
 * errno if none waits. */
int gli_observe_socket_accept(const gli_observe_socket *made);

#endif
