/* Two threads claim pieces of copies at once: each piece is claimed exactly
 * once. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/shared_copy.h"

#ifdef SANITIZED
enum { MESSAGES = 20000 };
#else
enum { MESSAGES = 200000 };
#endif
enum { SLOTS = 3, PIECES_MAX = 17 };

static _Alignas(64) gli_shared_copy shares[GLI_SHARED_COPIES];
static _Atomic uint32_t asked; /* messages so far */
static _Atomic uint8_t taken[MESSAGES][PIECES_MAX];
static _Atomic uint32_t copied[MESSAGES]; /* pieces */
static _Atomic uint32_t lies, shared;

static uint32_t pieces_of(uint32_t message) {
  return message % PIECES_MAX + 1;
}

static gli_header header_of(uint32_t message) {
  return (gli_header){.context = 5,
                      .tag = message % 2,
                      .slot = message % SLOTS,
                      .operation = message};
}

static uint64_t to_of(uint32_t message) {
  return UINT64_C(1000) * message;
}

static void take(uint32_t message, uint32_t piece) {
  atomic_fetch_add(&taken[message][piece], 1);
  atomic_fetch_add(&copied[message], 1);
}

static void *receiver(void *user) {
  (void)user;
  for (uint32_t m = 0; m < MESSAGES; m++) {
    gli_header h = header_of(m);
    gli_shared_copy *copy = &shares[h.slot % GLI_SHARED_COPIES];
    gli_shared_copy_begin(copy, m + 1, to_of(m), &h, h.context, h.slot);
    atomic_store(&asked, m + 1);
    uint32_t piece;
    while (gli_shared_copy_claim_front(copy, m + 1, pieces_of(m), &piece))
      take(m, piece);
    while (atomic_load(&copied[m]) < pieces_of(m)) sched_yield();
  }
  return NULL;
}

/* Helps with the latest copy, or an earlier one. */
static void *sender(void *user) {
  (void)user;
  uint32_t n, back = 0;
  while ((n = atomic_load(&asked)) < MESSAGES) {
    back = (back + 1) % (SLOTS + 2);
    if (n <= back) continue;
    uint32_t m = n - 1 - (back > 1 ? back - 1 : 0), piece;
    gli_header h = header_of(m);
    gli_shared_copy *copy = &shares[h.slot % GLI_SHARED_COPIES];
    uint64_t seen, to;
    if (!gli_shared_copy_is_about(copy, &h, &seen, &to)) continue;
    while (gli_shared_copy_claim_back(copy, &seen, pieces_of(m), &piece)) {
      if (to != to_of(m)) atomic_fetch_add(&lies, 1);
      atomic_fetch_add(&shared, 1);
      take(m, piece);
    }
  }
  return NULL;
}

static void each_piece_is_taken_once(void **state) {
  (void)state;
  pthread_t threads[2];
  assert_int_equal(pthread_create(&threads[0], NULL, receiver, NULL), 0);
  assert_int_equal(pthread_create(&threads[1], NULL, sender, NULL), 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  print_message("the sender got %u pieces\n", atomic_load(&shared));
  assert_int_equal(atomic_load(&lies), 0);
  for (uint32_t m = 0; m < MESSAGES; m++) {
    for (uint32_t i = 0; i < PIECES_MAX; i++) {
      assert_int_equal(atomic_load(&taken[m][i]), i < pieces_of(m));
    }
  }
}

/* Claims come from both ends; a claim from an earlier round fails. */
static void pieces_are_claimed_from_both_ends(void **state) {
  (void)state;
  gli_shared_copy *copy = &shares[7];
  gli_header h = header_of(7);
  uint64_t seen, to, old;
  uint32_t piece;
  gli_shared_copy_begin(copy, 1, 42, &h, 9, h.slot);
  assert_false(gli_shared_copy_is_about(copy, &h, &seen, &to));
  h.context = 9;
  assert_true(gli_shared_copy_is_about(copy, &h, &seen, &to));
  assert_int_equal(to, 42);
  old = seen;
  assert_true(gli_shared_copy_claim_front(copy, 1, 3, &piece) && piece == 0);
  assert_true(gli_shared_copy_claim_back(copy, &seen, 3, &piece) && piece == 2);
  assert_true(gli_shared_copy_claim_back(copy, &seen, 3, &piece) && piece == 1);
  assert_false(gli_shared_copy_claim_back(copy, &seen, 3, &piece));
  assert_false(gli_shared_copy_claim_front(copy, 1, 3, &piece));
  gli_shared_copy_begin(copy, 2, 42, &h, 9, h.slot);
  assert_false(gli_shared_copy_claim_back(copy, &old, 3, &piece));
  assert_true(gli_shared_copy_claim_front(copy, 2, 1, &piece) && piece == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_are_claimed_from_both_ends),
      cmocka_unit_test(each_piece_is_taken_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
