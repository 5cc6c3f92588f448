/* Lists of separate blocks and pieces, over every transport and algorithm,
 * compared with a plain reference and with the calls for one buffer; and
 * refusals of invalid lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "ranks.h"
#include "sanitized.h"

static const char *transport;

enum { MOST = 4, RUNS = 3 };

/* ---- what is expected ---------------------------------------------------- */

typedef enum layout {
  APART,    /* one allocation per block */
  TOGETHER, /* contiguous blocks */
  PLAIN,    /* contiguous, passed to the call without a list */
  LAYOUTS
} layout;

typedef struct job {
  const char *algorithm; /* NULL: let the library choose */
  gli_collective collective;
  size_t count;
  int root, form, in_place; /* form: blocking, start, persistent */
  layout in_layout, out_layout;
} job;

static int64_t input_at(int rank, int block, size_t i, int run) {
  return (int64_t)((i * 2654435761u + (size_t)rank * 40503u +
                    (size_t)block * 7001u + (size_t)run * 977u) %
                   100003u) -
         50000;
}

static int64_t sum_at(int size, int block, size_t i, int run) {
  int64_t sum = 0;
  for (int r = 0; r < size; r++) sum += input_at(r, block, i, run);
  return sum;
}

static int64_t expected_at(const job *j, int rank, int size, int block,
                           size_t i, int run) {
  switch (j->collective) {
    case GLI_ALLGATHER:
    case GLI_GATHER:
      return input_at(block, 0, i, run);
    case GLI_SCATTER:
      return input_at(j->root, rank, i, run);
    case GLI_ALLTOALL:
      return input_at(block, rank, i, run);
    case GLI_REDUCE_SCATTER:
      return sum_at(size, rank, i, run);
    default:
      return sum_at(size, 0, i, run);
  }
}

/* ---- buffers ------------------------------------------------------------- */

/* Blocks of one side; in an allreduce, the pieces of one vector. */
typedef struct side {
  size_t n, length[MOST], first[MOST], all;
  int64_t *block[MOST], *memory[MOST]; /* NULL: no elements */
} side;

enum { CANARY = 0x5a };

static int64_t canary(void) {
  int64_t x;
  memset(&x, CANARY, sizeof x);
  return x;
}

static void side_allocate(side *s, layout how) {
  size_t room[MOST] = {0};
  s->all = 0;
  for (size_t k = 0; k < s->n; k++) {
    s->first[k] = s->all;
    s->all += s->length[k];
    room[k] = s->length[k];
    s->memory[k] = NULL;
  }
  if (how != APART && s->n > 0) room[0] = s->all;
  for (size_t k = 0; k < s->n; k++) {
    if (how != APART && k > 0) {
      s->block[k] = s->block[0] + s->first[k];
      continue;
    }
    s->memory[k] = malloc((room[k] + 1) * sizeof(int64_t));
    memset(s->memory[k], CANARY, (room[k] + 1) * sizeof(int64_t));
    s->block[k] = s->memory[k];
    if (s->length[k] == 0 && how == APART) s->block[k] = NULL;
  }
}

static void side_free(side *s) {
  for (size_t k = 0; k < s->n; k++) free(s->memory[k]);
}

static void side_set(side *s, size_t n, size_t length) {
  s->n = n;
  for (size_t k = 0; k < n; k++) s->length[k] = length;
}

/* Divides the vector differently on every rank, sometimes with an empty
 * piece. */
static void side_cut(side *s, const job *j, int rank) {
  size_t n = 1 + (size_t)(rank + j->form) % MOST, left = j->count;
  s->n = n;
  for (size_t k = 0; k < n; k++) {
    s->length[k] = k + 1 == n ? left : k == 1 ? 0 : left / 3;
    left -= s->length[k];
  }
}

static bool has_output(const job *j, int rank) {
  return j->collective != GLI_GATHER || rank == j->root;
}

static bool has_input(const job *j, int rank) {
  return j->collective != GLI_SCATTER || rank == j->root;
}

static void sides_make(side *in, side *out, const job *j, const rank_env *env) {
  size_t size = (size_t)env->size;
  gli_collective c = j->collective;
  bool many_in = c == GLI_SCATTER || c == GLI_ALLTOALL;
  bool many_out = c == GLI_ALLGATHER || c == GLI_GATHER || c == GLI_ALLTOALL;
  side_set(in, many_in || c == GLI_REDUCE_SCATTER ? size : 1, j->count);
  side_set(out, many_out ? size : 1, j->count);
  if (c == GLI_SCATTER && j->in_place && env->rank == j->root)
    side_set(out, size, j->count);
  if (c == GLI_ALLREDUCE) {
    side_cut(in, j, env->rank);
    *out = *in;
  }
  side_allocate(in, j->in_layout);
  side_allocate(out, c == GLI_SCATTER ? TOGETHER : j->out_layout);
}

/* Fills the inputs; in place, these are the outputs. */
static void side_fill(const side *s, int rank, int run, bool cut) {
  for (size_t k = 0; k < s->n; k++) {
    for (size_t i = 0; i < s->length[k]; i++) {
      size_t at = cut ? s->first[k] + i : i;
      s->block[k][i] = input_at(rank, cut ? 0 : (int)k, at, run);
    }
  }
}

static void sides_fill(const side *in, const side *out, const job *j,
                       const rank_env *env, int run) {
  bool cut = j->collective == GLI_ALLREDUCE;
  for (size_t k = 0; k < out->n && out->block[k] != NULL; k++) {
    memset(out->block[k], CANARY, out->length[k] * sizeof(int64_t));
  }
  if (!has_input(j, env->rank)) return;
  if (!j->in_place) {
    side_fill(in, env->rank, run, cut);
  } else if (j->collective == GLI_ALLGATHER || j->collective == GLI_GATHER) {
    for (size_t i = 0; i < j->count; i++) {
      out->block[env->rank][i] = input_at(env->rank, 0, i, run);
    }
  } else {
    side_fill(out, env->rank, run, cut);
  }
}

/* ---- calls --------------------------------------------------------------- */

/* Lists of a call, which may be freed once it has returned. */
typedef struct lists {
  const void **in;
  void **out;
  size_t *counts;
} lists;

static lists lists_make(const side *in, const side *out) {
  lists l = {malloc((in->n + 1) * sizeof(void *)),
             malloc((out->n + 1) * sizeof(void *)),
             malloc((in->n + 1) * sizeof(size_t))};
  for (size_t k = 0; k < in->n; k++) l.in[k] = in->block[k];
  for (size_t k = 0; k < out->n; k++) l.out[k] = out->block[k];
  for (size_t k = 0; k < in->n; k++) l.counts[k] = in->length[k];
  return l;
}

static void lists_free(lists *l) {
  free(l->in);
  free(l->out);
  free(l->counts);
}

#define FORMS(name, ...)                                             \
  (j->form == 0   ? gloo_##name(c, __VA_ARGS__, o, NULL)             \
   : j->form == 1 ? gloo_##name##_start(c, __VA_ARGS__, o, op, NULL) \
                  : gloo_##name##_init(c, __VA_ARGS__, o, op, NULL))

static gloo_status call_plain(gloo_context *c, const job *j, const side *in,
                              const side *out, const gloo_options *o,
                              gloo_request **op) {
  const void *from = j->in_place ? GLOO_IN_PLACE : in->block[0];
  void *to = out->block[0];
  switch (j->collective) {
    case GLI_ALLGATHER:
      return FORMS(allgather, from, to, j->count, GLOO_INT64);
    case GLI_GATHER:
      return FORMS(gather, from, to, j->count, GLOO_INT64, j->root);
    case GLI_SCATTER:
      return FORMS(scatter, from, to, j->count, GLOO_INT64, j->root);
    case GLI_ALLTOALL:
      return FORMS(alltoall, from, to, j->count, GLOO_INT64);
    case GLI_REDUCE_SCATTER:
      return FORMS(reduce_scatter, from, to, j->count, GLOO_INT64, GLOO_SUM);
    case GLI_ALLREDUCE:
      return FORMS(allreduce, from, to, j->count, GLOO_INT64, GLOO_SUM);
    default:
      return GLOO_ERR_INTERNAL;
  }
}

static gloo_status call_lists(gloo_context *c, const job *j, const side *in,
                              const side *out, lists *l, const gloo_options *o,
                              gloo_request **op) {
  const void *from = j->in_place ? GLOO_IN_PLACE : in->block[0];
  const void *const *ins = j->in_place ? NULL : l->in;
  switch (j->collective) {
    case GLI_ALLGATHER:
      return FORMS(allgather_list, from, l->out, j->count, GLOO_INT64);
    case GLI_GATHER:
      return FORMS(gather_list, from, l->out, j->count, GLOO_INT64, j->root);
    case GLI_SCATTER:
      return FORMS(scatter_list, ins, out->block[0], j->count, GLOO_INT64,
                   j->root);
    case GLI_ALLTOALL:
      return FORMS(alltoall_list, ins, l->out, j->count, GLOO_INT64);
    case GLI_REDUCE_SCATTER:
      return FORMS(reduce_scatter_list, ins, out->block[0], j->count,
                   GLOO_INT64, GLOO_SUM);
    case GLI_ALLREDUCE:
      return FORMS(allreduce_list, ins, l->out, l->counts, in->n, GLOO_INT64,
                   GLOO_SUM);
    default:
      return GLOO_ERR_INTERNAL;
  }
}

#undef FORMS

/* ---- a job --------------------------------------------------------------- */

static void wrong(rank_env *env, const job *j, const char *what, size_t block,
                  size_t i, int64_t is, int64_t want) {
  char text[240];
  snprintf(text, sizeof text,
           "%s %s count %zu root %d form %d in place %d layouts %d %d: %s, "
           "element %zu of block %zu is %lld, not %lld",
           gli_collective_name(j->collective),
           j->algorithm ? j->algorithm : "auto", j->count, j->root, j->form,
           j->in_place, (int)j->in_layout, (int)j->out_layout, what, i, block,
           (long long)is, (long long)want);
  rank_fail(env, __FILE__, __LINE__, text);
}

static void check_canaries(rank_env *env, const job *j, const side *s,
                           layout how) {
  for (size_t k = 0; k < s->n; k++) {
    if (s->memory[k] == NULL) continue;
    size_t end = how == APART ? s->length[k] : s->all;
    int64_t is = s->memory[k][end];
    if (is != canary()) wrong(env, j, "behind it", k, end, is, canary());
  }
}

/* Checks that the inputs are unchanged. */
static void check_inputs(rank_env *env, const job *j, const side *in, int run) {
  bool cut = j->collective == GLI_ALLREDUCE;
  for (size_t k = 0; k < in->n; k++) {
    for (size_t i = 0; i < in->length[k]; i++) {
      size_t at = cut ? in->first[k] + i : i;
      int64_t want = input_at(env->rank, cut ? 0 : (int)k, at, run);
      if (in->block[k][i] == want) continue;
      wrong(env, j, "input", k, i, in->block[k][i], want);
      return;
    }
  }
}

static void check(rank_env *env, const job *j, const side *in, const side *out,
                  int run) {
  bool cut = j->collective == GLI_ALLREDUCE;
  bool kept = j->collective == GLI_SCATTER && j->in_place;
  check_canaries(env, j, out,
                 j->collective == GLI_SCATTER ? TOGETHER : j->out_layout);
  check_canaries(env, j, in, j->in_layout);
  if (!j->in_place && has_input(j, env->rank)) check_inputs(env, j, in, run);
  for (size_t k = 0; k < out->n; k++) {
    /* In place, the root of a scatter holds its own block among the others. */
    if (kept && env->rank == j->root && (int)k != env->rank) continue;
    for (size_t i = 0; i < out->length[k]; i += 1 + i / 500) {
      size_t at = cut ? out->first[k] + i : i;
      int64_t want = canary();
      if (has_output(j, env->rank))
        want = expected_at(j, env->rank, env->size, (int)k, at, run);
      if (out->block[k][i] == want) continue;
      wrong(env, j, "output", k, i, out->block[k][i], want);
      return;
    }
  }
}

static void run_job(rank_env *env, job j) {
  side in, out;
  bool place_at_root =
      j.collective == GLI_GATHER || j.collective == GLI_SCATTER;
  if (j.collective == GLI_REDUCE_SCATTER) j.in_place = 0;
  if (place_at_root && env->rank != j.root) j.in_place = 0;
  bool plain = j.in_layout == PLAIN || j.out_layout == PLAIN;
  if (plain) j.in_layout = j.out_layout = TOGETHER;
  sides_make(&in, &out, &j, env);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = j.algorithm;
  gloo_request *op = NULL;
  sides_fill(&in, &out, &j, env, 0);
  lists l = lists_make(&in, &out);
  RANK_OK(env, plain ? call_plain(env->context, &j, &in, &out, &o, &op)
                     : call_lists(env->context, &j, &in, &out, &l, &o, &op));
  lists_free(&l);
  if (j.form == 1 && op)
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  for (int run = 0; j.form == 2 && op && run < RUNS; run++) {
    sides_fill(&in, &out, &j, env, run);
    RANK_OK(env, gloo_request_start(op, NULL));
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
    check(env, &j, &in, &out, run);
  }
  if (j.form != 2) check(env, &j, &in, &out, 0);
  gloo_request_destroy(op);
  side_free(&in);
  side_free(&out);
}

static const gli_collective listed[] = {GLI_ALLGATHER, GLI_GATHER,
                                        GLI_SCATTER,   GLI_ALLTOALL,
                                        GLI_ALLREDUCE, GLI_REDUCE_SCATTER};
enum { LISTED = sizeof listed / sizeof *listed };

/* Runs every layout, with different ones on the ranks. */
static void all_forms(rank_env *env, gli_collective collective,
                      const char *algorithm, int *n) {
  static const size_t counts[] = {0, 1, 100, 5003};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (int form = 0; form < 3; form++) {
      for (int in_place = 0; in_place < 2; in_place++, ++*n) {
        int drawn = *n + env->rank;
        if (env->failure[0]) return;
        run_job(env, (job){.algorithm = algorithm,
                           .collective = collective,
                           .count = counts[c],
                           .root = *n % env->size,
                           .form = form,
                           .in_place = in_place,
                           .in_layout = (layout)(drawn % LAYOUTS),
                           .out_layout = (layout)(drawn / LAYOUTS % LAYOUTS)});
      }
    }
  }
}

static void all_jobs(rank_env *env) {
  int n = 0;
  for (size_t k = 0; k < LISTED; k++) {
    const char *name = gli_collective_name(listed[k]), *algorithm;
    all_forms(env, listed[k], NULL, &n);
    for (size_t a = 0; (algorithm = gloo_algorithm_name(name, a)); a++) {
      all_forms(env, listed[k], algorithm, &n);
    }
  }
}

static void blocks_that_lie_apart(void **state) {
  (void)state;
  for (int size = 1; size <= MOST - SANITIZED_THREADS; size++) {
    ranks_options o = {.transport = transport};
    ranks_run(size, &o, all_jobs);
  }
}

static void blocks_of_ranks_on_several_hosts(void **state) {
  (void)state;
  static const char *const hosts[] = {"a", "b", "a", "b"};
  ranks_options o = {.transport = transport, .host_ids = hosts};
  ranks_run(4, &o, all_jobs);
}

/* ---- the same bits as the calls with one buffer -------------------------- */

/* x -> a x + b; composition is associative, but not commutative. */
typedef struct map {
  uint32_t a, b;
} map;

static void follow(const gloo_custom_args *args) {
  const map *x = args->left, *y = args->right;
  map *to = args->result;
  for (size_t i = 0; i < args->count; i++) {
    to[i] = (map){x[i].a * y[i].a, x[i].b * y[i].a + y[i].b};
  }
}

typedef struct reduction {
  gloo_dtype dtype;
  gloo_op op;
  int ordered;
} reduction;

static const reduction reductions[] = {
    {GLOO_FLOAT32, GLOO_SUM, 0},         {GLOO_FLOAT32, GLOO_SUM, 1},
    {GLOO_FLOAT32, GLOO_AVERAGE, 0},     {GLOO_FLOAT16, GLOO_AVERAGE, 0},
    {GLOO_INT32, GLOO_AVERAGE, 0},       {GLOO_FLOAT32, GLOO_SCALED_SUM, 0},
    {GLOO_BFLOAT16, GLOO_SCALED_SUM, 0}, {GLOO_FLOAT16, GLOO_SCALED_SUM, 1},
    {GLOO_BFLOAT16, GLOO_SUM, 0},        {GLOO_OPAQUE, GLOO_CUSTOM, 0},
    {GLOO_BFLOAT16, GLOO_MAX, 0},        {GLOO_BFLOAT16, GLOO_AVERAGE, 1}};
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };

enum { PART = 77, ALL = PART * MOST, WIDEST = 8 };

/* Draws elements of the type. Floats have similar magnitudes. */
static void draw(uint8_t *to, gloo_dtype dtype, size_t n, int rank, int run) {
  for (size_t i = 0; i < n; i++) {
    uint32_t x = (uint32_t)(i * 2654435761u) + (uint32_t)(rank * 40503) +
                 (uint32_t)run * 977u;
    if (dtype == GLOO_FLOAT32) {
      float value = 1 + (float)(x % 4096) / 1000;
      memcpy(to + i * 4, &value, 4);
    } else if (dtype == GLOO_FLOAT16) {
      uint16_t half = (uint16_t)(0x3c00 + x % 1024);
      memcpy(to + i * 2, &half, 2);
    } else if (dtype == GLOO_BFLOAT16) {
      uint16_t half = (uint16_t)(0x3f80 + x % 128);
      memcpy(to + i * 2, &half, 2);
    } else if (dtype == GLOO_INT32) {
      memcpy(to + i * 4, &x, 4);
    } else {
      map m = {x | 1, x >> 3};
      memcpy(to + i * 8, &m, 8);
    }
  }
}

/* Runs the operation twice: first with other contents of its input `data`, then
 * with `again`. */
static void run_twice(rank_env *env, gloo_request *op, uint8_t *data,
                      gloo_dtype dtype, size_t n, const uint8_t *again) {
  for (int run = 0; op != NULL && run < 2; run++) {
    if (run == 0) draw(data, dtype, n, env->rank, 9);
    if (run == 1) memcpy(data, again, n * WIDEST);
    RANK_OK(env, gloo_request_start(op, NULL));
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  }
  gloo_request_destroy(op);
}

/* Lists the parts of `at` in reverse, so that they are not contiguous. */
static void reversed(uint8_t *at, size_t bytes, int n, uint8_t **list) {
  for (int k = 0; k < n; k++) list[k] = at + (size_t)(n - 1 - k) * bytes;
}

static void same_bits_of(rank_env *env, const reduction *r,
                         const gloo_options *o, size_t element) {
  gloo_context *c = env->context;
  size_t part = PART * element, all = part * (size_t)env->size;
  size_t n = (size_t)env->size * PART;
  size_t counts[MOST] = {PART, PART, PART, PART};
  uint8_t in[ALL * WIDEST], want[ALL * WIDEST], out[ALL * WIDEST];
  uint8_t apart[ALL * WIDEST], place[ALL * WIDEST];
  uint8_t *ins[MOST], *outs[MOST], *places[MOST];
  gloo_request *op = NULL;
  memset(in, 0, sizeof in);
  draw(in, r->dtype, n, env->rank, 0);
  reversed(apart, part, env->size, ins);
  reversed(out, part, env->size, outs);
  reversed(place, part, env->size, places);
  for (int k = 0; k < env->size; k++) {
    memcpy(ins[k], in + (size_t)k * part, part);
    memcpy(places[k], in + (size_t)k * part, part);
  }
  RANK_OK(env, gloo_allreduce(c, in, want, n, r->dtype, r->op, o, NULL));
  RANK_OK(env, gloo_allreduce_list(c, (const void *const *)ins, (void **)outs,
                                   counts, (size_t)env->size, r->dtype, r->op,
                                   o, NULL));
  RANK_OK(env,
          gloo_allreduce_list(c, NULL, (void **)places, counts,
                              (size_t)env->size, r->dtype, r->op, o, NULL));
  for (int k = 0; k < env->size; k++) {
    RANK_CHECK(env, memcmp(outs[k], want + (size_t)k * part, part) == 0);
    RANK_CHECK(env, memcmp(places[k], want + (size_t)k * part, part) == 0);
  }
  /* Only one side is a list of separate blocks. */
  memset(out, 0, sizeof out);
  const void *together[] = {in};
  void *whole[] = {out};
  RANK_OK(env, gloo_allreduce_list_init(c, (const void *const *)ins, whole,
                                        counts, env->size == 1 ? 1 : 0,
                                        r->dtype, r->op, o, &op, NULL));
  gloo_request_destroy(op); /* it has not been started */
  op = NULL;
  RANK_OK(env,
          gloo_reduce_scatter_list_init(c, (const void *const *)ins, out, PART,
                                        r->dtype, r->op, o, &op, NULL));
  uint8_t again[ALL * WIDEST];
  memcpy(again, apart, sizeof again);
  run_twice(env, op, apart, r->dtype, n, again);
  RANK_OK(env,
          gloo_reduce_scatter(c, in, want, PART, r->dtype, r->op, o, NULL));
  RANK_CHECK(env, memcmp(out, want, part) == 0);
  RANK_CHECK(env, memcmp(apart, again, all) == 0);
  RANK_OK(env, gloo_reduce_scatter_list(
                   c, env->size == 1 ? together : (const void *const *)ins, out,
                   PART, r->dtype, r->op, o, NULL));
  RANK_CHECK(env, memcmp(out, want, part) == 0);
}

static void same_bits(rank_env *env) {
  gloo_custom_op_options custom = GLOO_CUSTOM_OP_OPTIONS_INIT;
  custom.element_bytes = sizeof(map);
  for (int i = 0; i < REDUCTIONS; i++) {
    const reduction *r = &reductions[i];
    gloo_options o = GLOO_OPTIONS_INIT;
    double factor = 0.3 + 0.1 * env->rank;
    o.ordered = r->ordered;
    if (r->op == GLOO_SCALED_SUM) o.factor = &factor;
    size_t element = gloo_dtype_size(r->dtype);
    if (r->op == GLOO_CUSTOM) {
      RANK_OK(env, gloo_custom_op_create(follow, &custom, &o.custom, NULL));
      element = sizeof(map);
    }
    same_bits_of(env, r, &o, element);
    if (r->op == GLOO_CUSTOM) gloo_custom_op_destroy(o.custom);
  }
}

static void lists_give_the_bits_of_one_buffer(void **state) {
  (void)state;
  static const char *const hosts[] = {"a", "a", "b", "b"};
  for (int size = 1; size <= MOST; size++) {
    ranks_options o = {.transport = transport};
    ranks_run(size, &o, same_bits);
  }
  ranks_options o = {.transport = transport, .host_ids = hosts};
  ranks_run(MOST, &o, same_bits);
}

/* ---- refusals ------------------------------------------------------------ */

static void expect(rank_env *env, gloo_status status, gloo_status wanted,
                   const gloo_error *error, const char *part) {
  if (status == wanted && error->status == wanted &&
      strstr(error->message, part) != NULL)
    return;
  char text[240];
  snprintf(text, sizeof text, "wanted \"%.80s\", not %d: %.120s", part,
           (int)status, error->message);
  rank_fail(env, __FILE__, __LINE__, text);
}

static void refused_buffers(rank_env *env) {
  gloo_context *c = env->context;
  gloo_error e;
  int32_t data[64] = {0};
  const gloo_dtype t = GLOO_INT32;
  const void *in[] = {&data[0], &data[16]}, *no_in[] = {&data[0], NULL};
  const void *in_out[] = {&data[0], &data[36]};
  void *out[] = {&data[32], &data[48]}, *no_out[] = {&data[32], NULL};
  void *twice[] = {&data[32], &data[36]}, *back[] = {&data[36], &data[32]};
#define BUFFER(part, call) expect(env, call, GLOO_ERR_BUFFER, &e, part)
#define ALLGATHER(in, out) gloo_allgather_list(c, in, out, 8, t, NULL, &e)
  BUFFER("gloo_allgather_list: the list of outputs", ALLGATHER(in[0], NULL));
  BUFFER("output 1 is NULL", ALLGATHER(in[0], no_out));
  BUFFER("output 1 is NULL", ALLGATHER(GLOO_IN_PLACE, no_out));
  BUFFER("the input is NULL", ALLGATHER(NULL, out));
  BUFFER("output 0 and output 1 overlap", ALLGATHER(in[0], twice));
  BUFFER("output 0 and output 1 overlap", ALLGATHER(GLOO_IN_PLACE, back));
  BUFFER("the input and output 1 overlap", ALLGATHER(&data[44], out));
#define ALLTOALL(in, out) gloo_alltoall_list(c, in, out, 8, t, NULL, &e)
  BUFFER("input 1 is NULL", ALLTOALL(no_in, out));
  BUFFER("output 1 is NULL", ALLTOALL(in, no_out));
  BUFFER("the list of outputs is NULL", ALLTOALL(in, NULL));
  BUFFER("output 0 and output 1 overlap", ALLTOALL(NULL, twice));
  BUFFER("input 1 and output 0 overlap", ALLTOALL(in_out, out));
#define SCATTER(in, out) \
  gloo_reduce_scatter_list(c, in, out, 8, t, GLOO_SUM, NULL, &e)
  BUFFER("the list of inputs is NULL", SCATTER(NULL, out[0]));
  BUFFER("input 1 is NULL", SCATTER(no_in, out[0]));
  BUFFER("the output is NULL", SCATTER(in, NULL));
  BUFFER("input 1 and the output overlap", SCATTER(in, &data[20]));
  const size_t counts[] = {8, 8}, one[] = {8, 0};
#define ALLREDUCE(in, out, counts) \
  gloo_allreduce_list(c, in, out, counts, 2, t, GLOO_SUM, NULL, &e)
  BUFFER("input 1 is NULL", ALLREDUCE(no_in, out, counts));
  BUFFER("output 1 is NULL", ALLREDUCE(NULL, no_out, counts));
  BUFFER("output 0 and output 1 overlap", ALLREDUCE(in, back, counts));
  BUFFER("input 1 and output 0 overlap", ALLREDUCE(in_out, out, counts));
  int root = 1;
#define GATHER(in, out) gloo_gather_list(c, in, out, 8, t, root, NULL, &e)
#define SCATTERED(in, out) gloo_scatter_list(c, in, out, 8, t, root, NULL, &e)
  if (env->rank == root) {
    BUFFER("the list of outputs is NULL", GATHER(in[0], NULL));
    BUFFER("output 1 is NULL", GATHER(in[0], no_out));
    BUFFER("output 0 and output 1 overlap", GATHER(in[0], twice));
    BUFFER("input 1 is NULL", SCATTERED(no_in, out[0]));
    BUFFER("input 1 and output 0 overlap", SCATTERED(in, &data[20]));
  } else {
    BUFFER("only the root can use GLOO_IN_PLACE", GATHER(GLOO_IN_PLACE, out));
    BUFFER("output 0 is NULL", SCATTERED(NULL, NULL));
  }
  /* The refused calls leave the context usable; these ones are valid: */
  const void *equal[] = {&data[0], &data[0]};
  RANK_OK(env, ALLTOALL(equal, out));
  RANK_OK(env, ALLTOALL((const void *const *)out, out));
  RANK_OK(env, ALLREDUCE(no_in, no_out, one));
  RANK_OK(env, ALLGATHER(out[env->rank], out));
  RANK_OK(env, GATHER(in[0], env->rank == root ? out : NULL));
}

static void refused_values(rank_env *env) {
  gloo_context *c = env->context;
  gloo_error e;
  int32_t data[64] = {0};
  const gloo_dtype t = GLOO_INT32, no_type = (gloo_dtype)99;
  const gloo_op no_op = (gloo_op)99;
  const void *in[] = {&data[0], &data[16]};
  void *out[] = {&data[32], &data[48]};
  const size_t counts[] = {8, 8}, many[] = {SIZE_MAX, 8};
  size_t half = SIZE_MAX / 2;
  gloo_request *op = NULL;
#define EXPECT(status, part, call) expect(env, call, status, &e, part)
  EXPECT(GLOO_ERR_COUNT, "gloo_allgather_list",
         gloo_allgather_list(c, in[0], out, half, t, NULL, &e));
  EXPECT(GLOO_ERR_COUNT, "address space",
         gloo_alltoall_list(c, in, out, SIZE_MAX, t, NULL, &e));
  EXPECT(GLOO_ERR_COUNT, "address space",
         gloo_gather_list(c, in[0], out, half, t, 0, NULL, &e));
  EXPECT(GLOO_ERR_COUNT, "address space",
         gloo_reduce_scatter_list(c, in, out[0], half, t, GLOO_SUM, NULL, &e));
  EXPECT(GLOO_ERR_COUNT, "address space",
         gloo_allreduce_list(c, in, out, many, 2, t, GLOO_SUM, NULL, &e));
  EXPECT(GLOO_ERR_COUNT, "the list of the counts of 2 pieces is NULL",
         gloo_allreduce_list(c, in, out, NULL, 2, t, GLOO_SUM, NULL, &e));
  EXPECT(GLOO_ERR_DTYPE, "gloo_alltoall_list: unknown type",
         gloo_alltoall_list(c, in, out, 8, no_type, NULL, &e));
  EXPECT(GLOO_ERR_OP, "unknown reduction",
         gloo_allreduce_list(c, in, out, counts, 2, t, no_op, NULL, &e));
  EXPECT(GLOO_ERR_ROOT, "root 2 is not a rank",
         gloo_gather_list(c, in[0], out, 8, t, 2, NULL, &e));
  EXPECT(GLOO_ERR_ROOT, "root -1 is not a rank",
         gloo_scatter_list(c, in, out[0], 8, t, -1, NULL, &e));
  EXPECT(GLOO_ERR_UNSUPPORTED, "average",
         gloo_reduce_scatter_list(c, in, out[0], 8, GLOO_BOOL, GLOO_AVERAGE,
                                  NULL, &e));
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "astrology";
  EXPECT(GLOO_ERR_NOT_FOUND, "astrology",
         gloo_allgather_list(c, in[0], out, 8, t, &o, &e));
  EXPECT(GLOO_ERR_INVALID, "`request` must not be NULL",
         gloo_allgather_list_init(c, in[0], out, 8, t, NULL, NULL, &e));
  EXPECT(GLOO_ERR_INVALID, "the context is NULL",
         gloo_allgather_list_start(NULL, in[0], out, 8, t, NULL, &op, &e));
  RANK_OK(env,
          gloo_allreduce_list(c, NULL, NULL, NULL, 0, t, GLOO_SUM, NULL, &e));
  RANK_OK(env, gloo_alltoall_list(c, NULL, NULL, 0, t, NULL, &e));
  RANK_OK(env, gloo_alltoall_list(c, in, out, 8, t, NULL, &e));
}

static void bad_lists_are_refused(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, refused_buffers);
  ranks_run(2, &o, refused_values);
}

/* ---- errors -------------------------------------------------------------- */

/* The sums of the counts must agree. A failed context refuses calls; requests
 * made before the failure can still be destroyed. */
static void different_sums(rank_env *env) {
  int32_t data[64] = {0};
  const void *in[] = {&data[0], &data[16]};
  void *out[] = {&data[32], &data[48]};
  size_t counts[] = {8, env->rank == 0 ? 7 : 8};
  gloo_error error;
  gloo_request *op = NULL;
  RANK_OK(env, gloo_alltoall_list_init(env->context, in, out, 8, GLOO_INT32,
                                       NULL, &op, NULL));
  (void)gloo_allreduce_list(env->context, in, out, counts, 2, GLOO_INT32,
                            GLOO_SUM, NULL, NULL);
  (void)gloo_barrier(env->context, NULL, NULL);
  RANK_CHECK(env,
             gloo_context_error(env->context, &error) == GLOO_ERR_MISMATCH);
  RANK_CHECK(env, gloo_alltoall_list(env->context, in, out, 8, GLOO_INT32, NULL,
                                     NULL) == GLOO_ERR_POISONED);
  RANK_CHECK(env, gloo_request_start(op, NULL) == GLOO_ERR_POISONED);
  gloo_request_destroy(op);
}

static void vectors_of_different_length_are_a_mismatch(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, different_sums);
}

/* Rank 0 waits for data that never arrives. */
static void failed(rank_env *env) {
  int32_t data[64];
  const void *in[] = {&data[0], &data[16]};
  void *out[] = {&data[32], &data[48]};
  gloo_request *op = NULL;
  gloo_status status;
  for (int i = 0; i < 64; i++) data[i] = i;
  if (env->rank == 0) {
    status = gloo_alltoall_list_start(env->context, in, out, 8, GLOO_INT32,
                                      NULL, &op, NULL);
    if (status == GLOO_OK)
      status = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL);
    gloo_request_destroy(op);
  } else {
    status = gloo_barrier(env->context, NULL, NULL);
  }
  RANK_CHECK(env, status != GLOO_OK);
  for (int i = 0; i < 64; i++) RANK_CHECK(env, data[i] == i);
}

static void failed_calls_leave_the_outputs_alone(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, failed);
}

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "inproc";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_that_lie_apart),
      cmocka_unit_test(blocks_of_ranks_on_several_hosts),
      cmocka_unit_test(lists_give_the_bits_of_one_buffer),
      cmocka_unit_test(bad_lists_are_refused),
      cmocka_unit_test(vectors_of_different_length_are_a_mismatch),
      cmocka_unit_test(failed_calls_leave_the_outputs_alone),
  };
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
