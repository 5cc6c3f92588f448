/* One rank of the kill test, in its own process: random work until it fails,
 * then a check for leaked resources. */
#ifndef TESTS_RANKS_KILL_RANK_H
#define TESTS_RANKS_KILL_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"

typedef struct kill_plan {
  const char *transport;
  const char *directory; /* directory of the store */
  int ranks;
  unsigned seed;     /* seed of the work, the same on all ranks */
  bool no_deadlines; /* else deadlines of some seconds */
} kill_plan;

/* A rank's messages through the pipe, one write each. */
typedef enum kill_word { KILL_READY, KILL_ENDED } kill_word;
typedef struct kill_note {
  kill_word word;
  int rank;
  gloo_status status; /* ENDED: error that ended the work, and the rank that it
                         names */
  int named;
  uint64_t at_ns;   /* time at which the call returned */
  bool left_behind; /* leaked descriptors, threads or mappings */
  char text[160];   /* message of the error */
} kill_note;

uint64_t kill_now_ns(void);

/* Returns a random number; the sequence is the same on all platforms. */
unsigned kill_random(unsigned *state, unsigned below);

/* Runs the rank. Returns the exit status. */
int kill_rank(const kill_plan *plan, int rank, int notes);

#endif
