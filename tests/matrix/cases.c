/* The list of cases, generated from the library's lists of collectives,
 * algorithms, types and operations. */
#include <stdlib.h>

#include "draw.h"
#include "kernels/reduce.h"
#include "matrix.h"

static const uint32_t counts[] = {0, 1, 2, 10, 100, 1000, 10000, 1 << 20};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Limits on the buffers of all ranks in one case: by default, when several
 * tests run at the same time, and for the full product. */
#define BYTES_BY_DEFAULT ((uint64_t)1 << 28)
#define BYTES_OF_PRODUCT ((uint64_t)1 << 30)

/* ---- rows ---------------------------------------------------------------- */

enum { MOST_ROWS = 512 };

static size_t list_rows(matrix_row row, matrix_row *to) {
  size_t n = 0;
  to[n++] = row;
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    if (gli_algorithms[a].collective != row.collective) continue;
    row.algorithm = gli_algorithms[a].name;
    to[n++] = row;
  }
  return n;
}

size_t matrix_rows(const matrix_row **rows) {
  static matrix_row all[MOST_ROWS];
  static size_t n;
  *rows = all;
  if (n > 0) return n; /* first called before threads exist */
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    for (int v = 0; v < MATRIX_VARIANTS; v++) {
      matrix_row row = {(gli_collective)c, (matrix_variant)v, NULL};
      if (matrix_has(row.collective, row.variant)) n += list_rows(row, all + n);
      assert_true(n <= MOST_ROWS);
    }
  }
  return n;
}

bool matrix_is_first(const matrix_row *row) {
  return row->algorithm == NULL;
}

bool matrix_is_ordered(const matrix_row *row) {
  if (row->algorithm == NULL) return false;
  const gli_algorithm *a = gli_algorithm_find(row->collective, row->algorithm);
  return gli_algorithm_order(a) == GLI_ORDER_FOLD;
}

bool matrix_applies(const matrix_row *row, gloo_dtype dtype, int op) {
  gli_collective collective = row->collective;
  bool prefix = collective == GLI_SCAN || collective == GLI_EXSCAN;
  if (!gli_collective_reduces(collective)) return op == REFERENCE_NO_OP;
  if (op == REFERENCE_NO_OP) return false;
  if (op == REFERENCE_SCALED) return draw_precision(dtype) > 0;
  if (op > REFERENCE_NO_OP) return true;
  bool multi = row->variant == MATRIX_MULTI;
  if ((prefix || multi) && op == GLOO_AVERAGE) return false;
  return gli_reduce_refusal(dtype, (gloo_op)op) == NULL;
}

/* ---- seeds --------------------------------------------------------------- */

uint64_t matrix_drawn(const matrix_case *c, matrix_purpose purpose) {
  return reference_mix(c->seed, (uint64_t)purpose);
}

inputs matrix_inputs(const matrix_case *c) {
  uint64_t drawn = matrix_drawn(c, MATRIX_INPUTS) % 8;
  inputs kind = drawn < 4   ? INPUTS_EXACT
                : drawn < 7 ? INPUTS_ROUNDED
                            : INPUTS_SPECIAL;
  return draw_has((gloo_dtype)c->dtype, c->op, kind) ? kind : INPUTS_EXACT;
}

bool matrix_asks_for_order(const matrix_case *c) {
  const matrix_row *rows;
  matrix_rows(&rows);
  const matrix_row *row = &rows[c->row];
  if (c->op == REFERENCE_NO_OP) return false;
  if (matrix_drawn(c, MATRIX_ORDER) % 4 != 0) return false;
  return row->algorithm == NULL || matrix_is_ordered(row);
}

/* ---- the list ------------------------------------------------------------ */

/* Returns true if the algorithm supports the operation; some require it to be
 * commutative. */
static bool fits(const matrix_row *row, int op) {
  if (op != REFERENCE_AFFINE || row->algorithm == NULL) return true;
  const gli_algorithm *a = gli_algorithm_find(row->collective, row->algorithm);
  return gli_algorithm_order(a) != GLI_ORDER_ANY;
}

static void add(const matrix_ranks *ranks, matrix_cases *to,
                const matrix_case *given) {
  const matrix_row *rows;
  matrix_rows(&rows);
  matrix_case copy = *given, *c = &copy;
  if (!fits(&rows[c->row], c->op)) copy.op = REFERENCE_BYTES;
  if (matrix_bytes(ranks, c) > to->most_bytes) {
    to->left_out++;
    return;
  }
  if (to->room == 0 && to->list == NULL) { /* counting */
    to->n++;
    return;
  }
  if (to->n == to->room) {
    to->room *= 2;
    to->list = realloc(to->list, to->room * sizeof *to->list);
    assert_non_null(to->list);
  }
  to->list[to->n++] = *c;
}

static int roots_of(const matrix_row *row, int size) {
  bool message = row->collective == GLI_SENDRECV;
  return message || gli_collective_rooted(row->collective) ? size : 1;
}

static int places_of(const matrix_row *row) {
  return matrix_has_place(row) ? MATRIX_PLACES : 1;
}

/* Returns how many element counts to try: one if the count has no effect. */
static int counts_of(const matrix_row *row) {
  return row->collective == GLI_BARRIER ? 1 : COUNTS;
}

/* Takes the n-th type, or pair of type and operation, modulo their number. */
static void take_pair(const matrix_row *row, uint64_t n, matrix_case *c) {
  int pairs = 0;
  for (int pass = 0; pass < 2; pass++) {
    uint64_t left = pass == 0 ? UINT64_MAX : n % (uint64_t)pairs;
    for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
      for (int op = 0; op < REFERENCE_OPS; op++) {
        if (!matrix_applies(row, (gloo_dtype)d, op)) continue;
        c->dtype = (uint8_t)d;
        c->op = (uint8_t)op;
        if (left-- == 0) return;
        if (pass == 0) pairs++;
      }
    }
  }
}

/* ---- the core ------------------------------------------------------------ */

/* State for taking types, forms, roots and all other parameters in turn. */
typedef struct turns {
  const matrix_ranks *ranks;
  matrix_cases *to;
  uint64_t seed, turn;
} turns;

static void take_turn(turns *t, size_t row, matrix_case c) {
  const matrix_row *rows;
  matrix_rows(&rows);
  uint64_t n = t->turn++;
  int roots = roots_of(&rows[row], t->ranks->size);
  c.row = (uint16_t)row;
  c.seed = reference_mix(t->seed, n);
  if (c.dtype == GLOO_DTYPE_COUNT) take_pair(&rows[row], c.seed >> 8, &c);
  if (c.root == UINT8_MAX) c.root = (uint8_t)((c.seed >> 40) % (uint64_t)roots);
  c.form = (uint8_t)(n % MATRIX_FORMS);
  add(t->ranks, t->to, &c);
}

static matrix_case any_case(uint32_t count, int place) {
  return (matrix_case){.count = count,
                       .dtype = GLOO_DTYPE_COUNT,
                       .root = UINT8_MAX,
                       .place = (uint8_t)place};
}

/* Adds every algorithm, with few and moderately many elements, in every
 * place. */
static void core_counts(turns *t, size_t row) {
  static const uint32_t few[] = {0, 1, 10, 1000};
  const matrix_row *rows;
  matrix_rows(&rows);
  for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
    for (int place = 0; place < places_of(&rows[row]); place++) {
      take_turn(t, row, any_case(few[i], place));
    }
  }
}

static void core_roots(turns *t, size_t row) {
  const matrix_row *rows;
  matrix_rows(&rows);
  int roots = roots_of(&rows[row], t->ranks->size);
  for (int root = 0; roots > 1 && root < roots; root++) {
    matrix_case c = any_case(10, root % places_of(&rows[row]));
    c.root = (uint8_t)root;
    take_turn(t, row, c);
  }
}

/* Adds every type and operation, with the algorithms in turn. */
static void core_pairs(turns *t, size_t row, size_t algorithms) {
  const matrix_row *rows;
  matrix_rows(&rows);
  if (rows[row].collective == GLI_BARRIER) return;
  size_t turn = 0;
  for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
    for (int op = 0; op < REFERENCE_OPS; op++) {
      if (!matrix_applies(&rows[row], (gloo_dtype)d, op)) continue;
      matrix_case c = any_case(10, (int)turn % places_of(&rows[row]));
      c.dtype = (uint8_t)d;
      c.op = (uint8_t)op;
      take_turn(t, row + turn++ % algorithms, c);
    }
  }
}

static size_t algorithms_from(size_t row) {
  const matrix_row *rows;
  size_t n = matrix_rows(&rows), end = row + 1;
  while (end < n && !matrix_is_first(&rows[end])) end++;
  return end - row;
}

/* Returns true if the row belongs on these ranks. Ranks on several hosts, and
 * groups of them, only run host-aware algorithms and the library's choice. */
static bool is_for(const matrix_ranks *ranks, const matrix_row *row) {
  if (ranks->hosts == 0 || row->algorithm == NULL) return true;
  return gli_algorithm_find(row->collective, row->algorithm)->rounds == NULL;
}

void matrix_core(const matrix_ranks *ranks, uint64_t seed, matrix_cases *to) {
  to->most_bytes = BYTES_BY_DEFAULT;
  const matrix_row *rows;
  size_t n = matrix_rows(&rows);
  turns t = {ranks, to, reference_mix(seed, 1), 0};
  for (size_t row = 0; row < n; row++) {
    if (!is_for(ranks, &rows[row])) continue;
    core_counts(&t, row);
    core_roots(&t, row);
    bool pairs =
        rows[row].algorithm == NULL && ranks->hosts == 0 && ranks->size == 4;
    if (pairs) core_pairs(&t, row, algorithms_from(row));
  }
}

/* ---- a sample ------------------------------------------------------------ */

/* Draws a count. Long vectors are rare, because they take most of the time. */
static uint32_t draw_count(uint64_t drawn) {
  static const unsigned odds[COUNTS] = {50, 100, 100, 150, 200, 200, 190, 10};
  uint64_t left = drawn % 1000;
  size_t i = 0;
  while (left >= odds[i]) left -= odds[i++];
  return counts[i];
}

void matrix_sample(const matrix_ranks *ranks, uint64_t seed, size_t sample,
                   matrix_cases *to) {
  to->most_bytes = BYTES_BY_DEFAULT;
  const matrix_row *rows;
  size_t n = matrix_rows(&rows);
  for (size_t i = 0; i < sample; i++) {
    uint64_t own = reference_mix(reference_mix(seed, 2), i);
    size_t row = (size_t)(reference_mix(own, 1) % n);
    uint64_t roots = (uint64_t)roots_of(&rows[row], ranks->size);
    uint64_t places = (uint64_t)places_of(&rows[row]);
    matrix_case c = {.seed = own,
                     .row = (uint16_t)row,
                     .count = draw_count(reference_mix(own, 2)),
                     .root = (uint8_t)(reference_mix(own, 3) % roots),
                     .place = (uint8_t)(reference_mix(own, 4) % places),
                     .form = (uint8_t)(reference_mix(own, 5) % MATRIX_FORMS)};
    take_pair(&rows[row], reference_mix(own, 6), &c);
    add(ranks, to, &c);
  }
}

/* ---- everything ---------------------------------------------------------- */

/* Adds all cases of one row with one type and operation. */
static void product_of(const matrix_ranks *ranks, uint64_t seed, matrix_case *c,
                       matrix_cases *to) {
  const matrix_row *rows;
  matrix_rows(&rows);
  const matrix_row *row = &rows[c->row];
  for (int count = 0; count < counts_of(row); count++) {
    for (int root = 0; root < roots_of(row, ranks->size); root++) {
      for (int place = 0; place < places_of(row); place++) {
        for (int form = 0; form < MATRIX_FORMS; form++) {
          c->seed = reference_mix(seed, to->n + to->left_out);
          c->count = counts[count];
          c->root = (uint8_t)root;
          c->place = (uint8_t)place;
          c->form = (uint8_t)form;
          add(ranks, to, c);
        }
      }
    }
  }
}

void matrix_product(const matrix_ranks *ranks, uint64_t seed,
                    matrix_cases *to) {
  to->most_bytes = BYTES_OF_PRODUCT;
  const matrix_row *rows;
  size_t n = matrix_rows(&rows);
  for (size_t row = 0; row < n; row++) {
    gli_collective collective = rows[row].collective;
    int types = collective == GLI_BARRIER ? 1 : GLOO_DTYPE_COUNT;
    for (int d = 0; d < types; d++) {
      for (int op = 0; op < REFERENCE_OPS; op++) {
        if (!matrix_applies(&rows[row], (gloo_dtype)d, op)) continue;
        if (!fits(&rows[row], op)) continue;
        matrix_case c = {
            .row = (uint16_t)row, .dtype = (uint8_t)d, .op = (uint8_t)op};
        product_of(ranks, reference_mix(seed, 3), &c, to);
      }
    }
  }
}
