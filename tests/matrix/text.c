/* Text form of cases, and assignment of ranks to hosts. */
#include <stdio.h>
#include <string.h>

#include "kernels/reduce.h"
#include "matrix.h"

const char *const *matrix_host_ids(int hosts, int size) {
  static const char *const names[] = {"a", "b", "c"};
  static const char *halves[MATRIX_MOST_RANKS + 1][MATRIX_MOST_RANKS];
  static const char *dealt[MATRIX_MOST_RANKS];
  if (hosts == 0 || hosts == MATRIX_GROUP) return NULL;
  for (int r = 0; r < size; r++) {
    halves[size][r] = names[r >= (size + 1) / 2];
    dealt[r] = names[r % 3];
  }
  return hosts == 1 ? halves[size] : dealt;
}

static const char *op_name(int op) {
  static const char *const names[] = {"moved", "scaled", "affine", "bytes"};
  return op < REFERENCE_NO_OP ? gloo_op_name((gloo_op)op)
                              : names[op - REFERENCE_NO_OP];
}

static int find_op(const char *name) {
  int op = 0;
  while (op < REFERENCE_OPS && strcmp(op_name(op), name) != 0) op++;
  return op;
}

const char *matrix_collective(const matrix_row *row, char *name) {
  static const char *const suffixes[MATRIX_VARIANTS] = {"", "_multi", "_list"};
  snprintf(name, MATRIX_NAME, "%s%s", gli_collective_name(row->collective),
           suffixes[row->variant]);
  return name;
}

const char *matrix_algorithm(const matrix_row *row) {
  return row->algorithm ? row->algorithm : "chosen";
}

void matrix_print(const matrix_ranks *ranks, const matrix_case *c, char *text) {
  const matrix_row *rows;
  matrix_rows(&rows);
  const matrix_row *row = &rows[c->row];
  char name[MATRIX_NAME];
  snprintf(text, MATRIX_TEXT,
           "%s:ranks=%d:hosts=%d:%s:%s:count=%u:%s:%s:root=%u:place=%u:form=%u:"
           "seed=%llu",
           ranks->transport, ranks->size, ranks->hosts,
           matrix_collective(row, name), matrix_algorithm(row), c->count,
           gloo_dtype_name((gloo_dtype)c->dtype), op_name(c->op), c->root,
           c->place, c->form, (unsigned long long)c->seed);
}

/* Returns the row of a collective and algorithm, or -1 if unknown. */
static int find_row(const char *collective, const char *algorithm) {
  const matrix_row *rows;
  size_t n = matrix_rows(&rows);
  for (size_t i = 0; i < n; i++) {
    char name[MATRIX_NAME];
    if (strcmp(matrix_collective(&rows[i], name), collective) == 0 &&
        strcmp(matrix_algorithm(&rows[i]), algorithm) == 0) {
      return (int)i;
    }
  }
  return -1;
}

static const char *find_transport(const char *name) {
  static const char *const names[] = {"inproc", "tcp", "shm", "auto"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i], name) == 0) return names[i];
  }
  return NULL;
}

bool matrix_parse(const char *text, matrix_ranks *ranks, matrix_case *c) {
  char transport[32], collective[32], algorithm[64], dtype[32], op[32];
  unsigned root, place, form;
  unsigned long long seed;
  gloo_dtype type;
  if (sscanf(text,
             "%31[^:]:ranks=%d:hosts=%d:%31[^:]:%63[^:]:count=%u:%31[^:]:"
             "%31[^:]:root=%u:place=%u:form=%u:seed=%llu",
             transport, &ranks->size, &ranks->hosts, collective, algorithm,
             &c->count, dtype, op, &root, &place, &form, &seed) != 12) {
    return false;
  }
  int row = find_row(collective, algorithm);
  ranks->transport = find_transport(transport);
  if (row < 0 || ranks->transport == NULL || ranks->size < 1 ||
      ranks->size > MATRIX_MOST_RANKS || ranks->hosts < 0 ||
      ranks->hosts >= MATRIX_SETS || root >= (unsigned)ranks->size ||
      place >= MATRIX_PLACES || form >= MATRIX_FORMS ||
      !gli_dtype_from_name(dtype, &type)) {
    return false;
  }
  if (find_op(op) == REFERENCE_OPS) return false;
  c->row = (uint16_t)row;
  c->dtype = (uint8_t)type;
  c->op = (uint8_t)find_op(op);
  c->root = (uint8_t)root;
  c->place = (uint8_t)place;
  c->form = (uint8_t)form;
  c->seed = seed;
  return true;
}
