/* Declarations that both sides of a growing job share: the present ranks
 * (grow.c, and grow_call.c of rank 0) and the newcomers (join.c).
 * grow_meeting.c has the parts common to both. */
#ifndef GLI_API_GROW_H
#define GLI_API_GROW_H

#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/store.h"

/* Keys of the store: the count of the numbers that newcomers have taken, and
 * for each number the meeting to which rank 0 calls it, its answer, its place,
 * and the end of its wait. */
#define GLI_GROW_CAME "gloo/grow/came"
#define GLI_GROW_CALL "call"
#define GLI_GROW_COMES "comes"
#define GLI_GROW_PLACE "place"
#define GLI_GROW_GONE "gone"
/* Place of a newcomer that was not admitted: it must take a new number. */
#define GLI_GROW_NO_PLACE "none"

enum { GLI_GROW_KEY_BYTES = 64, GLI_GROW_PLACE_BYTES = 128 };

/* Identifies a meeting by its number in the store and by a nonce of rank 0,
 * which excludes records of other meetings. */
typedef struct gli_grow_round {
  int64_t number;
  uint8_t drawn[16];
} gli_grow_round;

void gli_grow_key(char key[GLI_GROW_KEY_BYTES], const char *what,
                  int64_t number);

/* Fails with GLOO_SECURITY=required on a rank without a secret, which must not
 * write to the store. */
gloo_status gli_grow_check_secret(const gloo_store *store,
                                  const gloo_context_options *options,
                                  gloo_error *error);

/* ---- a meeting (grow_meeting.c) ------------------------------------------ */

/* Promises to come to a meeting, as `rank`, or as a newcomer without one
 * (GLI_BOOTSTRAP_NO_RANK): if this process ends before, the meeting fails at
 * once. The promise replaces the will of this process in the store. */
gloo_status gli_grow_promise(gloo_store *store, int64_t meeting, uint32_t rank,
                             gloo_error *error);
/* Takes the promise back. A meeting that has not ended then ends with `cause`
 * for all its ranks, unless `cause` is NULL. */
void gli_grow_leave(gloo_store *store, int64_t meeting, uint32_t rank,
                    const gloo_error *cause);
/* Forms the key that exists once a meeting has ended. */
void gli_grow_outcome_key(char key[GLI_GROW_KEY_BYTES], int64_t meeting);

/* Creates the successor; `job_key` is the key of the running job, or NULL. */
gloo_status gli_grow_meet(gloo_store *store, const gli_grow_round *round,
                          int rank, int size, gloo_device *device,
                          const gloo_context_options *options,
                          const uint8_t *job_key, gloo_context **context,
                          gloo_error *error);

/* Waits for all ranks of the successor. Old ranks call it after the verdict. */
gloo_status gli_grow_confirm(gloo_context *made, gloo_error *error);

/* ---- rank 0 (grow_call.c) ------------------------------------------------ */

/* Newcomers that are called to a meeting. */
typedef struct gli_grow_called {
  int64_t *numbers; /* [n], for free() */
  int32_t n;
  int64_t seen; /* count of numbers checked */
} gli_grow_called;

/* Chooses waiting newcomers and draws a meeting for them. `called->n` is 0 if
 * none waits. */
gloo_status gli_grow_find(gloo_store *store, int size,
                          const gloo_grow_options *options,
                          gli_grow_called *called, gli_grow_round *round,
                          gloo_error *error);

/* Calls the newcomers, and gives a place to each that answers; `called` then
 * holds only these. */
gloo_status gli_grow_call(gloo_store *store, int size,
                          const gli_grow_round *round, gli_grow_called *called,
                          gloo_error *error);

#endif
