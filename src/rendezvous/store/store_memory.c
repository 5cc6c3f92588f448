/* The store of one process: a table, a lock and a condition. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "rendezvous/store/store.h"
#include "rendezvous/store/table.h"
#include "rendezvous/store/value.h"

typedef struct memory_store {
  gloo_store base;
  uv_mutex_t lock;
  uv_cond_t changed; /* signalled when a key was created */
  gli_table *table;
  gli_fork_guard forks;
} memory_store;

static gloo_status memory_set(gloo_store *store, const char *key,
                              const void *data, size_t bytes,
                              gloo_error *error) {
  memory_store *self = (memory_store *)store;
  uv_mutex_lock(&self->lock);
  gloo_status status = gli_table_set(self->table, key, data, bytes, error);
  uv_cond_broadcast(&self->changed);
  uv_mutex_unlock(&self->lock);
  return status;
}

/* Returns the index of the first absent key from `from` on, or n_keys. */
static size_t first_missing(const memory_store *self, const char *const *keys,
                            size_t n_keys, size_t from) {
  while (from < n_keys && gli_table_find(self->table, keys[from]) != NULL)
    from++;
  return from;
}

/* Waits, with the lock held, until all keys exist at one time: a key that
 * existed may have been deleted since. Returns GLOO_ERR_POISONED if keys are
 * missing and `alarm` (may be NULL) exists. */
static gloo_status wait_locked(memory_store *self, const char *const *keys,
                               size_t n_keys, const char *alarm,
                               uint64_t deadline_ns) {
  const int64_t longest = 3600 * (int64_t)1000000000;
  size_t missing = 0;
  for (;;) {
    missing = first_missing(self, keys, n_keys, missing);
    if (missing == n_keys) missing = first_missing(self, keys, n_keys, 0);
    if (missing == n_keys) return GLOO_OK;
    if (alarm != NULL && gli_table_find(self->table, alarm) != NULL)
      return GLOO_ERR_POISONED;
    int64_t left = gli_deadline_left(deadline_ns);
    if (left == 0) return GLOO_ERR_TIMEOUT;
    if (left < 0 || left > longest) left = longest;
    uv_cond_timedwait(&self->changed, &self->lock, (uint64_t)left);
  }
}

static void look_locked(const memory_store *self, const char *const *keys,
                        size_t n_keys, bool *present) {
  for (size_t i = 0; i < n_keys; i++)
    present[i] = gli_table_find(self->table, keys[i]) != NULL;
}

static gloo_status memory_await(gloo_store *store, const char *const *keys,
                                size_t n_keys, const char *alarm,
                                uint64_t deadline_ns, bool *present,
                                gloo_error *error) {
  memory_store *self = (memory_store *)store;
  (void)error;
  uv_mutex_lock(&self->lock);
  gloo_status status = wait_locked(self, keys, n_keys, alarm, deadline_ns);
  if (status == GLOO_ERR_TIMEOUT) look_locked(self, keys, n_keys, present);
  uv_mutex_unlock(&self->lock);
  return status;
}

static gloo_status memory_fetch(gloo_store *store, const char *const *keys,
                                size_t n_keys, uint64_t deadline_ns,
                                gloo_value *values, bool *present,
                                gloo_error *error) {
  memory_store *self = (memory_store *)store;
  uv_mutex_lock(&self->lock);
  gloo_status status = wait_locked(self, keys, n_keys, NULL, deadline_ns);
  if (status == GLOO_ERR_TIMEOUT) look_locked(self, keys, n_keys, present);
  for (size_t i = 0; i < n_keys && values != NULL && status == GLOO_OK; i++) {
    const gloo_value *found = gli_table_find(self->table, keys[i]);
    status = gli_value_copy(found->data, found->bytes, &values[i], error);
  }
  uv_mutex_unlock(&self->lock);
  return status;
}

static gloo_status memory_add(gloo_store *store, const char *key,
                              int64_t amount, int64_t *result,
                              gloo_error *error) {
  memory_store *self = (memory_store *)store;
  uv_mutex_lock(&self->lock);
  gloo_status status = gli_table_add(self->table, key, amount, result, error);
  uv_cond_broadcast(&self->changed);
  uv_mutex_unlock(&self->lock);
  return status;
}

static gloo_status memory_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error) {
  memory_store *self = (memory_store *)store;
  uv_mutex_lock(&self->lock);
  gloo_status status =
      gli_table_compare_and_set(self->table, key, expected, expected_bytes,
                                desired, desired_bytes, current, error);
  uv_cond_broadcast(&self->changed);
  uv_mutex_unlock(&self->lock);
  return status;
}

static gloo_status memory_append(gloo_store *store, const char *key,
                                 const void *data, size_t bytes,
                                 gloo_error *error) {
  memory_store *self = (memory_store *)store;
  uv_mutex_lock(&self->lock);
  gloo_status status = gli_table_append(self->table, key, data, bytes, error);
  uv_cond_broadcast(&self->changed);
  uv_mutex_unlock(&self->lock);
  return status;
}

static gloo_status memory_remove(gloo_store *store, const char *key,
                                 gloo_error *error) {
  memory_store *self = (memory_store *)store;
  (void)error;
  uv_mutex_lock(&self->lock);
  gloo_status status = gli_table_remove(self->table, key);
  uv_mutex_unlock(&self->lock);
  return status;
}

/* ---- the store ----------------------------------------------------------- */

static void memory_destroy(gloo_store *store) {
  memory_store *self = (memory_store *)store;
  gli_fork_guard_end(&self->forks);
  if (self->forks.torn) return;
  gli_table_destroy(self->table);
  uv_cond_destroy(&self->changed);
  uv_mutex_destroy(&self->lock);
  free(self);
}

static const gli_store_ops memory_ops = {
    .set = memory_set,
    .fetch = memory_fetch,
    .await = memory_await,
    .add = memory_add,
    .compare_and_set = memory_compare_and_set,
    .append = memory_append,
    .remove = memory_remove,
    .destroy = memory_destroy,
};

gloo_status gloo_store_memory_create(gloo_store **store, gloo_error *error) {
  if (store == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "`store` must not be NULL");
  memory_store *self = calloc(1, sizeof *self);
  if (self == NULL) goto no_memory;
  self->base.ops = &memory_ops;
  self->base.birth = gli_birth_here();
  strcpy(self->base.label, "the memory store");
  self->table = gli_table_create(SIZE_MAX, UINT64_MAX);
  if (self->table == NULL) goto free_self;
  if (uv_mutex_init(&self->lock) != 0) goto destroy_table;
  if (uv_cond_init(&self->changed) != 0) goto destroy_lock;
  if (!gli_fork_guard_begin(&self->forks, GLI_FORK_OBJECTS, &self->lock,
                            &self->changed))
    goto destroy_condition;
  *store = &self->base;
  return GLOO_OK;

destroy_condition:
  uv_cond_destroy(&self->changed);
destroy_lock:
  uv_mutex_destroy(&self->lock);
destroy_table:
  gli_table_destroy(self->table);
free_self:
  free(self);
no_memory:
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
}
