/* States that were seen, and copies of states. */
#ifndef GLI_TESTS_MODEL_SEEN_H
#define GLI_TESTS_MODEL_SEEN_H

#include "state.h"

/* 128 bits of hash stand for a state: with 10^8 of them two are taken for one
 * with a probability of 10^-22. */
typedef struct model_key {
  uint64_t a, b;
} model_key;

typedef struct model_seen {
  model_key *keys; /* {0, 0}: free */
  size_t n, capacity;
} model_seen;

/* True when it is new. */
bool model_seen_add(model_seen *seen, const model_state *state);

/* The parts that are in use. */
void model_copy(model_state *to, const model_state *from);

/* Ends the program for NULL: memory that was not there. */
void *model_needed(void *memory);

#endif
