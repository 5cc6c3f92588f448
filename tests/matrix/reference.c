#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/values.h"
#include "draw.h"
#include "pattern.h"

struct reference {
  gloo_dtype dtype;
  int op;
  inputs kind;
  size_t element;                      /* bytes */
  int ranks, inputs;                   /* totals over all ranks */
  int first[REFERENCE_MOST_RANKS + 1]; /* index of each rank's first input */
  bool loose;
  bool exact;         /* equal as numbers; bits may differ */
  uint8_t *values;    /* [inputs][PATTERN_PLACES] elements */
  uint8_t *results;   /* [ranks + 1][PATTERN_PLACES] */
  double *low, *high; /* [ranks + 1][PATTERN_PLACES][2] when loose */
};

uint64_t reference_mix(uint64_t a, uint64_t b) {
  uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* ---- bounds --------------------------------------------------------------
 * n numbers are added, or multiplied, in n - 1 operations in any order, each of
 * which is off by a factor of at most 1 + u (Higham, "Accuracy and Stability of
 * Numerical Algorithms", 2002, sections 3.1 and 4.2). */

static double unit(const reference *r, int op) {
  double u = ldexp(1, -draw_precision(r->dtype));
  /* The factor for complex products is from Brent, Percival and Zimmermann
   * 2007. */
  if (oracle_parts(r->dtype) == 2 && op == GLOO_PRODUCT) u *= 2.2361;
  return u;
}

/* Returns true if the result is computed in float32 and rounded to the type at
 * the end, as averages and scaled sums of low-precision floats are. */
static bool is_widened(const reference *r) {
  bool narrow = draw_precision(r->dtype) > 0 && draw_precision(r->dtype) < 24;
  return narrow && (r->op == GLOO_AVERAGE || r->op == REFERENCE_SCALED);
}

/* Returns the error bound if each input is scaled, all are added, and the sum
 * is divided. */
static double widened_error(const reference *r, int n, double number,
                            double size) {
  double operations = r->first[n] + 1;
  double error = expm1(operations * log1p(ldexp(1, -24))) * size;
  error += (fabs(number) + error) * unit(r, r->op);
  return error + ldexp(1, draw_least(r->dtype) - 1);
}

/* Sets the bounds of a result; `size` is the sum, or product, of absolute
 * values. */
static void set_bounds(reference *r, int op, int n, size_t place,
                       const double *number, double size) {
  double operations = op == GLOO_AVERAGE ? n : n - 1;
  double error = expm1(operations * log1p(unit(r, op))) * size;
  if (op == GLOO_AVERAGE) error += ldexp(1, draw_least(r->dtype));
  if (is_widened(r)) error = widened_error(r, n, number[0], size);
  if (draw_precision(r->dtype) > 24) error *= 2; /* doubles round, too */
  if (r->exact) error = 0;
  for (size_t part = 0; part < 2; part++) {
    size_t i = ((size_t)n * PATTERN_PLACES + place) * 2 + part;
    r->low[i] = number[part] - error;
    r->high[i] = number[part] + error;
  }
}

typedef struct running {
  double number[2], size;
} running;

static running operand(gloo_dtype dtype, int op, oracle_value v) {
  running x = {{0, 0}, 0};
  for (size_t p = 0; p < oracle_parts(dtype); p++) {
    x.number[p] = oracle_number(dtype, v.part[p]);
  }
  x.size = op == GLOO_PRODUCT ? hypot(x.number[0], x.number[1])
                              : fmax(fabs(x.number[0]), fabs(x.number[1]));
  return x;
}

static running join(int op, running a, running b) {
  running x;
  const double *s = a.number, *t = b.number;
  if (op == GLOO_PRODUCT) {
    x.number[0] = s[0] * t[0] - s[1] * t[1];
    x.number[1] = s[0] * t[1] + s[1] * t[0];
    x.size = a.size * b.size;
  } else {
    x.number[0] = s[0] + t[0];
    x.number[1] = s[1] + t[1];
    x.size = a.size + b.size;
  }
  return x;
}

/* Returns a quotient with the same relative error. */
static running divided(running x, int n) {
  return (running){{x.number[0] / n, x.number[1] / n}, x.size / n};
}

/* ---- results at one place ------------------------------------------------ */

static uint8_t *element(const reference *r, uint8_t *rows, int row,
                        size_t place) {
  return rows + ((size_t)row * PATTERN_PLACES + place) * r->element;
}

static void set_result(reference *r, int n, size_t place, oracle_value v) {
  value_put(element(r, r->results, n, place), r->dtype, v);
}

static oracle_value value_of(const reference *r, int input, size_t place) {
  return value_get(element(r, r->values, input, place), r->dtype);
}

/* Factors by rank. `whole` is n if the factor is 1.0 / n, else 0. */
static const struct {
  double factor;
  uint32_t whole;
} exact_factors[] = {{2, 0}, {-2, 0}},
  factors[] = {{1.0 / 3, 3}, {0.7, 0}, {-1.25, 0}, {0.5, 2}};

double reference_factor(inputs kind, int rank) {
  if (kind == INPUTS_ROUNDED) return factors[rank % 4].factor;
  return exact_factors[rank % 2].factor;
}

static gloo_op between(int op) {
  bool sums = op == GLOO_AVERAGE || op == REFERENCE_SCALED;
  return sums ? GLOO_SUM : (gloo_op)op;
}

static oracle_value reduce(const reference *r, oracle_value a, oracle_value b) {
  if (r->op < REFERENCE_AFFINE) {
    return oracle_reduce(r->dtype, between(r->op), a, b);
  }
  oracle_value v = {{0, 0}};
  for (int part = 0; part < 2; part++) {
    for (int at = 0; at < 64; at += 8) {
      uint8_t byte = reference_custom(r->op, (uint8_t)(a.part[part] >> at),
                                      (uint8_t)(b.part[part] >> at));
      v.part[part] |= (uint64_t)byte << at;
    }
  }
  return v;
}

/* Combines operands in this order; low-precision floats are rounded once. */
static oracle_value combine(const reference *r, const oracle_value *all,
                            size_t n) {
  if (r->op < REFERENCE_AFFINE) {
    return oracle_combine(r->dtype, between(r->op), all, n);
  }
  oracle_value v = all[0];
  for (size_t i = 1; i < n; i++) v = reduce(r, v, all[i]);
  return v;
}

/* Returns a rank's operand: its inputs combined, then scaled. */
static oracle_value operand_of(const reference *r, int rank, size_t place) {
  oracle_value own[REFERENCE_MOST_INPUTS];
  int first = r->first[rank], n = r->first[rank + 1] - first;
  for (int i = 0; i < n; i++) own[i] = value_of(r, first + i, place);
  oracle_value v = combine(r, own, (size_t)n);
  if (r->op != REFERENCE_SCALED) return v;
  bool rounded = r->kind == INPUTS_ROUNDED;
  uint32_t whole = rounded ? factors[rank % 4].whole : 0;
  return oracle_scale(r->dtype, v, reference_factor(r->kind, rank), whole);
}

static void set_average(reference *r, int row, size_t place, oracle_value v) {
  uint32_t ranks = (uint32_t)r->ranks;
  set_result(r, row, place, oracle_scale(r->dtype, v, 1.0 / ranks, ranks));
}

/* Computes row 0: all ranks combined at once; low-precision floats are rounded
 * once. */
static void work_out_at_once(reference *r, size_t place) {
  oracle_value all[REFERENCE_MOST_RANKS];
  for (int i = 0; i < r->ranks; i++) all[i] = operand_of(r, i, place);
  oracle_value v = combine(r, all, (size_t)r->ranks);
  set_result(r, 0, place, v);
  if (r->op == GLOO_AVERAGE) set_average(r, 0, place, v);
}

/* Computes the results step by step. Only the result of all ranks is an
 * average. */
static void work_out(reference *r, size_t place) {
  oracle_value v = operand_of(r, 0, place);
  set_result(r, 1, place, v);
  for (int n = 2; n <= r->ranks; n++) {
    v = reduce(r, v, operand_of(r, n - 1, place));
    set_result(r, n, place, v);
  }
  if (r->op == GLOO_AVERAGE) set_average(r, r->ranks, place, v);
}

static void work_out_bounds(reference *r, size_t place) {
  int op = r->op;
  running x = operand(r->dtype, op, operand_of(r, 0, place));
  for (int n = 1; n <= r->ranks; n++) {
    if (n > 1) {
      x = join(op, x, operand(r->dtype, op, operand_of(r, n - 1, place)));
    }
    running y = op == GLOO_AVERAGE ? divided(x, r->ranks) : x;
    set_bounds(r, op, n, place, y.number, y.size);
  }
}

/* ---- results at one place, in float32 ------------------------------------ */

/* Returns a rank's operand in float32. Averages scale bfloat16 down, so that
 * the sum does not overflow. */
static double widened(const reference *r, int rank, size_t place) {
  double less = r->dtype == GLOO_BFLOAT16 ? ldexp(1, -16) : 1, sum = 0;
  double factor = (double)(float)reference_factor(r->kind, rank);
  uint32_t whole = r->kind == INPUTS_ROUNDED ? factors[rank % 4].whole : 0;
  for (int i = r->first[rank]; i < r->first[rank + 1]; i++) {
    double x = oracle_number(r->dtype, value_of(r, i, place).part[0]);
    if (r->op == GLOO_AVERAGE) {
      x *= less;
    } else {
      x = (double)(float)(whole != 0 ? x / whole : x * factor);
    }
    sum = i == r->first[rank] ? x : (double)(float)(sum + x);
  }
  return sum;
}

static void set_widened(reference *r, int row, size_t place, double number) {
  set_result(r, row, place, (oracle_value){{oracle_part(r->dtype, number), 0}});
}

/* Computes the results step by step; combining all at once gives the same. */
static void work_out_widened(reference *r, size_t place) {
  double less = r->dtype == GLOO_BFLOAT16 ? ldexp(1, -16) : 1, sum = 0;
  for (int n = 1; n <= r->ranks; n++) {
    double x = widened(r, n - 1, place);
    sum = n == 1 ? x : (double)(float)(sum + x);
    set_widened(r, n, place, sum);
  }
  if (r->op == GLOO_AVERAGE) {
    sum = (double)(float)(sum / (r->ranks * less));
    set_widened(r, r->ranks, place, sum);
  }
  set_widened(r, 0, place, sum);
}

static void work_out_widened_bounds(reference *r, size_t place) {
  double number = 0, size = 0;
  for (int n = 1; n <= r->ranks; n++) {
    double factor = reference_factor(r->kind, n - 1);
    if (r->op == GLOO_AVERAGE) factor = 1.0 / r->ranks;
    for (int i = r->first[n - 1]; i < r->first[n]; i++) {
      double x = oracle_number(r->dtype, value_of(r, i, place).part[0]);
      number += x * factor;
      size += fabs(x * factor);
    }
    set_bounds(r, r->op, n, place, (double[2]){number, 0}, size);
  }
}

/* ---- the whole reference ------------------------------------------------- */

static void fill(reference *r, uint64_t seed) {
  for (size_t place = 0; place < PATTERN_PLACES; place++) {
    for (int i = 0; i < r->inputs; i++) {
      draw d = {.dtype = r->dtype,
                .op = r->op,
                .kind = r->kind,
                .inputs = r->inputs,
                .input = i,
                .group = reference_mix(seed, place),
                .random = reference_mix(seed + 1, place << 16 | (unsigned)i)};
      value_put(element(r, r->values, i, place), r->dtype, draw_value(&d));
    }
    if (r->op == REFERENCE_NO_OP) continue;
    if (is_widened(r)) {
      work_out_widened(r, place);
      if (r->loose) work_out_widened_bounds(r, place);
      continue;
    }
    work_out(r, place);
    work_out_at_once(r, place);
    if (r->loose) work_out_bounds(r, place);
  }
}

int reference_inputs(int op, int rank) {
  return op == REFERENCE_NO_OP ? 2 : 1 + (rank + 1) % REFERENCE_MOST_INPUTS;
}

reference *reference_make(int ranks, bool several, gloo_dtype dtype, int op,
                          inputs kind, uint64_t seed) {
  reference *r = calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  size_t rows = (size_t)ranks + 1;
  r->dtype = dtype;
  r->op = op;
  r->kind = kind;
  r->element = gloo_dtype_size(dtype);
  r->ranks = ranks;
  for (int i = 0; i < ranks; i++) {
    r->first[i + 1] = r->first[i] + (several ? reference_inputs(op, i) : 1);
  }
  r->inputs = r->first[ranks];
  r->loose = draw_is_loose(dtype, op, kind);
  r->exact = kind == INPUTS_EXACT;
  r->values = calloc((size_t)r->inputs * PATTERN_PLACES, r->element);
  r->results = calloc(rows * PATTERN_PLACES, r->element);
  if (r->loose) {
    r->low = calloc(rows * PATTERN_PLACES * 2, sizeof(double));
    r->high = calloc(rows * PATTERN_PLACES * 2, sizeof(double));
  }
  bool made = r->values && r->results && (!r->loose || (r->low && r->high));
  if (made) {
    fill(r, seed);
    return r;
  }
  reference_free(r);
  return NULL;
}

void reference_free(reference *r) {
  if (r == NULL) return;
  free(r->values);
  free(r->results);
  free(r->low);
  free(r->high);
  free(r);
}

bool reference_is_loose(const reference *r) {
  return r->loose;
}

/* ---- buffers ------------------------------------------------------------- */

static const uint8_t *input_row(const reference *r, int rank, int number) {
  return element(r, r->values, r->first[rank] + number, 0);
}

static const uint8_t *result_row(const reference *r, int operands) {
  return element(r, r->results, operands, 0);
}

void reference_input(const reference *r, int rank, int number, uint64_t key,
                     size_t n, uint8_t *to) {
  pattern_fill(input_row(r, rank, number), r->element, key, n, to);
}

size_t reference_check_input(const reference *r, int rank, int number,
                             uint64_t key, size_t from, size_t n,
                             const uint8_t *is) {
  return pattern_check(input_row(r, rank, number), r->element, key, from, n,
                       is);
}

size_t reference_check_result(const reference *r, int operands, uint64_t key,
                              size_t n, const uint8_t *is) {
  return pattern_check(result_row(r, operands), r->element, key, 0, n, is);
}

void reference_input_at(const reference *r, int rank, int number, uint64_t key,
                        size_t i, uint8_t *to) {
  const uint8_t *row = input_row(r, rank, number);
  memcpy(to, row + pattern_place(key, i) * r->element, r->element);
}

void reference_result_at(const reference *r, int operands, uint64_t key,
                         size_t i, uint8_t *to) {
  const uint8_t *row = result_row(r, operands);
  memcpy(to, row + pattern_place(key, i) * r->element, r->element);
}

static bool is_within(const reference *r, int operands, size_t place,
                      const uint8_t *is) {
  const uint8_t *one = result_row(r, operands) + place * r->element;
  if (memcmp(is, one, r->element) == 0) return true;
  oracle_value v = value_get(is, r->dtype);
  size_t at = ((size_t)operands * PATTERN_PLACES + place) * 2;
  for (size_t p = 0; p < oracle_parts(r->dtype); p++) {
    double number = oracle_number(r->dtype, v.part[p]);
    if (!(number >= r->low[at + p] && number <= r->high[at + p])) return false;
  }
  return true;
}

/* Returns the first element out of bounds, or n. Long runs of elements are
 * added in the same order, so the last accepted result of a place is tried
 * first. */
size_t reference_check_bounds(const reference *r, int operands, uint64_t key,
                              size_t n, const uint8_t *is) {
  uint8_t right[PATTERN_PLACES * REFERENCE_MOST_BYTES];
  memcpy(right, result_row(r, operands), PATTERN_PLACES * r->element);
  size_t i = 0;
  for (;;) {
    i += pattern_check(right, r->element, key, i, n - i, is + i * r->element);
    if (i >= n) return n;
    /* The next elements are checked one by one, until the new results are
     * known. */
    size_t end = n - i < 2 * PATTERN_PLACES ? n : i + 2 * PATTERN_PLACES;
    for (; i < end; i++) {
      size_t place = pattern_place(key, i);
      uint8_t *known = right + place * r->element;
      if (memcmp(known, is + i * r->element, r->element) == 0) continue;
      if (!is_within(r, operands, place, is + i * r->element)) return i;
      memcpy(known, is + i * r->element, r->element);
    }
  }
}
