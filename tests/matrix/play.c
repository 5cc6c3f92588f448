/* One case on one rank. */
#include <stdio.h>

#include "player.h"

enum { RUNS = 2 };

static bool is_ok(player *p, gloo_status status) {
  if (status == GLOO_OK) return true;
  gloo_error error;
  char text[GLOO_ERROR_MESSAGE_BYTES + 64];
  gloo_context_error(p->env->context, &error);
  snprintf(text, sizeof text, "%s: %s", gloo_status_string(status),
           error.message);
  player_tell(p, text);
  return false;
}

/* ---- results that must agree --------------------------------------------- */

/* Compares digests; the last rank to finish does so. If only one result is
 * correct, each rank has already compared with it. */
static void compare(player *p) {
  scene *s = p->scene;
  if (!player_is_loose(p)) return;
  size_t size = (size_t)s->ranks->size;
  uint64_t *all = s->digests + p->index * size;
  all[p->env->rank] = player_digest(p);
  if (atomic_fetch_add(&s->arrived[p->index], 1) + 1 < (int)size) return;
  for (size_t r = 1; r < size; r++) {
    if (all[r] == all[0]) continue;
    char text[64];
    snprintf(text, sizeof text, "rank %zu has another result than rank 0", r);
    player_tell(p, text);
    return;
  }
}

/* ---- one case ------------------------------------------------------------ */

/* Returns the arguments. A buffer that is absent or not accessed may be
 * NULL. */
static matrix_buffers arguments(const player *p) {
  const matrix_shape *s = &p->shape;
  uint64_t absent =
      reference_mix(matrix_drawn(p->c, MATRIX_ABSENT), (unsigned)p->env->rank);
  matrix_buffers b = {p->in.given, p->out.given};
  bool unread = !s->reads || p->in.bytes == 0;
  bool unwritten = !s->writes && !s->in_place;
  if (s->in_place) {
    b.in = GLOO_IN_PLACE;
    bool same = p->c->place == MATRIX_SAME && s->reads;
    if (same && matrix_has_address(p->c))
      b.in = p->out.given + s->shift * p->element;
  } else if (unread && absent % 2) {
    b.in = NULL;
  }
  if ((unwritten || p->out.bytes == 0) && absent % 4 > 1) b.out = NULL;
  return b;
}

/* Completes the operations by waiting, at times after a few calls of test. */
static bool finish(player *p, const matrix_operations *ops) {
  bool ask = matrix_drawn(p->c, MATRIX_WAITING) % 4 == 0;
  for (int i = 0; i < ops->n; i++) {
    gloo_status status = GLOO_IN_PROGRESS;
    for (int k = 0; ask && k < 3 && status == GLOO_IN_PROGRESS; k++) {
      status = gloo_request_test(ops->of[i], NULL);
    }
    if (status == GLOO_IN_PROGRESS)
      status = gloo_request_wait(ops->of[i], GLOO_TIMEOUT_DEFAULT, NULL);
    if (!is_ok(p, status)) return false;
  }
  return true;
}

static bool start(player *p, const matrix_operations *ops) {
  for (int i = 0; i < ops->n; i++) {
    if (!is_ok(p, gloo_request_start(ops->of[i], NULL))) return false;
  }
  return true;
}

/* Copies results from GPUs to the host, after the operation or, at times, on
 * the stream behind its end. The default stream is not used for that: other
 * ranks share it, and would wait for this one. */
static bool finish_and_fetch(player *p, const matrix_operations *ops) {
  bool in_order = false;
  if (player_has_gpu(p) && p->order != NULL && ops->n == 1 &&
      matrix_drawn(p->c, MATRIX_WAITING) % 3 == 0) {
    gloo_status status = gloo_request_wait_stream(ops->of[0], p->order, NULL);
    in_order = status == GLOO_OK;
    if (status != GLOO_OK && status != GLOO_ERR_UNSUPPORTED)
      return is_ok(p, status);
  }
  if (in_order) player_fetch(p, true);
  if (!finish(p, ops)) return false;
  if (!in_order) player_fetch(p, false);
  return true;
}

/* Returns false if the ranks cannot continue. */
static bool call(player *p, const gloo_options *o, matrix_operations *ops) {
  matrix_buffers b = arguments(p);
  return is_ok(p, matrix_call(p->env->context, p->scene->ranks, p->c,
                              p->env->rank, &p->shape, &b, o, ops));
}

static bool run_forms(player *p, const gloo_options *o,
                      matrix_operations *ops) {
  if (p->c->form != MATRIX_PERSISTENT) {
    player_fill(p, 0);
    if (!call(p, o, ops) || !finish_and_fetch(p, ops)) return false;
    player_spoil(p);
    player_check(p, 0);
    return true;
  }
  if (!call(p, o, ops)) return false;
  for (int run = 0; run < RUNS; run++) {
    player_fill(p, run);
    if (!start(p, ops) || !finish_and_fetch(p, ops)) return false;
    if (run == RUNS - 1) player_spoil(p);
    player_check(p, run);
  }
  return true;
}

bool player_run(player *p) {
  const scene *s = p->scene;
  const matrix_row *rows;
  matrix_rows(&rows);
  const matrix_row *row = &rows[p->c->row];
  if (!matrix_shape_of(s->ranks, p->c, p->env->rank, &p->shape)) {
    player_tell(p, "the tests do not know what this collective does");
    return false;
  }
  p->reference = s->references[row->variant == MATRIX_MULTI][p->c->dtype]
                              [p->c->op][matrix_inputs(p->c)];
  p->element = gloo_dtype_size((gloo_dtype)p->c->dtype);
  p->ordered = matrix_is_ordered(row) || matrix_asks_for_order(p->c);
  p->is_prefix = row->collective == GLI_SCAN || row->collective == GLI_EXSCAN;
  if (!player_make_buffers(p)) return false;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = row->algorithm;
  o.ordered = matrix_asks_for_order(p->c);
  if (player_has_gpu(p)) o.stream = p->order;
  double factor = reference_factor(matrix_inputs(p->c), p->env->rank);
  if (p->c->op == REFERENCE_SCALED) o.factor = &factor;
  if (p->c->op >= REFERENCE_AFFINE) {
    o.custom = s->custom[p->c->op - REFERENCE_AFFINE];
  }
  matrix_operations ops = {.n = 0};
  bool goes_on = run_forms(p, &o, &ops);
  for (int i = 0; i < ops.n; i++) gloo_request_destroy(ops.of[i]);
  if (goes_on && matrix_is_same(row->collective)) compare(p);
  return goes_on;
}
