/* Copies between addresses at many distances in the low bits, and which
 * distances are slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/aligned.h"
#include "kernels/copy.h"

enum { PAGE = 4096, ROOM = 64 * 1024, GUARD = 0x5a };

static uint8_t *source, *target;

static int make_memory(void **state) {
  (void)state;
  source = gli_aligned_alloc(PAGE, ROOM);
  target = gli_aligned_alloc(PAGE, ROOM);
  if (source == NULL || target == NULL) return -1;
  for (size_t i = 0; i < ROOM; i++) source[i] = (uint8_t)(i * 2654435761u >> 9);
  return 0;
}

static int drop_memory(void **state) {
  (void)state;
  gli_aligned_free(source);
  gli_aligned_free(target);
  return 0;
}

static void assert_copied(size_t to, size_t from, size_t bytes) {
  assert_memory_equal(target + to, source + from, bytes);
  for (size_t i = 0; i < to; i++) assert_int_equal(target[i], GUARD);
  for (size_t i = to + bytes; i < to + bytes + 64; i++)
    assert_int_equal(target[i], GUARD);
}

static const size_t lengths[] = {0,    1,    63,   64,    2047,  2048, 2049,
                                 2112, 4095, 4096, 10000, 32768, 40001};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void all_bytes_are_copied(void **state) {
  (void)state;
  for (size_t to = 0; to < 200; to += 7) {
    for (size_t from = 0; from < 200; from += 9) {
      for (size_t i = 0; i < LENGTHS; i++) {
        memset(target, GUARD, to + lengths[i] + 64);
        gli_copy_bytes(target + to, source + from, lengths[i]);
        assert_copied(to, from, lengths[i]);
      }
    }
  }
}

/* A destination less than a cache line above the source is slow, in any
 * page. */
static void who_stumbles(void **state) {
  (void)state;
  for (size_t page = 0; page < 3; page++) {
    for (size_t away = 0; away < PAGE; away++) {
      int stumbles = gli_copy_stumbles(target + page * PAGE + away, source);
      assert_int_equal(stumbles, away >= 1 && away < 64);
      stumbles = gli_copy_stumbles(target, source + page * PAGE + away);
      size_t above = (PAGE - away) % PAGE;
      assert_int_equal(stumbles, above >= 1 && above < 64);
    }
  }
}

static void what_overlaps_is_moved(void **state) {
  (void)state;
  uint8_t *wanted = malloc(ROOM);
  assert_non_null(wanted);
  static const ptrdiff_t distances[] = {-5000, -64, -16, -1,   0,
                                        1,     16,  64,  5000, 41000};
  for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++) {
    for (size_t i = 0; i < LENGTHS; i++) {
      ptrdiff_t from = distances[d] < 0 ? -distances[d] : 0;
      ptrdiff_t to = from + distances[d];
      if ((size_t)(to > from ? to : from) + lengths[i] > ROOM) continue;
      memcpy(target, source, ROOM);
      memcpy(wanted, source, ROOM);
      memmove(wanted + to, wanted + from, lengths[i]);
      gli_move_bytes(target + to, target + from, lengths[i]);
      assert_memory_equal(target, wanted, ROOM);
    }
  }
  free(wanted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_bytes_are_copied),
      cmocka_unit_test(who_stumbles),
      cmocka_unit_test(what_overlaps_is_moved),
  };
  return cmocka_run_group_tests(tests, make_memory, drop_memory);
}
