#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "battery.h"

const char *store_kind;
static int descriptors_before;

int store_setup(void **state) {
  test_store *t = calloc(1, sizeof(*t));
  descriptors_before = test_open_descriptors();
  test_store_open(store_kind, t);
  *state = t;
  return 0;
}

int store_teardown(void **state) {
  test_store *t = *state;
  test_store_close(t);
  free(t);
  return test_open_descriptors() == descriptors_before ? 0 : -1;
}

gloo_store *store_of(void **state) {
  return ((test_store *)*state)->store;
}

void store_set(gloo_store *store, const char *key, const void *data,
               size_t bytes) {
  assert_ok(gloo_store_set(store, key, data, bytes, error));
}

void store_expect(gloo_store *store, const char *key, const void *data,
                  size_t bytes) {
  gloo_value value = {(void *)1, 1};
  assert_ok(gloo_store_get(store, key, LONG_TIME, &value, error));
  assert_int_equal(value.bytes, bytes);
  if (bytes > 0) assert_memory_equal(value.data, data, bytes);
  if (bytes == 0) assert_null(value.data);
  free(value.data);
}

void store_expect_text(gloo_store *store, const char *key, const char *text) {
  store_expect(store, key, text, strlen(text));
}

int store_run(int argc, char **argv, const struct CMUnitTest *tests, size_t n) {
  if (argc != 2) return 2;
  store_kind = argv[1];
  const char *missing = test_kind_missing(store_kind);
  if (missing != NULL) {
    printf("1..0 # SKIP %s\n", missing);
    return 0;
  }
  test_warm_up();
  return _cmocka_run_group_tests("store", tests, n, NULL, NULL);
}
