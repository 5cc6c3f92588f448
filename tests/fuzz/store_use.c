#include "store_use.h"

#include <stdlib.h>

#include "rendezvous/store/store.h"

/* Checks a status; GLOO_ERR_POISONED has no message. */
static void use_check(gloo_status status, const gloo_error *error) {
  if (status != GLOO_ERR_POISONED) fuzz_check_error(status, error);
}

static void use_values(gloo_store *store) {
  static const char *const keys[] = {"k", "a key/of parts"};
  const gloo_value set[] = {{"one", 3}, {NULL, 0}};
  gloo_value got[2] = {{NULL, 0}, {NULL, 0}};
  gloo_error error;
  use_check(gloo_store_set(store, "k", "value", 5, &error), &error);
  use_check(gloo_store_multi_set(store, keys, set, 2, &error), &error);
  gloo_status status =
      gloo_store_get(store, "k", GLOO_TIMEOUT_NOW, &got[0], &error);
  use_check(status, &error);
  if (status == GLOO_OK) free(got[0].data);
  use_check(gloo_store_wait(store, keys, 2, GLOO_TIMEOUT_NOW, &error), &error);
  status = gloo_store_multi_get(store, keys, 2, GLOO_TIMEOUT_NOW, got, &error);
  use_check(status, &error);
  for (int i = 0; i < 2 && status == GLOO_OK; i++) free(got[i].data);
}

static void use_changes(gloo_store *store) {
  gloo_value current = {NULL, 0};
  gloo_error error;
  int64_t sum;
  use_check(gloo_store_add(store, "n", -3, &sum, &error), &error);
  gloo_status status = gloo_store_compare_and_set(store, "k", "one", 3, "two",
                                                  3, &current, &error);
  use_check(status, &error);
  if (status == GLOO_OK || status == GLOO_ERR_COMPARE) free(current.data);
  use_check(gloo_store_append(store, "k", "more", 4, &error), &error);
  use_check(gloo_store_delete(store, "k", &error), &error);
}

/* Uses the store as ranks that meet do. */
static void use_visit(gloo_store *store) {
  static const char *const keys[] = {"outcome", "k"};
  const gloo_value values[] = {{"gone", 4}, {NULL, 0}};
  const gli_will will = {keys, values, 2, 1}, none = {.n = 0};
  bool present[2];
  gloo_store *visit;
  gloo_error error;
  if (gli_store_visit(store, 0, &visit, &error) != GLOO_OK) return;
  use_check(gli_store_leave_will(visit, &will, &error), &error);
  gloo_status status =
      gli_store_await(visit, keys, 2, "alarm", 0, present, &error);
  if (status != GLOO_ERR_TIMEOUT) use_check(status, &error);
  use_check(gli_store_leave_will(visit, &none, &error), &error);
  gli_store_visit_end(visit, store);
}

void fuzz_use_store(gloo_store *store) {
  use_values(store);
  use_changes(store);
  use_visit(store);
}
