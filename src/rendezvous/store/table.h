/* A hash table of the memory store and the TCP server. The owner locks it. */
#ifndef GLI_RENDEZVOUS_STORE_TABLE_H
#define GLI_RENDEZVOUS_STORE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "gloo_c/store.h"

typedef struct gli_table gli_table;

/* Creates a table. It refuses (GLOO_ERR_NO_MEMORY) more keys, or more bytes of
 * keys and values, than the limits. */
gli_table *gli_table_create(size_t max_keys, uint64_t max_bytes);
void gli_table_destroy(gli_table *table);

/* Returns a hash that differs between tables and is unpredictable, see
 * core/siphash.h. */
uint64_t gli_table_hash(const gli_table *table, const char *key);

/* Returns the value of `key`, valid until the table changes; NULL if absent. */
const gloo_value *gli_table_find(const gli_table *table, const char *key);

/* The operations of gli_store_ops. */
gloo_status gli_table_set(gli_table *table, const char *key, const void *data,
                          size_t bytes, gloo_error *error);
gloo_status gli_table_add(gli_table *table, const char *key, int64_t amount,
                          int64_t *result, gloo_error *error);
gloo_status gli_table_compare_and_set(gli_table *table, const char *key,
                                      const void *expected,
                                      size_t expected_bytes,
                                      const void *desired, size_t desired_bytes,
                                      gloo_value *current, gloo_error *error);
gloo_status gli_table_append(gli_table *table, const char *key,
                             const void *data, size_t bytes, gloo_error *error);
gloo_status gli_table_remove(gli_table *table, const char *key);

#endif
