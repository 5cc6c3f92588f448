/* Invalid calls. Each fails at once, on this rank alone, with an error that
 * names the cause, and leaves the outputs unchanged and the context usable. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/oracle.h"
#include "kernels/reduce.h"
#include "matrix.h"

enum { BYTES = 4096, COUNT = 3, FILLER = 0x3c };

typedef struct refusal {
  rank_env *env;
  const matrix_ranks *ranks;
  matrix_case c;
  const char *algorithm;
  gloo_status want;
  const char *word; /* part of the message; NULL: any message */
  matrix_shape shape;
  matrix_buffers buffers;
  uint8_t in[BYTES], out[BYTES];
} refusal;

static atomic_size_t refused;

/* Prepares a valid call of a row. */
static void begin(refusal *r, size_t row) {
  const matrix_row *rows;
  matrix_rows(&rows);
  bool reduces = gli_collective_reduces(rows[row].collective);
  r->c = (matrix_case){.seed = 2,
                       .count = COUNT,
                       .row = (uint16_t)row,
                       .dtype = GLOO_INT32,
                       .op = reduces ? GLOO_SUM : REFERENCE_NO_OP};
  /* This seed leaves no gaps behind the last block, and makes an exchange one
   * call. */
  while (matrix_drawn(&r->c, MATRIX_GAPS) % 2 != 0 ||
         matrix_drawn(&r->c, MATRIX_ABSENT) % 2 != 0) {
    r->c.seed++;
  }
  r->algorithm = NULL;
  r->word = NULL;
  r->buffers = (matrix_buffers){r->in, r->out};
  memset(r->in, FILLER, sizeof r->in);
  memset(r->out, FILLER, sizeof r->out);
  RANK_CHECK(r->env, matrix_shape_of(r->ranks, &r->c, r->env->rank, &r->shape));
}

/* Makes the call in each form. */
static void expect(refusal *r, gloo_status want) {
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = r->algorithm;
  for (int form = 0; form < MATRIX_FORMS; form++) {
    matrix_operations ops;
    r->c.form = (uint8_t)form;
    gloo_status status =
        matrix_call(r->env->context, r->ranks, &r->c, r->env->rank, &r->shape,
                    &r->buffers, &o, &ops);
    (void)gloo_context_error(r->env->context, &error);
    bool said = r->word == NULL || strstr(error.message, r->word) != NULL;
    bool kept = true;
    for (size_t i = 0; i < BYTES; i++) kept &= r->out[i] == FILLER;
    atomic_fetch_add(&refused, 1);
    if (status == want && said && kept && ops.n == 0) continue;
    char text[MATRIX_TEXT + 128];
    matrix_print(r->ranks, &r->c, text);
    snprintf(text + strlen(text), 120, ": %s, not %s: %.60s",
             gloo_status_string(status), gloo_status_string(want),
             status == GLOO_OK ? "" : error.message);
    rank_fail(r->env, __FILE__, __LINE__, text);
  }
}

/* ---- invalid arguments --------------------------------------------------- */

static void pairs(refusal *r, size_t row) {
  const matrix_row *rows;
  matrix_rows(&rows);
  for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
    for (int op = 0; op < GLOO_OP_COUNT; op++) {
      if (matrix_applies(&rows[row], (gloo_dtype)d, op)) continue;
      begin(r, row);
      r->c.dtype = (uint8_t)d;
      r->c.op = (uint8_t)op;
      r->word = gloo_op_name((gloo_op)op);
      expect(r, GLOO_ERR_UNSUPPORTED);
      if (gli_reduce_refusal((gloo_dtype)d, (gloo_op)op) == NULL) continue;
      r->word = gloo_dtype_name((gloo_dtype)d);
      expect(r, GLOO_ERR_UNSUPPORTED);
    }
  }
  begin(r, row);
  r->c.op = UINT8_MAX;
  expect(r, GLOO_ERR_OP);
  /* A scaled sum lacks its factors here, and a custom operation its
   * function. */
  for (int op = REFERENCE_SCALED; op < REFERENCE_OPS; op++) {
    begin(r, row);
    r->c.op = (uint8_t)op;
    expect(r, op == REFERENCE_SCALED ? GLOO_ERR_UNSUPPORTED : GLOO_ERR_OP);
    r->c.dtype = GLOO_FLOAT32;
    expect(r, GLOO_ERR_OP);
  }
}

static void values(refusal *r, size_t row, gli_collective collective) {
  begin(r, row);
  r->algorithm = "sideways";
  r->word = "sideways";
  expect(r, GLOO_ERR_NOT_FOUND);
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    begin(r, row);
    r->algorithm = gli_algorithms[a].name;
    if (gli_algorithm_find(collective, r->algorithm)) continue;
    expect(r, GLOO_ERR_NOT_FOUND);
  }
  if (collective == GLI_BARRIER) return;
  begin(r, row);
  r->c.dtype = GLOO_DTYPE_COUNT;
  expect(r, GLOO_ERR_DTYPE);
  if (!gli_collective_rooted(collective)) return;
  begin(r, row);
  r->c.root = (uint8_t)r->ranks->size;
  expect(r, GLOO_ERR_ROOT);
}

static void memory(refusal *r, size_t row, gli_collective collective) {
  const matrix_row *rows;
  matrix_rows(&rows);
  size_t element = gloo_dtype_size(GLOO_INT32);
  begin(r, row);
  const matrix_shape *s = &r->shape;
  if (s->reads && s->in.elements > 0) {
    r->buffers = (matrix_buffers){NULL, r->out};
    expect(r, GLOO_ERR_BUFFER);
  }
  if (s->writes && s->out.elements > 0) {
    r->buffers = (matrix_buffers){r->in, NULL};
    expect(r, GLOO_ERR_BUFFER);
  }
  if (s->reads && s->writes && s->in.elements > 0 && s->out.elements > 0) {
    /* The input overlaps the output by a part of one element. */
    size_t last = (s->out.elements - 1) * element + 1;
    r->buffers = (matrix_buffers){r->out + last, r->out};
    expect(r, GLOO_ERR_BUFFER);
  }
  bool has_place =
      matrix_has_place(&rows[row]) && (r->env->rank == r->c.root || s->writes);
  if (collective == GLI_REDUCE) has_place = true;
  if (s->reads && !has_place) {
    r->buffers = (matrix_buffers){GLOO_IN_PLACE, r->out};
    expect(r, GLOO_ERR_BUFFER);
  }
}

static void refuse_all(rank_env *env) {
  const matrix_row *rows;
  size_t n = matrix_rows(&rows);
  static _Thread_local refusal r;
  r = (refusal){.env = env, .ranks = env->user};
  for (size_t row = 0; row < n; row++) {
    gli_collective collective = rows[row].collective;
    if (!matrix_is_first(&rows[row])) continue;
    if (gli_collective_reduces(collective)) pairs(&r, row);
    values(&r, row, collective);
    if (collective != GLI_BARRIER) memory(&r, row, collective);
  }
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

size_t matrix_refusals(const matrix_ranks *ranks) {
  matrix_ranks copy = *ranks;
  const matrix_row *rows;
  matrix_rows(&rows); /* first called before threads exist */
  ranks_options o = {.transport = ranks->transport, .user = &copy};
  atomic_store(&refused, 0);
  ranks_run(ranks->size, &o, refuse_all);
  return atomic_load(&refused);
}
