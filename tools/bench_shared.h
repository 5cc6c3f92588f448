/* A piece of memory that ranks of one host share, found through a few numbers
 * that one of them tells the others. On Linux it has no name, so that nothing
 * is left when a rank is killed. */
#ifndef GLI_TOOLS_BENCH_SHARED_H
#define GLI_TOOLS_BENCH_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLI_SHARED_KEY_WORDS = 3 };

/* What the others must be told; all zero: there is no memory. */
typedef struct gli_shared_key {
  uint64_t words[GLI_SHARED_KEY_WORDS];
} gli_shared_key;

/* Memory of `bytes` zero bytes, aligned to 64, and its key. NULL when there is
 * none, with a key of zeros. */
void *gli_shared_create(size_t bytes, gli_shared_key *key);
/* The same memory in another process, while its creator has not closed the key
 * yet. NULL when it cannot be reached from here. */
void *gli_shared_open(size_t bytes, const gli_shared_key *key);
/* The creator calls it when all others have opened the memory, or never will.
 * What was opened stays. */
void gli_shared_close_key(const gli_shared_key *key);
/* Unmap what one of the above returned. */
void gli_shared_unmap(void *memory, size_t bytes);

#endif
