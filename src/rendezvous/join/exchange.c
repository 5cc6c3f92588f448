#include "rendezvous/join/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/random.h"
#include "core/text.h"
#include "net/lookup.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/value.h"

/* The published record of a rank: magic, size, rank, nonce, a flag of the rank
 * that serves the store, and its blob. The nonce distinguishes two processes
 * that claim the same rank. */
#define MAGIC 0x32626c67u /* "glb2" */
#define HEAD_BYTES ((size_t)24)
_Static_assert(HEAD_BYTES <= 32, "see GLI_BOOTSTRAP_BLOB_MAX");
#define SIZE_BYTES ((size_t)8)

/* The first interval, which grows, between reads of the records that have
 * arrived while others are missing: they may show the reason. */
#define LOOK_NS ((int64_t)100000000)
/* The time that rank 0 gives the others to read the end of the meeting. */
#define LEAVE_NS ((int64_t)3000000000)

typedef struct exchange {
  gloo_store *store;
  uint32_t rank, size;
  uint64_t nonce;
  size_t max_blob_bytes;
  gli_rank_key *texts; /* keys of the ranks in `pending` */
  const char **keys;   /* pointers to `texts`, as the store expects them */
  uint32_t *pending;   /* ranks whose records are not fetched yet */
  size_t n_pending, n_lower; /* n_lower: those below this rank, at first */
  bool *present;             /* per pending rank; room for all ranks */
  gloo_value *values;        /* per pending rank */
  gloo_value *blobs;         /* per rank */
  int server;                /* rank that serves the store; -1 if unknown */
  gli_retry wait;            /* the wait for the other ranks */
  bool heard;                /* true if the error is the outcome */
} exchange;

/* Fails with the meeting's outcome: this rank still needs other ranks. */
static gloo_status bootstrap_heard(exchange *x, gloo_error *error) {
  gli_outcome outcome = gli_bootstrap_outcome(x->store, 0, error);
  if (outcome == GLI_OUTCOME_OVER)
    return gli_bootstrap_too_late(x->store, x->rank, x->size, error);
  if (outcome == GLI_OUTCOME_OPEN)
    return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                    "the outcome of the rendezvous disappeared from %s: "
                    "another program deletes its keys",
                    x->store->label);
  x->heard = outcome == GLI_OUTCOME_FAILED;
  return error->status;
}

/* Blames the rank that serves the store, if the store does not answer. */
static gloo_status bootstrap_lost_store(const exchange *x, gloo_status status,
                                        gloo_error *error) {
  if (status != GLOO_ERR_PEER || x->server < 0 || error == NULL) return status;
  gli_error_prefix(
      error,
      "rank %d, which serves the store, has exited, is stopped or cannot be "
      "reached: ",
      x->server);
  error->rank = x->server;
  return status;
}

/* ---- publishing ---------------------------------------------------------- */

static gloo_status claimed_twice(uint32_t rank, uint32_t size,
                                 gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_BUSY, (int)rank,
      "two processes claim rank %u of %u: a rank was started twice, another "
      "job uses this address, or the store still holds an earlier run; set "
      "another MASTER_PORT, GLOO_JOB_ID or GLOO_EPOCH, or use another store",
      (unsigned)rank, (unsigned)size);
}

static gloo_status sizes_differ(const exchange *x, uint32_t other_rank,
                                uint32_t other_size, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_MISMATCH, (int)other_rank,
                  "rank %u was started with %u ranks, but rank %u with %u: set "
                  "WORLD_SIZE to the same value on all ranks",
                  (unsigned)other_rank, (unsigned)other_size, (unsigned)x->rank,
                  (unsigned)x->size);
}

/* Returns true if the record is this process's own: an earlier attempt may have
 * stored it and lost the reply. */
static bool is_own(const exchange *x, const gloo_value *record) {
  const uint8_t *data = record->data;
  return record->bytes >= HEAD_BYTES && gli_get_u32(data) == MAGIC &&
         gli_get_u64(data + 12) == x->nonce;
}

static gloo_status bootstrap_publish(const exchange *x, const void *blob,
                                     size_t blob_bytes, gloo_error *error) {
  gloo_value current = {NULL, 0};
  gli_rank_key key = gli_bootstrap_key("rank", x->rank);
  size_t bytes = HEAD_BYTES + blob_bytes;
  uint8_t *data = malloc(bytes);
  if (data == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %zu bytes to publish", bytes);
  gli_put_u32(data, MAGIC);
  gli_put_u32(data + 4, x->size);
  gli_put_u32(data + 8, x->rank);
  gli_put_u64(data + 12, x->nonce);
  gli_put_u32(data + 20, gli_store_serves(x->store));
  if (blob_bytes > 0) memcpy(data + HEAD_BYTES, blob, blob_bytes);
  gloo_status status = gli_store_compare_and_set(x->store, key.text, NULL, 0,
                                                 data, bytes, &current, error);
  if (status == GLOO_ERR_UNSUPPORTED)
    status = gli_store_set(x->store, key.text, data, bytes, error);
  free(data);
  if (status == GLOO_ERR_COMPARE)
    status =
        is_own(x, &current) ? GLOO_OK : claimed_twice(x->rank, x->size, error);
  gli_value_free(&current);
  return status;
}

/* Compares with the size that the first rank published. Any other value marks a
 * failed start. */
static gloo_status compare_sizes(exchange *x, const gloo_value *first,
                                 gloo_error *error) {
  if (first->bytes == SIZE_BYTES) {
    const uint8_t *theirs = first->data;
    if (gli_get_u32(theirs) == x->size) return GLOO_OK;
    return sizes_differ(x, gli_get_u32(theirs + 4), gli_get_u32(theirs), error);
  }
  switch (gli_bootstrap_outcome(x->store, 0, error)) {
    case GLI_OUTCOME_FAILED:
      x->heard = true;
      return error->status;
    case GLI_OUTCOME_UNKNOWN: /* the store has ended meanwhile */
      return error->status;
    case GLI_OUTCOME_OPEN:
    case GLI_OUTCOME_OVER:
      break;
  }
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                  "key '" GLI_SIZE_KEY
                  "' in %s was not written by this library",
                  x->store->label);
}

/* Publishes the size if no rank has, and otherwise compares it. This detects a
 * rank beyond the size of the others, which do not look for its record. */
static gloo_status agree_on_size(exchange *x, gloo_error *error) {
  uint8_t mine[SIZE_BYTES];
  gloo_value first = {NULL, 0};
  gli_put_u32(mine, x->size);
  gli_put_u32(mine + 4, x->rank);
  gloo_status status = gli_store_compare_and_set(
      x->store, GLI_SIZE_KEY, NULL, 0, mine, sizeof mine, &first, error);
  if (status == GLOO_ERR_UNSUPPORTED) return GLOO_OK; /* take_blob compares */
  if (status == GLOO_ERR_COMPARE) status = compare_sizes(x, &first, error);
  gli_value_free(&first);
  return status;
}

/* ---- fetching ------------------------------------------------------------ */

/* Parses `value` into blobs[rank], and frees it in any case. */
static gloo_status take_blob(exchange *x, uint32_t rank, gloo_value *value,
                             gloo_error *error) {
  uint8_t *data = value->data;
  size_t bytes = value->bytes;
  gloo_status status = GLOO_OK;
  if (bytes < HEAD_BYTES || gli_get_u32(data) != MAGIC ||
      gli_get_u32(data + 8) != rank) {
    status = gli_fail(error, GLOO_ERR_PROTOCOL, (int)rank,
                      "the record of rank %u of %u in %s has another format: "
                      "use the same release of the library on all ranks",
                      (unsigned)rank, (unsigned)x->size, x->store->label);
  } else if (gli_get_u32(data + 4) != x->size) {
    status = sizes_differ(x, rank, gli_get_u32(data + 4), error);
  } else if (rank == x->rank && gli_get_u64(data + 12) != x->nonce) {
    status = claimed_twice(rank, x->size, error);
  } else if (bytes - HEAD_BYTES > x->max_blob_bytes) {
    status = gli_fail(error, GLOO_ERR_INVALID, (int)rank,
                      "rank %u of %u published %zu bytes; the limit is %zu",
                      (unsigned)rank, (unsigned)x->size, bytes - HEAD_BYTES,
                      x->max_blob_bytes);
  } else {
    if (gli_get_u32(data + 20) != 0 && rank != x->rank) x->server = (int)rank;
    status = gli_value_copy(data + HEAD_BYTES, bytes - HEAD_BYTES,
                            &x->blobs[rank], error);
  }
  gli_value_free(value);
  return status;
}

/* Makes the keys of the first `n` pending ranks. */
static void name_pending(exchange *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    x->texts[i] = gli_bootstrap_key("rank", x->pending[i]);
    x->keys[i] = x->texts[i].text;
  }
}

/* Fetches the records of the present ranks, which stop being pending. */
static gloo_status fetch_present(exchange *x, uint64_t deadline_ns,
                                 gloo_error *error) {
  size_t n = 0, kept = 0;
  bool *ignored = x->present;
  /* Moves the present ranks to the front, in any order. */
  for (size_t i = 0; i < x->n_pending; i++) {
    if (!x->present[i]) continue;
    uint32_t rank = x->pending[i];
    x->pending[i] = x->pending[n];
    x->pending[n++] = rank;
  }
  name_pending(x, n);
  gloo_status status = gli_store_fetch(x->store, x->keys, n, deadline_ns,
                                       x->values, ignored, error);
  if (status == GLOO_ERR_TIMEOUT)
    gli_fail(error, status, (int)x->pending[0],
             "the records of the ranks disappeared from %s: another program "
             "deletes its keys",
             x->store->label);
  for (size_t i = 0; i < n; i++) {
    if (status == GLOO_OK)
      status = take_blob(x, x->pending[i], &x->values[i], error);
    gli_value_free(&x->values[i]);
  }
  for (size_t i = n; i < x->n_pending; i++) x->pending[kept++] = x->pending[i];
  x->n_pending = kept;
  return status;
}

/* Returns the missing rank, or -1 if several are missing: one of them may block
 * the others, for example a rank stopped while it holds the lock of a file. */
static int only_absent(const bool *present, uint32_t size) {
  int only = -1;
  for (uint32_t i = 0; i < size; i++) {
    if (present[i]) continue;
    if (only >= 0) return -1;
    only = (int)i;
  }
  return only;
}

static gloo_status did_not_arrive(const gloo_store *store, const bool *present,
                                  uint32_t size, int64_t timeout_ns,
                                  gloo_error *error) {
  size_t here = 0;
  for (uint32_t i = 0; i < size; i++) here += present[i];
  return gli_fail(error, GLOO_ERR_TIMEOUT, only_absent(present, size),
                  "%s of %u did not connect to %s within %s (%zu %s did): were "
                  "they started, with the same address and WORLD_SIZE=%u? "
                  "GLOO_START_TIMEOUT sets the limit",
                  gli_missing_ranks(present, size).text, (unsigned)size,
                  store->label, gli_duration(timeout_ns).text, here,
                  here == 1 ? "rank" : "ranks", (unsigned)size);
}

/* Fails with the list of all missing ranks, including ranks that this one did
 * not wait for. */
static gloo_status somebody_missing(const exchange *x, int64_t timeout_ns,
                                    gloo_error *error) {
  gloo_status status =
      gli_bootstrap_wait(x->store, "rank", x->size, NULL, 0, x->present, NULL);
  if (status != GLOO_ERR_TIMEOUT) memset(x->present, true, x->size);
  for (size_t i = 0; i < x->n_pending; i++) x->present[x->pending[i]] = false;
  return did_not_arrive(x->store, x->present, x->size, timeout_ns, error);
}

void gli_bootstrap_name_missing(gloo_store *visit, uint32_t size,
                                int64_t timeout_ns, gloo_error *error) {
  bool *present = calloc(size, sizeof *present);
  if (present != NULL && gli_bootstrap_wait(visit, "rank", size, NULL, 0,
                                            present, NULL) == GLOO_ERR_TIMEOUT)
    (void)did_not_arrive(visit, present, size, timeout_ns, error);
  free(present);
}

/* Logs once which ranks are missing. Of the ranks that wait, the lowest logs
 * it. */
static void tell_missing(exchange *x) {
  gloo_error cause;
  size_t lower = 0;
  for (size_t i = 0; i < x->n_pending; i++) lower += x->pending[i] < x->rank;
  if (lower < x->n_lower || !gli_retry_is_long(&x->wait)) return;
  (void)somebody_missing(x, GLI_LONG_WAIT_NS, &cause);
  gli_retry_tell(&x->wait, &cause);
}

static gloo_status bootstrap_collect(exchange *x, uint64_t deadline_ns,
                                     int64_t timeout_ns, gloo_error *error) {
  int64_t look_ns = LOOK_NS;
  x->wait = gli_retry_begin(gli_deadline_left(deadline_ns));
  while (x->n_pending > 0) {
    uint64_t until = gli_deadline_after(look_ns);
    bool last = until >= deadline_ns;
    if (last) until = deadline_ns;
    if (look_ns < INT64_MAX / 2) look_ns *= 2;
    name_pending(x, x->n_pending);
    gloo_status status =
        gli_store_await(x->store, x->keys, x->n_pending, GLI_OUTCOME_KEY, until,
                        x->present, error);
    if (status == GLOO_ERR_POISONED) return bootstrap_heard(x, error);
    if (status != GLOO_OK && status != GLOO_ERR_TIMEOUT)
      return bootstrap_lost_store(x, status, error);
    if (status == GLOO_OK) memset(x->present, true, x->n_pending);
    status = fetch_present(x, deadline_ns, error);
    if (status != GLOO_OK) return bootstrap_lost_store(x, status, error);
    if (x->n_pending > 0 && last) return somebody_missing(x, timeout_ns, error);
    if (x->n_pending > 0) tell_missing(x);
  }
  return GLOO_OK;
}

/* ---- an earlier start's leftovers ---------------------------------------- */

/* Fails with the outcome of an earlier start if the store outlives its
 * processes. */
static gloo_status bootstrap_look_around(exchange *x, gloo_error *error) {
  gloo_error earlier;
  if (!gli_store_lasts(x->store) ||
      gli_bootstrap_outcome(x->store, 0, &earlier) != GLI_OUTCOME_FAILED)
    return GLOO_OK;
  x->heard = true;
  return gli_fail(error, earlier.status, earlier.rank,
                  "%.300s (recorded before rank %u started: if by an earlier "
                  "run, remove its records, or use another job or epoch)",
                  earlier.message, (unsigned)x->rank);
}

/* Waits until every rank has read all records: in a store that outlives its
 * processes a record may stem from an earlier start. */
static gloo_status bootstrap_confirm(exchange *x, uint64_t deadline_ns,
                                     int64_t timeout_ns, gloo_error *error) {
  gli_rank_key met = gli_bootstrap_key("met", x->rank);
  gloo_status status = gli_store_set(x->store, met.text, "1", 1, error);
  if (status != GLOO_OK) return status;
  status = gli_bootstrap_await(x->store, "met", x->size, deadline_ns,
                               x->present, error);
  if (status == GLOO_ERR_POISONED) return bootstrap_heard(x, error);
  if (status != GLOO_ERR_TIMEOUT) return status;
  return gli_fail(
      error, status, only_absent(x->present, x->size),
      "%s of %u: timed out after %s reading peer records from %s; the peers "
      "are stopped, or the records are left over from an earlier run",
      gli_missing_ranks(x->present, x->size).text, (unsigned)x->size,
      gli_duration(timeout_ns).text, x->store->label);
}

static gloo_status bootstrap_check(const gloo_store *store, uint32_t rank,
                                   uint32_t size, gloo_error *error) {
  if (store == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "the store is NULL");
  if (size == 0 || rank >= size)
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "rank %u is out of range for a job of %u ranks: ranks count from 0",
        (unsigned)rank, (unsigned)size);
  if (size > GLI_RANKS_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the job has %u ranks; the limit is %u", (unsigned)size,
                    (unsigned)GLI_RANKS_MAX);
  return GLOO_OK;
}

static gloo_status bootstrap_prepare(exchange *x, const gli_circle *circle,
                                     gloo_error *error) {
  uint32_t n = circle->n != 0 ? circle->n : x->size;
  x->texts = calloc(n, sizeof *x->texts);
  x->keys = calloc(n, sizeof *x->keys);
  x->pending = calloc(n, sizeof *x->pending);
  x->present = calloc(x->size, sizeof *x->present);
  x->values = calloc(n, sizeof *x->values);
  x->blobs = calloc(x->size, sizeof *x->blobs);
  if (x->texts == NULL || x->keys == NULL || x->pending == NULL ||
      x->present == NULL || x->values == NULL || x->blobs == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for %u ranks",
                    (unsigned)x->size);
  gloo_status status = GLOO_OK;
  if (x->nonce == 0)
    status = gli_random_draw(&x->nonce, sizeof x->nonce, error);
  if (status != GLOO_OK) return status;
  x->n_pending = n;
  for (uint32_t i = 0; i < n; i++) {
    x->pending[i] = circle->n != 0 ? circle->ranks[i] : i;
    x->n_lower += x->pending[i] < x->rank;
  }
  return GLOO_OK;
}

static gloo_status check_blob(const exchange *x, size_t blob_bytes,
                              gloo_error *error) {
  size_t max = x->max_blob_bytes < GLI_BOOTSTRAP_BLOB_MAX
                   ? x->max_blob_bytes
                   : GLI_BOOTSTRAP_BLOB_MAX;
  if (blob_bytes <= max) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, (int)x->rank,
                  "rank %u of %u cannot publish %zu bytes; the limit is %zu",
                  (unsigned)x->rank, (unsigned)x->size, blob_bytes, max);
}

static void bootstrap_release(exchange *x, gloo_value *blobs) {
  for (uint32_t i = 0; i < x->size && x->blobs != NULL; i++) {
    if (blobs != NULL) {
      blobs[i] = x->blobs[i];
    } else {
      gli_value_free(&x->blobs[i]);
    }
  }
  free(x->texts);
  free(x->keys);
  free(x->pending);
  free(x->present);
  free(x->values);
  free(x->blobs);
}

/* Returns true if a failure can be published: the store still works, or this
 * process serves it. */
static bool can_tell(const gloo_store *store, gloo_status status) {
  return (status != GLOO_ERR_PEER && status != GLOO_ERR_IO) ||
         gli_store_serves(store);
}

gloo_status gli_bootstrap_exchange(gloo_store *store, uint32_t rank,
                                   uint32_t size, const void *blob,
                                   size_t blob_bytes, size_t max_blob_bytes,
                                   int64_t timeout_ns, gloo_value *blobs,
                                   gli_attempt *attempt, gloo_error *error) {
  gloo_error cause;
  gli_attempt first = {.again = false};
  if (attempt == NULL) attempt = &first;
  exchange x = {
      .rank = rank, .size = size, .nonce = attempt->nonce, .server = -1};
  x.max_blob_bytes = max_blob_bytes;
  uint64_t deadline = attempt->deadline_ns != 0
                          ? attempt->deadline_ns
                          : gli_deadline_after(timeout_ns);
  gloo_status status = bootstrap_check(store, rank, size, error);
  if (status == GLOO_OK)
    status = gli_store_visit(store, deadline, &x.store, error);
  if (status != GLOO_OK) return status;
  status = bootstrap_prepare(&x, &attempt->circle, &cause);
  attempt->nonce = x.nonce;
  if (status == GLOO_OK) status = check_blob(&x, blob_bytes, &cause);
  if (status == GLOO_OK)
    status = gli_bootstrap_leave_will(x.store, rank, &cause);
  if (status == GLOO_OK) status = bootstrap_look_around(&x, &cause);
  if (status == GLOO_OK)
    status = bootstrap_publish(&x, blob, blob_bytes, &cause);
  bool published = status == GLOO_OK;
  if (status == GLOO_OK) status = agree_on_size(&x, &cause);
  attempt->published = attempt->published || published;
  bool joined = status == GLOO_OK;
  if (joined) status = bootstrap_collect(&x, deadline, timeout_ns, &cause);
  if (status == GLOO_OK && !attempt->finishes && gli_store_lasts(store))
    status = bootstrap_confirm(&x, deadline, timeout_ns, &cause);
  if (status == GLOO_OK && !attempt->finishes)
    gli_bootstrap_take_back_will(x.store);
  bool over = false;
  if (status != GLOO_OK && x.heard) {
    gli_bootstrap_let_go(x.store, rank, size, published, deadline, &cause);
  } else if (status != GLOO_OK && can_tell(x.store, status)) {
    over =
        gli_bootstrap_give_up(x.store, rank, size, published, deadline, &cause);
  }
  bootstrap_release(&x, status == GLOO_OK ? blobs : NULL);
  gli_store_visit_end(x.store, store);
  if (status == GLOO_OK) return status;
  /* A store that outlives its processes keeps the outcome, so another attempt
   * would find it again. */
  attempt->again = (over && !gli_store_lasts(store)) ||
                   (!joined && !x.heard && cause.status == GLOO_ERR_PEER);
  if (error != NULL) *error = cause;
  return cause.status;
}

void gli_bootstrap_leave(gloo_store *store) {
  gloo_store *visit;
  uint64_t deadline = gli_deadline_after(LEAVE_NS);
  if (gli_store_visit(store, deadline, &visit, NULL) != GLOO_OK) return;
  gli_bootstrap_take_back_will(visit);
  gli_store_visit_end(visit, store);
}

/* Ends the meeting, as rank 0, when no rank needs it. Rank 0 leaves last,
 * because it may serve the store. */
static gloo_status end_meeting(gloo_store *store, uint32_t size,
                               int64_t timeout_ns, bool *heard,
                               gloo_error *error) {
  bool *present = calloc(size, sizeof *present);
  if (present == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for %u ranks",
                    (unsigned)size);
  gloo_status status = gli_bootstrap_await(
      store, "done", size, gli_deadline_after(timeout_ns), present, error);
  if (status == GLOO_ERR_TIMEOUT)
    gli_fail(error, status, only_absent(present, size),
             "%s of %u did not finish with %s within %s",
             gli_missing_ranks(present, size).text, (unsigned)size,
             store->label, gli_duration(timeout_ns).text);
  if (status == GLOO_OK || status == GLOO_ERR_POISONED) {
    gli_outcome outcome = gli_bootstrap_end(store, error);
    *heard = outcome == GLI_OUTCOME_FAILED;
    status = outcome == GLI_OUTCOME_OVER ? GLOO_OK : error->status;
  }
  if (status == GLOO_OK)
    (void)gli_bootstrap_wait(store, "gone", size, NULL,
                             gli_deadline_after(LEAVE_NS), present, NULL);
  free(present);
  return status;
}

static gloo_status await_end(gloo_store *store, int64_t timeout_ns, bool *heard,
                             gloo_error *error) {
  uint64_t deadline = gli_deadline_after(timeout_ns);
  gli_outcome outcome = gli_bootstrap_outcome(store, deadline, error);
  *heard = outcome == GLI_OUTCOME_FAILED;
  if (outcome == GLI_OUTCOME_OVER) return GLOO_OK;
  if (outcome != GLI_OUTCOME_OPEN) return error->status;
  return gli_fail(
      error, GLOO_ERR_TIMEOUT, 0,
      "rank 0 did not report within %s that all ranks have finished with %s",
      gli_duration(timeout_ns).text, store->label);
}

gloo_status gli_bootstrap_finish(gloo_store *store, uint32_t rank,
                                 uint32_t size, int64_t timeout_ns,
                                 gloo_error *error) {
  gloo_error cause;
  gloo_store *visit;
  bool heard = false;
  gloo_status status = bootstrap_check(store, rank, size, error);
  uint64_t deadline = gli_deadline_after(timeout_ns);
  if (status == GLOO_OK)
    status = gli_store_visit(store, deadline, &visit, error);
  if (status != GLOO_OK) return status;
  gli_rank_key done = gli_bootstrap_key("done", rank);
  gli_rank_key gone = gli_bootstrap_key("gone", rank);
  status = gli_store_set(visit, done.text, "1", 1, &cause);
  if (status == GLOO_OK && rank == 0)
    (void)gli_store_set(visit, gone.text, "1", 1, NULL);
  if (status == GLOO_OK)
    status = rank == 0 ? end_meeting(visit, size, timeout_ns, &heard, &cause)
                       : await_end(visit, timeout_ns, &heard, &cause);
  if (status == GLOO_OK && rank != 0)
    (void)gli_store_set(visit, gone.text, "1", 1, NULL);
  if (status != GLOO_OK && heard) {
    gli_bootstrap_let_go(visit, rank, size, true, deadline, &cause);
  } else if (status != GLOO_OK && can_tell(visit, status)) {
    (void)gli_bootstrap_give_up(visit, rank, size, true, deadline, &cause);
  }
  gli_store_visit_end(visit, store);
  if (status == GLOO_OK) return status;
  if (error != NULL) *error = cause;
  return cause.status;
}
