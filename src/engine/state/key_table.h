/* Hash tables by key: pending operations, and messages that arrived before
 * theirs.
 *
 * A chained hash table whose number of slots follows the number of entries, so
 * that a lookup takes the same time with 5 entries as with a million. Entries
 * are members of the structs that they stand for. Zeros are an empty table; the
 * first slots are part of it, and if there is no memory for more, its chains
 * get longer. */
#ifndef GLI_ENGINE_STATE_KEY_TABLE_H
#define GLI_ENGINE_STATE_KEY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The key of an operation: collectives by tag and number, receives by the rank,
 * tag and number of their message. */
typedef struct gli_key {
  uint32_t rank; /* GLI_NO_RANK for a collective */
  uint32_t tag;
  uint64_t operation;
} gli_key;

#define GLI_NO_RANK UINT32_MAX

static inline bool gli_keys_equal(gli_key a, gli_key b) {
  return a.operation == b.operation && a.tag == b.tag && a.rank == b.rank;
}

/* An entry. Zeros: in no table. */
typedef struct gli_keyed {
  gli_key key;
  struct gli_keyed *next; /* next entry of the same slot */
  struct gli_keyed **at;  /* the pointer to this entry; NULL if in no table */
} gli_keyed;

enum { GLI_BUCKETS = 256 }; /* a power of two */

typedef struct gli_key_table {
  gli_keyed *few[GLI_BUCKETS];
  gli_keyed **more; /* replaces `few` once the table has grown; NULL before */
  size_t n_more;    /* a power of two */
  size_t n;         /* number of entries */
} gli_key_table;

/* Adds an entry. Several entries may have the same key. */
void gli_key_table_add(gli_key_table *table, gli_keyed *entry, gli_key key);
void gli_key_table_remove(gli_key_table *table, gli_keyed *entry);
/* Return an entry with this key, and the next one with the key of `entry`; NULL
 * if none. */
gli_keyed *gli_key_table_find(const gli_key_table *table, gli_key key);
gli_keyed *gli_key_table_find_next(const gli_keyed *entry);
/* Return the number of slots, and the first entry of a slot, to visit all
 * entries. */
size_t gli_key_table_slots(const gli_key_table *table);
gli_keyed *gli_key_table_slot(const gli_key_table *table, size_t slot);

#endif
