/* A store made of the host program's callbacks. It does not trust them. */
#include <stdlib.h>
#include <string.h>

#include "core/options.h"
#include "core/text.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/value.h"

typedef struct callbacks_store {
  gloo_store base;
  gli_store_ops ops; /* without operations whose callbacks are NULL */
  gloo_store_callbacks lent;
} callbacks_store;

/* Turns the result of a callback into a status, with a message on failure. */
static gloo_status store_callbacks_outcome(gloo_status status,
                                           const char *callback,
                                           const char *key, gloo_error *error) {
  if (status == GLOO_OK) return status;
  if (!gli_is_failure(status))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the host program's store returned %d from '%s' for key "
                    "'%s', which is not a valid gloo_status",
                    (int)status, callback, gli_quote(key).text);
  return gli_fail(error, status, -1,
                  "the host program's store failed in '%s' for key '%s': %s",
                  callback, gli_quote(key).text, gloo_status_string(status));
}

/* Refuses an invalid value of the host program. */
static gloo_status check_value(gloo_value *value, const char *callback,
                               const char *key, gloo_error *error) {
  if (value->bytes == 0) gli_value_free(value);
  if (value->bytes == 0) return GLOO_OK;
  size_t bytes = value->bytes;
  if (value->data != NULL && bytes <= GLOO_STORE_VALUE_MAX) return GLOO_OK;
  bool null = value->data == NULL;
  gli_value_free(value);
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the host program's store returned %zu bytes%s from '%s' for "
                  "key '%s'; at most %zu, in malloc'ed memory, are allowed",
                  bytes, null ? " at NULL" : "", callback, gli_quote(key).text,
                  GLOO_STORE_VALUE_MAX);
}

/* Returns the time left, in the form that callbacks get. */
static int64_t callbacks_left(uint64_t deadline_ns) {
  int64_t left_ns = gli_deadline_left(deadline_ns);
  return left_ns == 0 ? GLOO_TIMEOUT_NOW : left_ns;
}

static gloo_status callbacks_set(gloo_store *store, const char *key,
                                 const void *data, size_t bytes,
                                 gloo_error *error) {
  callbacks_store *self = (callbacks_store *)store;
  return store_callbacks_outcome(
      self->lent.set(self->lent.user, key, data, bytes), "set", key, error);
}

static gloo_status get_one(callbacks_store *self, const char *key,
                           uint64_t deadline_ns, gloo_value *value,
                           gloo_error *error) {
  gloo_value got = {NULL, 0};
  gloo_status status = store_callbacks_outcome(
      self->lent.get(self->lent.user, key, callbacks_left(deadline_ns), &got),
      "get", key, error);
  if (status == GLOO_OK) status = check_value(&got, "get", key, error);
  if (status == GLOO_OK) *value = got;
  return status;
}

/* Gets all values, and waits for them. On failure the caller frees the elements
 * of `values`. */
static gloo_status get_all(callbacks_store *self, const char *const *keys,
                           size_t n_keys, uint64_t deadline_ns,
                           gloo_value *values, gloo_error *error) {
  gloo_status status = store_callbacks_outcome(
      self->lent.multi_get(self->lent.user, keys, n_keys,
                           callbacks_left(deadline_ns), values),
      "multi_get", keys[0], error);
  /* All are checked, so that no invalid one is kept. */
  for (size_t i = 0; i < n_keys; i++) {
    gloo_status checked = check_value(&values[i], "multi_get", keys[i],
                                      status == GLOO_OK ? error : NULL);
    if (status == GLOO_OK) status = checked;
  }
  return status;
}

static gloo_status get_each(callbacks_store *self, const char *const *keys,
                            size_t n_keys, uint64_t deadline_ns,
                            gloo_value *values, gloo_error *error) {
  gloo_status status = GLOO_OK;
  for (size_t i = 0; i < n_keys && status == GLOO_OK; i++)
    status = get_one(self, keys[i], deadline_ns, &values[i], error);
  return status;
}

/* Checks each key by a separate call. */
static void store_callbacks_probe(callbacks_store *self,
                                  const char *const *keys, size_t n_keys,
                                  bool *present) {
  for (size_t i = 0; i < n_keys; i++)
    present[i] = self->lent.wait(self->lent.user, &keys[i], 1,
                                 GLOO_TIMEOUT_NOW) == GLOO_OK;
}

static gloo_status callbacks_fetch(gloo_store *store, const char *const *keys,
                                   size_t n_keys, uint64_t deadline_ns,
                                   gloo_value *values, bool *present,
                                   gloo_error *error) {
  callbacks_store *self = (callbacks_store *)store;
  bool at_once = values != NULL && n_keys > 1 && self->lent.multi_get != NULL;
  gloo_status status = GLOO_OK;
  if (!at_once && (values == NULL || n_keys > 1))
    status =
        store_callbacks_outcome(self->lent.wait(self->lent.user, keys, n_keys,
                                                callbacks_left(deadline_ns)),
                                "wait", keys[0], error);
  if (values != NULL && status == GLOO_OK)
    status = (at_once ? get_all : get_each)(self, keys, n_keys, deadline_ns,
                                            values, error);
  if (status != GLOO_ERR_TIMEOUT) return status;
  present[0] = false;
  if (n_keys > 1) store_callbacks_probe(self, keys, n_keys, present);
  return status;
}

static gloo_status callbacks_multi_set(gloo_store *store,
                                       const char *const *keys,
                                       const gloo_value *values, size_t n_keys,
                                       gloo_error *error) {
  callbacks_store *self = (callbacks_store *)store;
  return store_callbacks_outcome(
      self->lent.multi_set(self->lent.user, keys, values, n_keys), "multi_set",
      keys[0], error);
}

static gloo_status callbacks_add(gloo_store *store, const char *key,
                                 int64_t amount, int64_t *result,
                                 gloo_error *error) {
  callbacks_store *self = (callbacks_store *)store;
  int64_t sum = 0;
  gloo_status status = store_callbacks_outcome(
      self->lent.add(self->lent.user, key, amount, &sum), "add", key, error);
  if (status == GLOO_OK) *result = sum;
  return status;
}

static gloo_status callbacks_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error) {
  callbacks_store *self = (callbacks_store *)store;
  gloo_value now = {NULL, 0};
  gloo_status found = store_callbacks_outcome(
      self->lent.compare_and_set(self->lent.user, key, expected, expected_bytes,
                                 desired, desired_bytes, &now),
      "compare_and_set", key, error);
  if (found != GLOO_OK && found != GLOO_ERR_COMPARE) return found;
  gloo_status status = check_value(&now, "compare_and_set", key, error);
  if (status != GLOO_OK) return status;
  if (current == NULL) {
    gli_value_free(&now);
  } else {
    *current = now;
  }
  return found;
}

static gloo_status callbacks_append(gloo_store *store, const char *key,
                                    const void *data, size_t bytes,
                                    gloo_error *error) {
  callbacks_store *self = (callbacks_store *)store;
  return store_callbacks_outcome(
      self->lent.append(self->lent.user, key, data, bytes), "append", key,
      error);
}

static gloo_status callbacks_remove(gloo_store *store, const char *key,
                                    gloo_error *error) {
  callbacks_store *self = (callbacks_store *)store;
  return store_callbacks_outcome(self->lent.remove(self->lent.user, key),
                                 "remove", key, error);
}

static void callbacks_destroy(gloo_store *store) {
  callbacks_store *self = (callbacks_store *)store;
  if (self->lent.destroy != NULL) self->lent.destroy(self->lent.user);
  free(self);
}

/* Frees the store. `user` belongs to the parent. */
static void callbacks_abandon(gloo_store *store) {
  free(store);
}

gloo_status gloo_store_callbacks_create(const gloo_store_callbacks *callbacks,
                                        gloo_store **store, gloo_error *error) {
  gloo_store_callbacks lent;
  gloo_status status = gli_options_load(&lent, sizeof lent, callbacks,
                                        "gloo_store_callbacks", error);
  if (status != GLOO_OK) return status;
  if (lent.set == NULL || lent.get == NULL || lent.wait == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the callback '%s' is NULL: set, get and wait are required",
                    lent.set == NULL   ? "set"
                    : lent.get == NULL ? "get"
                                       : "wait");
  if (store == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "`store` must not be NULL");
  callbacks_store *self = calloc(1, sizeof *self);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  self->lent = lent;
  self->ops.set = callbacks_set;
  self->ops.fetch = callbacks_fetch;
  if (lent.multi_set != NULL) self->ops.multi_set = callbacks_multi_set;
  if (lent.add != NULL) self->ops.add = callbacks_add;
  if (lent.compare_and_set != NULL)
    self->ops.compare_and_set = callbacks_compare_and_set;
  if (lent.append != NULL) self->ops.append = callbacks_append;
  if (lent.remove != NULL) self->ops.remove = callbacks_remove;
  self->ops.destroy = callbacks_destroy;
  self->ops.abandon = callbacks_abandon;
  self->base.ops = &self->ops;
  self->base.birth = gli_birth_here();
  strcpy(self->base.label, "the host program's store");
  *store = &self->base;
  return GLOO_OK;
}
