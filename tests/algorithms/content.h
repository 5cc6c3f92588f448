/* The expected contents of every rank's buffers after a run, by a plain
 * reference. */
#ifndef TESTS_ALGORITHMS_CONTENT_H
#define TESTS_ALGORITHMS_CONTENT_H

#include "executor.h"

/* Contents of buffers before a run. */
typedef struct inputs {
  uint8_t **of;     /* [size] each rank's input */
  uint8_t **before; /* [size] its output */
  uint8_t **sums;   /* [size] inputs up to each rank's, reduced; only the last
                       if no other is needed */
  uint64_t elem_bytes;
} inputs;

inputs inputs_copy(const world *w);
void inputs_free(inputs *all, uint32_t size);

/* Prints the rank with wrong bytes on standard output. */
bool content_is_right(const world *w, const inputs *all, gli_reduce_fn reduce);
bool all_outputs_equal(const world *w);

#endif
