#include "values.h"

#include <string.h>

static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  *state = x;
  return x * UINT64_C(0x2545f4914f6cdd1d);
}

static void put(uint8_t *at, size_t bytes, uint64_t value) {
  uint8_t v8 = (uint8_t)value;
  uint16_t v16 = (uint16_t)value;
  uint32_t v32 = (uint32_t)value;
  if (bytes == 1) memcpy(at, &v8, 1);
  if (bytes == 2) memcpy(at, &v16, 2);
  if (bytes == 4) memcpy(at, &v32, 4);
  if (bytes == 8) memcpy(at, &value, 8);
}

/* Numbers at which arithmetic is likely to go wrong; integers use their low
 * bits. */
static const uint64_t special_float16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x3c00,
    0xbc00, 0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfc01, 0x7e00,
    0xfe00, 0x7fff, 0xffff, 0x4c00, 0x0c00, 0x1400, 0x9400, 0x3bff};
static const uint64_t special_bfloat16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x3f80,
    0xbf80, 0x3f81, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81, 0xff81, 0x7fc0,
    0xffc0, 0x7fff, 0xffff, 0x4180, 0x1f80, 0x2000, 0x9f80, 0x3f7f};
static const uint64_t special_float32[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
    0x00800000, 0x80800000, 0x3f800000, 0xbf800000, 0x3f800001, 0x7f7fffff,
    0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fc00000,
    0xffc00000, 0x7fffffff, 0xffffffff, 0x4b800000, 0x1f800000, 0x20000000,
    0x9f800000, 0x3f7fffff};
static const uint64_t special_float64[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001,
    0x8000000000000001, 0x000fffffffffffff, 0x800fffffffffffff,
    0x0010000000000000, 0x8010000000000000, 0x3ff0000000000000,
    0xbff0000000000000, 0x3ff0000000000001, 0x7fefffffffffffff,
    0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
    0x7ff0000000000001, 0xfff0000000000001, 0x7ff8000000000000,
    0xfff8000000000000, 0x7fffffffffffffff, 0xffffffffffffffff,
    0x4340000000000000, 0x2000000000000000, 0x1ff0000000000000,
    0x9ff0000000000000, 0x3fefffffffffffff};
static const uint64_t special_float8[] = {
    0x00, 0x80, 0x01, 0x81, 0x03, 0x83, 0x04, 0x84, 0x07,
    0x87, 0x08, 0x88, 0x38, 0xb8, 0x7b, 0xfb, 0x7c, 0xfc,
    0x7d, 0x7e, 0xfe, 0x7f, 0xff, 0x3c, 0xbc, 0x77};

static const uint64_t *specials_of(gloo_dtype dtype) {
  switch (gloo_dtype_size(dtype) / oracle_parts(dtype)) {
    case 1:
      return special_float8;
    case 2:
      return dtype == GLOO_BFLOAT16 ? special_bfloat16 : special_float16;
    case 4:
      return special_float32;
    default:
      return special_float64;
  }
}

static uint64_t special(gloo_dtype dtype, size_t i) {
  return specials_of(dtype)[i % VALUES_SPECIAL];
}

static oracle_value pair_or_random(gloo_dtype dtype, size_t i, size_t which,
                                   uint64_t *seed) {
  oracle_value v = {{next_random(seed), next_random(seed)}};
  if (i >= VALUES_PAIRS) return v;
  v.part[0] = special(dtype, which);
  v.part[1] = special(dtype, which * 7 + i / 5);
  return v;
}

oracle_value value_left(gloo_dtype dtype, size_t i, uint64_t *seed) {
  return pair_or_random(dtype, i, i / VALUES_SPECIAL, seed);
}

oracle_value value_right(gloo_dtype dtype, size_t i, uint64_t *seed) {
  return pair_or_random(dtype, i, i % VALUES_SPECIAL, seed);
}

oracle_value value_any(gloo_dtype dtype, uint64_t *seed) {
  uint64_t choice = next_random(seed);
  oracle_value v = {{next_random(seed), next_random(seed)}};
  if (choice % 4 == 0) v.part[0] = special(dtype, (size_t)(choice >> 8));
  if (choice % 8 < 3) v.part[1] = special(dtype, (size_t)(choice >> 16));
  return v;
}

void value_put(uint8_t *at, gloo_dtype dtype, oracle_value value) {
  size_t parts = oracle_parts(dtype);
  size_t bytes = gloo_dtype_size(dtype) / parts;
  for (size_t p = 0; p < parts; p++) put(at + p * bytes, bytes, value.part[p]);
}

static uint64_t get(const uint8_t *at, size_t bytes) {
  uint8_t v8;
  uint16_t v16;
  uint32_t v32;
  uint64_t v64;
  switch (bytes) {
    case 1:
      memcpy(&v8, at, 1);
      return v8;
    case 2:
      memcpy(&v16, at, 2);
      return v16;
    case 4:
      memcpy(&v32, at, 4);
      return v32;
    default:
      memcpy(&v64, at, 8);
      return v64;
  }
}

oracle_value value_get(const uint8_t *at, gloo_dtype dtype) {
  size_t parts = oracle_parts(dtype);
  size_t bytes = gloo_dtype_size(dtype) / parts;
  oracle_value value = {{0, 0}};
  for (size_t p = 0; p < parts; p++) value.part[p] = get(at + p * bytes, bytes);
  return value;
}
