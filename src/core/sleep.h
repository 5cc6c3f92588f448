/* Sleeping until one of several descriptors is readable. */
#ifndef GLI_CORE_SLEEP_H
#define GLI_CORE_SLEEP_H

#include <stdint.h>

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
