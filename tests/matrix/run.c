/* Running cases: one rank's part of each, side by side with the others. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum { GUARD = 64, FILLER = 0xa5, RUNS = 2, MOST_TOLD = 20 };

/* What all ranks share. */
typedef struct scene {
  const matrix_ranks *ranks;
  const matrix_case *cases;
  size_t n;
  reference *references[2][GLOO_DTYPE_COUNT][REFERENCE_OPS][INPUTS_KINDS];
  uint64_t *digests;         /* [n][ranks] of results that must be the same */
  atomic_int *arrived;       /* [n] digests that are there */
  gloo_custom_op *custom[2]; /* affine, bytes */
  atomic_int told;
  atomic_uchar *failed; /* [n] */
} scene;

/* Memory of a rank for one buffer, kept from case to case. */
typedef struct area {
  uint8_t *heap, *shared; /* shared: from gloo_alloc */
  size_t heap_bytes, shared_bytes;
} area;

typedef struct buffer {
  uint8_t *at, *was; /* the buffer, and what it held before the call or must
                        hold now; both with GUARD bytes on either side */
  size_t bytes;
} buffer;

typedef struct player {
  rank_env *env;
  scene *scene;
  area areas[4];
  /* Of the current case: */
  const matrix_case *c;
  size_t index;
  matrix_shape shape;
  bool ordered, is_prefix; /* of some ranks, for most */
  const reference *reference;
  size_t element; /* bytes */
  buffer in, out;
  bool full; /* the result fills the output, and nothing of it is kept */
  bool failed;
} player;

/* ---- failures ------------------------------------------------------------ */

static void tell(player *p, const char *what) {
  char text[MATRIX_TEXT];
  p->failed = true;
  atomic_store(&p->scene->failed[p->index], 1);
  if (atomic_fetch_add(&p->scene->told, 1) >= MOST_TOLD) return;
  matrix_print(p->scene->ranks, p->c, text);
  fprintf(stderr, "rank %d: %s; again: test_matrix '%s'\n", p->env->rank, what,
          text);
}

static bool is_ok(player *p, gloo_status status) {
  if (status == GLOO_OK) return true;
  gloo_error error;
  char text[GLOO_ERROR_MESSAGE_BYTES + 64];
  gloo_context_error(p->env->context, &error);
  snprintf(text, sizeof text, "%s: %s", gloo_status_string(status),
           error.message);
  tell(p, text);
  return false;
}

/* ---- memory -------------------------------------------------------------- */

/* At least `bytes`, from the heap or from gloo_alloc. */
static uint8_t *take(player *p, area *a, size_t bytes, bool shared) {
  size_t *have = shared ? &a->shared_bytes : &a->heap_bytes;
  uint8_t **at = shared ? &a->shared : &a->heap;
  if (bytes <= *have) return *at;
  size_t want = bytes + bytes / 2;
  void *memory = NULL;
  if (shared) {
    gloo_free(*at);
    gloo_alloc(want, &memory, NULL);
  } else {
    free(*at);
    memory = malloc(want);
  }
  *at = memory;
  *have = memory ? want : 0;
  if (memory == NULL) tell(p, "out of memory");
  return memory;
}

static void give_back(area *a) {
  free(a->heap);
  gloo_free(a->shared);
}

/* A buffer, full of filler, at an address that is aligned to nothing in half of
 * the cases; a fourth is memory that other ranks may reach. */
static bool make_buffer(player *p, buffer *b, area *areas, size_t elements,
                        matrix_purpose salt) {
  uint64_t drawn = reference_mix(matrix_drawn(p->c, MATRIX_MEMORY),
                                 (uint64_t)salt << 8 | (unsigned)p->env->rank);
  bool shared = drawn % 4 == 0;
  size_t skew = drawn % 2 ? (size_t)(drawn >> 8) % 16 : 0;
  b->bytes = elements * p->element;
  size_t all = b->bytes + 2 * GUARD;
  uint8_t *at = take(p, &areas[0], all + 16, shared);
  uint8_t *was = take(p, &areas[1], all, false);
  if (!at || !was) return false;
  b->at = at + skew + GUARD;
  b->was = was + GUARD;
  return true;
}

static void clear(const buffer *b) {
  memset(b->at - GUARD, FILLER, b->bytes + 2 * GUARD);
}

static void remember(const buffer *b) {
  memcpy(b->was - GUARD, b->at - GUARD, b->bytes + 2 * GUARD);
}

/* What is around it. */
static void remember_guards(const buffer *b) {
  memcpy(b->was - GUARD, b->at - GUARD, GUARD);
  memcpy(b->was + b->bytes, b->at + b->bytes, GUARD);
}

/* Passes over long buffers are what a case takes most of its time for, so there
 * are none that could not find anything. */
static bool is_full(const player *p) {
  const matrix_shape *s = &p->shape;
  size_t elements = 0;
  if (!s->writes || s->out.buffers != 1 || s->undefined < s->elements) {
    return false;
  }
  for (size_t b = 0; b < s->out.blocks; b++) {
    if (matrix_result_of(p->scene->ranks, p->c, p->env->rank, b).kept) {
      return false;
    }
    elements += s->out.count[b];
  }
  return elements == s->elements;
}

/* ---- contents ------------------------------------------------------------ */

/* Of one block, in one run: the same for all ranks that have such a block. */
static uint64_t key_of(const player *p, size_t block, int run) {
  return reference_mix(matrix_drawn(p->c, MATRIX_KEYS),
                       (uint64_t)block << 8 | (unsigned)run);
}

/* Input k. In place, a list is that of the output; a block of one's own,
 * shifted. */
static void fill_input(player *p, size_t k, int run, uint8_t *to) {
  const matrix_shape *s = &p->shape;
  int number = s->in_blocks ? 0 : (int)k;
  for (size_t b = 0; b < s->in.blocks; b++) {
    uint64_t key = key_of(p, s->in_blocks ? k : b, run);
    reference_input(p->reference, p->env->rank, number, key, s->in.count[b],
                    to + s->in.first[b] * p->element);
  }
}

static void fill(player *p, int run) {
  const matrix_shape *s = &p->shape;
  clear(&p->in);
  clear(&p->out);
  uint8_t *to = s->in_place ? p->out.at + s->shift * p->element : p->in.at;
  for (size_t k = 0; s->reads && k < s->in.buffers; k++) {
    fill_input(p, k, run, to + k * s->in.step * p->element);
  }
  remember(&p->in);
  if (p->full) {
    remember_guards(&p->out);
  } else {
    remember(&p->out);
  }
}

static void tell_element(player *p, size_t block, size_t i, const uint8_t *is,
                         const uint8_t *want) {
  char text[256];
  int used = snprintf(text, sizeof text, "block %zu, element %zu is", block, i);
  for (size_t k = 0; k < p->element; k++) {
    used += snprintf(text + used, sizeof text - (size_t)used, " %02x", is[k]);
  }
  used += snprintf(text + used, sizeof text - (size_t)used, ", not");
  for (size_t k = 0; k < p->element; k++) {
    used += snprintf(text + used, sizeof text - (size_t)used, " %02x", want[k]);
  }
  tell(p, text);
}

/* The first element that is wrong; n: none is. */
static size_t find_wrong(const player *p, int operands, uint64_t key, size_t n,
                         const uint8_t *is, const uint8_t *want) {
  size_t element = p->element, i = 0;
  bool reduced = p->c->op != REFERENCE_NO_OP;
  if (reduced && reference_is_loose(p->reference) && !p->ordered) {
    return reference_check(p->reference, operands, key, n, is);
  }
  while (memcmp(is + i * element, want + i * element, element) == 0) i++;
  return i;
}

/* Scans have seen some of the inputs already when they see the next. */
static bool is_at_once(const player *p, const matrix_result *r) {
  return p->ordered && r->n == p->scene->ranks->size && !p->is_prefix;
}

/* A block of output k; then what was there before the call counts as if it had
 * been this. */
static void check_block(player *p, size_t k, size_t b, int run) {
  const matrix_shape *s = &p->shape;
  matrix_result r = matrix_result_of(p->scene->ranks, p->c, p->env->rank, b);
  if (r.kept) return;
  size_t n = s->out.count[b], first = s->out.first[b] * p->element;
  size_t at = first + k * s->out.step * p->element;
  uint64_t key = key_of(p, (size_t)r.block, run);
  uint8_t *is = p->out.at + at, *want = p->out.was + at;
  if (p->c->op == REFERENCE_NO_OP) {
    reference_input(p->reference, r.first, r.number, key, n, want);
  } else {
    int operands = is_at_once(p, &r) ? 0 : r.n;
    reference_result(p->reference, operands, key, n, want);
  }
  if (k > 0 && memcmp(is, p->out.at + first, n * p->element) != 0) {
    tell(p, "outputs differ");
  }
  if (memcmp(is, want, n * p->element) == 0) return;
  size_t wrong = find_wrong(p, r.n, key, n, is, want);
  if (wrong < n) {
    tell_element(p, b, wrong, is + wrong * p->element,
                 want + wrong * p->element);
  }
  memcpy(want, is, n * p->element);
}

static void check_output(player *p, size_t k, int run) {
  const matrix_shape *s = &p->shape;
  for (size_t b = 0; s->writes && b < s->out.blocks; b++) {
    check_block(p, k, b, run);
  }
  if (s->undefined >= s->elements) return;
  size_t at = (k * s->out.step + s->undefined) * p->element;
  memcpy(p->out.was + at, p->out.at + at,
         (s->elements - s->undefined) * p->element);
}

/* `full`: all of it has been looked at. */
static void check_kept(player *p, const buffer *b, bool full,
                       const char *what) {
  size_t all = b->bytes + 2 * GUARD;
  const uint8_t *is = b->at - GUARD, *was = b->was - GUARD;
  size_t end = GUARD + b->bytes;
  bool same = full ? memcmp(is, was, GUARD) == 0 &&
                         memcmp(is + end, was + end, GUARD) == 0
                   : memcmp(is, was, all) == 0;
  if (same) return;
  size_t i = 0;
  while (is[i] == was[i]) i++;
  char text[128];
  snprintf(text, sizeof text, "%s has changed at byte %td of %zu", what,
           (ptrdiff_t)i - GUARD, b->bytes);
  tell(p, text);
}

static void check(player *p, int run) {
  for (size_t k = 0; k < p->shape.out.buffers; k++) check_output(p, k, run);
  check_kept(p, &p->out, p->full, "what is around the result");
  check_kept(p, &p->in, false, "the input");
}

/* ---- the same on all ranks ----------------------------------------------- */

/* FNV-1a (Fowler, Noll and Vo) of whole words. */
static uint64_t digest(const uint8_t *at, size_t bytes) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    memcpy(&word, at + i, bytes - i < 8 ? bytes - i : 8);
    h = (h ^ word) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
  }
  return h;
}

/* The blocks only: what is between them is each rank's own. */
static uint64_t digest_result(const player *p) {
  const matrix_shape *s = &p->shape;
  uint64_t h = 0;
  for (size_t b = 0; b < s->out.blocks; b++) {
    h = reference_mix(h, digest(p->out.at + s->out.first[b] * p->element,
                                s->out.count[b] * p->element));
  }
  return h;
}

/* The last to come compares. Where there is one right result, all have looked
 * at that. */
static void compare(player *p) {
  scene *s = p->scene;
  if (p->c->op == REFERENCE_NO_OP || p->ordered ||
      !reference_is_loose(p->reference)) {
    return;
  }
  size_t size = (size_t)s->ranks->size;
  uint64_t *all = s->digests + p->index * size;
  all[p->env->rank] = digest_result(p);
  if (atomic_fetch_add(&s->arrived[p->index], 1) + 1 < (int)size) return;
  for (size_t r = 1; r < size; r++) {
    if (all[r] == all[0]) continue;
    char text[64];
    snprintf(text, sizeof text, "rank %zu has another result than rank 0", r);
    tell(p, text);
    return;
  }
}

/* ---- one case ------------------------------------------------------------ */

/* What is not there, or not looked at, may be NULL. */
static matrix_buffers arguments(const player *p) {
  const matrix_shape *s = &p->shape;
  uint64_t absent =
      reference_mix(matrix_drawn(p->c, MATRIX_ABSENT), (unsigned)p->env->rank);
  matrix_buffers b = {p->in.at, p->out.at};
  bool unread = !s->reads || p->in.bytes == 0;
  bool unwritten = !s->writes && !s->in_place;
  if (s->in_place) {
    b.in = GLOO_IN_PLACE;
    bool same = p->c->place == MATRIX_SAME && s->reads;
    if (same && matrix_has_address(p->c))
      b.in = p->out.at + s->shift * p->element;
  } else if (unread && absent % 2) {
    b.in = NULL;
  }
  if ((unwritten || p->out.bytes == 0) && absent % 4 > 1) b.out = NULL;
  return b;
}

/* By waiting, or by asking until it is done. */
static bool finish(player *p, const matrix_operations *ops) {
  bool ask = matrix_drawn(p->c, MATRIX_WAITING) % 4 == 0;
  for (int i = 0; i < ops->n; i++) {
    gloo_status status = GLOO_IN_PROGRESS;
    for (int k = 0; ask && k < 3 && status == GLOO_IN_PROGRESS; k++) {
      status = gloo_operation_test(ops->of[i]);
    }
    if (status == GLOO_IN_PROGRESS) status = gloo_operation_wait(ops->of[i]);
    if (!is_ok(p, status)) return false;
  }
  return true;
}

static bool start(player *p, const matrix_operations *ops) {
  for (int i = 0; i < ops->n; i++) {
    if (!is_ok(p, gloo_operation_start(ops->of[i]))) return false;
  }
  return true;
}

/* false: the ranks cannot go on. */
static bool call(player *p, const gloo_options *o, matrix_operations *ops) {
  matrix_buffers b = arguments(p);
  return is_ok(p, matrix_call(p->env->context, p->scene->ranks, p->c,
                              p->env->rank, &p->shape, &b, o, ops));
}

static bool run_forms(player *p, const gloo_options *o,
                      matrix_operations *ops) {
  if (p->c->form != MATRIX_PERSISTENT) {
    fill(p, 0);
    if (!call(p, o, ops) || !finish(p, ops)) return false;
    check(p, 0);
    return true;
  }
  if (!call(p, o, ops)) return false;
  for (int run = 0; run < RUNS; run++) {
    fill(p, run);
    if (!start(p, ops) || !finish(p, ops)) return false;
    check(p, run);
  }
  return true;
}

static bool run_case(player *p) {
  const scene *s = p->scene;
  const matrix_row *rows;
  matrix_rows(&rows);
  const matrix_row *row = &rows[p->c->row];
  if (!matrix_shape_of(s->ranks, p->c, p->env->rank, &p->shape)) {
    tell(p, "the tests do not know what this collective does");
    return false;
  }
  p->reference =
      s->references[row->several][p->c->dtype][p->c->op][matrix_inputs(p->c)];
  p->element = gloo_dtype_size((gloo_dtype)p->c->dtype);
  p->ordered = matrix_is_ordered(row) || matrix_asks_for_order(p->c);
  p->is_prefix = row->collective == GLI_SCAN || row->collective == GLI_EXSCAN;
  if (!make_buffer(p, &p->in, p->areas,
                   p->shape.in_place ? 0 : matrix_in_elements(&p->shape), 0) ||
      !make_buffer(p, &p->out, p->areas + 2, matrix_out_elements(&p->shape),
                   1)) {
    return false;
  }
  p->full = is_full(p);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = row->algorithm;
  o.ordered = matrix_asks_for_order(p->c);
  double factor = reference_factor(matrix_inputs(p->c), p->env->rank);
  if (p->c->op == REFERENCE_SCALED) o.factor = &factor;
  if (p->c->op >= REFERENCE_AFFINE) {
    o.custom = s->custom[p->c->op - REFERENCE_AFFINE];
  }
  matrix_operations ops = {.n = 0};
  bool goes_on = run_forms(p, &o, &ops);
  for (int i = 0; i < ops.n; i++) gloo_operation_destroy(ops.of[i]);
  if (goes_on && matrix_is_same(row->collective)) compare(p);
  return goes_on;
}

static void play(rank_env *env) {
  scene *s = env->user;
  player p = {.env = env, .scene = s};
  for (size_t i = 0; i < s->n; i++) {
    p.c = &s->cases[i];
    p.index = i;
    if (!run_case(&p)) {
      rank_fail(env, __FILE__, __LINE__, "the ranks cannot go on");
      break;
    }
  }
  for (int i = 0; i < 4; i++) give_back(&p.areas[i]);
}

/* The ranks but one, in reverse order; that one has nothing more to do. */
static void play_in_group(rank_env *env) {
  rank_env inner = *env;
  int color = env->rank == env->size / 2 ? GLOO_NO_COLOR : 1;
  gloo_context *group;
  RANK_OK(env, gloo_context_split(env->context, color, -env->rank, NULL, &group,
                                  NULL));
  if (env->failure[0] || group == NULL) return;
  inner.context = group;
  inner.rank = gloo_context_rank(group);
  inner.size = gloo_context_size(group);
  play(&inner);
  memcpy(env->failure, inner.failure, sizeof env->failure);
  gloo_context_destroy(group);
}

/* ---- all cases ----------------------------------------------------------- */

static void make_references(scene *s) {
  const matrix_row *rows;
  matrix_rows(&rows);
  for (size_t i = 0; i < s->n; i++) {
    const matrix_case *c = &s->cases[i];
    inputs kind = matrix_inputs(c);
    bool several = rows[c->row].several;
    reference **r = &s->references[several][c->dtype][c->op][kind];
    if (*r == NULL) {
      *r = reference_make(s->ranks->size, several, (gloo_dtype)c->dtype, c->op,
                          kind, c->dtype);
    }
    assert_non_null(*r);
  }
}

/* For compilers: with a constant operation it becomes a loop over vectors. */
static inline void combine_bytes(int op, const uint8_t *left,
                                 const uint8_t *right, size_t n, uint8_t *to) {
  for (size_t i = 0; i < n; i++)
    to[i] = reference_custom(op, left[i], right[i]);
}

/* `user` is which one. */
static void combine(void *user, const void *left, const void *right,
                    size_t count, gloo_dtype dtype, void *result) {
  size_t n = count * gloo_dtype_size(dtype);
  if (*(const int *)user == 0) {
    combine_bytes(REFERENCE_AFFINE, left, right, n, result);
  } else {
    combine_bytes(REFERENCE_BYTES, left, right, n, result);
  }
}

static void make_custom(scene *s) {
  static int which[2] = {0, 1};
  for (int i = 0; i < 2; i++) {
    gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
    o.name = i == 0 ? "affine" : "bytes";
    o.commutative = i != 0;
    o.user = &which[i];
    assert_int_equal(gloo_custom_op_create(combine, &o, &s->custom[i], NULL),
                     GLOO_OK);
  }
}

static void free_references(scene *s) {
  reference **all = &s->references[0][0][0][0];
  size_t n = sizeof s->references / sizeof *all;
  for (size_t i = 0; i < n; i++) reference_free(all[i]);
}

size_t matrix_run(const matrix_ranks *ranks, const matrix_case *cases,
                  size_t n) {
  static scene s;
  s = (scene){.ranks = ranks, .cases = cases, .n = n};
  make_references(&s);
  make_custom(&s);
  s.digests = calloc(n + 1, (size_t)ranks->size * sizeof *s.digests);
  s.arrived = calloc(n + 1, sizeof *s.arrived);
  s.failed = calloc(n + 1, sizeof *s.failed);
  assert_true(s.digests && s.arrived && s.failed);
  ranks_options o = {.transport = ranks->transport,
                     .host_ids = matrix_host_ids(ranks->hosts, ranks->size),
                     .timeout_ns = INT64_C(120000000000),
                     .user = &s};
  if (ranks->hosts == MATRIX_GROUP) {
    ranks_run(ranks->size + 1, &o, play_in_group);
  } else {
    ranks_run(ranks->size, &o, play);
  }
  size_t failed = 0;
  for (size_t i = 0; i < n; i++) failed += s.failed[i];
  free(s.digests);
  free(s.arrived);
  free(s.failed);
  free_references(&s);
  for (int i = 0; i < 2; i++) gloo_custom_op_destroy(s.custom[i]);
  return failed;
}
