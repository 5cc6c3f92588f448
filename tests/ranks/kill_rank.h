/* One rank of the kill test, in a process of its own: random work until it
 * fails, then a look at what is left. */
#ifndef TESTS_RANKS_KILL_RANK_H
#define TESTS_RANKS_KILL_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"

typedef struct kill_plan {
  const char *transport;
  const char *directory; /* of the store */
  int ranks;
  unsigned seed;     /* of the work, the same on all ranks */
  bool no_deadlines; /* else some seconds */
} kill_plan;

/* What a rank says through the pipe, in one write each. */
typedef enum kill_word { KILL_READY, KILL_ENDED } kill_word;
typedef struct kill_note {
  kill_word word;
  int rank;
  gloo_status status; /* ENDED: what ended the work, and whom it names */
  int named;
  uint64_t at_ns;   /* when the call returned */
  bool left_behind; /* descriptors, threads, mappings */
  char text[160];   /* of the error */
} kill_note;

uint64_t kill_now_ns(void);

/* Numbers by chance, the same for the same state on all platforms. */
unsigned kill_random(unsigned *state, unsigned below);

/* Returns the exit status. */
int kill_rank(const kill_plan *plan, int rank, int notes);

#endif
