/* SipHash-2-4 against its authors' test vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>

#include "core/siphash.h"

/* Key 00 01 .. 0f; the input of n bytes is 00 01 .. n - 1. */
static const struct {
  size_t bytes;
  uint64_t hash;
} vectors[] = {
    {0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
    {2, UINT64_C(0x0d6c8009d9a94f5a)},  {3, UINT64_C(0x85676696d7fb7e2d)},
    {4, UINT64_C(0xcf2794e0277187b7)},  {5, UINT64_C(0x18765564cd99a68d)},
    {6, UINT64_C(0xcbc9466e58fee3ce)},  {7, UINT64_C(0xab0200f58b01d137)},
    {8, UINT64_C(0x93f5f5799a932462)},  {9, UINT64_C(0x9e0082df0ba9e4b0)},
    {10, UINT64_C(0x7a5dbbc594ddb9f3)}, {11, UINT64_C(0xf4b32f46226bada7)},
    {12, UINT64_C(0x751e8fbc860ee5fb)}, {13, UINT64_C(0x14ea5627c0843d90)},
    {14, UINT64_C(0xf723ca908e7af2ee)}, {15, UINT64_C(0xa129ca6149be45e5)},
    {16, UINT64_C(0x3f2acc7f57c29bdb)}, {63, UINT64_C(0x958a324ceb064572)},
};

static void known_values(void **state) {
  gli_siphash_key key;
  uint8_t input[64];
  (void)state;
  for (uint8_t i = 0; i < sizeof key.bytes; i++) key.bytes[i] = i;
  for (uint8_t i = 0; i < sizeof input; i++) input[i] = i;
  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
    assert_true(gli_siphash(&key, input, vectors[i].bytes) == vectors[i].hash);
}

static void every_bit_of_the_key_counts(void **state) {
  gli_siphash_key key = {{0}};
  (void)state;
  uint64_t hash = gli_siphash(&key, "key", 3);
  for (size_t bit = 0; bit < 8 * sizeof key.bytes; bit++) {
    key.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_true(gli_siphash(&key, "key", 3) != hash);
    key.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_values),
      cmocka_unit_test(every_bit_of_the_key_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
