/* All kinds of stores, by name, for tests that run on each. */
#ifndef TESTS_RENDEZVOUS_KINDS_H
#define TESTS_RENDEZVOUS_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/store.h"

#define SECOND ((int64_t)1000000000)
/* Exceeds the duration of any call that succeeds, even on a very busy
 * machine. */
#define LONG_TIME (120 * SECOND)
/* For calls that are expected to time out. */
#define SHORT_TIME (SECOND / 20)

typedef struct test_store {
  gloo_store *store;
  gloo_store *inner; /* store behind a prefix or callbacks */
  size_t key_max;
  size_t compare_max; /* largest value that compare-and-set accepts, in bytes */
  char directory[64];
  uint16_t redis_port; /* 0: another kind of store */
  char redis_path[64];
} test_store;

/* Returns the reason why this machine cannot have that kind, NULL if it can. */
const char *test_kind_missing(const char *kind);

/* Opens a store of kind "memory", "file", "tcp4", "tcp6", "prefix_memory",
 * "prefix_tcp", "callbacks", "redis", or "c10d" (on the server at
 * GLOO_TEST_C10D). */
void test_store_open(const char *kind, test_store *t);
/* Opens the same store as another process would. Returns NULL for kinds whose
 * ranks share one store. The caller destroys the result. */
gloo_store *test_store_join(const test_store *t);
void test_store_close(test_store *t);

/* Creates a fresh name for a directory, but not the directory; removes a
 * directory with its files. */
void test_directory_name(char name[64]);
void test_directory_remove(const char *name);

/* Returns the number of open descriptors of this process. */
int test_open_descriptors(void);

/* Makes libuv allocate its permanent descriptors, so that they do not count as
 * leaks. */
void test_warm_up(void);

#endif
