#include "oracle.h"

#include <math.h>
#include <string.h>

const oracle_half oracle_float16 = {5, 10}, oracle_bfloat16 = {8, 7};

double oracle_decode(const oracle_half *format, uint16_t bits) {
  int bias = (1 << (format->exponent_bits - 1)) - 1;
  int exponent_max = (1 << format->exponent_bits) - 1;
  int exponent = (bits >> format->mantissa_bits) & exponent_max;
  int mantissa = bits & ((1 << format->mantissa_bits) - 1);
  int one = 1 << format->mantissa_bits;
  double value;
  if (exponent == exponent_max) {
    value = mantissa != 0 ? (double)NAN : (double)INFINITY;
  } else if (exponent == 0) {
    value = ldexp(mantissa, 1 - bias - format->mantissa_bits);
  } else {
    value = ldexp(one + mantissa, exponent - bias - format->mantissa_bits);
  }
  return bits & 0x8000 ? -value : value;
}

uint16_t oracle_encode(const oracle_half *format, double value) {
  int infinity = ((1 << format->exponent_bits) - 1) << format->mantissa_bits;
  int sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  if (isnan(value)) {
    return (uint16_t)(infinity | 1 << (format->mantissa_bits - 1));
  }
  /* Positive numbers are ordered as their bits are: find the last one that is
   * not above. Where infinity stands, rounding sees the next power of two. */
  int low = 0, high = infinity;
  while (low + 1 < high) {
    int middle = (low + high) / 2;
    if (oracle_decode(format, (uint16_t)middle) <= size) {
      low = middle;
    } else {
      high = middle;
    }
  }
  double below = oracle_decode(format, (uint16_t)low);
  double above = high == infinity ? ldexp(1.0, 1 << (format->exponent_bits - 1))
                                  : oracle_decode(format, (uint16_t)high);
  double to_below = size - below, to_above = above - size;
  bool up = to_above < to_below || (to_above == to_below && low % 2 != 0);
  return (uint16_t)(sign | (up ? high : low));
}

static bool is_float(gloo_dtype dtype) {
  return dtype >= GLOO_FLOAT16;
}

bool oracle_supports(gloo_dtype dtype, gloo_op op) {
  bool bitwise = op == GLOO_BAND || op == GLOO_BOR || op == GLOO_BXOR;
  return !(bitwise && is_float(dtype));
}

/* The smaller of two floats: NaN when there is one, and -0.0 before +0.0. */
static double smaller(double a, double b) {
  if (isnan(a) || isnan(b)) return (double)NAN;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

static double float_op(gloo_op op, double a, double b) {
  switch ((int)op) {
    case GLOO_SUM:
      return a + b;
    case GLOO_PRODUCT:
      return a * b;
    case GLOO_MIN:
      return smaller(a, b);
    default:
      return -smaller(-a, -b);
  }
}

static double decode(gloo_dtype dtype, uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float single;
  double wide;
  switch ((int)dtype) {
    case GLOO_FLOAT16:
      return oracle_decode(&oracle_float16, (uint16_t)bits);
    case GLOO_BFLOAT16:
      return oracle_decode(&oracle_bfloat16, (uint16_t)bits);
    case GLOO_FLOAT32:
      memcpy(&single, &low, sizeof single);
      return (double)single;
    default:
      memcpy(&wide, &bits, sizeof wide);
      return wide;
  }
}

/* float32 sums and products made in double and then rounded are exact: double
 * has more than twice the bits. */
static uint64_t encode(gloo_dtype dtype, double value) {
  float single = (float)value;
  uint32_t low;
  uint64_t bits;
  switch ((int)dtype) {
    case GLOO_FLOAT16:
      return oracle_encode(&oracle_float16, (double)single);
    case GLOO_BFLOAT16:
      return oracle_encode(&oracle_bfloat16, (double)single);
    case GLOO_FLOAT32:
      if (isnan(value)) return 0x7fc00000;
      memcpy(&low, &single, sizeof low);
      return low;
    default:
      if (isnan(value)) return UINT64_C(0x7ff8000000000000);
      memcpy(&bits, &value, sizeof bits);
      return bits;
  }
}

static uint64_t integer_op(gloo_op op, uint64_t a, uint64_t b, uint64_t order) {
  switch (op) {
    case GLOO_SUM:
      return a + b;
    case GLOO_PRODUCT:
      return a * b;
    case GLOO_MIN:
      return (a ^ order) < (b ^ order) ? a : b;
    case GLOO_MAX:
      return (a ^ order) < (b ^ order) ? b : a;
    case GLOO_BAND:
      return a & b;
    case GLOO_BOR:
      return a | b;
    default:
      return a ^ b;
  }
}

/* Signed numbers are ordered as unsigned ones are once the sign bit is turned
 * over. */
static uint64_t sign_bit(gloo_dtype dtype, size_t bytes) {
  return dtype <= GLOO_INT64 ? UINT64_C(1) << (8 * bytes - 1) : 0;
}

uint64_t oracle_reduce(gloo_dtype dtype, gloo_op op, uint64_t a, uint64_t b) {
  size_t bytes = gloo_dtype_size(dtype);
  uint64_t mask = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1;
  if (is_float(dtype)) {
    return encode(dtype, float_op(op, decode(dtype, a), decode(dtype, b)));
  }
  return integer_op(op, a & mask, b & mask, sign_bit(dtype, bytes)) & mask;
}
