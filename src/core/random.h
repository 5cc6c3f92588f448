/* Random bytes that no other process can guess: keys, names, nonces. */
#ifndef GLI_CORE_RANDOM_H
#define GLI_CORE_RANDOM_H

#include <stddef.h>

#include "gloo_c/status.h"

/* Fill `to`. 0; or errno, and `what` says what failed. */
int gli_random(void *to, size_t bytes, const char **what);

/* Like gli_random, with an error on failure. */
gloo_status gli_random_draw(void *to, size_t bytes, gloo_error *error);

#endif
