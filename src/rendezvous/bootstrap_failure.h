/* How a rank that cannot meet the others tells them why, so that every rank
 * fails with the first cause and none waits in vain. */
#ifndef GLI_RENDEZVOUS_BOOTSTRAP_FAILURE_H
#define GLI_RENDEZVOUS_BOOTSTRAP_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/store.h"

/* Leave `cause` in the store, unless another rank was first, and let go of the
 * store. A rank that serves it stays until those that have come are gone as
 * well, for a few seconds at most. `published`: this process has published as
 * `rank`, and not another one in its name. */
void gli_bootstrap_give_up(gloo_store *store, uint32_t rank, uint32_t size,
                           bool published, const gloo_error *cause);

/* Fail as a rank before has failed; GLOO_OK when none has. */
gloo_status gli_bootstrap_heard(gloo_store *store, gloo_error *error);

/* The key under which a rank publishes ("rank") or lets go ("done"). */
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

#endif
