/* gloo_context_join: a rank comes to others that are there (grow.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/grow.h"
#include "core/error.h"
#include "core/timeout.h"
#include "engine/engine.h"
#include "rendezvous/bootstrap.h"
#include "rendezvous/store.h"

/* "ROUND RANK SIZE DRAWN", of the store. */
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

/* Wait for the place of newcomer `number`. If this process ends meanwhile the
 * store says that it waits no more: rank 0 gives it none. */
static gloo_status join_await_place(gloo_store *visit, int64_t number,
                                    uint64_t deadline_ns, gloo_value *place,
                                    gloo_error *error) {
  char key[GLI_GROW_KEY_BYTES], gone[GLI_GROW_KEY_BYTES];
  char one[] = "1";
  const char *const keys[] = {gone};
  const gloo_value values[] = {{one, 1}};
  gli_will will = {keys, values, 1, 0};
  gli_grow_key(key, "place", number);
  gli_grow_key(gone, "gone", number);
  gloo_status status = gli_store_leave_will(visit, &will, error);
  if (status != GLOO_OK) return status;
  bool there;
  const char *const wanted[] = {key};
  status = gli_store_await(visit, wanted, 1, gone, deadline_ns, &there, error);
  if (status == GLOO_OK)
    status = gloo_store_get(visit, key, GLOO_TIMEOUT_NOW, place, error);
  else
    (void)gloo_store_set(visit, gone, "1", 1, NULL);
  will.n = 0;
  (void)gli_store_leave_will(visit, &will, NULL);
  if (status == GLOO_ERR_POISONED)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "gloo_context_join: %s took this rank for gone, for its "
                    "connection was lost while it waited: call it again",
                    visit->label);
  if (status != GLOO_ERR_TIMEOUT) return status;
  return gli_fail(error, GLOO_ERR_TIMEOUT, -1,
                  "gloo_context_join: this rank was not taken in: no ranks "
                  "have called gloo_context_grow with this store, or they had "
                  "no room");
}

static gloo_status join_wait(gloo_store *store, int64_t timeout_ns,
                             gli_grow_round *round, int *rank, int *size,
                             gloo_error *error) {
  gloo_status status = gli_timeout_of_start(timeout_ns, &timeout_ns, error);
  if (status != GLOO_OK) return status;
  uint64_t deadline_ns = gli_deadline_after(timeout_ns);
  gloo_store *visit;
  int64_t number;
  gloo_value place = {NULL, 0};
  status = gloo_store_add(store, GLI_GROW_CAME, 1, &number, error);
  if (status == GLOO_OK)
    status = gli_store_visit(store, GLI_NEVER, &visit, error);
  if (status != GLOO_OK) return status;
  status = join_await_place(visit, number, deadline_ns, &place, error);
  gli_store_visit_end(visit, store);
  if (status != GLOO_OK) return status;
  bool good = grow_read_place(&place, round, rank, size);
  free(place.data);
  if (good) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                  "gloo_context_join: what the store has under "
                  "gloo/grow/place/%" PRId64
                  " is no place: use the same release of the library on all "
                  "ranks",
                  number);
}

gloo_status gloo_context_join(gloo_store *store, gloo_device *device,
                              const gloo_context_options *options,
                              int64_t timeout_ns, gloo_context **context,
                              gloo_error *error) {
  gli_grow_round round = {0};
  int rank = 0, size = 1;
  if (store == NULL || context == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "gloo_context_join: no %s",
                    store == NULL ? "store" : "place for the context");
  gloo_status status = gli_grow_check_secret(store, options, error);
  if (status == GLOO_OK)
    status = join_wait(store, timeout_ns, &round, &rank, &size, error);
  gloo_context *made;
  if (status == GLOO_OK)
    status = gli_grow_meet(store, &round, rank, size, device, options, NULL,
                           &made, error);
  if (status != GLOO_OK) return status;
  gloo_error cause;
  if (gli_grow_confirm(made, &cause) != GLOO_OK) {
    gloo_context_destroy(made);
    return gli_fail(error, cause.cause, -1,
                    "gloo_context_join: this rank was not taken in, for one "
                    "failed while it was: %s; call it again",
                    cause.message);
  }
  *context = made;
  return GLOO_OK;
}
