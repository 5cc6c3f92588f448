/* Declarations that both sides of a growing job share: the present ranks
 * (grow.c, and grow_call.c of rank 0) and the newcomers (join.c).
 * grow_meeting.c holds what both do. */
#ifndef GLI_API_GROW_H
#define GLI_API_GROW_H

#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/store.h"

/* Keys of the store: how many numbers newcomers have taken, and of each number:
 * the meeting that rank 0 calls it to, its answer, its place, and that it waits
 * no more. */
#define GLI_GROW_CAME "gloo/grow/came"
#define GLI_GROW_CALL "call"
#define GLI_GROW_COMES "comes"
#define GLI_GROW_PLACE "place"
#define GLI_GROW_GONE "gone"
/* The place of a newcomer that was not taken in: it is to take a new number. */
#define GLI_GROW_NO_PLACE "none"

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

/* ---- a meeting (grow_meeting.c) ------------------------------------------ */

/* Promises to come to a meeting, as `rank`, or as a newcomer that has none yet
 * (GLI_BOOTSTRAP_NO_RANK): if this process ends before, the meeting fails at
 * once. The promise replaces the will that this process has left in the store.
 */
gloo_status gli_grow_promise(gloo_store *store, int64_t meeting, uint32_t rank,
                             gloo_error *error);
/* Takes the promise back. A meeting that has not ended ends with `cause` for
 * all that come to it; NULL: there are none. */
void gli_grow_leave(gloo_store *store, int64_t meeting, uint32_t rank,
                    const gloo_error *cause);
/* The key that exists once a meeting has ended. */
void gli_grow_outcome_key(char key[GLI_GROW_KEY_BYTES], int64_t meeting);

/* Creates the successor; `job_key` is the key of the running job, or NULL. */
gloo_status gli_grow_meet(gloo_store *store, const gli_grow_round *round,
                          int rank, int size, gloo_device *device,
                          const gloo_context_options *options,
                          const uint8_t *job_key, gloo_context **context,
                          gloo_error *error);

/* Waits for all ranks of the successor. Old ranks come to it after they have
 * decided on it. */
gloo_status gli_grow_confirm(gloo_context *made, gloo_error *error);

/* ---- rank 0 (grow_call.c) ------------------------------------------------ */

/* Newcomers that are called to a meeting. */
typedef struct gli_grow_called {
  int64_t *numbers; /* [n], for free() */
  int32_t n;
  int64_t seen; /* numbers that were looked at */
} gli_grow_called;

/* Chooses waiting newcomers and draws a meeting for them. `called->n` is 0 if
 * none waits. */
gloo_status gli_grow_find(gloo_store *store, int size,
                          const gloo_grow_options *options,
                          gli_grow_called *called, gli_grow_round *round,
                          gloo_error *error);

/* Calls them, and gives a place to each that answers; the others are passed
 * over, and `called` holds fewer. */
gloo_status gli_grow_call(gloo_store *store, int size,
                          const gli_grow_round *round, gli_grow_called *called,
                          gloo_error *error);

#endif
