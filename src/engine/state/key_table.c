#include "engine/state/key_table.h"

#include <stdlib.h>

/* The factor of growth: with a large one, few entries move more than once. */
enum { KEY_TABLE_GROWTH = 4 };

/* Consecutive numbers of one tag fill consecutive slots, which share a few
 * cache lines. Everything else is mixed, because programs count tags and
 * persistent requests in steps of any kind. */
static size_t key_table_hash(gli_key key) {
  uint64_t mixed = (uint64_t)key.rank << 32 | key.tag;
  mixed = (mixed ^ mixed >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
  mixed ^= key.operation >> 32;
  mixed = (mixed ^ mixed >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)((mixed ^ mixed >> 31) + (uint32_t)key.operation);
}

size_t gli_key_table_slots(const gli_key_table *table) {
  return table->more != NULL ? table->n_more : GLI_BUCKETS;
}

gli_keyed *gli_key_table_slot(const gli_key_table *table, size_t slot) {
  return table->more != NULL ? table->more[slot] : table->few[slot];
}

static gli_keyed **key_table_slot_of(gli_key_table *table, gli_key key) {
  size_t slot = key_table_hash(key) & (gli_key_table_slots(table) - 1);
  return table->more != NULL ? &table->more[slot] : &table->few[slot];
}

static void key_table_push(gli_keyed **slot, gli_keyed *entry) {
  entry->next = *slot;
  entry->at = slot;
  if (*slot != NULL) (*slot)->at = &entry->next;
  *slot = entry;
}

static void key_table_grow(gli_key_table *table) {
  size_t n_old = gli_key_table_slots(table);
  gli_keyed **old = table->more != NULL ? table->more : table->few;
  gli_keyed **more = calloc(n_old, KEY_TABLE_GROWTH * sizeof(gli_keyed *));
  if (more == NULL) return; /* slower, but correct */
  size_t n_more = n_old * KEY_TABLE_GROWTH;
  for (size_t i = 0; i < n_old; i++) {
    while (old[i] != NULL) {
      gli_keyed *entry = old[i];
      old[i] = entry->next;
      key_table_push(&more[key_table_hash(entry->key) & (n_more - 1)], entry);
    }
  }
  free(table->more);
  table->more = more;
  table->n_more = n_more;
}

void gli_key_table_add(gli_key_table *table, gli_keyed *entry, gli_key key) {
  if (table->n >= gli_key_table_slots(table)) key_table_grow(table);
  entry->key = key;
  key_table_push(key_table_slot_of(table, key), entry);
  table->n++;
}

/* Removes an entry. A table that was large shrinks once it is empty. */
void gli_key_table_remove(gli_key_table *table, gli_keyed *entry) {
  *entry->at = entry->next;
  if (entry->next != NULL) entry->next->at = entry->at;
  entry->at = NULL;
  entry->next = NULL;
  if (--table->n > 0 || table->more == NULL) return;
  free(table->more);
  table->more = NULL;
}

gli_keyed *gli_key_table_find(const gli_key_table *table, gli_key key) {
  size_t slot = key_table_hash(key) & (gli_key_table_slots(table) - 1);
  gli_keyed *entry = gli_key_table_slot(table, slot);
  while (entry != NULL && !gli_keys_equal(entry->key, key)) entry = entry->next;
  return entry;
}

gli_keyed *gli_key_table_find_next(const gli_keyed *entry) {
  gli_keyed *next = entry->next;
  while (next != NULL && !gli_keys_equal(next->key, entry->key))
    next = next->next;
  return next;
}
