/* Runs the finished plans of all ranks on real bytes, in one thread, without
 * buffering: a message moves when its send and its receive are both ready, in
 * an order drawn from a seed. It shares no code with the checker. */
#ifndef GLI_TESTS_ALGORITHMS_EXECUTOR_H
#define GLI_TESTS_ALGORITHMS_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/reduce.h"
#include "plan/plan.h"

typedef struct world_rank {
  gli_plan *plan;
  uint8_t *in, *out, *scratch; /* exactly as long as the plan says */
  uint32_t *send_of;           /* [n_steps] ready send + 1, for receives */
  uint32_t *waits_for;         /* [n_steps] */
  uint32_t *depth;             /* [n_steps] messages on the longest way here */
  uint8_t **windows;           /* [n_windows] gets and puts; NULL: no put */
  bool *written;               /* [n_windows] puts */
  uint32_t n_done;
} world_rank;

/* Access to other ranks' data: sent bytes or mapped memory. */
typedef enum world_mapping {
  WORLD_SENDS,
  WORLD_MAPS,
  WORLD_MIXES /* drawn for each message */
} world_mapping;

typedef struct world {
  uint32_t size;
  world_mapping reach;    /* set before world_run */
  gli_combine_fn combine; /* combines several operands at once; NULL: one after
                             the other */
  world_rank *ranks;
  uint64_t moved_bytes_max; /* most bytes any rank sent, set by world_run */
  uint32_t depth;           /* longest chain of messages, set by world_run */
} world;

typedef enum world_layout {
  WORLD_APART,
  WORLD_IN_PLACE,
  WORLD_MIXED
} world_layout;

/* Makes all plans and their buffers; input and output hold bytes drawn from the
 * seed. In a mixed world every other rank is in place. params.counts is an
 * array of all ranks' counts. Returns false and prints a message if a plan
 * cannot be made. */
bool world_open(world *w, gli_build_fn build, gli_plan_params params,
                world_layout layout, uint64_t seed);
void world_close(world *w);

#define WORLD_ALL UINT32_MAX

/* Runs until no step is possible; rank `held_back` takes no step (WORLD_ALL:
 * none is held back). Returns true if every step of every rank was taken.
 * Otherwise it prints the first stuck step, unless a rank was held back. */
bool world_run(world *w, gli_reduce_fn reduce, uint32_t held_back,
               uint64_t seed);

/* Returns the next number of a random sequence. */
uint64_t world_random(uint64_t *state);

#endif
