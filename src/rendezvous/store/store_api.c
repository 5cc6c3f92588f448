/* The public operations: check the arguments, then dispatch. */
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/text.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/value.h"

static gloo_status check_store(const gloo_store *store, gloo_error *error) {
  if (store != NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1, "the store is NULL");
}

static gloo_status check_key(const char *key, gloo_error *error) {
  if (key == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "the key is NULL");
  if (*key == '\0')
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the key is empty; a key has 1 to %zu bytes",
                    GLOO_STORE_KEY_MAX);
  size_t bytes = strlen(key);
  if (bytes > GLOO_STORE_KEY_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "key '%s' has %zu bytes; a key has 1 to %zu",
                    gli_quote(key).text, bytes, GLOO_STORE_KEY_MAX);
  return GLOO_OK;
}

static gloo_status check_data(const char *key, const char *what,
                              const void *data, size_t bytes,
                              gloo_error *error) {
  if (bytes > GLOO_STORE_VALUE_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the %s for key '%s' has %zu bytes; the limit is %zu", what,
                    gli_quote(key).text, bytes, GLOO_STORE_VALUE_MAX);
  if (data == NULL && bytes > 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the %s for key '%s' is NULL, but has %zu bytes", what,
                    gli_quote(key).text, bytes);
  return GLOO_OK;
}

static gloo_status check_result(const void *result, const char *name,
                                gloo_error *error) {
  if (result != NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1, "`%s` must not be NULL", name);
}

static gloo_status check_keys(const gloo_store *store, const char *const *keys,
                              size_t n_keys, gloo_error *error) {
  gloo_status status = check_store(store, error);
  if (status != GLOO_OK) return status;
  if (keys == NULL && n_keys > 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "the list of %zu keys is NULL",
                    n_keys);
  for (size_t i = 0; i < n_keys; i++) {
    status = check_key(keys[i], error);
    if (status == GLOO_OK) continue;
    if (n_keys > 1) gli_error_prefix(error, "key %zu of %zu: ", i, n_keys);
    return status;
  }
  return GLOO_OK;
}

/* Fetches, and adds a message to a timeout. */
static gloo_status store_api_fetch(gloo_store *store, const char *const *keys,
                                   size_t n_keys, int64_t timeout_ns,
                                   gloo_value *values, gloo_error *error) {
  gloo_status status = gli_timeout_of_start(timeout_ns, &timeout_ns, error);
  if (status != GLOO_OK) return status;
  if (timeout_ns == GLOO_TIMEOUT_NOW) timeout_ns = 0;
  bool single = false;
  bool *present = n_keys > 1 ? calloc(n_keys, sizeof(bool)) : &single;
  if (present == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory to wait for %zu keys", n_keys);
  status = gli_store_fetch(store, keys, n_keys, gli_deadline_after(timeout_ns),
                           values, present, error);
  if (status == GLOO_ERR_TIMEOUT) {
    size_t missing = 0;
    for (size_t i = 0; i < n_keys; i++) missing += present[i] ? 0 : 1;
    const char *noun = missing == 1 ? "key" : "keys";
    gli_long_text list = gli_missing_keys(keys, present, n_keys);
    if (timeout_ns == 0) {
      gli_fail(error, status, -1, "%s does not hold %s %s", store->label, noun,
               list.text);
    } else {
      gli_fail(error, status, -1, "%s %s did not appear in %s within %s", noun,
               list.text, store->label, gli_duration(timeout_ns).text);
    }
  }
  if (status != GLOO_OK && values != NULL)
    for (size_t i = 0; i < n_keys; i++) gli_value_free(&values[i]);
  if (present != &single) free(present);
  return status;
}

gloo_status gloo_store_set(gloo_store *store, const char *key, const void *data,
                           size_t bytes, gloo_error *error) {
  gloo_status status = check_keys(store, &key, 1, error);
  if (status == GLOO_OK) status = check_data(key, "value", data, bytes, error);
  if (status != GLOO_OK) return status;
  return gli_store_set(store, key, data, bytes, error);
}

gloo_status gloo_store_get(gloo_store *store, const char *key,
                           int64_t timeout_ns, gloo_value *value,
                           gloo_error *error) {
  gloo_status status = check_keys(store, &key, 1, error);
  if (status == GLOO_OK) status = check_result(value, "value", error);
  if (status != GLOO_OK) return status;
  gloo_value fetched = {NULL, 0};
  status = store_api_fetch(store, &key, 1, timeout_ns, &fetched, error);
  if (status == GLOO_OK) *value = fetched;
  return status;
}

gloo_status gloo_store_wait(gloo_store *store, const char *const *keys,
                            size_t n_keys, int64_t timeout_ns,
                            gloo_error *error) {
  gloo_status status = check_keys(store, keys, n_keys, error);
  if (status != GLOO_OK) return status;
  return store_api_fetch(store, keys, n_keys, timeout_ns, NULL, error);
}

gloo_status gloo_store_add(gloo_store *store, const char *key, int64_t amount,
                           int64_t *result, gloo_error *error) {
  gloo_status status = check_keys(store, &key, 1, error);
  if (status == GLOO_OK) status = check_result(result, "result", error);
  if (status != GLOO_OK) return status;
  return gli_store_add(store, key, amount, result, error);
}

gloo_status gloo_store_compare_and_set(gloo_store *store, const char *key,
                                       const void *expected,
                                       size_t expected_bytes,
                                       const void *desired,
                                       size_t desired_bytes,
                                       gloo_value *current, gloo_error *error) {
  gloo_status status = check_keys(store, &key, 1, error);
  if (status == GLOO_OK)
    status = check_data(key, "expected value", expected, expected_bytes, error);
  if (status == GLOO_OK)
    status = check_data(key, "desired value", desired, desired_bytes, error);
  if (status != GLOO_OK) return status;
  return gli_store_compare_and_set(store, key, expected, expected_bytes,
                                   desired, desired_bytes, current, error);
}

gloo_status gloo_store_multi_get(gloo_store *store, const char *const *keys,
                                 size_t n_keys, int64_t timeout_ns,
                                 gloo_value *values, gloo_error *error) {
  gloo_status status = check_keys(store, keys, n_keys, error);
  if (status == GLOO_OK && n_keys > 0)
    status = check_result(values, "values", error);
  if (status != GLOO_OK) return status;
  for (size_t i = 0; i < n_keys; i++) values[i] = (gloo_value){NULL, 0};
  return store_api_fetch(store, keys, n_keys, timeout_ns, values, error);
}

gloo_status gloo_store_multi_set(gloo_store *store, const char *const *keys,
                                 const gloo_value *values, size_t n_keys,
                                 gloo_error *error) {
  gloo_status status = check_keys(store, keys, n_keys, error);
  if (status != GLOO_OK) return status;
  if (values == NULL && n_keys > 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the list of %zu values is NULL", n_keys);
  for (size_t i = 0; i < n_keys; i++) {
    status =
        check_data(keys[i], "value", values[i].data, values[i].bytes, error);
    if (status != GLOO_OK) return status;
  }
  return gli_store_multi_set(store, keys, values, n_keys, error);
}

gloo_status gloo_store_append(gloo_store *store, const char *key,
                              const void *data, size_t bytes,
                              gloo_error *error) {
  gloo_status status = check_keys(store, &key, 1, error);
  if (status == GLOO_OK) status = check_data(key, "value", data, bytes, error);
  if (status != GLOO_OK) return status;
  return gli_store_append(store, key, data, bytes, error);
}

gloo_status gloo_store_delete(gloo_store *store, const char *key,
                              gloo_error *error) {
  gloo_status status = check_keys(store, &key, 1, error);
  if (status != GLOO_OK) return status;
  return gli_store_remove(store, key, error);
}

void gloo_store_destroy(gloo_store *store) {
  if (store == NULL) return;
  bool forked = gli_forked(&store->birth) && store->ops->abandon != NULL;
  gli_secret_release(&store->told);
  (forked ? store->ops->abandon : store->ops->destroy)(store);
}
