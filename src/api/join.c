/* gloo_context_join: a newcomer joins the present ranks (grow.c). It takes a
 * number, is called, answers, and gets a place. If another process ends before
 * all have met, it takes a new number, until its deadline. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/grow.h"
#include "core/environment.h"
#include "core/error.h"
#include "engine/engine.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/store/store.h"

/* Parses "ROUND RANK SIZE DRAWN" from the store. */
static bool grow_read_place(const gloo_value *value, gli_grow_round *round,
                            int *rank, int *size) {
  static const char digits[] = "0123456789abcdef";
  const size_t n = 2 * sizeof round->drawn;
  char text[GLI_GROW_PLACE_BYTES], *end;
  if (value->bytes == 0 || value->bytes >= sizeof text) return false;
  memcpy(text, value->data, value->bytes);
  text[value->bytes] = '\0';
  round->number = strtoll(text, &end, 10);
  long r = strtol(end, &end, 10), s = strtol(end, &end, 10);
  if (s < 1 || s > (long)GLI_RANKS_MAX || r < 0 || r >= s) return false;
  *rank = (int)r;
  *size = (int)s;
  if (*end++ != ' ' || strspn(end, digits) != n || end[n] != '\0') return false;
  for (size_t i = 0; i < n; i++) {
    uint8_t *byte = &round->drawn[i / 2];
    *byte = (uint8_t)(*byte << 4 | (strchr(digits, end[i]) - digits));
  }
  return true;
}

/* Minimum time that a called newcomer waits for its place. Rank 0 gives places
 * once all have answered; if rank 0 ends, the meeting fails. */
#define PLACE_NS INT64_C(5000000000)

typedef struct join_place {
  gli_grow_round round;
  int rank, size;
} join_place;

/* ---- being called -------------------------------------------------------- */

static gloo_status join_not_taken_in(gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_TIMEOUT, -1,
      "gloo_context_join: this rank was not admitted: no ranks called "
      "gloo_context_grow with this store, or ranks_max was reached");
}

static gloo_status join_nonsense(const char *key, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                  "gloo_context_join: the store's value under %s is not a %s: "
                  "use the same release of the library on all ranks",
                  key, strstr(key, GLI_GROW_CALL "/") ? "call" : "place");
}

/* Waits for a call. If this process ends meanwhile, its will notes that in the
 * store, and rank 0 calls another newcomer. */
static gloo_status join_await_call(gloo_store *visit, int64_t number,
                                   uint64_t deadline_ns, gloo_value *called,
                                   gloo_error *error) {
  char key[GLI_GROW_KEY_BYTES], gone[GLI_GROW_KEY_BYTES];
  char one[] = "1";
  const char *const keys[] = {gone}, *const wanted[] = {key};
  const gloo_value values[] = {{one, 1}};
  gli_will will = {keys, values, 1, 0};
  bool there;
  gli_grow_key(key, GLI_GROW_CALL, number);
  gli_grow_key(gone, GLI_GROW_GONE, number);
  gloo_status status = gli_store_leave_will(visit, &will, error);
  if (status != GLOO_OK) return status;
  status = gli_store_await(visit, wanted, 1, gone, deadline_ns, &there, error);
  if (status == GLOO_OK)
    status = gloo_store_get(visit, key, GLOO_TIMEOUT_NOW, called, error);
  if (status == GLOO_OK) return GLOO_OK;
  (void)gloo_store_set(visit, gone, "1", 1, NULL);
  will.n = 0;
  (void)gli_store_leave_will(visit, &will, NULL);
  if (status == GLOO_ERR_POISONED)
    return gli_fail(
        error, GLOO_ERR_PEER, -1,
        "gloo_context_join: %s considers this rank dead because its connection "
        "was lost while it waited: call gloo_context_join again",
        visit->label);
  return status == GLOO_ERR_TIMEOUT ? join_not_taken_in(error) : status;
}

/* Takes a number, and waits until it is called to a meeting. */
static gloo_status join_take_number(gloo_store *store, uint64_t deadline_ns,
                                    int64_t *number, int64_t *meeting,
                                    gloo_error *error) {
  gloo_store *visit;
  gloo_value called = {NULL, 0};
  char key[GLI_GROW_KEY_BYTES], text[32], *end = text;
  gloo_status status = gloo_store_add(store, GLI_GROW_CAME, 1, number, error);
  if (status == GLOO_OK)
    status = gli_store_visit(store, GLI_NEVER, &visit, error);
  if (status != GLOO_OK) return status;
  status = join_await_call(visit, *number, deadline_ns, &called, error);
  gli_store_visit_end(visit, store);
  if (status != GLOO_OK) return status;
  size_t bytes = called.bytes < sizeof text ? called.bytes : 0;
  if (bytes > 0) memcpy(text, called.data, bytes);
  text[bytes] = '\0';
  free(called.data);
  *meeting = strtoll(text, &end, 10);
  if (end != text && *end == '\0' && *meeting > 0) return GLOO_OK;
  gli_grow_key(key, GLI_GROW_CALL, *number);
  return join_nonsense(key, error);
}

/* ---- a place ------------------------------------------------------------- */

/* Answers the call. Sets *again if this rank has no place in that meeting. */
static gloo_status join_await_place(gloo_store *store, int64_t number,
                                    int64_t meeting, uint64_t deadline_ns,
                                    gloo_value *place, bool *again,
                                    gloo_error *error) {
  char key[GLI_GROW_KEY_BYTES], outcome[GLI_GROW_KEY_BYTES];
  const char *const wanted[] = {key};
  bool there;
  uint64_t least_ns = gli_deadline_after(PLACE_NS);
  if (deadline_ns < least_ns) deadline_ns = least_ns;
  gloo_status status =
      gli_grow_promise(store, meeting, GLI_BOOTSTRAP_NO_RANK, error);
  gli_grow_key(key, GLI_GROW_COMES, number);
  if (status == GLOO_OK) status = gloo_store_set(store, key, "1", 1, error);
  if (status != GLOO_OK) return status;
  gli_grow_key(key, GLI_GROW_PLACE, number);
  gli_grow_outcome_key(outcome, meeting);
  status =
      gli_store_await(store, wanted, 1, outcome, deadline_ns, &there, error);
  if (status == GLOO_OK)
    status = gloo_store_get(store, key, GLOO_TIMEOUT_NOW, place, error);
  if (status == GLOO_ERR_TIMEOUT) return join_not_taken_in(error);
  const size_t bytes = strlen(GLI_GROW_NO_PLACE);
  *again = status == GLOO_ERR_POISONED ||
           (status == GLOO_OK && place->bytes == bytes &&
            memcmp(place->data, GLI_GROW_NO_PLACE, bytes) == 0);
  if (*again)
    return gli_fail(
        error, GLOO_ERR_PEER, -1,
        "gloo_context_join: this rank was not admitted because another "
        "newcomer exited meanwhile: call gloo_context_join again");
  return status;
}

static gloo_status join_get_place(gloo_store *store, uint64_t deadline_ns,
                                  join_place *p, bool *again,
                                  gloo_error *error) {
  int64_t number, meeting;
  gloo_value text = {NULL, 0};
  gloo_status status =
      join_take_number(store, deadline_ns, &number, &meeting, error);
  if (status != GLOO_OK) return status;
  status = join_await_place(store, number, meeting, deadline_ns, &text, again,
                            error);
  if (status == GLOO_OK &&
      (!grow_read_place(&text, &p->round, &p->rank, &p->size) ||
       p->round.number != meeting)) {
    char key[GLI_GROW_KEY_BYTES];
    gli_grow_key(key, GLI_GROW_PLACE, number);
    status = join_nonsense(key, error);
  }
  free(text.data);
  if (status != GLOO_OK)
    gli_grow_leave(store, meeting, GLI_BOOTSTRAP_NO_RANK,
                   *again ? NULL : error);
  return status;
}

/* ---- the call ------------------------------------------------------------ */

/* Comes to one meeting. Sets *again if it failed for this rank only because
 * another rank has ended. */
static gloo_status join_once(gloo_store *store, gloo_device *device,
                             const gloo_context_options *options,
                             uint64_t deadline_ns, gloo_context **made,
                             bool *again, gloo_error *error) {
  join_place p = {.rank = 0};
  *again = false;
  gloo_status status = join_get_place(store, deadline_ns, &p, again, error);
  if (status != GLOO_OK) return status;
  status = gli_grow_meet(store, &p.round, p.rank, p.size, device, options, NULL,
                         made, error);
  if (status == GLOO_OK) return GLOO_OK;
  gli_grow_leave(store, p.round.number, (uint32_t)p.rank, error);
  *again = status == GLOO_ERR_PEER || status == GLOO_ERR_TIMEOUT;
  return status;
}

gloo_status gloo_context_join(gloo_store *store, gloo_device *device,
                              const gloo_context_options *options,
                              int64_t timeout_ns, gloo_context **context,
                              gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (store == NULL || context == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_context_join: `%s` must not be NULL",
                    store == NULL ? "store" : "context");
  gloo_status status = gli_grow_check_secret(store, options, error);
  if (status == GLOO_OK)
    status = gli_timeout_of_start(timeout_ns, &timeout_ns, error);
  if (status != GLOO_OK) return status;
  uint64_t deadline_ns = gli_deadline_after(timeout_ns);
  gloo_context *made;
  bool again;
  do {
    status =
        join_once(store, device, options, deadline_ns, &made, &again, error);
  } while (again && gli_deadline_left(deadline_ns) != 0);
  if (status != GLOO_OK) return status;
  gloo_error cause;
  if (gli_grow_confirm(made, &cause) != GLOO_OK) {
    gloo_context_destroy(made);
    return gli_fail(error, cause.cause, -1,
                    "gloo_context_join: this rank was not admitted because a "
                    "rank failed meanwhile: %s; call gloo_context_join again",
                    cause.message);
  }
  *context = made;
  return GLOO_OK;
}
