/* The store in a directory that all ranks can reach. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/options.h"
#include "rendezvous/file_store.h"
#include "rendezvous/store.h"
#include "rendezvous/value.h"

/* A waiting rank looks at first this often, then less and less. */
#define PAUSE_MIN_NS ((int64_t)50000)
#define PAUSE_MAX_NS ((int64_t)10000000)

typedef struct file_store {
  gloo_store base;
  gli_file_dir dir;
  char path[];
} file_store;

static gloo_status file_set(gloo_store *store, const char *key,
                            const void *data, size_t bytes, gloo_error *error) {
  file_store *self = (file_store *)store;
  int lock;
  gloo_status status = gli_file_lock(&self->dir, &lock, error);
  if (status != GLOO_OK) return status;
  status = gli_file_write(&self->dir, key, data, bytes, error);
  gli_file_unlock(lock);
  return status;
}

static gloo_status file_add(gloo_store *store, const char *key, int64_t amount,
                            int64_t *result, gloo_error *error) {
  file_store *self = (file_store *)store;
  gloo_value old = {NULL, 0};
  char decimal[GLI_DECIMAL_BYTES];
  int64_t sum = 0;
  int lock;
  gloo_status status = gli_file_lock(&self->dir, &lock, error);
  if (status != GLOO_OK) return status;
  status = gli_file_read(&self->dir, key, &old, error);
  if (status == GLOO_OK || status == GLOO_ERR_NOT_FOUND)
    status = gli_value_add(key, status == GLOO_OK ? &old : NULL, amount, &sum,
                           decimal, error);
  if (status == GLOO_OK)
    status = gli_file_write(&self->dir, key, decimal, strlen(decimal), error);
  gli_file_unlock(lock);
  gli_value_free(&old);
  if (status == GLOO_OK) *result = sum;
  return status;
}

/* The locked part; `old` is what the key holds, NULL when it is absent. */
static gloo_status swap_locked(file_store *self, const char *key,
                               const gloo_value *old, const void *expected,
                               size_t expected_bytes, const void *desired,
                               size_t desired_bytes, gloo_value *current,
                               gloo_error *error) {
  bool matches = gli_value_matches(old, expected, expected_bytes);
  gloo_value now = {NULL, 0};
  gloo_status status = GLOO_OK;
  if (current != NULL && matches) {
    status = gli_value_copy(desired, desired_bytes, &now, error);
  } else if (current != NULL && old != NULL) {
    status = gli_value_copy(old->data, old->bytes, &now, error);
  }
  if (status == GLOO_OK && matches)
    status = gli_file_write(&self->dir, key, desired, desired_bytes, error);
  if (status != GLOO_OK) {
    gli_value_free(&now);
    return status;
  }
  if (current != NULL) *current = now;
  return matches ? GLOO_OK : GLOO_ERR_COMPARE;
}

static gloo_status file_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error) {
  file_store *self = (file_store *)store;
  gloo_value old = {NULL, 0};
  int lock;
  gloo_status status = gli_file_lock(&self->dir, &lock, error);
  if (status != GLOO_OK) return status;
  status = gli_file_read(&self->dir, key, &old, error);
  if (status == GLOO_OK || status == GLOO_ERR_NOT_FOUND)
    status =
        swap_locked(self, key, status == GLOO_OK ? &old : NULL, expected,
                    expected_bytes, desired, desired_bytes, current, error);
  gli_file_unlock(lock);
  gli_value_free(&old);
  return status;
}

static gloo_status append_locked(file_store *self, const char *key,
                                 const void *data, size_t bytes,
                                 gloo_error *error) {
  gloo_value old = {NULL, 0};
  char *joined = NULL;
  gloo_status status = gli_file_read(&self->dir, key, &old, error);
  if (status != GLOO_OK && status != GLOO_ERR_NOT_FOUND) return status;
  status = gli_value_append_check(key, old.bytes, bytes, error);
  if (status != GLOO_OK) goto free_old;
  joined = malloc(old.bytes + bytes + 1);
  if (joined == NULL) {
    status = gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "no memory to append %zu bytes", bytes);
    goto free_old;
  }
  if (old.bytes > 0) memcpy(joined, old.data, old.bytes);
  if (bytes > 0) memcpy(joined + old.bytes, data, bytes);
  status = gli_file_write(&self->dir, key, joined, old.bytes + bytes, error);
  free(joined);

free_old:
  gli_value_free(&old);
  return status;
}

static gloo_status file_append(gloo_store *store, const char *key,
                               const void *data, size_t bytes,
                               gloo_error *error) {
  file_store *self = (file_store *)store;
  int lock;
  gloo_status status = gli_file_lock(&self->dir, &lock, error);
  if (status != GLOO_OK) return status;
  status = append_locked(self, key, data, bytes, error);
  gli_file_unlock(lock);
  return status;
}

static gloo_status file_remove(gloo_store *store, const char *key,
                               gloo_error *error) {
  file_store *self = (file_store *)store;
  int lock;
  gloo_status status = gli_file_lock(&self->dir, &lock, error);
  if (status != GLOO_OK) return status;
  status = gli_file_remove(&self->dir, key, error);
  gli_file_unlock(lock);
  return status;
}

/* ---- waiting ------------------------------------------------------------ */

/* Read values from *at on, until one is absent; without `values` just look.
 * GLOO_OK when the end was reached. */
static gloo_status read_on(file_store *self, const char *const *keys,
                           size_t n_keys, gloo_value *values, size_t *at,
                           gloo_error *error) {
  gloo_status status = GLOO_OK;
  while (*at < n_keys) {
    status = values == NULL
                 ? gli_file_exists(&self->dir, keys[*at], error)
                 : gli_file_read(&self->dir, keys[*at], &values[*at], error);
    if (status != GLOO_OK) return status;
    (*at)++;
  }
  return status;
}

static gloo_status look_at_all(file_store *self, const char *const *keys,
                               size_t n_keys, bool *present,
                               gloo_error *error) {
  for (size_t i = 0; i < n_keys; i++) {
    gloo_status status = gli_file_exists(&self->dir, keys[i], error);
    if (status != GLOO_OK && status != GLOO_ERR_NOT_FOUND) return status;
    present[i] = status == GLOO_OK;
  }
  return GLOO_ERR_TIMEOUT;
}

static gloo_status file_fetch(gloo_store *store, const char *const *keys,
                              size_t n_keys, uint64_t deadline_ns,
                              gloo_value *values, bool *present,
                              gloo_error *error) {
  file_store *self = (file_store *)store;
  int64_t pause_ns = PAUSE_MIN_NS;
  size_t at = 0;
  for (;;) {
    size_t before = at;
    gloo_status status = read_on(self, keys, n_keys, values, &at, error);
    if (status != GLOO_ERR_NOT_FOUND) return status;
    int64_t left = gli_deadline_left(deadline_ns);
    if (left == 0) return look_at_all(self, keys, n_keys, present, error);
    if (at > before) pause_ns = PAUSE_MIN_NS;
    int64_t sleep_ns = left > 0 && left < pause_ns ? left : pause_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)sleep_ns}, NULL);
    pause_ns = pause_ns * 2 < PAUSE_MAX_NS ? pause_ns * 2 : PAUSE_MAX_NS;
  }
}

/* ---- the store ---------------------------------------------------------- */

static void file_destroy(gloo_store *store) {
  file_store *self = (file_store *)store;
  gli_file_dir_close(&self->dir);
  free(self);
}

static const gli_store_ops file_ops = {
    .set = file_set,
    .fetch = file_fetch,
    .add = file_add,
    .compare_and_set = file_compare_and_set,
    .append = file_append,
    .remove = file_remove,
    .destroy = file_destroy,
};

gloo_status gloo_store_file_create(const gloo_store_file_options *given,
                                   gloo_store **store, gloo_error *error) {
  gloo_store_file_options options;
  gloo_status status = gli_options_load(&options, sizeof options, given,
                                        "gloo_store_file_options", error);
  if (status == GLOO_OK) status = gli_job_check(&options.job, error);
  if (status != GLOO_OK) return status;
  if (options.directory == NULL || options.directory[0] == '\0' ||
      store == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    store == NULL
                        ? "store is NULL: there is nowhere to put the result"
                        : "the file store needs a directory");
  size_t bytes = strlen(options.directory);
  file_store *self = calloc(1, sizeof *self + bytes + 1);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  memcpy(self->path, options.directory, bytes + 1);
  /* A slash at the end would follow a symbolic link. */
  while (bytes > 1 && self->path[bytes - 1] == '/') self->path[--bytes] = '\0';
  self->base.ops = &file_ops;
  self->base.birth = gli_birth_here();
  snprintf(self->base.label, sizeof self->base.label,
           "the file store in %.200s", self->path);
  status = gli_file_dir_open(self->path, options.job, options.epoch, &self->dir,
                             error);
  if (status != GLOO_OK) {
    free(self);
    return status;
  }
  *store = &self->base;
  return GLOO_OK;
}
