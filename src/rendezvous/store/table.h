/* Keys and values in memory: the heart of the memory store and of the TCP
 * server. Not locked: the owner sees to that. */
#ifndef GLI_RENDEZVOUS_STORE_TABLE_H
#define GLI_RENDEZVOUS_STORE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "gloo_c/store.h"

typedef struct gli_table gli_table;

/* Refuses (GLOO_ERR_NO_MEMORY) to hold more than that many keys, or that many
 * bytes of keys and values. */
gli_table *gli_table_create(size_t max_keys, uint64_t max_bytes);
void gli_table_destroy(gli_table *table);

/* Differs from table to table, and cannot be foreseen: see core/siphash.h. */
uint64_t gli_table_hash(const gli_table *table, const char *key);

/* Returns the value of `key`, valid until the table changes; NULL when absent.
 */
const gloo_value *gli_table_find(const gli_table *table, const char *key);

/* As in gli_store_ops. */
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
