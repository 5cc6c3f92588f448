/* Every kind of store, by name, for tests that run on each. */
#ifndef TESTS_RENDEZVOUS_KINDS_H
#define TESTS_RENDEZVOUS_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/store.h"

#define SECOND ((int64_t)1000000000)
/* Longer than anything that succeeds takes, even on a very busy machine. */
#define LONG_TIME (120 * SECOND)
/* For what is expected to run into its timeout. */
#define SHORT_TIME (SECOND / 20)

typedef struct test_store {
  gloo_store *store;
  gloo_store *inner; /* of a prefix or callbacks */
  size_t key_max;
  size_t compare_max; /* bytes that compare-and-set can set */
  char directory[64];
  uint16_t redis_port; /* 0: it is no such store */
  char redis_path[64];
} test_store;

/* Why this machine cannot have that kind; NULL: it can. */
const char *test_kind_missing(const char *kind);

/* "memory", "file", "tcp4", "tcp6", "prefix_memory", "prefix_tcp", "callbacks",
 * "redis", and "c10d" where GLOO_TEST_C10D says where its server is */
void test_store_open(const char *kind, test_store *t);
/* As another process opens what is open; NULL for kinds of which ranks share
 * one. Destroy it. */
gloo_store *test_store_join(const test_store *t);
void test_store_close(test_store *t);

/* A fresh name for a directory (not made), and removing it with its files. */
void test_directory_name(char name[64]);
void test_directory_remove(const char *name);

/* Descriptors that this process has open. */
int test_open_descriptors(void);

/* Make what the event loop library keeps for good, so that it does not count.
 */
void test_warm_up(void);

#endif
