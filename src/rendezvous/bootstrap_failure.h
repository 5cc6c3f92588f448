/* How a meeting ends. One key holds its outcome, set once: that all ranks have
 * met and the meeting is over, or the first cause for which it failed. Every
 * rank ends with the same outcome, and none waits in vain. */
#ifndef GLI_RENDEZVOUS_BOOTSTRAP_FAILURE_H
#define GLI_RENDEZVOUS_BOOTSTRAP_FAILURE_H

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

/* The same where `cause` is the outcome that was found in the store. */
void gli_bootstrap_let_go(gloo_store *store, uint32_t rank, uint32_t size,
                          bool published, uint64_t deadline_ns,
                          const gloo_error *cause);

/* ---- a process that ends meanwhile --------------------------------------- */

/* The rank of a process that has none yet. */
#define GLI_BOOTSTRAP_NO_RANK UINT32_MAX

/* In a visit: if this process is gone without a word, that is the outcome,
 * unless there is one. `rank` may be GLI_BOOTSTRAP_NO_RANK. */
gloo_status gli_bootstrap_leave_will(gloo_store *visit, uint32_t rank,
                                     gloo_error *error);
/* Where the meeting has no outcome, and this rank is done with it. */
void gli_bootstrap_take_back_will(gloo_store *visit);

/* Sets the outcome to `cause`, unless there is one, in the name of `rank`,
 * which does not take part. */
void gli_bootstrap_cancel(gloo_store *store, uint32_t rank,
                          const gloo_error *cause);

/* What is known of the outcome. FAILED and UNKNOWN fill `error` with the cause.
 */
typedef enum gli_outcome {
  GLI_OUTCOME_OPEN,
  GLI_OUTCOME_OVER,
  GLI_OUTCOME_FAILED,
  GLI_OUTCOME_UNKNOWN /* the store failed */
} gli_outcome;

/* Wait for the outcome until then; OPEN: there is none yet. */
gli_outcome gli_bootstrap_outcome(gloo_store *store, uint64_t deadline_ns,
                                  gloo_error *error);

/* Say that the meeting is over, unless it has failed. */
gli_outcome gli_bootstrap_end(gloo_store *store, gloo_error *error);

/* The error of a process that came to a meeting that was over. */
gloo_status gli_bootstrap_too_late(const gloo_store *store, uint32_t rank,
                                   uint32_t size, gloo_error *error);

/* ---- two jobs at one port ------------------------------------------------ */

/* This process is `rank`, of another job than the process that is `rank` in
 * `store`: a rank 0 that could not serve its own store, or a rank that was here
 * before that store, which is over now without it. `error` says so, and all
 * ranks that meet in the store, or come there later, end with the same. */
gloo_status gli_bootstrap_contend(gloo_store *store, uint32_t rank,
                                  gloo_error *error);

/* Wait until then for such a process, in a store whose meeting is over:
 * GLOO_OK: none came, or gli_bootstrap_stop_watching was called. */
gloo_status gli_bootstrap_watch(gloo_store *store, uint64_t deadline_ns,
                                gloo_error *error);
void gli_bootstrap_stop_watching(gloo_store *store);

/* ---- keys --------------------------------------------------------------- */

/* The first rank leaves the size it was told there. Once the meeting has failed
 * it holds something else, so that a rank that comes then need not ask for
 * more. */
#define GLI_SIZE_KEY "gloo/size"

/* The key under which a rank publishes ("rank"), says that it needs the others'
 * address records no more ("done"), and that it knows the outcome ("gone"). */
typedef struct gli_rank_key {
  char text[32];
} gli_rank_key;
gli_rank_key gli_bootstrap_key(const char *what, uint32_t rank);

/* Wait until the keys of all ranks are there, or of those in `who` (may be
 * NULL). With GLOO_ERR_TIMEOUT `present` says which are; no message. */
gloo_status gli_bootstrap_wait(gloo_store *store, const char *what,
                               uint32_t size, const bool *who,
                               uint64_t deadline_ns, bool *present,
                               gloo_error *error);

/* The same for all ranks, but GLOO_ERR_POISONED, without a message, as soon as
 * there is an outcome and not all keys are there. */
gloo_status gli_bootstrap_await(gloo_store *store, const char *what,
                                uint32_t size, uint64_t deadline_ns,
                                bool *present, gloo_error *error);

/* The key that holds the outcome. */
#define GLI_OUTCOME_KEY "gloo/outcome"

#endif
