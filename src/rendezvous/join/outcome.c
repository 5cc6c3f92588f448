#include "rendezvous/join/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/value.h"

#define LINGER_NS ((int64_t)500000000)
#define LINGER_LONG_NS ((int64_t)3000000000)
/* Value of the outcome key: 0 - status, reporting rank (NOBODY if its process
 * has ended), rank at fault or -1, sentence. For a meeting that ended well,
 * only the status 0. */
#define NOBODY UINT32_MAX
#define HEAD_BYTES ((size_t)12)
#define OVER_BYTES ((size_t)4)
static const uint8_t over[OVER_BYTES];
/* The key that is set when another process claims a rank too, or when no rank
 * need watch for such a process. */
#define CONTENDER_KEY "gloo/contender"

gli_rank_key gli_bootstrap_key(const char *what, uint32_t rank) {
  gli_rank_key key;
  snprintf(key.text, sizeof key.text, "gloo/%s/%u", what, (unsigned)rank);
  return key;
}

/* Waits for the keys. `alarm` may be NULL. */
static gloo_status failure_wait(gloo_store *store, const char *what,
                                uint32_t size, const bool *who,
                                const char *alarm, uint64_t deadline_ns,
                                bool *present, gloo_error *error) {
  gli_rank_key *texts = calloc(size, sizeof *texts);
  const char **keys = calloc(size, sizeof *keys);
  bool *there = calloc(size, sizeof *there);
  gloo_status status = GLOO_ERR_NO_MEMORY;
  size_t n = 0;
  if (texts == NULL || keys == NULL || there == NULL) {
    gli_fail(error, status, -1, "out of memory for %u ranks", (unsigned)size);
    goto free_all;
  }
  for (uint32_t i = 0; i < size; i++) {
    if (who != NULL && !who[i]) continue;
    texts[n] = gli_bootstrap_key(what, i);
    keys[n] = texts[n].text;
    n++;
  }
  status =
      alarm == NULL
          ? gli_store_fetch(store, keys, n, deadline_ns, NULL, there, error)
          : gli_store_await(store, keys, n, alarm, deadline_ns, there, error);
  for (uint32_t i = 0, k = 0; i < size; i++)
    present[i] =
        (who == NULL || who[i]) && (status == GLOO_OK || (k < n && there[k++]));

free_all:
  free(texts);
  free(keys);
  free(there);
  return status;
}

gloo_status gli_bootstrap_wait(gloo_store *store, const char *what,
                               uint32_t size, const bool *who,
                               uint64_t deadline_ns, bool *present,
                               gloo_error *error) {
  return failure_wait(store, what, size, who, NULL, deadline_ns, present,
                      error);
}

gloo_status gli_bootstrap_await(gloo_store *store, const char *what,
                                uint32_t size, uint64_t deadline_ns,
                                bool *present, gloo_error *error) {
  return failure_wait(store, what, size, NULL, GLI_OUTCOME_KEY, deadline_ns,
                      present, error);
}

typedef struct failure_note {
  uint8_t data[HEAD_BYTES + GLOO_ERROR_MESSAGE_BYTES];
  size_t bytes;
} failure_note;

static failure_note write_failure(uint32_t rank, const gloo_error *cause) {
  failure_note note;
  size_t text_bytes = strlen(cause->message);
  gli_put_u32(note.data, (uint32_t)-cause->status);
  gli_put_u32(note.data + 4, rank);
  gli_put_u32(note.data + 8, (uint32_t)cause->rank);
  memcpy(note.data + HEAD_BYTES, cause->message, text_bytes);
  note.bytes = HEAD_BYTES + text_bytes;
  return note;
}

static gli_outcome read_outcome(const gloo_store *store,
                                const gloo_value *value, gloo_error *error) {
  const uint8_t *data = value->data;
  if (value->bytes == OVER_BYTES && gli_get_u32(data) == 0)
    return GLI_OUTCOME_OVER;
  if (value->bytes < HEAD_BYTES ||
      !gli_is_failure(-(int64_t)gli_get_u32(data))) {
    gli_fail(error, GLOO_ERR_PROTOCOL, -1,
             "key '" GLI_OUTCOME_KEY "' in %s was not written by this library",
             store->label);
    return GLI_OUTCOME_FAILED;
  }
  size_t bytes = value->bytes - HEAD_BYTES;
  if (bytes > GLOO_ERROR_MESSAGE_BYTES) bytes = GLOO_ERROR_MESSAGE_BYTES;
  uint32_t fault = gli_get_u32(data + 8), reporter = gli_get_u32(data + 4);
  int rank = fault > INT32_MAX ? -1 : (int)fault;
  gloo_status status = -(gloo_status)gli_get_u32(data);
  if (bytes == 0 || data[HEAD_BYTES] == '\0')
    gli_fail(error, status, rank,
             "the rendezvous in %s has failed, and key '" GLI_OUTCOME_KEY
             "' does not give the reason",
             store->label);
  else
    gli_fail(error, status, rank, "%.*s", (int)bytes,
             (const char *)data + HEAD_BYTES);
  if (reporter != NOBODY)
    gli_error_prefix(error, "rank %u reports: ", (unsigned)reporter);
  return GLI_OUTCOME_FAILED;
}

#define SIZE_FAILED "failed"

static void mark_failed(gloo_store *store) {
  (void)gli_store_set(store, GLI_SIZE_KEY, SIZE_FAILED, strlen(SIZE_FAILED),
                      NULL);
}

/* Sets the outcome unless one is set, and returns the valid outcome: `mine`, or
 * that of `*error`. */
static gli_outcome bootstrap_failure_settle(gloo_store *store,
                                            const uint8_t *data, size_t bytes,
                                            gli_outcome mine,
                                            gloo_error *error) {
  gloo_value current = {NULL, 0};
  gloo_status status = gli_store_compare_and_set(
      store, GLI_OUTCOME_KEY, NULL, 0, data, bytes, &current, error);
  if (status == GLOO_ERR_UNSUPPORTED)
    status = gli_store_set(store, GLI_OUTCOME_KEY, data, bytes, error);
  if (status == GLOO_OK) {
    gli_value_free(&current);
    if (mine != GLI_OUTCOME_OVER) mark_failed(store);
    return mine;
  }
  gli_outcome outcome = GLI_OUTCOME_UNKNOWN;
  if (status == GLOO_ERR_COMPARE)
    outcome = read_outcome(store, &current, error);
  gli_value_free(&current);
  return outcome;
}

gli_outcome gli_bootstrap_end(gloo_store *store, gloo_error *error) {
  return bootstrap_failure_settle(store, over, OVER_BYTES, GLI_OUTCOME_OVER,
                                  error);
}

gli_outcome gli_bootstrap_outcome(gloo_store *store, uint64_t deadline_ns,
                                  gloo_error *error) {
  const char *key = GLI_OUTCOME_KEY;
  gloo_value value = {NULL, 0};
  bool present;
  gloo_status status =
      gli_store_fetch(store, &key, 1, deadline_ns, &value, &present, error);
  if (status == GLOO_ERR_TIMEOUT) return GLI_OUTCOME_OPEN;
  if (status != GLOO_OK) return GLI_OUTCOME_UNKNOWN;
  gli_outcome outcome = read_outcome(store, &value, error);
  gli_value_free(&value);
  return outcome;
}

gloo_status gli_bootstrap_too_late(const gloo_store *store, uint32_t rank,
                                   uint32_t size, gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_STALE, (int)rank,
      gli_store_lasts(store)
          ? "rank %u of %u started too late: the rendezvous in %s completed "
            "without this process. If that was an earlier run, remove its "
            "records, or use another job or epoch"
          : "rank %u of %u started too late: the rendezvous in %s completed "
            "without this process. If this rank was not started twice, two "
            "jobs use the same address: set a different MASTER_PORT and "
            "GLOO_JOB_ID for each",
      (unsigned)rank, (unsigned)size, store->label);
}

/* Returns true for a lack of local resources, which may have left other ranks
 * without an answer. */
static bool is_lack(gloo_status status) {
  return status == GLOO_ERR_IO || status == GLOO_ERR_NO_MEMORY;
}

/* Gives other ranks time to read the cause. Waiting ranks read it at once, and
 * starting ranks if they arrive soon; a rank that missed the deadline gets no
 * more time. If the sizes differ, the rank at fault may be beyond the size of
 * this rank. */
static void bootstrap_failure_linger(gloo_store *store, uint32_t size,
                                     uint64_t deadline_ns,
                                     const gloo_error *cause) {
  bool beyond = cause->rank >= 0 && (uint32_t)cause->rank >= size;
  bool more =
      beyond || cause->status == GLOO_ERR_BUSY || is_lack(cause->status);
  bool missed = cause->status == GLOO_ERR_TIMEOUT;
  uint64_t soon = gli_deadline_after(LINGER_NS);
  uint64_t late = missed ? soon : gli_deadline_after(LINGER_LONG_NS);
  if (deadline_ns < late) late = deadline_ns < soon ? soon : deadline_ns;
  bool *come = calloc(size, sizeof *come);
  bool *gone = calloc(size, sizeof *gone);
  if (come != NULL && gone != NULL) {
    gloo_status status =
        gli_bootstrap_wait(store, "rank", size, NULL, 0, come, NULL);
    if (status == GLOO_OK || status == GLOO_ERR_TIMEOUT)
      gli_bootstrap_wait(store, "gone", size, come, late, gone, NULL);
    if (!missed)
      gli_bootstrap_wait(store, "gone", size, NULL, more ? late : soon, gone,
                         NULL);
  }
  free(come);
  free(gone);
  if (!more) return;
  /* Waits for the rank beyond the size. Without one, no rank has the number
   * UINT32_MAX, so that the wait lasts until the deadline. */
  gli_rank_key text =
      gli_bootstrap_key("gone", beyond ? (uint32_t)cause->rank : UINT32_MAX);
  const char *key = text.text;
  bool left = false;
  gli_store_fetch(store, &key, 1, late, NULL, &left, NULL);
}

static bool let_go(gloo_store *store, uint32_t rank) {
  gli_rank_key done = gli_bootstrap_key("done", rank);
  gli_rank_key gone = gli_bootstrap_key("gone", rank);
  return gli_store_set(store, done.text, "1", 1, NULL) == GLOO_OK &&
         gli_store_set(store, gone.text, "1", 1, NULL) == GLOO_OK;
}

/* Returns true if the status may result from the failure of another rank; a
 * rank that exists twice may, too. */
static bool is_consequence(gloo_status status) {
  return status == GLOO_ERR_BUSY || status == GLOO_ERR_PEER ||
         status == GLOO_ERR_TIMEOUT || status == GLOO_ERR_POISONED;
}

bool gli_bootstrap_give_up(gloo_store *store, uint32_t rank, uint32_t size,
                           bool published, uint64_t deadline_ns,
                           gloo_error *cause) {
  failure_note note = write_failure(rank, cause);
  gloo_error earlier;
  gli_outcome outcome = bootstrap_failure_settle(store, note.data, note.bytes,
                                                 GLI_OUTCOME_OPEN, &earlier);
  if (outcome == GLI_OUTCOME_OVER) {
    gli_bootstrap_too_late(store, rank, size, cause);
    return true;
  }
  /* A server that has ended belonged to an earlier start, whose failures do not
   * matter. */
  bool gone = outcome == GLI_OUTCOME_UNKNOWN && earlier.status == GLOO_ERR_PEER;
  if ((outcome == GLI_OUTCOME_FAILED && is_consequence(cause->status)) ||
      (gone &&
       (cause->status == GLOO_ERR_MISMATCH || cause->status == GLOO_ERR_BUSY)))
    *cause = earlier;
  if (!gone)
    gli_bootstrap_let_go(store, rank, size, published, deadline_ns, cause);
  return false;
}

void gli_bootstrap_cancel(gloo_store *store, uint32_t rank,
                          const gloo_error *cause) {
  failure_note note = write_failure(rank, cause);
  (void)bootstrap_failure_settle(store, note.data, note.bytes,
                                 GLI_OUTCOME_FAILED, NULL);
}

void gli_bootstrap_let_go(gloo_store *store, uint32_t rank, uint32_t size,
                          bool published, uint64_t deadline_ns,
                          const gloo_error *cause) {
  if (published && !let_go(store, rank)) return;
  if (gli_store_serves(store))
    bootstrap_failure_linger(store, size, deadline_ns, cause);
}

/* ---- a process that ends during the meeting ------------------------------ */

static void bootstrap_describe_end(const gloo_store *visit, uint32_t rank,
                                   gloo_error *cause) {
  const char *or_lost =
      gli_store_lasts(visit) ? "" : ", or lost its connection to it";
  if (rank == GLI_BOOTSTRAP_NO_RANK)
    gli_fail(cause, GLOO_ERR_PEER, -1,
             "the process of a newcomer exited during the rendezvous in %s%s: "
             "see its output and exit status",
             visit->label, or_lost);
  else
    gli_fail(cause, GLOO_ERR_PEER, (int)rank,
             "the process of rank %u exited during the rendezvous in %s%s: see "
             "its output and exit status",
             (unsigned)rank, visit->label, or_lost);
}

gloo_status gli_bootstrap_leave_will(gloo_store *visit, uint32_t rank,
                                     gloo_error *error) {
  gloo_error cause;
  gli_rank_key done = gli_bootstrap_key("done", rank);
  gli_rank_key gone = gli_bootstrap_key("gone", rank);
  bootstrap_describe_end(visit, rank, &cause);
  failure_note note = write_failure(NOBODY, &cause);
  const char *const keys[] = {GLI_OUTCOME_KEY, GLI_SIZE_KEY, done.text,
                              gone.text};
  const gloo_value values[] = {{note.data, note.bytes},
                               {SIZE_FAILED, strlen(SIZE_FAILED)},
                               {"1", 1},
                               {"1", 1}};
  size_t n = rank == GLI_BOOTSTRAP_NO_RANK ? 2 : 4;
  gli_will will = {keys, values, n, 2};
  return gli_store_leave_will(visit, &will, error);
}

void gli_bootstrap_take_back_will(gloo_store *visit) {
  (void)gli_store_leave_will(visit, &(gli_will){.n = 0}, NULL);
}

/* ---- two jobs at one port ------------------------------------------------ */

gloo_status gli_bootstrap_contend(gloo_store *store, uint32_t rank,
                                  gloo_error *error) {
  gloo_error cause;
  gli_fail(&cause, GLOO_ERR_BUSY, (int)rank,
           "two jobs use the same MASTER_ADDR and MASTER_PORT: two processes "
           "claim rank %u in %s; set a different MASTER_PORT for each job",
           (unsigned)rank, store->label);
  failure_note note = write_failure(rank, &cause);
  if (bootstrap_failure_settle(store, note.data, note.bytes, GLI_OUTCOME_OPEN,
                               NULL) == GLI_OUTCOME_OVER &&
      gli_store_compare_and_set(store, GLI_OUTCOME_KEY, over, OVER_BYTES,
                                note.data, note.bytes, NULL, NULL) == GLOO_OK)
    mark_failed(store);
  (void)gli_store_set(store, CONTENDER_KEY, note.data, note.bytes, NULL);
  if (error != NULL) *error = cause;
  return cause.status;
}

gloo_status gli_bootstrap_watch(gloo_store *store, uint64_t deadline_ns,
                                gloo_error *error) {
  const char *key = CONTENDER_KEY;
  gloo_value value = {NULL, 0};
  bool present;
  gloo_status status =
      gli_store_fetch(store, &key, 1, deadline_ns, &value, &present, NULL);
  if (status != GLOO_OK) return GLOO_OK;
  gloo_error cause;
  bool failed = read_outcome(store, &value, &cause) == GLI_OUTCOME_FAILED;
  gli_value_free(&value);
  if (!failed) return GLOO_OK;
  if (error != NULL) *error = cause;
  return cause.status;
}

void gli_bootstrap_stop_watching(gloo_store *store) {
  (void)gli_store_compare_and_set(store, CONTENDER_KEY, NULL, 0, over,
                                  OVER_BYTES, NULL, NULL);
}
