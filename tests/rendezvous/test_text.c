/* Text readers, writers and printable text, and the limits of the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/text.h"
#include "rendezvous/store/table.h"

static void quotes_are_printable_and_short(void **state) {
  char key[1025];
  (void)state;
  assert_string_equal(gli_quote("plain key/1").text, "plain key/1");
  assert_string_equal(gli_quote("a\nb\\\x7f").text, "a\\x0ab\\x5c\\x7f");
  assert_string_equal(gli_quote("").text, "");
  memset(key, 'k', 1024);
  key[1024] = '\0';
  gli_text quoted = gli_quote(key);
  assert_true(strlen(quoted.text) < sizeof(quoted.text));
  assert_string_equal(quoted.text + strlen(quoted.text) - 4, "k...");
  memset(key, '\n', 1024);
  quoted = gli_quote(key);
  assert_string_equal(quoted.text + strlen(quoted.text) - 7, "\\x0a...");
}

static void durations_have_one_unit(void **state) {
  (void)state;
  assert_string_equal(gli_duration(30000000000).text, "30 s");
  assert_string_equal(gli_duration(1500000000).text, "1.5 s");
  assert_string_equal(gli_duration(20000000).text, "20 ms");
  assert_string_equal(gli_duration(999).text, "999 ns");
  assert_string_equal(gli_duration(0).text, "no time");
  assert_string_equal(gli_duration(INT64_MAX).text, "9223372036.8 s");
}

static void missing_ranks_are_ranges(void **state) {
  bool present[1000];
  (void)state;
  memset(present, 1, sizeof(present));
  present[3] = false;
  assert_string_equal(gli_missing_ranks(present, 8).text, "rank 3");
  present[5] = false;
  assert_string_equal(gli_missing_ranks(present, 8).text, "ranks 3, 5");
  present[4] = present[7] = false;
  assert_string_equal(gli_missing_ranks(present, 8).text, "ranks 3-5, 7");
  for (int i = 0; i < 1000; i++) present[i] = i % 2 == 0;
  gli_long_text list = gli_missing_ranks(present, 1000);
  assert_true(strlen(list.text) < sizeof(list.text));
  const char *more = strstr(list.text, " and ");
  assert_non_null(more);
  int commas = 0;
  for (const char *at = list.text; *at != '\0'; at++) commas += *at == ',';
  assert_int_equal(atoi(more + 5) + commas + 1, 500);
}

static void a_full_table_refuses_more(void **state) {
  gloo_error e;
  int64_t sum;
  (void)state;
  gli_table *table = gli_table_create(2, 20);
  assert_non_null(table);
  assert_int_equal(gli_table_set(table, "a", "0123456789", 10, &e), GLOO_OK);
  assert_int_equal(gli_table_set(table, "b", "0123456", 7, &e), GLOO_OK);
  assert_int_equal(gli_table_set(table, "c", "", 0, &e), GLOO_ERR_NO_MEMORY);
  assert_non_null(strstr(e.message, "2 keys"));
  assert_int_equal(gli_table_add(table, "c", 1, &sum, &e), GLOO_ERR_NO_MEMORY);
  assert_int_equal(gli_table_append(table, "c", "", 0, &e), GLOO_ERR_NO_MEMORY);
  assert_int_equal(gli_table_append(table, "b", "xy", 2, &e),
                   GLOO_ERR_NO_MEMORY);
  assert_non_null(strstr(e.message, "19 of at most 20 bytes"));
  assert_int_equal(gli_table_append(table, "b", "x", 1, &e), GLOO_OK);
  /* Replacing a value frees the space of the old one. */
  assert_int_equal(gli_table_set(table, "a", "9876543210", 10, &e), GLOO_OK);
  assert_int_equal(gli_table_set(table, "a", "9876543210x", 11, &e),
                   GLOO_ERR_NO_MEMORY);
  assert_memory_equal(gli_table_find(table, "a")->data, "9876543210", 10);
  assert_int_equal(gli_table_remove(table, "b"), GLOO_OK);
  assert_int_equal(gli_table_set(table, "c", "12345678", 8, &e), GLOO_OK);
  gli_table_destroy(table);
}

static void no_two_tables_hash_alike(void **state) {
  (void)state;
  gli_table *a = gli_table_create(2, 20), *b = gli_table_create(2, 20);
  assert_true(gli_table_hash(a, "key") == gli_table_hash(a, "key"));
  assert_true(gli_table_hash(a, "key") != gli_table_hash(b, "key"));
  gli_table_destroy(a);
  gli_table_destroy(b);
}

static void a_table_grows(void **state) {
  enum { N = 5000 };
  char key[16];
  (void)state;
  gli_table *table = gli_table_create(SIZE_MAX, UINT64_MAX);
  for (int i = 0; i < N; i++) {
    snprintf(key, sizeof(key), "key %d", i);
    assert_int_equal(gli_table_set(table, key, key, strlen(key), NULL),
                     GLOO_OK);
  }
  for (int i = 0; i < N; i += 2) {
    snprintf(key, sizeof(key), "key %d", i);
    assert_int_equal(gli_table_remove(table, key), GLOO_OK);
  }
  for (int i = 0; i < N; i++) {
    snprintf(key, sizeof(key), "key %d", i);
    const gloo_value *value = gli_table_find(table, key);
    if (i % 2 == 0) {
      assert_null(value);
    } else {
      assert_memory_equal(value->data, key, strlen(key));
    }
  }
  gli_table_destroy(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quotes_are_printable_and_short),
      cmocka_unit_test(durations_have_one_unit),
      cmocka_unit_test(missing_ranks_are_ranges),
      cmocka_unit_test(a_full_table_refuses_more),
      cmocka_unit_test(a_table_grows),
      cmocka_unit_test(no_two_tables_hash_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
