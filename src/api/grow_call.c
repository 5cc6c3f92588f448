/* Rank 0's side of gloo_context_grow: finds the newcomers, and gives them
 * places.
 *
 * A newcomer that has taken a number may have ended, or be stopped, and the
 * store detects its end only if it has left a will. So rank 0 calls each
 * newcomer to the meeting, and gives places only to those that answer soon: an
 * answer is a promise to come (grow_meeting.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/grow.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/random.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/store/store.h"

/* Keys of the store: the count of newcomers that were handled, the count of
 * meetings, and a test whether the store can hold a verdict. */
#define PLACED "gloo/grow/placed"
#define ROUND "gloo/grow/round"
#define JUDGES "gloo/grow/judges"

/* Time limit for the answer. A waiting newcomer answers within milliseconds;
 * one without a processor takes a new number and is called again. */
#define ANSWER_NS INT64_C(1000000000)

enum { PAUSE_MS = 20 };

static bool newcomer_has(gloo_store *store, const char *what, int64_t number) {
  char key[GLI_GROW_KEY_BYTES];
  gloo_value value;
  gli_grow_key(key, what, number);
  if (gloo_store_get(store, key, GLOO_TIMEOUT_NOW, &value, NULL) != GLOO_OK)
    return false;
  free(value.data);
  return true;
}

/* Returns true if the newcomer waits. If an earlier rank 0 has called it and
 * then ended, it takes a new number. */
static bool newcomer_waits(gloo_store *store, int64_t number) {
  return !newcomer_has(store, GLI_GROW_GONE, number) &&
         !newcomer_has(store, GLI_GROW_CALL, number);
}

/* Chooses waiting newcomers between two numbers, as many as there is room for.
 * Returns the last number checked. */
static int64_t grow_choose(gloo_store *store, int64_t from, int64_t to,
                           int32_t room, int64_t *chosen, int32_t *n) {
  gloo_store *visit;
  *n = 0;
  /* In a file store, leaving a will, even an empty one, executes the wills of
   * processes that have ended. */
  if (gli_store_visit(store, GLI_NEVER, &visit, NULL) == GLOO_OK) {
    (void)gli_store_leave_will(visit, &(gli_will){.n = 0}, NULL);
    gli_store_visit_end(visit, store);
  }
  int64_t at = from;
  while (at < to && *n < room)
    if (newcomer_waits(store, ++at)) chosen[(*n)++] = at;
  return at;
}

/* Counts the newcomers without a place, and waits for the wanted number. */
static gloo_status grow_await(gloo_store *store, const gloo_grow_options *o,
                              int64_t *placed, int64_t *came,
                              gloo_error *error) {
  int64_t timeout_ns;
  gloo_status read = gli_timeout_of_start(o->timeout_ns, &timeout_ns, error);
  if (read != GLOO_OK) return read;
  uint64_t deadline_ns = gli_deadline_after(timeout_ns);
  for (;;) {
    gloo_status status = gloo_store_add(store, PLACED, 0, placed, error);
    if (status == GLOO_OK)
      status = gloo_store_add(store, GLI_GROW_CAME, 0, came, error);
    if (status != GLOO_OK) return status;
    if (*placed < 0 || *came < *placed || *came - *placed > GLI_RANKS_MAX)
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "the store's count of newcomers is invalid: %" PRId64
                      " after %" PRId64,
                      *came, *placed);
    if (*came - *placed >= o->newcomers) return GLOO_OK;
    if (gli_deadline_left(deadline_ns) == 0) return GLOO_OK;
    uv_sleep(PAUSE_MS);
  }
}

/* Checks that the store can hold a verdict, before any newcomer has a place. A
 * single rank needs none. */
static gloo_status grow_check_store(gloo_store *store, int size,
                                    gloo_error *error) {
  if (size == 1) return GLOO_OK;
  gloo_status status =
      gloo_store_compare_and_set(store, JUDGES, NULL, 0, "1", 1, NULL, error);
  return status == GLOO_ERR_COMPARE ? GLOO_OK : status;
}

/* Counts the checked newcomers, so that later calls skip them. */
static gloo_status call_count(gloo_store *store, const gli_grow_called *called,
                              gloo_error *error) {
  int64_t ignored;
  if (called->seen == 0) return GLOO_OK;
  return gloo_store_add(store, PLACED, called->seen, &ignored, error);
}

gloo_status gli_grow_find(gloo_store *store, int size,
                          const gloo_grow_options *o, gli_grow_called *called,
                          gli_grow_round *round, gloo_error *error) {
  int64_t placed = 0, came = 0;
  gloo_status status = gli_grow_check_secret(store, o->context, error);
  if (status == GLOO_OK) status = grow_await(store, o, &placed, &came, error);
  if (status != GLOO_OK || came == placed) return status;
  status = grow_check_store(store, size, error);
  if (status != GLOO_OK) return status;
  int32_t most = o->ranks_max > 0 ? o->ranks_max : (int32_t)GLI_RANKS_MAX;
  called->numbers = calloc((size_t)(came - placed), sizeof *called->numbers);
  if (called->numbers == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %" PRId64 " newcomers", came - placed);
  int64_t last = grow_choose(store, placed, came, most - size, called->numbers,
                             &called->n);
  called->seen = last - placed;
  if (called->n == 0) return call_count(store, called, error);
  status = gloo_store_add(store, ROUND, 1, &round->number, error);
  if (status == GLOO_OK)
    status = gli_random_draw(round->drawn, sizeof round->drawn, error);
  return status;
}

/* ---- calling ------------------------------------------------------------- */

/* Waits for the answers of all newcomers, within the time limit, and notes
 * those that answered. */
static gloo_status call_await(gloo_store *store, int64_t meeting,
                              gli_grow_called *called, bool *came,
                              gloo_error *error) {
  size_t n = (size_t)called->n;
  char outcome[GLI_GROW_KEY_BYTES];
  char(*texts)[GLI_GROW_KEY_BYTES] = calloc(n, sizeof *texts);
  const char **keys = calloc(n, sizeof *keys);
  gloo_status status = GLOO_ERR_NO_MEMORY;
  if (texts != NULL && keys != NULL) {
    for (size_t i = 0; i < n; i++) {
      gli_grow_key(texts[i], GLI_GROW_COMES, called->numbers[i]);
      keys[i] = texts[i];
    }
    gli_grow_outcome_key(outcome, meeting);
    status = gli_store_await(store, keys, n, outcome,
                             gli_deadline_after(ANSWER_NS), came, error);
  }
  free(texts);
  free(keys);
  if (status == GLOO_ERR_NO_MEMORY)
    return gli_fail(error, status, -1, "out of memory for %zu newcomers", n);
  if (status == GLOO_ERR_POISONED)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "a newcomer exited while it was being admitted; call "
                    "gloo_context_grow again");
  if (status == GLOO_ERR_TIMEOUT) return GLOO_OK;
  for (size_t i = 0; i < n && status == GLOO_OK; i++) came[i] = true;
  return status;
}

static gloo_status call_place(gloo_store *store, int64_t number, int rank,
                              int size, const gli_grow_round *round,
                              gloo_error *error) {
  char key[GLI_GROW_KEY_BYTES], place[GLI_GROW_PLACE_BYTES];
  gli_grow_key(key, GLI_GROW_PLACE, number);
  int bytes = snprintf(place, sizeof place, "%" PRId64 " %d %d ", round->number,
                       rank, size);
  for (size_t k = 0; k < sizeof round->drawn; k++)
    bytes += snprintf(place + bytes, sizeof place - (size_t)bytes, "%02x",
                      (unsigned)round->drawn[k]);
  return gloo_store_set(store, key, place, (size_t)bytes, error);
}

static gloo_status call_pass_over(gloo_store *store, int64_t number,
                                  gloo_error *error) {
  char key[GLI_GROW_KEY_BYTES];
  gli_grow_key(key, GLI_GROW_PLACE, number);
  return gloo_store_set(store, key, GLI_GROW_NO_PLACE,
                        strlen(GLI_GROW_NO_PLACE), error);
}

static gloo_status call_give_places(gloo_store *store, int size,
                                    const gli_grow_round *round,
                                    gli_grow_called *called, const bool *came,
                                    gloo_error *error) {
  int total = size, rank = size;
  gloo_status status = GLOO_OK;
  for (int32_t i = 0; i < called->n; i++) total += came[i];
  for (int32_t i = 0; i < called->n && status == GLOO_OK; i++)
    status = came[i] ? call_place(store, called->numbers[i], rank++, total,
                                  round, error)
                     : call_pass_over(store, called->numbers[i], error);
  called->n = total - size;
  return status;
}

gloo_status gli_grow_call(gloo_store *store, int size,
                          const gli_grow_round *round, gli_grow_called *called,
                          gloo_error *error) {
  char key[GLI_GROW_KEY_BYTES], meeting[32];
  int bytes = snprintf(meeting, sizeof meeting, "%" PRId64, round->number);
  gloo_status status = GLOO_OK;
  for (int32_t i = 0; i < called->n && status == GLOO_OK; i++) {
    gli_grow_key(key, GLI_GROW_CALL, called->numbers[i]);
    status = gloo_store_set(store, key, meeting, (size_t)bytes, error);
  }
  if (status == GLOO_OK) status = call_count(store, called, error);
  if (status != GLOO_OK) return status;
  bool *came = calloc((size_t)called->n, sizeof *came);
  if (came == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %d newcomers", (int)called->n);
  status = call_await(store, round->number, called, came, error);
  if (status == GLOO_OK)
    status = call_give_places(store, size, round, called, came, error);
  free(came);
  return status;
}
