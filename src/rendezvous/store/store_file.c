/* The store in a directory that all ranks share. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "core/options.h"
#include "rendezvous/store/file_store.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/value.h"

/* Interval at which a waiting rank polls; it grows from the first to the
 * second. */
#define PAUSE_MIN_NS ((int64_t)50000)
#define PAUSE_MAX_NS ((int64_t)10000000)
/* Interval at which a process with a will checks whether others have ended. It
 * grows with their number, because each reads the list of all. */
#define LOOK_NS ((int64_t)100000000)
#define LOOK_MORE_NS ((int64_t)1000000) /* per process */
/* Number of wills that a process tests when it leaves its own. */
#define LOOK_FIRST ((size_t)64)

typedef struct file_store {
  gloo_store base;
  gli_file_dir dir;              /* a visit has a copy of the store's */
  struct file_store *visited;    /* the store of a visit; NULL in a store */
  gli_file_will *will;           /* will of a visit; NULL if there is none */
  uint64_t look_ns;              /* time of the next check of other wills */
  _Atomic(gli_file_will *) kept; /* will between two visits */
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

/* Compares and sets with the lock held; `old` is the key's value, NULL if it is
 * absent. */
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
                      "out of memory for %zu bytes to append", bytes);
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

/* ---- waiting ------------------------------------------------------------- */

/* Reads values from *at on until a key is absent; without `values` it only
 * checks the keys. Returns GLOO_OK at the end. */
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

static void look_for_the_dead(file_store *self, size_t most) {
  uint64_t now = uv_hrtime();
  if (self->will == NULL || now < self->look_ns) return;
  size_t n = gli_file_will_look(&self->dir, self->will, most);
  self->look_ns = now + (uint64_t)LOOK_NS + n * (uint64_t)LOOK_MORE_NS;
}

/* Waits for the keys. `alarm` may be NULL. */
static gloo_status file_wait(file_store *self, const char *const *keys,
                             size_t n_keys, const char *alarm,
                             uint64_t deadline_ns, gloo_value *values,
                             bool *present, gloo_error *error) {
  int64_t pause_ns = PAUSE_MIN_NS;
  size_t at = 0;
  for (;;) {
    size_t before = at;
    gloo_status status = read_on(self, keys, n_keys, values, &at, error);
    if (status != GLOO_ERR_NOT_FOUND) return status;
    look_for_the_dead(self, 1);
    gloo_status rings = alarm != NULL
                            ? gli_file_exists(&self->dir, alarm, error)
                            : GLOO_ERR_NOT_FOUND;
    if (rings != GLOO_ERR_NOT_FOUND)
      return rings == GLOO_OK ? GLOO_ERR_POISONED : rings;
    int64_t left = gli_deadline_left(deadline_ns);
    if (left == 0) return look_at_all(self, keys, n_keys, present, error);
    if (at > before) pause_ns = PAUSE_MIN_NS;
    int64_t sleep_ns = left > 0 && left < pause_ns ? left : pause_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)sleep_ns}, NULL);
    pause_ns = pause_ns * 2 < PAUSE_MAX_NS ? pause_ns * 2 : PAUSE_MAX_NS;
  }
}

static gloo_status file_fetch(gloo_store *store, const char *const *keys,
                              size_t n_keys, uint64_t deadline_ns,
                              gloo_value *values, bool *present,
                              gloo_error *error) {
  return file_wait((file_store *)store, keys, n_keys, NULL, deadline_ns, values,
                   present, error);
}

static gloo_status file_await(gloo_store *store, const char *const *keys,
                              size_t n_keys, const char *alarm,
                              uint64_t deadline_ns, bool *present,
                              gloo_error *error) {
  return file_wait((file_store *)store, keys, n_keys, alarm, deadline_ns, NULL,
                   present, error);
}

/* ---- visits -------------------------------------------------------------- */

static gloo_status file_leave_will(gloo_store *store, const gli_will *will,
                                   gloo_error *error) {
  file_store *self = (file_store *)store;
  gli_file_will *left = NULL;
  if (will->n > 0) {
    gloo_status status = gli_file_will_leave(&self->dir, will, &left, error);
    if (status != GLOO_OK) return status;
  }
  if (self->will != NULL) gli_file_will_take_back(&self->dir, self->will);
  self->will = left;
  look_for_the_dead(self, LOOK_FIRST);
  return GLOO_OK;
}

static bool file_lasts(const gloo_store *store) {
  (void)store;
  return true;
}

#define FILE_OPS                                                  \
  .set = file_set, .fetch = file_fetch, .add = file_add,          \
  .compare_and_set = file_compare_and_set, .append = file_append, \
  .remove = file_remove, .await = file_await, .lasts = file_lasts

static void file_visit_destroy(gloo_store *store) {
  file_store *self = (file_store *)store;
  gli_file_will *before = NULL;
  if (self->will != NULL)
    before = atomic_exchange(&self->visited->kept, self->will);
  if (before != NULL) gli_file_will_take_back(&self->dir, before);
  free(self);
}

static const gli_store_ops file_visit_ops = {
    FILE_OPS, .leave_will = file_leave_will, .destroy = file_visit_destroy};

static gloo_status file_visit(gloo_store *store, uint64_t deadline_ns,
                              gloo_store **visit, gloo_error *error) {
  file_store *self = (file_store *)store;
  file_store *copy = calloc(1, sizeof *copy);
  if (copy == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  copy->base = self->base;
  copy->base.ops = &file_visit_ops;
  copy->dir = self->dir;
  if (!gli_add_u64(deadline_ns, (uint64_t)GLI_STORE_SLACK_NS,
                   &copy->dir.deadline_ns))
    copy->dir.deadline_ns = GLI_NEVER;
  copy->visited = self;
  copy->will = atomic_exchange(&self->kept, NULL);
  *visit = &copy->base;
  return GLOO_OK;
}

/* ---- the store ----------------------------------------------------------- */

static void file_destroy(gloo_store *store) {
  file_store *self = (file_store *)store;
  if (self->kept != NULL) gli_file_will_take_back(&self->dir, self->kept);
  gli_file_dir_close(&self->dir);
  free(self);
}

static void file_abandon(gloo_store *store) {
  file_store *self = (file_store *)store;
  if (self->kept != NULL) gli_file_will_abandon(self->kept);
  gli_file_dir_close(&self->dir);
  free(self);
}

static const gli_store_ops file_ops = {FILE_OPS, .visit = file_visit,
                                       .destroy = file_destroy,
                                       .abandon = file_abandon};

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
                    store == NULL ? "`store` must not be NULL"
                                  : "the file store needs a directory");
  size_t bytes = strlen(options.directory);
  file_store *self = calloc(1, sizeof *self + bytes + 1);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  memcpy(self->path, options.directory, bytes + 1);
  /* A trailing slash would follow a symbolic link. */
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
