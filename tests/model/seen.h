/* Visited states, and copies of states. */
#ifndef GLI_TESTS_MODEL_SEEN_H
#define GLI_TESTS_MODEL_SEEN_H

#include "state.h"

/* A hash of 128 bits identifies a state: among 10^8 states a collision has a
 * probability of 10^-22. */
typedef struct model_key {
  uint64_t a, b;
} model_key;

typedef struct model_seen {
  model_key *keys; /* {0, 0}: free */
  size_t n, capacity;
} model_seen;

/* Returns true if the state is new. */
bool model_seen_add(model_seen *seen, const model_state *state);

/* Copies the parts that are in use. */
void model_copy(model_state *to, const model_state *from);

/* Ends the program if the allocation failed (NULL). */
void *model_needed(void *memory);

#endif
