/* The end of a meeting. One key holds the outcome and is set once: either all
 * ranks have met, or the first cause of failure. Every rank ends with the same
 * outcome, and no rank waits until its deadline. */
#ifndef GLI_RENDEZVOUS_JOIN_OUTCOME_H
#define GLI_RENDEZVOUS_JOIN_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/store.h"

/* Leave `cause` in the store, and let go of the store. Where another rank was
 * first, and what happened here can have come of that, the cause is replaced by
 * that of the other. A rank that serves the store stays until the others are
 * gone as well (without those that did not come in time), for a few seconds at
 * most, and half a second at most beyond `deadline_ns`. Where two processes say
 * that they are the same rank, or this one lacks something, it stays that long
 * in any case: more of either job may come, or those that it had no room for.
 * `published`: this process has published as `rank`, and not another one in its
 * name.
 *
 * True: the store's meeting was over before, without this process. Nothing was
 * left there; `cause` says so. */
bool gli_bootstrap_give_up(gloo_store *store, uint32_t rank, uint32_t size,
                           bool published, uint64_t deadline_ns,
                           gloo_error *cause);

/* Leaves the store as gli_bootstrap_give_up does, for a `cause` that was found
 * in the store. */
void gli_bootstrap_let_go(gloo_store *store, uint32_t rank, uint32_t size,
                          bool published, uint64_t deadline_ns,
                          const gloo_error *cause);

/* ---- a process that ends meanwhile --------------------------------------- */

/* The rank of a process that has none yet. */
#define GLI_BOOTSTRAP_NO_RANK UINT32_MAX

/* Leaves a will in a visit: if this process ends without an outcome, the will
 * sets one. `rank` may be GLI_BOOTSTRAP_NO_RANK. */
gloo_status gli_bootstrap_leave_will(gloo_store *visit, uint32_t rank,
                                     gloo_error *error);
/* Where the meeting has no outcome, and this rank is done with it. */
void gli_bootstrap_take_back_will(gloo_store *visit);

/* Sets the outcome to `cause`, unless there is one, in the name of `rank`,
 * which does not take part. */
void gli_bootstrap_cancel(gloo_store *store, uint32_t rank,
                          const gloo_error *cause);

/* The state of the outcome. FAILED and UNKNOWN fill `error` with the cause. */
typedef enum gli_outcome {
  GLI_OUTCOME_OPEN,
  GLI_OUTCOME_OVER,
  GLI_OUTCOME_FAILED,
  GLI_OUTCOME_UNKNOWN /* the store failed */
} gli_outcome;

/* Wait for the outcome until then; OPEN: there is none yet. */
gli_outcome gli_bootstrap_outcome(gloo_store *store, uint64_t deadline_ns,
                                  gloo_error *error);

/* Ends the meeting, unless it has failed. */
gli_outcome gli_bootstrap_end(gloo_store *store, gloo_error *error);

/* Fills the error of a process that came after the meeting had ended. */
gloo_status gli_bootstrap_too_late(const gloo_store *store, uint32_t rank,
                                   uint32_t size, gloo_error *error);

/* ---- two jobs at one port ------------------------------------------------ */

/* This process is `rank`, of another job than the process that is `rank` in
 * `store`: a rank 0 that could not serve its own store, or a rank that was here
 * before that store, which is over now without it. `error` says so, and all
 * ranks that meet in the store, or come there later, end with the same. */
gloo_status gli_bootstrap_contend(gloo_store *store, uint32_t rank,
                                  gloo_error *error);

/* Waits for such a process in a store whose meeting has ended. GLOO_OK: none
 * came, or gli_bootstrap_stop_watching was called. */
gloo_status gli_bootstrap_watch(gloo_store *store, uint64_t deadline_ns,
                                gloo_error *error);
void gli_bootstrap_stop_watching(gloo_store *store);

/* ---- keys --------------------------------------------------------------- */

/* The key at which the first rank publishes the size. After a failure it holds
 * another value, so that a late rank needs no other key. */
#define GLI_SIZE_KEY "gloo/size"

/* The key under which a rank publishes ("rank"), says that it needs the others'
 * address records no more ("done"), and that it knows the outcome ("gone"). */
typedef struct gli_rank_key {
  char text[32];
} gli_rank_key;
gli_rank_key gli_bootstrap_key(const char *what, uint32_t rank);

/* Waits for the keys of all ranks, or of those in `who` (may be NULL). With
 * GLOO_ERR_TIMEOUT `present` lists those that exist; no message. */
gloo_status gli_bootstrap_wait(gloo_store *store, const char *what,
                               uint32_t size, const bool *who,
                               uint64_t deadline_ns, bool *present,
                               gloo_error *error);

/* Waits for the keys of all ranks, and returns GLOO_ERR_POISONED, without a
 * message, as soon as there is an outcome while keys are missing. */
gloo_status gli_bootstrap_await(gloo_store *store, const char *what,
                                uint32_t size, uint64_t deadline_ns,
                                bool *present, gloo_error *error);

/* The key that holds the outcome. */
#define GLI_OUTCOME_KEY "gloo/outcome"

#endif
