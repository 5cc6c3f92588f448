#include "tools/bench_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------- */

/* Mixes two numbers well (splitmix64, Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static bool is_complex(gloo_dtype dtype) {
  return dtype == GLOO_COMPLEX64 || dtype == GLOO_COMPLEX128;
}

static bool is_float8(gloo_dtype dtype) {
  return dtype == GLOO_FLOAT8_E4M3FN || dtype == GLOO_FLOAT8_E5M2;
}

/* Returns true for floats and types made of floats; complex numbers are real
 * here. */
static bool is_float(gloo_dtype dtype) {
  return dtype == GLOO_FLOAT16 || dtype == GLOO_BFLOAT16 ||
         dtype == GLOO_FLOAT32 || dtype == GLOO_FLOAT64 || is_complex(dtype) ||
         is_float8(dtype);
}

static bool is_unsigned(gloo_dtype dtype) {
  return dtype == GLOO_UINT8 || dtype == GLOO_UINT16 || dtype == GLOO_UINT32 ||
         dtype == GLOO_UINT64 || dtype == GLOO_BOOL;
}

static bool is_logical(gloo_op op) {
  return op == GLOO_LAND || op == GLOO_LOR || op == GLOO_LXOR;
}

/* Returns a limit up to which integers, and their sums, are exact in a type. */
static uint64_t exact_limit(gloo_dtype dtype) {
  if (dtype == GLOO_FLOAT8_E5M2) return 1 << 3;
  if (dtype == GLOO_FLOAT8_E4M3FN) return 1 << 4;
  if (dtype == GLOO_BFLOAT16) return 1 << 8;
  if (dtype == GLOO_FLOAT16) return 1 << 11;
  return 1 << 24;
}

/* Returns the value that an integer type holds after storing `bits` in it. */
static uint64_t wrapped(gloo_dtype dtype, uint64_t bits) {
  unsigned unused = 64 - 8 * (unsigned)gloo_dtype_size(dtype);
  if (is_unsigned(dtype)) return bits << unused >> unused;
  uint64_t sign = UINT64_C(1) << (63 - unused);
  bits = bits << unused >> unused;
  return (bits ^ sign) - sign;
}

/* Returns a positive value such that the sum over all ranks is within the
 * limit. With more ranks than the limit most of them contribute 0. */
static uint64_t float_term(gloo_dtype dtype, uint64_t ranks, uint64_t r,
                           uint64_t i) {
  uint64_t limit = exact_limit(dtype);
  uint64_t most = limit / ranks;
  if (most == 0) return (r + i) % ((ranks + limit - 1) / limit) == 0 ? 1 : 0;
  if (most > 1000) most = 1000;
  return 1 + (mix(r, i) + r) % most;
}

/* Returns values whose average over all ranks is a whole number: the two ranks
 * of a pair are equally far above and below it. Only some pairs differ from it,
 * so that no partial sum exceeds the limit. */
static uint64_t float_about(gloo_dtype dtype, uint64_t ranks, uint64_t r,
                            uint64_t i) {
  uint64_t limit = exact_limit(dtype), pairs = (ranks + 1) / 2;
  uint64_t most = limit / 2 / ranks,
           every = (pairs + limit / 4 - 1) / (limit / 4);
  if (most > 1000) most = 1000;
  uint64_t middle = mix(UINT64_MAX, i) % (most + 1);
  bool alone = r == ranks - 1 && ranks % 2 == 1;
  if (alone || (r / 2 + i) % every != 0) return middle;
  uint64_t off = mix(r / 2, i) % 3;
  return r % 2 == 0 ? middle + off : middle - off;
}

/* Returns 1 or 2; at most eight ranks contribute 2. */
static uint64_t float_factor(uint64_t ranks, uint64_t r, uint64_t i) {
  if ((r + i) % ((ranks + 7) / 8) != 0) return 1;
  return 1 + (mix(r, i) & 1);
}

/* Returns an input value. All values are integers, held in 64 bits (two's
 * complement). */
static uint64_t input_value(gloo_dtype dtype, gloo_op op, int ranks, int rank,
                            size_t index) {
  uint64_t p = (uint64_t)ranks, r = (uint64_t)rank, i = index;
  if (is_float(dtype)) {
    if (op == GLOO_SUM) return float_term(dtype, p, r, i);
    if (op == GLOO_AVERAGE) return float_about(dtype, p, r, i);
    if (op == GLOO_PRODUCT) return float_factor(p, r, i);
    uint64_t most = is_float8(dtype) ? 8 : 100;
    return mix(r, i) % (2 * most + 1) - most;
  }
  if (dtype == GLOO_BOOL) return mix(r, i) & 1;
  if (is_logical(op) && mix(r, i) % 4 == 0) return 0;
  if (op == GLOO_PRODUCT) return wrapped(dtype, mix(r, i) | 1);
  return wrapped(dtype, mix(r, i));
}

static bool less(gloo_dtype dtype, uint64_t a, uint64_t b) {
  return is_unsigned(dtype) ? a < b : (int64_t)a < (int64_t)b;
}

static uint64_t combine(gloo_dtype dtype, gloo_op op, uint64_t a, uint64_t b) {
  switch (op) {
    case GLOO_SUM:
    case GLOO_AVERAGE:
      return a + b;
    case GLOO_PRODUCT:
      return a * b;
    case GLOO_MIN:
      return less(dtype, b, a) ? b : a;
    case GLOO_MAX:
      return less(dtype, a, b) ? b : a;
    case GLOO_BAND:
      return a & b;
    case GLOO_BOR:
      return a | b;
    case GLOO_LAND:
      return a != 0 && b != 0;
    case GLOO_LOR:
      return a != 0 || b != 0;
    case GLOO_LXOR:
      return (a != 0) != (b != 0);
    default:
      return a ^ b;
  }
}

/* Divides, truncating toward zero, after the sum has wrapped around as it does
 * in the type. */
static uint64_t divided(gloo_dtype dtype, uint64_t sum, int ranks) {
  if (ranks < 1) return 0;
  if (is_float(dtype)) return (uint64_t)((int64_t)sum / ranks);
  sum = wrapped(dtype, sum);
  if (is_unsigned(dtype)) return sum / (uint64_t)ranks;
  return (uint64_t)((int64_t)sum / ranks);
}

/* ---- elements ------------------------------------------------------------ */

/* Converts a small integer to binary16: exact up to 2,048. */
static uint16_t half_of(int64_t value) {
  uint32_t sign = value < 0 ? 0x8000 : 0;
  uint32_t magnitude = (uint32_t)(value < 0 ? -value : value);
  if (magnitude == 0) return (uint16_t)sign;
  uint32_t exponent = 0;
  while (magnitude >> (exponent + 1) != 0) exponent++;
  uint32_t mantissa = (magnitude << 11 >> (exponent + 1)) & 0x3ff;
  return (uint16_t)(sign | (exponent + 15) << 10 | mantissa);
}

/* Returns the upper half of a float32, which holds a small integer completely.
 */
static uint16_t bfloat_of(int64_t value) {
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* Converts a small integer to e4m3fn: exact up to 16, and for powers of two to
 * 256. */
static uint8_t e4m3fn_of(int64_t value) {
  uint16_t half = half_of(value);
  int magnitude = half & 0x7fff;
  if (magnitude != 0) magnitude = (magnitude >> 7) - (8 << 3);
  return (uint8_t)(half >> 8 & 0x80 ? 0x80 | magnitude : magnitude);
}

static void store(gloo_dtype dtype, uint64_t value, uint8_t *to) {
  uint8_t u8 = (uint8_t)value;
  uint16_t u16 = (uint16_t)value;
  uint32_t u32 = (uint32_t)value;
  float f32 = (float)(int64_t)value;
  double f64 = (double)(int64_t)value;
  float c64[2] = {f32, 0};
  double c128[2] = {f64, 0};
  if (dtype == GLOO_FLOAT8_E4M3FN) u8 = e4m3fn_of((int64_t)value);
  if (dtype == GLOO_FLOAT8_E5M2) u8 = (uint8_t)(half_of((int64_t)value) >> 8);
  if (dtype == GLOO_FLOAT16) u16 = half_of((int64_t)value);
  if (dtype == GLOO_BFLOAT16) u16 = bfloat_of((int64_t)value);
  const void *from = &value;
  size_t bytes = gloo_dtype_size(dtype);
  if (bytes == 1) from = &u8;
  if (bytes == 2) from = &u16;
  if (bytes == 4) from = &u32;
  if (dtype == GLOO_FLOAT32) from = &f32;
  if (dtype == GLOO_FLOAT64) from = &f64;
  if (dtype == GLOO_COMPLEX64) from = c64;
  if (dtype == GLOO_COMPLEX128) from = c128;
  memcpy(to, from, bytes);
}

const char *gli_element_text(gloo_dtype dtype, const void *element,
                             char text[GLI_ELEMENT_TEXT]) {
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t value = 0;
  float f32, c64[2];
  double f64, c128[2];
  switch (gloo_dtype_size(dtype)) {
    case 1:
      memcpy(&u8, element, 1), value = u8;
      break;
    case 2:
      memcpy(&u16, element, 2), value = u16;
      break;
    case 4:
      memcpy(&u32, element, 4), value = u32;
      break;
    default:
      memcpy(&value, element, 8);
  }
  memcpy(&f32, element, dtype == GLOO_FLOAT32 ? sizeof f32 : 0);
  memcpy(&f64, element, dtype == GLOO_FLOAT64 ? sizeof f64 : 0);
  memcpy(c64, element, dtype == GLOO_COMPLEX64 ? sizeof c64 : 0);
  memcpy(c128, element, dtype == GLOO_COMPLEX128 ? sizeof c128 : 0);
  if (dtype == GLOO_FLOAT32) {
    snprintf(text, GLI_ELEMENT_TEXT, "%.9g", (double)f32);
  } else if (dtype == GLOO_FLOAT64) {
    snprintf(text, GLI_ELEMENT_TEXT, "%.17g", f64);
  } else if (dtype == GLOO_COMPLEX64) {
    snprintf(text, GLI_ELEMENT_TEXT, "%.9g%+.9gi", (double)c64[0],
             (double)c64[1]);
  } else if (dtype == GLOO_COMPLEX128) {
    snprintf(text, GLI_ELEMENT_TEXT, "%.17g%+.17gi", c128[0], c128[1]);
  } else if (is_float8(dtype)) {
    snprintf(text, GLI_ELEMENT_TEXT, "0x%02" PRIx64, value);
  } else if (is_float(dtype)) {
    snprintf(text, GLI_ELEMENT_TEXT, "0x%04" PRIx64, value);
  } else if (is_unsigned(dtype)) {
    snprintf(text, GLI_ELEMENT_TEXT, "%" PRIu64, value);
  } else {
    snprintf(text, GLI_ELEMENT_TEXT, "%" PRId64,
             (int64_t)wrapped(dtype, value));
  }
  return text;
}

/* ---- periods ------------------------------------------------------------- */

void gli_period_input(gli_period *period, gloo_dtype dtype, gloo_op op,
                      int ranks, int rank) {
  period->elem_bytes = gloo_dtype_size(dtype);
  for (size_t i = 0; i < GLI_VALUES_PERIOD; i++) {
    store(dtype, input_value(dtype, op, ranks, rank, i),
          period->data + i * period->elem_bytes);
  }
}

void gli_period_reduced(gli_period *period, gloo_dtype dtype, gloo_op op,
                        int ranks, int n) {
  period->elem_bytes = gloo_dtype_size(dtype);
  for (size_t i = 0; i < GLI_VALUES_PERIOD; i++) {
    uint64_t result = input_value(dtype, op, ranks, 0, i);
    for (int r = 1; r < n; r++) {
      result = combine(dtype, op, result, input_value(dtype, op, ranks, r, i));
    }
    if (op == GLOO_AVERAGE) result = divided(dtype, result, n);
    store(dtype, result, period->data + i * period->elem_bytes);
  }
}

void gli_period_moved(gli_period *period, gloo_dtype dtype, int rank) {
  period->elem_bytes = gloo_dtype_size(dtype);
  for (size_t i = 0; i < GLI_VALUES_PERIOD; i++) {
    uint64_t bits[2] = {mix((uint64_t)rank, i), mix(i, (uint64_t)rank)};
    memcpy(period->data + i * period->elem_bytes, bits, period->elem_bytes);
  }
}

const void *gli_period_at(const gli_period *period, size_t i) {
  return period->data + i % GLI_VALUES_PERIOD * period->elem_bytes;
}

/* Returns how many elements from `first` on are contiguous in the period. */
static size_t run_length(size_t first, size_t count) {
  size_t left = GLI_VALUES_PERIOD - first % GLI_VALUES_PERIOD;
  return left < count ? left : count;
}

void gli_period_fill(const gli_period *period, void *to, size_t first,
                     size_t count) {
  uint8_t *at = to;
  while (count > 0) {
    size_t length = run_length(first, count);
    memcpy(at, gli_period_at(period, first), length * period->elem_bytes);
    at += length * period->elem_bytes;
    first += length;
    count -= length;
  }
}

static size_t first_difference(const gli_period *period, const uint8_t *data,
                               size_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (memcmp(data + i * period->elem_bytes, gli_period_at(period, first + i),
               period->elem_bytes) != 0) {
      return i;
    }
  }
  return count;
}

size_t gli_period_mismatch(const gli_period *period, const void *data,
                           size_t first, size_t count) {
  const uint8_t *at = data;
  for (size_t done = 0; done < count;) {
    size_t length = run_length(first + done, count - done);
    const uint8_t *here = at + done * period->elem_bytes;
    if (memcmp(here, gli_period_at(period, first + done),
               length * period->elem_bytes) != 0) {
      return done + first_difference(period, here, first + done, length);
    }
    done += length;
  }
  return count;
}
