/* What ranks that are there (grow.c) and newcomers (join.c) have in common. */
#ifndef GLI_API_GROW_H
#define GLI_API_GROW_H

#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/store.h"

/* In the store: the numbers that newcomers have taken. */
#define GLI_GROW_CAME "gloo/grow/came"

enum { GLI_GROW_KEY_BYTES = 64, GLI_GROW_PLACE_BYTES = 128 };

/* Identifies a meeting by its number in the store and by a nonce of rank 0,
 * which keeps records of other meetings out. */
typedef struct gli_grow_round {
  int64_t number;
  uint8_t drawn[16];
} gli_grow_round;

void gli_grow_key(char key[GLI_GROW_KEY_BYTES], const char *what,
                  int64_t number);

/* With GLOO_SECURITY=required a rank without a secret writes nothing to the
 * store. */
gloo_status gli_grow_check_secret(const gloo_store *store,
                                  const gloo_context_options *options,
                                  gloo_error *error);

/* Creates the successor; `job_key` is the key of the running job, or NULL. */
gloo_status gli_grow_meet(gloo_store *store, const gli_grow_round *round,
                          int rank, int size, gloo_device *device,
                          const gloo_context_options *options,
                          const uint8_t *job_key, gloo_context **context,
                          gloo_error *error);

/* Waits for all ranks of the successor, which those that were there come to
 * when they have decided on it. */
gloo_status gli_grow_confirm(gloo_context *made, gloo_error *error);

#endif
