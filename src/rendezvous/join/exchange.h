/* Rendezvous of the ranks of a job: each publishes a blob in a store and gets
 * the blobs of all others. The keys are fixed, so each context needs a store or
 * prefix of its own. */
#ifndef GLI_RENDEZVOUS_JOIN_EXCHANGE_H
#define GLI_RENDEZVOUS_JOIN_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/store.h"

/* Longest blob that fits into a value together with the exchange's header. */
#define GLI_BOOTSTRAP_BLOB_MAX (GLOO_STORE_VALUE_MAX - 32)

/* The ranks whose blobs a rank needs, itself included. n 0: all. */
typedef struct gli_circle {
  const uint32_t *ranks;
  uint32_t n;
} gli_circle;

/* State of a rank's attempts. Zero it before the first attempt, and keep it for
 * the next ones. */
typedef struct gli_attempt {
  /* Set on failure if another attempt may succeed. The meeting in the store has
   * ended without this process (and the store does not outlive its processes),
   * or the server was lost before this rank had joined. After a restart, that
   * was the server of the previous start, and the next server may appear. If
   * the server dropped only this client, the next attempt finds the record of
   * this one and recognises it by the nonce. */
  bool again;
  uint64_t nonce;
  bool published; /* true if an attempt published its record */
  /* Set by the caller, if it calls gli_bootstrap_finish or gli_bootstrap_leave
   * later. Until then the store reports the end of this process to other ranks.
   */
  bool finishes;
  gli_circle circle; /* set by the caller */
  /* Set by the caller: the deadline. Messages quote the timeout as its length.
   * 0: the timeout begins with the call. */
  uint64_t deadline_ns;
} gli_attempt;

/* Publishes `blob` as rank `rank` of `size`, waits for all other ranks of the
 * circle, and copies their blobs, and this rank's, to blobs[0 .. size - 1];
 * free each with free(). They are set on success only, and empty for ranks
 * outside the circle.
 *
 * GLOO_ERR_TIMEOUT  names the missing ranks; error->rank is the first of them
 * GLOO_ERR_BUSY     another process has published as this rank (always detected
 *                   if the store has compare_and_set, and otherwise by one of
 *                   the two processes if both arrive in time)
 * GLOO_ERR_MISMATCH another rank was given another size
 * GLOO_ERR_INVALID  a blob of any rank exceeds the limit
 * GLOO_ERR_PROTOCOL the record of a rank was not written by this function
 * GLOO_ERR_STALE    the ranks of that store have met and finished (see
 *                   gli_bootstrap_finish) without this process; other ranks are
 *                   not notified
 * GLOO_ERR_PEER     the process of a rank ended meanwhile, as far as the store
 *                   can tell (TCP store; file store, for processes of one host)
 * Also any error of the store. In all other cases error->rank is the rank at
 * fault, and the waiting ranks fail at once with the same cause ("rank 2
 * reports: ..."); a process that serves the store waits up to 3 s for them to
 * read it. The call ends by the timeout, or GLI_STORE_SLACK_NS later. Cost:
 * three requests to publish, two to fetch, and an occasional one while ranks
 * are missing; one more without gli_bootstrap_finish, and two more in a store
 * that may hold records of an earlier start.
 *
 * `attempt` is the state of a rank that tries again; NULL: the circle is all
 * ranks. */
gloo_status gli_bootstrap_exchange(gloo_store *store, uint32_t rank,
                                   uint32_t size, const void *blob,
                                   size_t blob_bytes, size_t max_blob_bytes,
                                   int64_t timeout_ns, gloo_value *blobs,
                                   gli_attempt *attempt, gloo_error *error);

/* Replaces `error` by that of an exchange with missing ranks, if ranks have not
 * published. It serves a rank that waited for other ranks of the circle until
 * its timeout. `visit` is a visit. */
void gli_bootstrap_name_missing(gloo_store *visit, uint32_t size,
                                int64_t timeout_ns, gloo_error *error);

/* Ends the meeting, once this rank needs the store no longer. Do not call it
 * after a failed exchange. Returns when all ranks have called it. From then on
 * no rank can join, so none of these ranks finds this meeting when it starts
 * again. Rank 0, which may serve the store, returns last and may then destroy
 * it. GLOO_ERR_TIMEOUT names the ranks that have not called it. If another rank
 * has failed meanwhile, all ranks fail with its cause. Cost: two requests, and
 * two more on rank 0. */
gloo_status gli_bootstrap_finish(gloo_store *store, uint32_t rank,
                                 uint32_t size, int64_t timeout_ns,
                                 gloo_error *error);

/* Replaces gli_bootstrap_finish if the end of the meeting is not published:
 * this rank needs the store no longer. */
void gli_bootstrap_leave(gloo_store *store);

#endif
