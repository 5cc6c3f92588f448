/* The end of a meeting. One key holds the outcome and is set once: either all
 * ranks have met, or the first cause of failure. Every rank ends with the same
 * outcome, and no rank waits until its deadline. */
#ifndef GLI_RENDEZVOUS_JOIN_OUTCOME_H
#define GLI_RENDEZVOUS_JOIN_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/store.h"

/* Publishes `cause` as the outcome and leaves the store. If another rank has
 * published before, and the failure here may result from that, its cause
 * replaces `cause`. A rank that serves the store stays until the other ranks
 * have left (except for ranks that missed the deadline), but at most a few
 * seconds, and at most half a second after `deadline_ns`. If two processes
 * claim the same rank, or this process lacks resources, it stays that long in
 * any case: more ranks of either job may come, or ranks without a connection
 * yet. `published`: this process, and no other, has published as `rank`.
 *
 * Returns true if the meeting in the store had ended before, without this
 * process. Then nothing is published, and `cause` tells so. */
bool gli_bootstrap_give_up(gloo_store *store, uint32_t rank, uint32_t size,
                           bool published, uint64_t deadline_ns,
                           gloo_error *cause);

/* Leaves the store as gli_bootstrap_give_up does, if `cause` came from the
 * store. */
void gli_bootstrap_let_go(gloo_store *store, uint32_t rank, uint32_t size,
                          bool published, uint64_t deadline_ns,
                          const gloo_error *cause);

/* ---- a process that ends during the meeting ------------------------------ */

/* Rank of a process that has none yet. */
#define GLI_BOOTSTRAP_NO_RANK UINT32_MAX

/* Leaves a will in a visit: if this process ends without an outcome, the will
 * sets one. `rank` may be GLI_BOOTSTRAP_NO_RANK. */
gloo_status gli_bootstrap_leave_will(gloo_store *visit, uint32_t rank,
                                     gloo_error *error);
/* Takes the will back, if the meeting has no outcome and this rank has
 * finished. */
void gli_bootstrap_take_back_will(gloo_store *visit);

/* Sets the outcome to `cause`, unless one is set, in the name of `rank`, which
 * does not take part. */
void gli_bootstrap_cancel(gloo_store *store, uint32_t rank,
                          const gloo_error *cause);

/* State of the outcome. FAILED and UNKNOWN fill `error` with the cause. */
typedef enum gli_outcome {
  GLI_OUTCOME_OPEN,
  GLI_OUTCOME_OVER,
  GLI_OUTCOME_FAILED,
  GLI_OUTCOME_UNKNOWN /* the store failed */
} gli_outcome;

/* Waits for the outcome until the deadline; OPEN if there is none by then. */
gli_outcome gli_bootstrap_outcome(gloo_store *store, uint64_t deadline_ns,
                                  gloo_error *error);

/* Ends the meeting, unless it has failed. */
gli_outcome gli_bootstrap_end(gloo_store *store, gloo_error *error);

/* Fills the error of a process that came after the meeting had ended. */
gloo_status gli_bootstrap_too_late(const gloo_store *store, uint32_t rank,
                                   uint32_t size, gloo_error *error);

/* ---- two jobs at one port ------------------------------------------------ */

/* Reports that this process is `rank` of another job than the `rank` that met
 * in `store`. It is a rank 0 that could not serve its own store, or a rank that
 * was here before that store's meeting, which has ended without it. `error`
 * says so, and all ranks that meet in the store, or arrive later, fail with the
 * same error. */
gloo_status gli_bootstrap_contend(gloo_store *store, uint32_t rank,
                                  gloo_error *error);

/* Waits for a process of another job, in a store after the end of its meeting.
 * GLOO_OK: none came, or gli_bootstrap_stop_watching was called. */
gloo_status gli_bootstrap_watch(gloo_store *store, uint64_t deadline_ns,
                                gloo_error *error);
void gli_bootstrap_stop_watching(gloo_store *store);

/* ---- keys ---------------------------------------------------------------- */

/* Key under which the first rank publishes the size. After a failure it holds
 * another value, so that a late rank needs no other key. */
#define GLI_SIZE_KEY "gloo/size"

/* Key under which a rank publishes ("rank"), or states that it no longer needs
 * the others' records ("done") or knows the outcome ("gone"). */
typedef struct gli_rank_key {
  char text[32];
} gli_rank_key;
gli_rank_key gli_bootstrap_key(const char *what, uint32_t rank);

/* Waits for the keys of all ranks, or of the ranks in `who` if it is not NULL.
 * With GLOO_ERR_TIMEOUT `present` lists the existing keys; no message. */
gloo_status gli_bootstrap_wait(gloo_store *store, const char *what,
                               uint32_t size, const bool *who,
                               uint64_t deadline_ns, bool *present,
                               gloo_error *error);

/* Waits for the keys of all ranks. Returns GLOO_ERR_POISONED, without a
 * message, as soon as there is an outcome while keys are missing. */
gloo_status gli_bootstrap_await(gloo_store *store, const char *what,
                                uint32_t size, uint64_t deadline_ns,
                                bool *present, gloo_error *error);

/* Key of the outcome. */
#define GLI_OUTCOME_KEY "gloo/outcome"

#endif
