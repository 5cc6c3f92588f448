/* Memory that ranks of one host share, found by a key that one rank sends to
 * the others. On Linux it has no name, so that nothing remains if a rank is
 * killed. */
#ifndef GLI_TOOLS_BENCH_SHARED_H
#define GLI_TOOLS_BENCH_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLI_SHARED_KEY_WORDS = 3 };

/* Key that the other ranks need; all zero: there is no memory. */
typedef struct gli_shared_key {
  uint64_t words[GLI_SHARED_KEY_WORDS];
} gli_shared_key;

/* Allocates `bytes` zero bytes, aligned to 64, and sets the key. Returns NULL,
 * with a zero key, on failure. */
void *gli_shared_create(size_t bytes, gli_shared_key *key);
/* Maps the same memory in another process, before its creator closes the key.
 * Returns NULL if it cannot be reached. */
void *gli_shared_open(size_t bytes, const gli_shared_key *key);
/* Closes the key. The creator calls it once all others have opened the memory,
 * or never will. Mappings stay. */
void gli_shared_close_key(const gli_shared_key *key);
/* Unmaps memory that one of the above returned. */
void gli_shared_unmap(void *memory, size_t bytes);

#endif
