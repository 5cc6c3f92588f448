/* How the ranks of a job meet: each publishes a few bytes in a store and gets
 * those of all others. One context per store or prefix: the keys are fixed. */
#ifndef GLI_RENDEZVOUS_JOIN_EXCHANGE_H
#define GLI_RENDEZVOUS_JOIN_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/store.h"

/* Longest blob that fits in a value with what the exchange adds. */
#define GLI_BOOTSTRAP_BLOB_MAX (GLOO_STORE_VALUE_MAX - 32)

/* Lists the ranks whose blobs a rank needs, itself among them. n 0: all. */
typedef struct gli_circle {
  const uint32_t *ranks;
  uint32_t n;
} gli_circle;

/* Zeroed before the first attempt, and kept for the next. */
typedef struct gli_attempt {
  /* Set on failure: this process has no part in what goes on in the store,
   * because it is over (and the store is not one that lasts), or because the
   * server went away before the rank was in. Where ranks start again, that was
   * the store of the start before, and the next may come. Or the server dropped
   * this client alone: then the next attempt finds what this one published, and
   * knows it by the nonce. */
  bool again;
  uint64_t nonce;
  bool published; /* in the store of an attempt: it is this start's */
  /* Set by the caller: it calls gli_bootstrap_finish later, or
   * gli_bootstrap_leave. Until then other ranks hear of it if this process
   * ends. */
  bool finishes;
  gli_circle circle; /* set by the caller */
  /* Set by the caller: the deadline; the timeout tells its length in messages.
   * 0: the time begins with the call. */
  uint64_t deadline_ns;
} gli_attempt;

/* Publish `blob` as rank `rank` of `size`, wait for all others of the circle,
 * and copy their blobs (one's own too) to blobs[0 .. size - 1], for free(). Set
 * on success only; empty for ranks outside of the circle.
 *
 * GLOO_ERR_TIMEOUT  the message names the ranks that never came; error->rank is
 *                   the first of them
 * GLOO_ERR_BUSY     another process has published as this rank (always found
 *                   where the store has compare_and_set, and where not, by one
 *                   of the two, if both are there in time)
 * GLOO_ERR_MISMATCH another rank was told another size
 * GLOO_ERR_INVALID  a blob, one's own or one that came, is longer than the cap
 * GLOO_ERR_PROTOCOL what a rank published was not published by this function
 * GLOO_ERR_STALE    the ranks that met there did so without this process, and
 *                   are through (see finish); no other rank is told
 * GLOO_ERR_PEER     the process of a rank ended meanwhile, as far as the store
 *                   can tell (over TCP; between processes of one host in files)
 *  and whatever the store fails with. In all other cases error->rank is the
 * rank at fault, and the other ranks that wait fail with the same cause ("rank
 * 2 reports: ..."), at once; a process that serves the store gives them up to
 * 3 s to hear of it. None of this takes longer than the timeout, but for
 * GLI_STORE_SLACK_NS. Costs: three requests to publish, two to fetch, and one
 * now and then while ranks are missing; one more where nobody calls finish, and
 * two where what the store holds may be an earlier start's.
 *
 * `attempt` serves a rank that tries again; NULL: all ranks are its circle. */
gloo_status gli_bootstrap_exchange(gloo_store *store, uint32_t rank,
                                   uint32_t size, const void *blob,
                                   size_t blob_bytes, size_t max_blob_bytes,
                                   int64_t timeout_ns, gloo_value *blobs,
                                   gli_attempt *attempt, gloo_error *error);

/* In a visit, for a rank that has waited in vain for what others of the circle
 * were to tell it: where ranks have not published, `error` becomes that of an
 * exchange that they did not come to. */
void gli_bootstrap_name_missing(gloo_store *visit, uint32_t size,
                                int64_t timeout_ns, gloo_error *error);

/* Call it once this rank needs the store no more; not after an exchange that
 * failed. Returns when all ranks have called it: from then on no rank can join
 * any more, so none of these ranks finds this meeting when it starts again.
 * Rank 0, which may serve the store, returns last and may destroy it then.
 * GLOO_ERR_TIMEOUT names the ranks that have not called it; if another rank has
 * failed meanwhile, all fail with its cause. Costs two requests, and two more
 * on rank 0. */
gloo_status gli_bootstrap_finish(gloo_store *store, uint32_t rank,
                                 uint32_t size, int64_t timeout_ns,
                                 gloo_error *error);

/* Instead of that, where the store goes on without a word of the meeting's end:
 * this rank is done with it. */
void gli_bootstrap_leave(gloo_store *store);

#endif
