#include "draw.h"

#include <math.h>
#include <stddef.h>

static const struct {
  gloo_dtype dtype;
  int precision, least;
  bool has_infinity;
} floats[] = {
    {GLOO_FLOAT8_E4M3FN, 4, -9, false}, {GLOO_FLOAT8_E5M2, 3, -16, true},
    {GLOO_BFLOAT16, 8, -133, true},     {GLOO_FLOAT16, 11, -24, true},
    {GLOO_FLOAT32, 24, -149, true},     {GLOO_COMPLEX64, 24, -149, true},
    {GLOO_FLOAT64, 53, -1074, true},    {GLOO_COMPLEX128, 53, -1074, true},
};

static int find(gloo_dtype dtype) {
  for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
    if (floats[i].dtype == dtype) return (int)i;
  }
  return -1;
}

int draw_precision(gloo_dtype dtype) {
  return find(dtype) < 0 ? 0 : floats[find(dtype)].precision;
}

int draw_least(gloo_dtype dtype) {
  return find(dtype) < 0 ? 0 : floats[find(dtype)].least;
}

static bool is_sum(int op) {
  return op == GLOO_SUM || op == GLOO_AVERAGE || op == REFERENCE_SCALED;
}

static bool is_complex(gloo_dtype dtype) {
  return oracle_parts(dtype) == 2;
}

bool draw_has(gloo_dtype dtype, int op, inputs kind) {
  if (kind == INPUTS_EXACT) return true;
  if (op == REFERENCE_NO_OP || op >= REFERENCE_AFFINE) return false;
  if (draw_precision(dtype) == 0) return false;
  if (kind == INPUTS_ROUNDED) return is_sum(op) || op == GLOO_PRODUCT;
  /* (a + bi) (c + di) with an infinity depends on the order of operands. */
  return !(is_complex(dtype) && op == GLOO_PRODUCT);
}

/* Returns true if the result may vary: the signs of zeros do in complex
 * products. */
bool draw_is_loose(gloo_dtype dtype, int op, inputs kind) {
  if (kind == INPUTS_ROUNDED) return true;
  return is_complex(dtype) && op == GLOO_PRODUCT;
}

/* ---- random numbers ------------------------------------------------------ */

/* Returns the next number of a sequence. */
static uint64_t next(uint64_t *random) {
  *random = reference_mix(*random, 7);
  return *random;
}

/* Returns one of 0 ... n - 1. */
static int below(uint64_t *random, int n) {
  return (int)(next(random) % (unsigned)n);
}

/* Returns -1 or 1. */
static double sign(uint64_t *random) {
  return next(random) % 2 ? 1 : -1;
}

/* Returns a number of at least 0 and below 1. */
static double fraction(uint64_t *random) {
  return ldexp((double)(next(random) >> 11), -53);
}

/* Returns true if this input is among the `n` selected ones of its group. Each
 * group selects others. */
static bool is_among(const draw *d, int n) {
  return ((unsigned)d->input + d->group) % (unsigned)d->inputs < (unsigned)n;
}

/* ---- integers and booleans ----------------------------------------------- */

/* Draws a boolean: true everywhere, almost nowhere, or for half of the
 * inputs. */
static bool is_true(const draw *d, uint64_t *random) {
  int odds = below(random, d->inputs + 1);
  switch (d->group % 3) {
    case 0:
      return odds != 0;
    case 1:
      return odds == 0;
    default:
      return odds % 2 != 0;
  }
}

static uint64_t integer(const draw *d, uint64_t *random) {
  uint64_t any = next(random);
  bool truth = d->op == GLOO_LAND || d->op == GLOO_LOR || d->op == GLOO_LXOR;
  if (truth || d->dtype == GLOO_BOOL) {
    any = any % 4 ? 1 : any >> 57 | 2;
    return is_true(d, random) ? any : 0;
  }
  static const uint64_t corners[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63,
                                     (UINT64_C(1) << 63) - 1};
  int corner = below(random, 40);
  return corner < 5 ? corners[corner] : any;
}

/* ---- floats -------------------------------------------------------------- */

/* Draws a term such that all partial sums are exact. */
static double exact_term(const draw *d, uint64_t *random) {
  int precision = draw_precision(d->dtype);
  double room = ldexp(1, precision), all = d->inputs;
  double many = all < room ? all : room, most = floor(room / many);
  if (!is_among(d, (int)many)) return 0;
  double term = floor(fraction(random) * most) + 1;
  int wide = precision < 24 ? 0 : 20;
  uint64_t exponents = (uint64_t)(6 + 2 * wide);
  int exponent = (int)((d->group >> 8) % exponents) - 3 - wide;
  return sign(random) * ldexp(term, exponent);
}

/* Draws powers of two, few of which are not 1; one has another factor. */
static double exact_factor(const draw *d, uint64_t *random) {
  double factor = sign(random);
  if (is_among(d, 3)) factor *= ldexp(1, below(random, 3) - 1);
  if (is_among(d, 1)) factor *= 1 + below(random, 4) / 4.0;
  return factor;
}

static double any_number(const draw *d, uint64_t *random) {
  int wide = draw_precision(d->dtype) < 11 ? 4 : 12;
  return sign(random) *
         ldexp(1 + fraction(random), below(random, wide) - wide / 2);
}

static double exact_number(const draw *d, uint64_t *random) {
  if (is_sum(d->op)) return exact_term(d, random);
  if (d->op == GLOO_PRODUCT) return exact_factor(d, random);
  return any_number(d, random);
}

static double special_number(const draw *d, uint64_t *random) {
  double infinity =
      floats[find(d->dtype)].has_infinity ? (double)INFINITY : (double)NAN;
  switch (below(random, 4 * d->inputs + 4)) {
    case 0:
      return (double)NAN;
    case 1:
      return infinity;
    case 2:
      return -infinity;
    case 3:
      return 0.0;
    case 4:
      return -0.0;
    default:
      return exact_number(d, random);
  }
}

/* Draws a factor such that products of many neither underflow nor overflow. */
static double rounded_number(const draw *d, uint64_t *random) {
  if (d->op != GLOO_PRODUCT) return sign(random) * fraction(random);
  return sign(random) * (0.9 + 0.35 * fraction(random));
}

static double number(const draw *d, uint64_t *random) {
  switch (d->kind) {
    case INPUTS_ROUNDED:
      return rounded_number(d, random);
    case INPUTS_SPECIAL:
      return special_number(d, random);
    default:
      return exact_number(d, random);
  }
}

/* Draws rotations by quarter turns; some are scaled by the root of two, or by
 * two. */
static void exact_complex_factor(const draw *d, uint64_t *random, double *z) {
  static const double factors[][2] = {{1, 0}, {0, 1}, {1, 1}, {1, -1}, {2, 0}};
  int which = below(random, is_among(d, 3) ? 5 : 2);
  double s = sign(random);
  z[0] = s * factors[which][0];
  z[1] = s * factors[which][1];
}

static void rounded_complex_factor(uint64_t *random, double *z) {
  double size;
  do {
    z[0] = sign(random) * fraction(random);
    z[1] = sign(random) * fraction(random);
    size = hypot(z[0], z[1]);
  } while (size < 0.8 || size > 1.2);
}

oracle_value draw_value(const draw *d) {
  uint64_t random = d->random;
  oracle_value v = {{next(&random), next(&random)}};
  if (d->op == REFERENCE_NO_OP || d->op == REFERENCE_BYTES) return v;
  if (d->op == REFERENCE_AFFINE) { /* factors that stay nonzero modulo 16 */
    v.part[0] |= UINT64_C(0x1010101010101010);
    v.part[1] |= UINT64_C(0x1010101010101010);
    return v;
  }
  if (draw_precision(d->dtype) == 0) {
    v.part[0] = integer(d, &random);
    return v;
  }
  double z[2] = {0, 0};
  if (!is_complex(d->dtype)) {
    z[0] = number(d, &random);
  } else if (d->op != GLOO_PRODUCT) {
    z[0] = number(d, &random);
    z[1] = number(d, &random);
  } else if (d->kind == INPUTS_EXACT) {
    exact_complex_factor(d, &random, z);
  } else {
    rounded_complex_factor(&random, z);
  }
  v.part[0] = oracle_part(d->dtype, z[0]);
  v.part[1] = oracle_part(d->dtype, z[1]);
  return v;
}
