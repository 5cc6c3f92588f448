/* Declarations shared by the tests of every kind of store. Include after
 * cmocka. */
#ifndef TESTS_RENDEZVOUS_BATTERY_H
#define TESTS_RENDEZVOUS_BATTERY_H

#include "kinds.h"

#define assert_ok(call)                                                \
  do {                                                                 \
    gloo_error error_ = {0};                                           \
    gloo_error *error = &error_;                                       \
    gloo_status status_ = (call);                                      \
    if (status_ != GLOO_OK)                                            \
      fail_msg("%s: %s", gloo_status_string(status_), error->message); \
  } while (0)

#define STORE_TEST(name) \
  cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

/* The kind of store under test: the program's argument. */
extern const char *store_kind;

/* Setup opens a store for each test; teardown fails if a descriptor leaks. */
int store_setup(void **state);
int store_teardown(void **state);
gloo_store *store_of(void **state);

/* Runs the tests on the kind of store named by the arguments. */
int store_run(int argc, char **argv, const struct CMUnitTest *tests, size_t n);

void store_set(gloo_store *store, const char *key, const void *data,
               size_t bytes);
/* Fails unless `key` has this value now or gets it soon. */
void store_expect(gloo_store *store, const char *key, const void *data,
                  size_t bytes);
void store_expect_text(gloo_store *store, const char *key, const char *text);

#endif
