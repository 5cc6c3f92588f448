/* CRC32C: known values, and equal results of all implementations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"

/* Computes it by definition, one bit at a time. */
static uint32_t by_bits(uint32_t before, const uint8_t *data, size_t bytes) {
  uint32_t r = ~before;
  for (size_t i = 0; i < bytes; i++) {
    r ^= data[i];
    for (int bit = 0; bit < 8; bit++)
      r = (r & 1) != 0 ? (r >> 1) ^ UINT32_C(0x82f63b78) : r >> 1;
  }
  return ~r;
}

static void fill(uint8_t *data, size_t bytes) {
  uint64_t x = 88172645463325252u;
  for (size_t i = 0; i < bytes; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    data[i] = (uint8_t)x;
  }
}

static void known_values(void **state) {
  (void)state;
  uint8_t zeros[32] = {0}, ones[32], rising[32], falling[32];
  memset(ones, 255, sizeof ones);
  for (uint8_t i = 0; i < 32; i++) {
    rising[i] = i;
    falling[i] = (uint8_t)(31 - i);
  }
  const struct {
    const void *data;
    size_t bytes;
    uint32_t sum;
  } cases[] = {
      {zeros, 0, 0},
      {"123456789", 9, UINT32_C(0xe3069283)},
      /* RFC 3720, B.4 */
      {zeros, sizeof zeros, UINT32_C(0x8a9136aa)},
      {ones, sizeof ones, UINT32_C(0x62a8ab43)},
      {rising, sizeof rising, UINT32_C(0x46dd794e)},
      {falling, sizeof falling, UINT32_C(0x113fdb5c)},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(gli_crc32c(0, cases[i].data, cases[i].bytes),
                     cases[i].sum);
    for (size_t k = 0; gli_crc32c_way_at(k) != NULL; k++)
      assert_int_equal(
          gli_crc32c_way_at(k)->compute(0, cases[i].data, cases[i].bytes),
          cases[i].sum);
  }
}

enum { PLACES = 16, LENGTHS = 800 };

static void all_ways_agree_at_all_lengths_and_places(void **state) {
  (void)state;
  uint8_t data[PLACES + LENGTHS];
  fill(data, sizeof data);
  for (size_t k = 0; gli_crc32c_way_at(k) != NULL; k++)
    for (size_t at = 0; at < PLACES; at++)
      for (size_t bytes = 0; bytes <= LENGTHS; bytes++)
        assert_int_equal(gli_crc32c_way_at(k)->compute(7, data + at, bytes),
                         by_bits(7, data + at, bytes));
}

static void all_ways_agree_on_long_ones_and_in_parts(void **state) {
  (void)state;
  enum { BYTES = 100000 };
  uint8_t *data = malloc(BYTES);
  assert_non_null(data);
  fill(data, BYTES);
  for (size_t bytes = BYTES - 70; bytes <= BYTES; bytes++) {
    uint32_t sum = by_bits(0, data, bytes);
    for (size_t k = 0; gli_crc32c_way_at(k) != NULL; k++) {
      const gli_crc32c_way *way = gli_crc32c_way_at(k);
      assert_int_equal(way->compute(0, data, bytes), sum);
      size_t half = bytes * (k + 3) / 7;
      uint32_t first = way->compute(0, data, half);
      assert_int_equal(way->compute(first, data + half, bytes - half), sum);
    }
  }
  free(data);
}

static void every_flipped_bit_shows(void **state) {
  (void)state;
  uint8_t data[1000];
  fill(data, sizeof data);
  uint32_t sum = gli_crc32c(0, data, sizeof data);
  for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
    data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_int_not_equal(gli_crc32c(0, data, sizeof data), sum);
    data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_values),
      cmocka_unit_test(all_ways_agree_at_all_lengths_and_places),
      cmocka_unit_test(all_ways_agree_on_long_ones_and_in_parts),
      cmocka_unit_test(every_flipped_bit_shows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
