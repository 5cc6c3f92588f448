/* A view of another store in which every key starts with a prefix. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "rendezvous/store/store.h"

typedef struct prefix_store {
  gloo_store base;
  gloo_store *inner;
  gloo_store *visited; /* the store that `inner` visits; for visits */
  size_t prefix_bytes;
  char prefix[];
} prefix_store;

typedef struct full_key {
  char text[1024 + 1];
} full_key;
_Static_assert(sizeof(full_key) > 1024, "holds GLOO_STORE_KEY_MAX bytes");

static gloo_status check_length(const prefix_store *self, const char *key,
                                size_t key_bytes, gloo_error *error) {
  if (key_bytes <= GLOO_STORE_KEY_MAX - self->prefix_bytes) return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_INVALID, -1,
      "key '%s' has %zu bytes, %zu with its prefix '%s'; the limit is %zu",
      gli_quote(key).text, key_bytes, key_bytes + self->prefix_bytes,
      gli_quote(self->prefix).text, GLOO_STORE_KEY_MAX);
}

static gloo_status store_prefix_join(const prefix_store *self, const char *key,
                                     full_key *full, gloo_error *error) {
  size_t key_bytes = strlen(key);
  gloo_status status = check_length(self, key, key_bytes, error);
  if (status != GLOO_OK) return status;
  memcpy(full->text, self->prefix, self->prefix_bytes);
  memcpy(full->text + self->prefix_bytes, key, key_bytes + 1);
  return GLOO_OK;
}

static gloo_status prefix_set(gloo_store *store, const char *key,
                              const void *data, size_t bytes,
                              gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  full_key full;
  gloo_status status = store_prefix_join(self, key, &full, error);
  if (status != GLOO_OK) return status;
  return gli_store_set(self->inner, full.text, data, bytes, error);
}

/* Joins the prefix and all keys, in one block: the list, then the strings. */
static gloo_status join_all(const prefix_store *self, const char *const *keys,
                            size_t n_keys, const char ***full,
                            gloo_error *error) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < n_keys; i++) {
    size_t key_bytes = strlen(keys[i]);
    gloo_status status = check_length(self, keys[i], key_bytes, error);
    if (status != GLOO_OK) return status;
    bytes += sizeof(char *) + self->prefix_bytes + key_bytes + 1;
  }
  const char **list = bytes <= SIZE_MAX ? malloc((size_t)bytes) : NULL;
  if (list == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a list of %zu keys", n_keys);
  char *text = (char *)(list + n_keys);
  for (size_t i = 0; i < n_keys; i++) {
    size_t key_bytes = strlen(keys[i]);
    list[i] = text;
    memcpy(text, self->prefix, self->prefix_bytes);
    memcpy(text + self->prefix_bytes, keys[i], key_bytes + 1);
    text += self->prefix_bytes + key_bytes + 1;
  }
  *full = list;
  return GLOO_OK;
}

static gloo_status prefix_fetch(gloo_store *store, const char *const *keys,
                                size_t n_keys, uint64_t deadline_ns,
                                gloo_value *values, bool *present,
                                gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  const char **full = NULL;
  gloo_status status = join_all(self, keys, n_keys, &full, error);
  if (status != GLOO_OK) return status;
  status = gli_store_fetch(self->inner, full, n_keys, deadline_ns, values,
                           present, error);
  free(full);
  return status;
}

static gloo_status prefix_multi_set(gloo_store *store, const char *const *keys,
                                    const gloo_value *values, size_t n_keys,
                                    gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  const char **full = NULL;
  gloo_status status = join_all(self, keys, n_keys, &full, error);
  if (status != GLOO_OK) return status;
  status = gli_store_multi_set(self->inner, full, values, n_keys, error);
  free(full);
  return status;
}

static gloo_status prefix_add(gloo_store *store, const char *key,
                              int64_t amount, int64_t *result,
                              gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  full_key full;
  gloo_status status = store_prefix_join(self, key, &full, error);
  if (status != GLOO_OK) return status;
  return gli_store_add(self->inner, full.text, amount, result, error);
}

static gloo_status prefix_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  full_key full;
  gloo_status status = store_prefix_join(self, key, &full, error);
  if (status != GLOO_OK) return status;
  return gli_store_compare_and_set(self->inner, full.text, expected,
                                   expected_bytes, desired, desired_bytes,
                                   current, error);
}

static gloo_status prefix_append(gloo_store *store, const char *key,
                                 const void *data, size_t bytes,
                                 gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  full_key full;
  gloo_status status = store_prefix_join(self, key, &full, error);
  if (status != GLOO_OK) return status;
  return gli_store_append(self->inner, full.text, data, bytes, error);
}

static gloo_status prefix_remove(gloo_store *store, const char *key,
                                 gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  full_key full;
  gloo_status status = store_prefix_join(self, key, &full, error);
  if (status != GLOO_OK) return status;
  return gli_store_remove(self->inner, full.text, error);
}

/* ---- rendezvous ---------------------------------------------------------- */

static gloo_status prefix_await(gloo_store *store, const char *const *keys,
                                size_t n_keys, const char *alarm,
                                uint64_t deadline_ns, bool *present,
                                gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  const char **full = NULL;
  full_key full_alarm;
  gloo_status status = store_prefix_join(self, alarm, &full_alarm, error);
  if (status == GLOO_OK) status = join_all(self, keys, n_keys, &full, error);
  if (status != GLOO_OK) return status;
  status = gli_store_await(self->inner, full, n_keys, full_alarm.text,
                           deadline_ns, present, error);
  free(full);
  return status;
}

static gloo_status prefix_leave_will(gloo_store *store, const gli_will *will,
                                     gloo_error *error) {
  prefix_store *self = (prefix_store *)store;
  const char **full = NULL;
  gli_will own = *will;
  gloo_status status = join_all(self, will->keys, will->n, &full, error);
  if (status != GLOO_OK) return status;
  own.keys = full;
  status = gli_store_leave_will(self->inner, &own, error);
  free(full);
  return status;
}

static bool prefix_lasts(const gloo_store *store) {
  return gli_store_lasts(((const prefix_store *)store)->inner);
}

static bool prefix_serves(const gloo_store *store) {
  return gli_store_serves(((const prefix_store *)store)->inner);
}

static void prefix_destroy(gloo_store *store) {
  free(store);
}

#define PREFIX_OPS                                                         \
  .set = prefix_set, .fetch = prefix_fetch, .multi_set = prefix_multi_set, \
  .add = prefix_add, .compare_and_set = prefix_compare_and_set,            \
  .append = prefix_append, .remove = prefix_remove, .await = prefix_await, \
  .leave_will = prefix_leave_will, .lasts = prefix_lasts,                  \
  .serves = prefix_serves

static void prefix_visit_destroy(gloo_store *store) {
  prefix_store *self = (prefix_store *)store;
  gli_store_visit_end(self->inner, self->visited);
  free(self);
}

static const gli_store_ops prefix_visit_ops = {PREFIX_OPS,
                                               .destroy = prefix_visit_destroy};

/* Makes a prefix store over a visit of the inner store. */
static gloo_status prefix_visit(gloo_store *store, uint64_t deadline_ns,
                                gloo_store **visit, gloo_error *error) {
  const prefix_store *self = (const prefix_store *)store;
  size_t bytes = sizeof *self + self->prefix_bytes + 1;
  prefix_store *copy = malloc(bytes);
  if (copy == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  memcpy(copy, self, bytes);
  copy->base.ops = &prefix_visit_ops;
  copy->visited = self->inner;
  gli_secret_release(&copy->base.told);
  gloo_status status =
      gli_store_visit(self->inner, deadline_ns, &copy->inner, error);
  if (status != GLOO_OK) {
    free(copy);
    return status;
  }
  *visit = &copy->base;
  return GLOO_OK;
}

static const gli_store_ops prefix_ops = {PREFIX_OPS, .visit = prefix_visit,
                                         .destroy = prefix_destroy};

gloo_status gloo_store_prefix_create(gloo_store *base, const char *prefix,
                                     gloo_store **store, gloo_error *error) {
  if (base == NULL || prefix == NULL || store == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "`%s` must not be NULL",
                    base == NULL     ? "base"
                    : prefix == NULL ? "prefix"
                                     : "store");
  size_t bytes = strlen(prefix);
  if (bytes >= GLOO_STORE_KEY_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "prefix '%s' has %zu bytes; a key has at most %zu, "
                    "including the prefix",
                    gli_quote(prefix).text, bytes, GLOO_STORE_KEY_MAX);
  prefix_store *self = calloc(1, sizeof *self + bytes + 1);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  self->base.ops = &prefix_ops;
  self->base.birth = gli_birth_here();
  self->base.told = base->told;
  self->inner = base;
  self->prefix_bytes = bytes;
  memcpy(self->prefix, prefix, bytes + 1);
  snprintf(self->base.label, sizeof self->base.label, "%.150s under '%s'",
           base->label, gli_quote(prefix).text);
  *store = &self->base;
  return GLOO_OK;
}
