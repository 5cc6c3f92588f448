#include "rendezvous/store/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/random.h"
#include "core/siphash.h"
#include "core/text.h"
#include "rendezvous/store/value.h"

typedef struct entry {
  struct entry *next;
  uint64_t hash;
  gloo_value value;
  char key[];
} entry;

struct gli_table {
  entry **buckets;
  size_t n_buckets; /* a power of two */
  size_t n_keys, max_keys;
  uint64_t bytes, max_bytes; /* size of keys and values */
  gli_siphash_key seed;
};

/* Draws a seed. Without a source of randomness it uses values that others can
 * only guess. */
static void table_make_seed(gli_table *table) {
  const char *what;
  uint64_t guess[2] = {(uint64_t)(uintptr_t)table, uv_hrtime()};
  if (gli_random(table->seed.bytes, sizeof table->seed.bytes, &what) != 0)
    memcpy(table->seed.bytes, guess, sizeof guess);
}

gli_table *gli_table_create(size_t max_keys, uint64_t max_bytes) {
  gli_table *table = calloc(1, sizeof *table);
  if (table == NULL) return NULL;
  table->n_buckets = 64;
  table->max_keys = max_keys;
  table->max_bytes = max_bytes;
  table_make_seed(table);
  table->buckets = calloc(table->n_buckets, sizeof(entry *));
  if (table->buckets != NULL) return table;
  free(table);
  return NULL;
}

void gli_table_destroy(gli_table *table) {
  for (size_t i = 0; i < table->n_buckets; i++) {
    for (entry *e = table->buckets[i], *next; e != NULL; e = next) {
      next = e->next;
      gli_value_free(&e->value);
      free(e);
    }
  }
  free(table->buckets);
  free(table);
}

uint64_t gli_table_hash(const gli_table *table, const char *key) {
  return gli_siphash(&table->seed, key, strlen(key));
}

/* Returns the slot that has, or would have, the entry of `key`. */
static entry **table_slot_of(const gli_table *table, const char *key,
                             uint64_t hash) {
  entry **slot = &table->buckets[hash & (table->n_buckets - 1)];
  while (*slot != NULL &&
         ((*slot)->hash != hash || strcmp((*slot)->key, key) != 0))
    slot = &(*slot)->next;
  return slot;
}

const gloo_value *gli_table_find(const gli_table *table, const char *key) {
  const entry *e = *table_slot_of(table, key, gli_table_hash(table, key));
  return e == NULL ? NULL : &e->value;
}

/* Doubles the buckets; without memory the chains get longer instead. */
static void table_grow(gli_table *table) {
  size_t n = table->n_buckets * 2;
  entry **buckets = calloc(n, sizeof(entry *));
  if (buckets == NULL) return;
  for (size_t i = 0; i < table->n_buckets; i++) {
    for (entry *e = table->buckets[i], *next; e != NULL; e = next) {
      next = e->next;
      e->next = buckets[e->hash & (n - 1)];
      buckets[e->hash & (n - 1)] = e;
    }
  }
  free(table->buckets);
  table->buckets = buckets;
  table->n_buckets = n;
}

static gloo_status check_room(const gli_table *table, const char *key,
                              size_t old_bytes, size_t new_bytes, bool new_key,
                              gloo_error *error) {
  if (new_key && table->n_keys >= table->max_keys)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no room for key '%s': the store holds its maximum of %zu "
                    "keys",
                    gli_quote(key).text, table->max_keys);
  size_t key_bytes = new_key ? strlen(key) : 0;
  uint64_t rest = table->bytes - old_bytes;
  if (!gli_in_bounds(rest, (uint64_t)key_bytes + new_bytes, table->max_bytes))
    return gli_fail(
        error, GLOO_ERR_NO_MEMORY, -1,
        "no room for %zu bytes under key '%s': the store holds %llu "
        "of at most %llu bytes",
        new_bytes, gli_quote(key).text, (unsigned long long)table->bytes,
        (unsigned long long)table->max_bytes);
  return GLOO_OK;
}

/* Returns the entry of `key`, and creates it with an empty value if needed. */
static entry *entry_of(gli_table *table, const char *key) {
  uint64_t hash = gli_table_hash(table, key);
  entry **slot = table_slot_of(table, key, hash);
  if (*slot != NULL) return *slot;
  size_t key_bytes = strlen(key);
  entry *e = malloc(sizeof *e + key_bytes + 1);
  if (e == NULL) return NULL;
  e->next = NULL;
  e->hash = hash;
  e->value = (gloo_value){NULL, 0};
  memcpy(e->key, key, key_bytes + 1);
  *slot = e;
  table->n_keys++;
  table->bytes += key_bytes;
  if (table->n_keys > table->n_buckets) table_grow(table);
  return e;
}

gloo_status gli_table_set(gli_table *table, const char *key, const void *data,
                          size_t bytes, gloo_error *error) {
  const gloo_value *old = gli_table_find(table, key);
  gloo_value value;
  gloo_status status = check_room(table, key, old == NULL ? 0 : old->bytes,
                                  bytes, old == NULL, error);
  if (status == GLOO_OK) status = gli_value_copy(data, bytes, &value, error);
  if (status != GLOO_OK) return status;
  entry *e = entry_of(table, key);
  if (e == NULL) {
    gli_value_free(&value);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for key '%s'",
                    gli_quote(key).text);
  }
  table->bytes = table->bytes - e->value.bytes + bytes;
  gli_value_free(&e->value);
  e->value = value;
  return GLOO_OK;
}

gloo_status gli_table_add(gli_table *table, const char *key, int64_t amount,
                          int64_t *result, gloo_error *error) {
  char decimal[GLI_DECIMAL_BYTES];
  int64_t sum;
  gloo_status status = gli_value_add(key, gli_table_find(table, key), amount,
                                     &sum, decimal, error);
  if (status == GLOO_OK)
    status = gli_table_set(table, key, decimal, strlen(decimal), error);
  if (status == GLOO_OK) *result = sum;
  return status;
}

gloo_status gli_table_compare_and_set(gli_table *table, const char *key,
                                      const void *expected,
                                      size_t expected_bytes,
                                      const void *desired, size_t desired_bytes,
                                      gloo_value *current, gloo_error *error) {
  const gloo_value *old = gli_table_find(table, key);
  bool matches = gli_value_matches(old, expected, expected_bytes);
  gloo_value copy = {NULL, 0};
  gloo_status status = GLOO_OK;
  if (current != NULL && matches) {
    status = gli_value_copy(desired, desired_bytes, &copy, error);
  } else if (current != NULL && old != NULL) {
    status = gli_value_copy(old->data, old->bytes, &copy, error);
  }
  if (status == GLOO_OK && matches)
    status = gli_table_set(table, key, desired, desired_bytes, error);
  if (status != GLOO_OK) {
    gli_value_free(&copy);
    return status;
  }
  if (current != NULL) *current = copy;
  return matches ? GLOO_OK : GLOO_ERR_COMPARE;
}

gloo_status gli_table_append(gli_table *table, const char *key,
                             const void *data, size_t bytes,
                             gloo_error *error) {
  const gloo_value *old = gli_table_find(table, key);
  if (old == NULL) return gli_table_set(table, key, data, bytes, error);
  if (bytes == 0) return GLOO_OK;
  gloo_status status = gli_value_append_check(key, old->bytes, bytes, error);
  if (status == GLOO_OK)
    status = check_room(table, key, 0, bytes, false, error);
  if (status != GLOO_OK) return status;
  entry *e = entry_of(table, key); /* existing, so this cannot fail */
  char *joined = realloc(e->value.data, e->value.bytes + bytes);
  if (joined == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %zu bytes to append to key '%s'", bytes,
                    gli_quote(key).text);
  memcpy(joined + e->value.bytes, data, bytes);
  e->value.data = joined;
  e->value.bytes += bytes;
  table->bytes += bytes;
  return GLOO_OK;
}

gloo_status gli_table_remove(gli_table *table, const char *key) {
  entry **slot = table_slot_of(table, key, gli_table_hash(table, key));
  entry *e = *slot;
  if (e == NULL) return GLOO_ERR_NOT_FOUND;
  *slot = e->next;
  table->n_keys--;
  table->bytes -= strlen(key) + e->value.bytes;
  gli_value_free(&e->value);
  free(e);
  return GLOO_OK;
}
