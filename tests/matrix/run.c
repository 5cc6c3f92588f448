/* Running cases: state shared by all ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "player.h"

enum { MOST_TOLD = 20 };

void player_tell(player *p, const char *what) {
  char text[MATRIX_TEXT];
  p->failed = true;
  atomic_store(&p->scene->failed[p->index], 1);
  if (atomic_fetch_add(&p->scene->told, 1) >= MOST_TOLD) return;
  matrix_print(p->scene->ranks, p->c, text);
  fprintf(stderr, "rank %d: %s; again: test_matrix '%s'\n", p->env->rank, what,
          text);
}

static bool uses_gpus;

void matrix_use_gpus(void) {
  uses_gpus = true;
}

static void play(rank_env *env) {
  scene *s = env->user;
  player p = {.env = env, .scene = s};
  if (uses_gpus) {
    p.device = env->rank % gpu_devices();
    p.stream = gpu_stream_new(p.device);
    p.other = gpu_stream_new(p.device);
  }
  for (size_t i = 0; i < s->n; i++) {
    p.c = &s->cases[i];
    p.index = i;
    if (!player_run(&p)) {
      rank_fail(env, __FILE__, __LINE__, "the ranks cannot go on");
      break;
    }
  }
  player_free_buffers(&p);
  if (!uses_gpus) return;
  gpu_stream_free(p.device, p.stream);
  gpu_stream_free(p.device, p.other);
}

/* Runs the cases in a group of all ranks but one, in reverse order; that rank
 * is idle. */
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
    bool several = rows[c->row].variant == MATRIX_MULTI;
    reference **r = &s->references[several][c->dtype][c->op][kind];
    if (*r == NULL) {
      *r = reference_make(s->ranks->size, several, (gloo_dtype)c->dtype, c->op,
                          kind, c->dtype);
    }
    assert_non_null(*r);
  }
}

/* An inline function, so that the compiler vectorizes the loop for each
 * constant operation. */
static inline void combine_bytes(int op, const uint8_t *left,
                                 const uint8_t *right, size_t n, uint8_t *to) {
  for (size_t i = 0; i < n; i++)
    to[i] = reference_custom(op, left[i], right[i]);
}

/* Combines operands; `user` selects the operation. */
static void combine(const gloo_custom_args *args) {
  void *user = args->user;
  const void *left = args->left;
  const void *right = args->right;
  size_t count = args->count;
  gloo_dtype dtype = args->dtype;
  void *result = args->result;
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

static void run_ranks(scene *s) {
  const matrix_ranks *ranks = s->ranks;
  ranks_options o = {.transport = ranks->transport,
                     .host_ids = matrix_host_ids(ranks->hosts, ranks->size),
                     .timeout_ns = INT64_C(120000000000),
                     .user = s};
  if (ranks->hosts == MATRIX_GROUP) {
    ranks_run(ranks->size + 1, &o, play_in_group);
  } else {
    ranks_run(ranks->size, &o, play);
  }
}

static void open_scene(scene *s) {
  pattern_prepare();
  make_references(s);
  make_custom(s);
  s->digests = calloc(s->n + 1, (size_t)s->ranks->size * sizeof *s->digests);
  s->arrived = calloc(s->n + 1, sizeof *s->arrived);
  s->failed = calloc(s->n + 1, sizeof *s->failed);
  s->spoiled = calloc(s->n + 1, sizeof *s->spoiled);
  assert_true(s->digests && s->arrived && s->failed && s->spoiled);
}

static void close_scene(scene *s) {
  free(s->digests);
  free(s->arrived);
  free(s->failed);
  free(s->spoiled);
  free_references(s);
  for (int i = 0; i < 2; i++) gloo_custom_op_destroy(s->custom[i]);
}

size_t matrix_run(const matrix_ranks *ranks, const matrix_case *cases,
                  size_t n) {
  static scene s;
  s = (scene){.ranks = ranks, .cases = cases, .n = n};
  open_scene(&s);
  run_ranks(&s);
  size_t failed = 0;
  for (size_t i = 0; i < n; i++) failed += s.failed[i];
  close_scene(&s);
  return failed;
}

size_t matrix_run_spoiled(const matrix_ranks *ranks, const matrix_case *cases,
                          size_t n, matrix_spoil spoil) {
  static scene s;
  s = (scene){.ranks = ranks,
              .cases = cases,
              .n = n,
              .spoil = spoil,
              .told = MOST_TOLD};
  open_scene(&s);
  run_ranks(&s);
  size_t spoiled = 0;
  for (size_t i = 0; i < n; i++) {
    char text[MATRIX_TEXT];
    matrix_print(ranks, &cases[i], text);
    if (s.spoiled[i] != s.failed[i]) {
      fail_msg("error %d is %s: %s", (int)spoil,
               s.spoiled[i] ? "not found" : "not there", text);
    }
    spoiled += s.spoiled[i];
  }
  close_scene(&s);
  return spoiled;
}
