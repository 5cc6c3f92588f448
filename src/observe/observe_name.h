/* File names of the sockets for observing processes, shared by library and
 * commands. A stopped process does not answer, so the name identifies it:
 *   DIRECTORY/job-3fa94c0d12ab-rank2-pid4711.sock */
#ifndef GLI_OBSERVE_OBSERVE_NAME_H
#define GLI_OBSERVE_OBSERVE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLI_OBSERVE_PATH_BYTES = 108 }; /* as long as a Unix socket's may be */

typedef struct gli_observe_name {
  uint64_t job; /* of its first root context, see gli_context_mark; 0: its ranks
                   have not met */
  int64_t rank; /* there */
  int64_t process;
} gli_observe_name;

/* Returns false if the path is too long for a socket. */
bool gli_observe_name_print(const char *directory, const gli_observe_name *name,
                            char path[GLI_OBSERVE_PATH_BYTES]);
/* Returns false for the names of other files. */
bool gli_observe_name_parse(const char *file, gli_observe_name *name);

/* The n-th directory that such sockets may be in, if it exists and no other
 * user can put anything there; `create` makes it. Returns false if not. */
enum { GLI_OBSERVE_DIRECTORIES = 3 };
bool gli_observe_directory(int n, bool create,
                           char directory[GLI_OBSERVE_PATH_BYTES]);

#endif
