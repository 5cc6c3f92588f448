/* Dispatch of operations to the store's implementation; unsupported ones are
 * refused. */
#include "rendezvous/store/store.h"

#include <string.h>
#include <uv.h>

#include "core/text.h"

static gloo_status store_unsupported(const gloo_store *store,
                                     const char *operation, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "%s does not support %s",
                  store->label, operation);
}

static gloo_status check_process(const gloo_store *store, gloo_error *error) {
  if (!gli_forked(&store->birth)) return GLOO_OK;
  return gli_fork_refuse(&store->birth, store->label, error);
}

gloo_status gli_store_set(gloo_store *store, const char *key, const void *data,
                          size_t bytes, gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK) return status;
  return store->ops->set(store, key, data, bytes, error);
}

gloo_status gli_store_fetch(gloo_store *store, const char *const *keys,
                            size_t n_keys, uint64_t deadline_ns,
                            gloo_value *values, bool *present,
                            gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK || n_keys == 0) return status;
  return store->ops->fetch(store, keys, n_keys, deadline_ns, values, present,
                           error);
}

gloo_status gli_store_multi_set(gloo_store *store, const char *const *keys,
                                const gloo_value *values, size_t n_keys,
                                gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK || n_keys == 0) return status;
  if (store->ops->multi_set != NULL)
    return store->ops->multi_set(store, keys, values, n_keys, error);
  for (size_t i = 0; i < n_keys && status == GLOO_OK; i++) {
    status =
        store->ops->set(store, keys[i], values[i].data, values[i].bytes, error);
  }
  return status;
}

gloo_status gli_store_add(gloo_store *store, const char *key, int64_t amount,
                          int64_t *result, gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK) return status;
  if (store->ops->add == NULL) return store_unsupported(store, "add", error);
  return store->ops->add(store, key, amount, result, error);
}

gloo_status gli_store_compare_and_set(gloo_store *store, const char *key,
                                      const void *expected,
                                      size_t expected_bytes,
                                      const void *desired, size_t desired_bytes,
                                      gloo_value *current, gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK) return status;
  if (store->ops->compare_and_set == NULL)
    return store_unsupported(store, "compare_and_set", error);
  status = store->ops->compare_and_set(store, key, expected, expected_bytes,
                                       desired, desired_bytes, current, error);
  if (status != GLOO_ERR_COMPARE) return status;
  return gli_fail(error, status, -1,
                  "key '%s' in %s does not hold the expected value",
                  gli_quote(key).text, store->label);
}

gloo_status gli_store_append(gloo_store *store, const char *key,
                             const void *data, size_t bytes,
                             gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK) return status;
  if (store->ops->append == NULL)
    return store_unsupported(store, "append", error);
  return store->ops->append(store, key, data, bytes, error);
}

gloo_status gli_store_remove(gloo_store *store, const char *key,
                             gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK) return status;
  if (store->ops->remove == NULL)
    return store_unsupported(store, "delete", error);
  status = store->ops->remove(store, key, error);
  if (status != GLOO_ERR_NOT_FOUND) return status;
  return gli_fail(error, status, -1,
                  "cannot delete key '%s': %s does not have it",
                  gli_quote(key).text, store->label);
}

bool gli_store_serves(const gloo_store *store) {
  return store->ops->serves != NULL && store->ops->serves(store);
}

bool gli_store_was_first(const gloo_store *store) {
  return store->ops->was_first != NULL && store->ops->was_first(store);
}

/* ---- rendezvous ---------------------------------------------------------- */

#define AWAIT_MIN_NS ((int64_t)100000000)
#define AWAIT_MAX_NS ((int64_t)500000000)

/* Waits in a store without `await`: polls the keys and the alarm. */
static gloo_status store_await_by_looking(gloo_store *store,
                                          const char *const *keys,
                                          size_t n_keys, const char *alarm,
                                          uint64_t deadline_ns, bool *present,
                                          gloo_error *error) {
  int64_t look_ns = AWAIT_MIN_NS;
  for (;;) {
    uint64_t until = gli_deadline_after(look_ns);
    bool last = until >= deadline_ns, rings;
    gloo_status status = store->ops->fetch(
        store, keys, n_keys, last ? deadline_ns : until, NULL, present, error);
    if (status != GLOO_ERR_TIMEOUT) return status;
    gloo_status alarmed =
        store->ops->fetch(store, &alarm, 1, 0, NULL, &rings, error);
    if (alarmed == GLOO_OK) return GLOO_ERR_POISONED;
    if (alarmed != GLOO_ERR_TIMEOUT) return alarmed;
    if (last) return status;
    look_ns = look_ns * 2 < AWAIT_MAX_NS ? look_ns * 2 : AWAIT_MAX_NS;
  }
}

gloo_status gli_store_await(gloo_store *store, const char *const *keys,
                            size_t n_keys, const char *alarm,
                            uint64_t deadline_ns, bool *present,
                            gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK || n_keys == 0) return status;
  return (store->ops->await != NULL ? store->ops->await
                                    : store_await_by_looking)(
      store, keys, n_keys, alarm, deadline_ns, present, error);
}

gloo_status gli_store_visit(gloo_store *store, uint64_t deadline_ns,
                            gloo_store **visit, gloo_error *error) {
  gloo_status status = check_process(store, error);
  if (status != GLOO_OK) return status;
  *visit = store;
  if (store->ops->visit == NULL) return GLOO_OK;
  return store->ops->visit(store, deadline_ns, visit, error);
}

void gli_store_visit_end(gloo_store *visit, gloo_store *store) {
  if (visit != store) visit->ops->destroy(visit);
}

gloo_status gli_store_leave_will(gloo_store *visit, const gli_will *will,
                                 gloo_error *error) {
  if (visit->ops->leave_will == NULL) return GLOO_OK;
  return visit->ops->leave_will(visit, will, error);
}

bool gli_store_lasts(const gloo_store *store) {
  return store->ops->lasts != NULL && store->ops->lasts(store);
}

gloo_status gli_job_check(const char **job, gloo_error *error) {
  if (*job == NULL) *job = "";
  size_t bytes = strlen(*job);
  if (bytes <= GLI_JOB_MAX) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the job name has %zu bytes; the limit is %zu", bytes,
                  GLI_JOB_MAX);
}
