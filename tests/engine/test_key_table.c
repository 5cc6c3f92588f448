/* Hash tables by key: every entry is found, and chains stay short for all keys
 * that programs make. */
#include <stdlib.h>

#include "engine/state/key_table.h"
#include "plan/cmocka_all.h"

enum { MANY = 20000, CHAIN_MOST = 12 };

typedef gli_key (*key_fn)(uint32_t i);

/* Key of the n-th collective with a tag. */
static gli_key counted(uint32_t i) {
  return (gli_key){GLI_NO_RANK, 7, i};
}

/* Key of the first run of the n-th persistent request; see counters.h. */
static gli_key of_init(uint32_t i) {
  return (gli_key){GLI_NO_RANK, 0, UINT64_C(1) << 63 | (uint64_t)i << 32 | 5};
}

/* Keys of one message for each tag, also with tags in steps of 65536. */
static gli_key tagged(uint32_t i) {
  return (gli_key){3, i, 0};
}

static gli_key tagged_widely(uint32_t i) {
  return (gli_key){3, i << 16 | i >> 16, 0};
}

static gli_key of_ranks(uint32_t i) {
  return (gli_key){i, 9, 2};
}

static const struct {
  const char *name;
  key_fn key;
} kinds[] = {{"counted", counted},
             {"of persistent requests", of_init},
             {"tagged", tagged},
             {"tagged in steps", tagged_widely},
             {"of ranks", of_ranks}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static size_t longest_chain(const gli_key_table *table) {
  size_t longest = 0;
  for (size_t i = 0; i < gli_key_table_slots(table); i++) {
    size_t n = 0;
    for (const gli_keyed *e = gli_key_table_slot(table, i); e; e = e->next) n++;
    if (n > longest) longest = n;
  }
  return longest;
}

static void chains_stay_short(void **state) {
  (void)state;
  gli_keyed *entries = calloc(MANY, sizeof *entries);
  assert_non_null(entries);
  for (size_t k = 0; k < KINDS; k++) {
    gli_key_table table = {.n = 0};
    for (uint32_t i = 0; i < MANY; i++) {
      gli_key_table_add(&table, &entries[i], kinds[k].key(i));
      /* The bound also holds while the table grows. */
      if (i % 1000 == 0 && longest_chain(&table) > CHAIN_MOST)
        fail_msg("%s: with %u entries, a chain of %zu", kinds[k].name, i + 1,
                 longest_chain(&table));
    }
    if (longest_chain(&table) > CHAIN_MOST)
      fail_msg("%s: a chain of %zu", kinds[k].name, longest_chain(&table));
    for (uint32_t i = 0; i < MANY; i++) {
      gli_keyed *found = gli_key_table_find(&table, kinds[k].key(i));
      assert_ptr_equal(found, &entries[i]);
    }
    /* Remove every other entry, then the rest from the end. */
    for (uint32_t i = 0; i < MANY; i += 2)
      gli_key_table_remove(&table, &entries[i]);
    for (uint32_t i = 0; i < MANY; i++) {
      gli_keyed *found = gli_key_table_find(&table, kinds[k].key(i));
      assert_ptr_equal(found, i % 2 == 0 ? NULL : &entries[i]);
    }
    for (uint32_t i = MANY; i-- > 0;)
      if (i % 2 == 1) gli_key_table_remove(&table, &entries[i]);
    assert_int_equal(table.n, 0);
    assert_null(table.more);
  }
  free(entries);
}

/* Messages of one operation share a key. */
static void equal_keys_are_all_found(void **state) {
  (void)state;
  enum { SAME = 5, OTHERS = 1000 };
  gli_keyed same[SAME], *others = calloc(OTHERS, sizeof *others);
  assert_non_null(others);
  gli_key_table table = {.n = 0};
  for (uint32_t i = 0; i < SAME; i++)
    gli_key_table_add(&table, &same[i], counted(3));
  for (uint32_t i = 0; i < OTHERS; i++)
    gli_key_table_add(&table, &others[i], counted(10 + i));
  unsigned seen = 0;
  gli_keyed *e = gli_key_table_find(&table, counted(3));
  for (; e; e = gli_key_table_find_next(e)) seen |= 1u << (e - same);
  assert_int_equal(seen, (1u << SAME) - 1);
  for (uint32_t i = 0; i < SAME; i++) gli_key_table_remove(&table, &same[i]);
  assert_null(gli_key_table_find(&table, counted(3)));
  for (uint32_t i = 0; i < OTHERS; i++)
    gli_key_table_remove(&table, &others[i]);
  free(others);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_stay_short),
      cmocka_unit_test(equal_keys_are_all_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
