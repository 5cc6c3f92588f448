/* An error that one thread at a time posts, and any thread reads without a
 * lock. */
#ifndef GLI_ENGINE_STATE_POSTED_H
#define GLI_ENGINE_STATE_POSTED_H

#include <stdatomic.h>
#include <stdint.h>

#include "gloo_c/status.h"

enum { GLI_POSTED_WORDS = sizeof(gloo_error) / sizeof(uint32_t) };
_Static_assert(sizeof(gloo_error) % sizeof(uint32_t) == 0, "whole words");

/* Zeros: none, with status GLOO_OK. `turn` is odd while it changes. */
typedef struct gli_posted {
  atomic_uint turn;
  _Atomic uint32_t words[GLI_POSTED_WORDS];
} gli_posted;

void gli_posted_put(gli_posted *posted, const gloo_error *error);
/* Waits for no thread that has been stopped, unless while it posts. */
void gli_posted_get(const gli_posted *posted, gloo_error *error);

#endif
