#include "oracle.h"

#include <math.h>
#include <string.h>

const oracle_half oracle_float16 = {5, 10, true},
                  oracle_bfloat16 = {8, 7, true}, oracle_e4m3fn = {4, 3, false},
                  oracle_e5m2 = {5, 2, true};

static int sign_of(const oracle_half *format) {
  return 1 << (format->exponent_bits + format->mantissa_bits);
}

/* Returns the smallest magnitude that encodes infinity or NaN. */
static int end_of(const oracle_half *format) {
  if (!format->has_infinity) return sign_of(format) - 1;
  return ((1 << format->exponent_bits) - 1) << format->mantissa_bits;
}

/* Returns the number that the bits would encode in an unlimited range. */
static double decode_magnitude(const oracle_half *format, int bits) {
  int bias = (1 << (format->exponent_bits - 1)) - 1;
  int exponent = bits >> format->mantissa_bits;
  int one = 1 << format->mantissa_bits;
  int mantissa = bits & (one - 1);
  if (exponent == 0) return ldexp(mantissa, 1 - bias - format->mantissa_bits);
  return ldexp(one + mantissa, exponent - bias - format->mantissa_bits);
}

double oracle_decode(const oracle_half *format, uint16_t bits) {
  int magnitude = bits & (sign_of(format) - 1);
  double value = decode_magnitude(format, magnitude);
  if (magnitude >= end_of(format)) {
    bool infinite = format->has_infinity && magnitude == end_of(format);
    value = infinite ? (double)INFINITY : (double)NAN;
  }
  return bits & sign_of(format) ? -value : value;
}

uint16_t oracle_encode(const oracle_half *format, double value) {
  int end = end_of(format);
  int quiet = format->has_infinity ? 1 << (format->mantissa_bits - 1) : 0;
  int sign = signbit(value) ? sign_of(format) : 0;
  double size = fabs(value);
  if (isnan(value)) return (uint16_t)(end | quiet);
  /* Positive numbers are ordered as their bits: find the last one not above. At
   * the end of the range, rounding uses the number that would follow. */
  int low = 0, high = end;
  while (low + 1 < high) {
    int middle = (low + high) / 2;
    if (decode_magnitude(format, middle) <= size) {
      low = middle;
    } else {
      high = middle;
    }
  }
  double to_below = size - decode_magnitude(format, low);
  double to_above = decode_magnitude(format, high) - size;
  bool up = to_above < to_below || (to_above == to_below && low % 2 != 0);
  if (up && high == end && !format->has_infinity) return (uint16_t)end;
  return (uint16_t)(sign | (up ? high : low));
}

static const oracle_half *format_of(gloo_dtype dtype) {
  switch ((int)dtype) {
    case GLOO_FLOAT16:
      return &oracle_float16;
    case GLOO_BFLOAT16:
      return &oracle_bfloat16;
    case GLOO_FLOAT8_E4M3FN:
      return &oracle_e4m3fn;
    case GLOO_FLOAT8_E5M2:
      return &oracle_e5m2;
    default:
      return NULL;
  }
}

static bool is_complex(gloo_dtype dtype) {
  return dtype == GLOO_COMPLEX64 || dtype == GLOO_COMPLEX128;
}

static bool is_float(gloo_dtype dtype) {
  return dtype == GLOO_FLOAT32 || dtype == GLOO_FLOAT64 ||
         format_of(dtype) != NULL;
}

static bool is_among(gloo_op op, const char *names) {
  return strstr(names, gloo_op_name(op)) != NULL;
}

bool oracle_supports(gloo_dtype dtype, gloo_op op) {
  if (op == GLOO_AVERAGE) return is_float(dtype) || is_complex(dtype);
  if (is_complex(dtype)) return is_among(op, "sum product");
  if (is_float(dtype)) return is_among(op, "sum product min max");
  if (dtype == GLOO_BOOL) {
    return is_among(op, "min max band bor bxor land lor lxor");
  }
  return true;
}

/* Returns the smaller of two floats: NaN if either is, and -0.0 before +0.0. */
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

double oracle_number(gloo_dtype dtype, uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float single;
  double wide;
  if (format_of(dtype) != NULL) {
    return oracle_decode(format_of(dtype), (uint16_t)bits);
  }
  if (dtype == GLOO_FLOAT32 || dtype == GLOO_COMPLEX64) {
    memcpy(&single, &low, sizeof single);
    return (double)single;
  }
  memcpy(&wide, &bits, sizeof wide);
  return wide;
}

/* float32 sums and products made in double and then rounded are exact: double
 * has more than twice the bits. */
uint64_t oracle_part(gloo_dtype dtype, double value) {
  float single = (float)value;
  uint32_t low;
  uint64_t bits;
  if (format_of(dtype) != NULL) {
    return oracle_encode(format_of(dtype), (double)single);
  }
  if (dtype == GLOO_FLOAT32 || dtype == GLOO_COMPLEX64) {
    if (isnan(value)) return 0x7fc00000;
    memcpy(&low, &single, sizeof low);
    return low;
  }
  if (isnan(value)) return UINT64_C(0x7ff8000000000000);
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint64_t integer_op(gloo_op op, uint64_t a, uint64_t b, uint64_t order) {
  switch ((int)op) {
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
    case GLOO_BXOR:
      return a ^ b;
    case GLOO_LAND:
      return a != 0 && b != 0;
    case GLOO_LOR:
      return a != 0 || b != 0;
    default:
      return (a == 0) != (b == 0);
  }
}

/* Returns the sign bit: with it inverted, signed numbers are ordered as
 * unsigned ones. */
static uint64_t sign_bit(gloo_dtype dtype, size_t bytes) {
  return dtype <= GLOO_INT64 ? UINT64_C(1) << (8 * bytes - 1) : 0;
}

size_t oracle_parts(gloo_dtype dtype) {
  return is_complex(dtype) ? 2 : 1;
}

/* Rounds to the part's type, as after each of the six operations. */
static double rounded(gloo_dtype dtype, double value) {
  return dtype == GLOO_COMPLEX64 ? (double)(float)value : value;
}

static oracle_value complex_op(gloo_dtype dtype, gloo_op op, oracle_value a,
                               oracle_value b) {
  double ar = oracle_number(dtype, a.part[0]),
         ai = oracle_number(dtype, a.part[1]);
  double br = oracle_number(dtype, b.part[0]),
         bi = oracle_number(dtype, b.part[1]);
  double real = ar + br, imaginary = ai + bi;
  if (op == GLOO_PRODUCT) {
    real = rounded(dtype, ar * br) - rounded(dtype, ai * bi);
    imaginary = rounded(dtype, ar * bi) + rounded(dtype, ai * br);
  }
  return (oracle_value){
      {oracle_part(dtype, real), oracle_part(dtype, imaginary)}};
}

/* Returns the integer operation that is equal to the logical one. */
static gloo_op truth_op(gloo_op op) {
  switch ((int)op) {
    case GLOO_MIN:
    case GLOO_BAND:
      return GLOO_LAND;
    case GLOO_MAX:
    case GLOO_BOR:
      return GLOO_LOR;
    case GLOO_BXOR:
      return GLOO_LXOR;
    default:
      return op;
  }
}

static uint64_t mask_of(gloo_dtype dtype) {
  size_t bytes = gloo_dtype_size(dtype);
  return bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1;
}

oracle_value oracle_reduce(gloo_dtype dtype, gloo_op op, oracle_value a,
                           oracle_value b) {
  uint64_t x = a.part[0] & mask_of(dtype), y = b.part[0] & mask_of(dtype);
  uint64_t order = sign_bit(dtype, gloo_dtype_size(dtype)), r;
  if (op == GLOO_AVERAGE) {
    return oracle_combine(dtype, op, (const oracle_value[]){a, b}, 2);
  }
  if (is_complex(dtype)) return complex_op(dtype, op, a, b);
  if (is_float(dtype)) {
    r = oracle_part(
        dtype, float_op(op, oracle_number(dtype, x), oracle_number(dtype, y)));
  } else {
    r = integer_op(dtype == GLOO_BOOL ? truth_op(op) : op, x, y, order);
  }
  return (oracle_value){{r, 0}};
}

static bool accumulates_in_float32(gloo_dtype dtype, gloo_op op) {
  return format_of(dtype) != NULL && (op == GLOO_SUM || op == GLOO_PRODUCT);
}

static oracle_value plain_average(gloo_dtype dtype,
                                  const oracle_value *operands, size_t n) {
  oracle_value sum = operands[0];
  for (size_t i = 1; i < n; i++)
    sum = oracle_reduce(dtype, GLOO_SUM, sum, operands[i]);
  return oracle_scale(dtype, sum, 1.0 / (double)n, (uint32_t)n);
}

/* Averages in float32. Operands of bfloat16 are scaled by 2^-16, so that their
 * sum fits; half of the quotient is rounded. */
static oracle_value average(gloo_dtype dtype, const oracle_value *operands,
                            size_t n) {
  double less = dtype == GLOO_BFLOAT16 ? 0x1p-16 : 1;
  double sum = oracle_number(dtype, operands[0].part[0]) * less;
  for (size_t i = 1; i < n; i++) {
    double next = oracle_number(dtype, operands[i].part[0]) * less;
    sum = (double)(float)(sum + next);
  }
  double twice = (double)(float)(sum / ((double)n / 2));
  return (oracle_value){{oracle_part(dtype, twice / 2 / less), 0}};
}

oracle_value oracle_combine(gloo_dtype dtype, gloo_op op,
                            const oracle_value *operands, size_t n) {
  oracle_value result = operands[0];
  if (n == 1) return result;
  if (op == GLOO_AVERAGE && format_of(dtype) == NULL)
    return plain_average(dtype, operands, n);
  if (op == GLOO_AVERAGE) return average(dtype, operands, n);
  if (!accumulates_in_float32(dtype, op)) {
    for (size_t i = 1; i < n; i++) {
      result = oracle_reduce(dtype, op, result, operands[i]);
    }
    return result;
  }
  double sum = oracle_number(dtype, result.part[0]);
  for (size_t i = 1; i < n; i++) {
    double next = oracle_number(dtype, operands[i].part[0]);
    sum = (double)(float)float_op(op, sum, next);
  }
  result.part[0] = oracle_part(dtype, sum);
  return result;
}

static uint64_t scale_part(gloo_dtype dtype, uint64_t bits, double factor,
                           uint32_t whole) {
  double x = oracle_number(dtype, bits);
  if (whole != 0) return oracle_part(dtype, x / whole);
  if (format_of(dtype) != NULL) factor = (double)(float)factor;
  return oracle_part(dtype, x * factor);
}

static uint64_t scale_signed(int64_t x, unsigned bits, double factor,
                             uint32_t whole) {
  int64_t least = bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
  if (whole != 0) return (uint64_t)(x / (int64_t)whole);
  double product = (double)x * factor;
  if (isnan(product)) return 0;
  if (product <= (double)least) return (uint64_t)least;
  if (product >= -(double)least) return (uint64_t)(-1 - least);
  return (uint64_t)(int64_t)product;
}

static uint64_t scale_unsigned(uint64_t x, unsigned bits, double factor,
                               uint32_t whole) {
  if (whole != 0) return x / whole;
  double product = (double)x * factor;
  if (isnan(product) || product < 1) return 0;
  return product >= ldexp(1, (int)bits) ? UINT64_MAX : (uint64_t)product;
}

oracle_value oracle_scale(gloo_dtype dtype, oracle_value value, double factor,
                          uint32_t whole) {
  unsigned bits = 8 * (unsigned)gloo_dtype_size(dtype);
  uint64_t x = value.part[0] & mask_of(dtype);
  uint64_t sign = sign_bit(dtype, bits / 8);
  if (is_complex(dtype) || is_float(dtype)) {
    for (size_t p = 0; p < oracle_parts(dtype); p++) {
      value.part[p] = scale_part(dtype, value.part[p], factor, whole);
    }
    return value;
  }
  if (sign == 0) {
    value.part[0] = scale_unsigned(x, bits, factor, whole);
  } else {
    int64_t extended = (int64_t)(x | (x & sign ? ~mask_of(dtype) : 0));
    value.part[0] = scale_signed(extended, bits, factor, whole);
  }
  return value;
}
