/* Plans for buffers that the host does not access: the copies in and out, and
 * the steps that wait for them. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "plan/depend.h"
#include "plan/plan.h"
#include "plan/staged.h"

enum { MOST_STEPS = 512, MOST_BYTES = 4096 };

/* before[i][j]: step i waits for step j, directly or not. */
typedef bool matrix[MOST_STEPS][MOST_STEPS];

static void close_over(const gli_plan *plan, matrix before) {
  memset(before, 0, sizeof(matrix));
  for (uint32_t j = 0; j < plan->n_steps; j++) {
    for (uint32_t k = plan->next_first[j]; k < plan->next_first[j + 1]; k++) {
      uint32_t i = plan->next[k];
      before[i][j] = true;
      for (uint32_t l = 0; l < j; l++) before[i][l] |= before[j][l];
    }
  }
}

static bool is_copy(const gli_step *s) {
  return s->kind == GLI_STEP_COPY_IN || s->kind == GLI_STEP_COPY_OUT;
}

/* The copies of one byte of a buffer, and the step that wrote it last. */
typedef struct history {
  uint32_t in, out, writer; /* UINT32_MAX: none */
} history;

static history all[GLI_BUFFERS][MOST_BYTES];
static matrix before;

static void expect_before(uint32_t first, uint32_t then, const char *what) {
  if (first == UINT32_MAX || !before[then][first])
    fail_msg("step %u does not wait for %s", then, what);
}

static void find_copies(const gli_plan *plan) {
  memset(all, 0xff, sizeof all);
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    bool in = s->kind == GLI_STEP_COPY_IN;
    if (!is_copy(s) || (in && s->dst_buffer == GLI_TOKEN)) continue;
    assert_true(s->bytes <= gli_staged_piece(&plan->params));
    for (uint64_t x = 0; x < s->bytes; x++) {
      history *h =
          in ? &all[s->dst_buffer][s->dst + x] : &all[s->a_buffer][s->a + x];
      uint32_t *copy = in ? &h->in : &h->out;
      assert_true(*copy == UINT32_MAX); /* once each */
      *copy = i;
    }
  }
}

static bool is_staged(const gli_plan *plan, uint8_t buffer) {
  unsigned flags = plan->params.staged;
  if (buffer <= GLI_INS) return flags & GLI_STAGED_IN;
  return (buffer == GLI_OUT || buffer == GLI_OUTS) && (flags & GLI_STAGED_OUT);
}

/* Checks in plan order that each byte read has been copied in, unless a step
 * has written it. */
static void check_reads(const gli_plan *plan) {
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    gli_access at[GLI_ACCESSES];
    const gli_step *s = &plan->steps[i];
    int n = is_copy(s) ? 0 : gli_depend_accesses(s, at);
    for (int k = 0; k < n; k++) {
      if (!is_staged(plan, at[k].buffer)) continue;
      for (uint64_t x = at[k].offset; x < at[k].offset + at[k].bytes; x++) {
        history *h = &all[at[k].buffer][x];
        if (at[k].writes && s->kind != GLI_STEP_SEND)
          h->writer = i;
        else if (h->writer == UINT32_MAX && !at[k].writes)
          expect_before(h->in, i, "a copy of what it reads");
      }
    }
  }
}

/* Checks that each byte written is copied out afterwards, and no others are. */
static void check_results(const gli_plan *plan) {
  for (int buffer = GLI_OUT; buffer < GLI_BUFFERS; buffer++) {
    if (!is_staged(plan, (uint8_t)buffer)) continue;
    for (uint64_t x = 0; x < MOST_BYTES; x++) {
      const history *h = &all[buffer][x];
      if (h->writer == UINT32_MAX) {
        assert_true(h->out == UINT32_MAX);
      } else {
        assert_true(h->out != UINT32_MAX);
        expect_before(h->writer, h->out, "the step that made it");
      }
    }
  }
}

/* Compares members: padding may differ. */
static bool is_same(const gli_step *a, const gli_step *b) {
  return a->kind == b->kind && a->role == b->role &&
         a->incoming_first == b->incoming_first && a->a_buffer == b->a_buffer &&
         a->b_buffer == b->b_buffer && a->dst_buffer == b->dst_buffer &&
         a->lane == b->lane && a->peer == b->peer && a->slot == b->slot &&
         a->window == b->window && a->n == b->n && a->own == b->own &&
         a->put == b->put && a->n_puts == b->n_puts && a->stride == b->stride &&
         a->a == b->a && a->b == b->b && a->dst == b->dst &&
         a->bytes == b->bytes;
}

/* Checks that the other steps are those of the plan without copies. */
static void check_others(const gli_plan *plan, const gli_plan *plain) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    if (is_copy(&plan->steps[i])) continue;
    assert_true(at < plain->n_steps);
    assert_true(is_same(&plan->steps[i], &plain->steps[at]));
    at++;
  }
  assert_int_equal(at, plain->n_steps);
  assert_true(plan->n_steps > at);
}

/* Checks that no copy waits for another one. */
static void check_copies(const gli_plan *plan) {
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    if (!is_copy(&plan->steps[i])) continue;
    for (uint32_t k = plan->next_first[i]; k < plan->next_first[i + 1]; k++)
      assert_int_not_equal(plan->steps[plan->next[k]].kind,
                           plan->steps[i].kind);
  }
}

static size_t check_rank(gli_build_fn build, const gli_plan_params *params) {
  static const uint8_t ways[] = {
      GLI_STAGED_IN, GLI_STAGED_OUT, GLI_STAGED_IN | GLI_STAGED_OUT,
      GLI_STAGED_IN | GLI_STAGED_OUT | GLI_STAGED_CHANGES};
  gli_plan_params p = *params;
  gli_plan *plain, *plan;
  gloo_error error;
  size_t checked = 0;
  assert_int_equal(gli_plan_make(build, &p, &plain, &error), GLOO_OK);
  for (size_t i = 0; i < sizeof ways; i++) {
    p.staged = ways[i];
    assert_int_equal(gli_plan_make(build, &p, &plan, &error), GLOO_OK);
    if (plan->n_steps <= MOST_STEPS && plan->in_bytes <= MOST_BYTES &&
        plan->out_bytes <= MOST_BYTES) {
      close_over(plan, before);
      find_copies(plan);
      check_reads(plan);
      check_results(plan);
      check_others(plan, plain);
      check_copies(plan);
      checked++;
    }
    gli_plan_free(plan);
  }
  gli_plan_free(plain);
  return checked;
}

static void copies_are_those_that_are_needed(void **state) {
  (void)state;
  size_t checked = 0;
  for (size_t a = 0; a < gli_algorithm_count; a++) {
    if (gli_collective_counted(gli_algorithms[a].collective)) continue;
    for (uint32_t size = 1; size <= 5; size++) {
      for (uint32_t k = 0; k < 4 * size; k++) {
        gli_plan_params p = {.collective = gli_algorithms[a].collective,
                             .size = size,
                             .rank = k / 4,
                             .root = size / 2,
                             .count = 61,
                             .elem_bytes = 4,
                             .in_place = k & 1,
                             .segment_bytes = k & 2 ? 64 : 0};
        checked += check_rank(gli_algorithms[a].build, &p);
      }
    }
  }
  assert_true(checked > 5000);
}

/* ---- order --------------------------------------------------------------- */

/* The first pieces of all blocks of a ring come before any second piece, so the
 * first results are ready when a small part of the input is. */
static void first_pieces_come_first(void **state) {
  (void)state;
  gli_plan_params p = {.collective = GLI_ALLREDUCE,
                       .size = 2,
                       .count = 1 << 22,
                       .elem_bytes = 4,
                       .segment_bytes = 512 << 10,
                       .staged = GLI_STAGED_IN | GLI_STAGED_OUT};
  gli_build_fn ring = gli_algorithm_find(GLI_ALLREDUCE, "ring")->build;
  gli_plan *plan;
  assert_int_equal(gli_plan_make(ring, &p, &plan, NULL), GLOO_OK);
  uint64_t half = p.count * p.elem_bytes / 2, at[2] = {0, half};
  for (uint32_t i = 0; i < 32; i++) {
    const gli_step *s = &plan->steps[i];
    assert_int_equal(s->kind, GLI_STEP_COPY_IN);
    uint64_t *next = &at[s->dst >= half];
    assert_int_equal(s->dst, *next);
    *next += s->bytes;
    int64_t apart = (int64_t)at[0] - (int64_t)(at[1] - half);
    assert_true(apart <= 512 << 10 && apart >= -(512 << 10));
  }
  gli_plan_free(plan);
}

/* A plan without data to copy still has a copy step to wait for. */
static void there_is_a_copy_at_least(void **state) {
  (void)state;
  gli_plan_params p = {.collective = GLI_BROADCAST,
                       .size = 1,
                       .count = 10,
                       .elem_bytes = 4,
                       .in_place = true,
                       .staged = GLI_STAGED_OUT};
  gli_build_fn flat = gli_algorithm_find(GLI_BROADCAST, "flat")->build;
  gli_plan *plan;
  assert_int_equal(gli_plan_make(flat, &p, &plan, NULL), GLOO_OK);
  assert_int_equal(plan->n_steps, 1);
  assert_int_equal(plan->steps[0].kind, GLI_STEP_COPY_IN);
  assert_int_equal(plan->steps[0].dst_buffer, GLI_TOKEN);
  gli_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_are_those_that_are_needed),
      cmocka_unit_test(first_pieces_come_first),
      cmocka_unit_test(there_is_a_copy_at_least),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
