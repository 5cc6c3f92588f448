/* Records of many ranks as differences, and the tree that distributes them. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/join/record_delta.h"
#include "rendezvous/join/tree_exchange.h"

enum { RECORDS = 40, RECORD_MAX = 600 };

static uint64_t dice_state = 1;
static uint32_t roll(uint32_t sides) {
  dice_state = dice_state * UINT64_C(6364136223846793005) + 1;
  return (uint32_t)(dice_state >> 33) % sides;
}

typedef struct book {
  uint8_t data[RECORDS][RECORD_MAX];
  gloo_value records[RECORDS];
} book;

/* Fills the book: each record is the one before with some bytes changed, at
 * close or distant places, and sometimes of another length. */
static void fill(book *b) {
  size_t bytes = roll(RECORD_MAX + 1);
  uint32_t most = 1 + roll(RECORD_MAX);
  for (int i = 0; i < RECORDS; i++) {
    if (i > 0) memcpy(b->data[i], b->data[i - 1], RECORD_MAX);
    for (uint32_t k = roll(most); k > 0; k--)
      b->data[i][roll(RECORD_MAX)] = (uint8_t)roll(256);
    if (roll(8) == 0) bytes = roll(RECORD_MAX + 1);
    b->records[i] = (gloo_value){bytes > 0 ? b->data[i] : NULL, bytes};
  }
}

static void expect_records(const gloo_value *read, const gloo_value *written,
                           size_t n) {
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(read[i].bytes, written[i].bytes);
    if (read[i].bytes > 0)
      assert_memory_equal(read[i].data, written[i].data, read[i].bytes);
  }
}

static void forget(gloo_value *records, size_t n) {
  for (size_t i = 0; i < n; i++) free(records[i].data);
}

static void records_come_back_as_they_were(void **state) {
  (void)state;
  static book b;
  static uint8_t data[RECORDS * RECORD_MAX * 2];
  gloo_value read[RECORDS];
  assert_true(gli_roster_bytes_max(RECORDS, RECORD_MAX) <= sizeof data);
  for (int round = 0; round < 500; round++) {
    memset(&b, 0, sizeof b);
    fill(&b);
    size_t n = roll(RECORDS + 1);
    size_t bytes = gli_roster_pack(b.records, n, data);
    assert_true(bytes <= gli_roster_bytes_max(n, RECORD_MAX));
    assert_int_equal(gli_roster_unpack(data, bytes, RECORD_MAX, read, n),
                     GLI_ROSTER_OK);
    expect_records(read, b.records, n);
    forget(read, n);
  }
}

/* Every second byte differs: the longest encoding. */
static void the_worst_records_fit(void **state) {
  (void)state;
  static book b;
  static uint8_t data[RECORDS * RECORD_MAX * 2];
  for (int apart = 1; apart < 9; apart++) {
    for (int i = 0; i < RECORDS; i++) {
      for (int k = 0; k < RECORD_MAX; k++)
        b.data[i][k] = (uint8_t)(k % apart == 0 ? 1 + i % 2 : 0);
      b.records[i] = (gloo_value){b.data[i], RECORD_MAX};
    }
    assert_true(gli_roster_pack(b.records, RECORDS, data) <=
                gli_roster_bytes_max(RECORDS, RECORD_MAX));
  }
}

/* Records of 300 bytes that differ in a number of 8 bytes and one of 2. */
static void records_of_one_host_are_short(void **state) {
  (void)state;
  static book b;
  static uint8_t data[RECORDS * RECORD_MAX * 2];
  for (int i = 0; i < RECORDS; i++) {
    if (i > 0) memcpy(b.data[i], b.data[i - 1], RECORD_MAX);
    for (int k = 0; k < 8; k++) b.data[i][4 + k] = (uint8_t)roll(256);
    for (int k = 0; k < 2; k++) b.data[i][200 + k] = (uint8_t)roll(256);
    b.records[i] = (gloo_value){b.data[i], 300};
  }
  size_t first = gli_roster_pack(b.records, 1, data);
  size_t all = gli_roster_pack(b.records, RECORDS, data);
  assert_true((all - first) / (RECORDS - 1) <= 24);
}

/* Truncated or extended data does not decode to this number of records. With a
 * changed byte it may decode to some, or to none. */
static void damage_is_found_or_does_no_harm(void **state) {
  (void)state;
  static book b;
  static uint8_t data[RECORDS * RECORD_MAX * 2];
  enum { FEW = 6 };
  gloo_value read[FEW];
  fill(&b);
  size_t bytes = gli_roster_pack(b.records, FEW, data);
  for (size_t cut = 0; cut < bytes; cut++) {
    uint8_t *exact = malloc(cut > 0 ? cut : 1);
    assert_non_null(exact);
    memcpy(exact, data, cut);
    assert_int_equal(gli_roster_unpack(exact, cut, RECORD_MAX, read, FEW),
                     GLI_ROSTER_DAMAGED);
    for (int i = 0; i < FEW; i++) assert_null(read[i].data);
    free(exact);
  }
  assert_int_equal(gli_roster_unpack(data, bytes + 1, RECORD_MAX, read, FEW),
                   GLI_ROSTER_DAMAGED);
  assert_int_equal(
      gli_roster_unpack(data, bytes, b.records[0].bytes - 1, read, FEW),
      GLI_ROSTER_DAMAGED);
  for (int round = 0; round < 5000; round++) {
    size_t at = roll((uint32_t)bytes);
    uint8_t was = data[at];
    data[at] = (uint8_t)roll(256);
    if (gli_roster_unpack(data, bytes, RECORD_MAX, read, FEW) == GLI_ROSTER_OK)
      forget(read, FEW);
    data[at] = was;
  }
}

/* ---- the tree ------------------------------------------------------------ */

static void expect_place(uint32_t rank, uint32_t size) {
  gli_tree_place at = gli_tree_find(rank, size);
  uint32_t next = rank + 1, depth = 0;
  while (depth < 32 && UINT32_C(1) << depth < size) depth++;
  assert_true(at.n_children + (rank > 0) <= (depth > 0 ? depth : 1));
  for (uint32_t i = 0; i < at.n_children; i++) {
    gli_tree_place below = gli_tree_find(at.children[i], size);
    assert_int_equal(below.parent, rank);
    assert_int_equal(below.rank, next); /* subtrees are contiguous */
    next = below.end;
  }
  assert_int_equal(at.end, next);
  if (rank == 0) assert_int_equal(at.end, size);
  if (rank > 0) assert_true(at.parent < rank);
}

static void tree_holds_every_rank_once(void **state) {
  (void)state;
  for (uint32_t size = 1; size <= 130; size++)
    for (uint32_t rank = 0; rank < size; rank++) expect_place(rank, size);
  const uint32_t large[] = {65536, 100000, UINT32_MAX};
  for (int i = 0; i < 3; i++) {
    expect_place(0, large[i]);
    for (int k = 0; k < 100; k++) expect_place(roll(large[i]), large[i]);
    expect_place(large[i] - 1, large[i]);
  }
}

static void circle_is_a_rank_and_its_neighbours(void **state) {
  (void)state;
  uint32_t circle[GLI_TREE_LINKS_MAX + 2];
  const uint32_t of_40[] = {32, 40, 41, 42, 44}, of_0[] = {0, 1, 2, 4, 8};
  gli_tree_place at = gli_tree_find(40, 46);
  assert_int_equal(gli_tree_circle(&at, circle), 5);
  assert_memory_equal(circle, of_40, sizeof of_40);
  at = gli_tree_find(0, 9);
  assert_int_equal(gli_tree_circle(&at, circle), 5);
  assert_memory_equal(circle, of_0, sizeof of_0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_come_back_as_they_were),
      cmocka_unit_test(the_worst_records_fit),
      cmocka_unit_test(records_of_one_host_are_short),
      cmocka_unit_test(damage_is_found_or_does_no_harm),
      cmocka_unit_test(tree_holds_every_rank_once),
      cmocka_unit_test(circle_is_a_rank_and_its_neighbours),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
