/* Observable processes of this user on this host, and their answers: `gloo top`
 * and `gloo trace` ask all at the same time. */
#ifndef GLI_TOOLS_WATCH_H
#define GLI_TOOLS_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/observe_socket.h"

typedef enum gli_watch_state {
  GLI_WATCH_ANSWERED,
  GLI_WATCH_STOPPED, /* by a signal or a debugger */
  GLI_WATCH_SILENT,  /* no answer in time */
  GLI_WATCH_GONE     /* it has ended */
} gli_watch_state;

typedef struct gli_watched {
  char path[GLI_OBSERVE_PATH_BYTES];
  gli_observe_name name;
  gli_watch_state state;
  char *text; /* body of the answer, ending in a 0; NULL: none */
  double read_s;
  int fd; /* open while it is asked */
  size_t bytes, room;
} gli_watched;

typedef struct gli_watch {
  gli_watched *all; /* by job, rank and process */
  size_t n;
  size_t answer_most;      /* bytes of an answer; 0: 256 MiB */
  const atomic_bool *ends; /* true: ask no longer; NULL: none */
} gli_watch;

/* Processes to look for; the zero value means all. */
typedef struct gli_watch_choice {
  int64_t process; /* 0: any; otherwise one of the job, or a parent of one */
  const char *job; /* prefix of its name; NULL: any */
} gli_watch_choice;

/* Lists the sockets in the directories of core/run_directory.h. Returns false
 * if out of memory. */
bool gli_watch_find(gli_watch *watch);
/* Lists the sockets in a directory of GLOO_METRICS. Returns false with errno.
 */
bool gli_watch_find_in(gli_watch *watch, const char *directory);
/* Keeps the processes of the chosen jobs. If no socket has the name of the
 * chosen job, keeps all, because the job may be any of them. */
void gli_watch_choose(gli_watch *watch, const gli_watch_choice *choice);
/* Returns true if the name of a job begins with the chosen one, or none is. */
bool gli_watch_is_job(uint64_t job, const gli_watch_choice *choice);
/* Returns true if `watched` is `process` or its descendant. */
bool gli_watch_is_process(const gli_watched *watched, int64_t process);

/* Asks all for `path`, and waits at most `patience_s` for all answers together;
 * less if only stopped processes are left. Removes the sockets of ended
 * processes in the library's own directories. */
void gli_watch_ask(gli_watch *watch, const char *path, double patience_s);
void gli_watch_free(gli_watch *watch);

/* Returns the state as a predicate: "is stopped". */
const char *gli_watch_state_words(gli_watch_state state);

#endif
