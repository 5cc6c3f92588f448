/* Every algorithm, run on real data by all ranks at once, gives the right
 * result in any order of events, without buffering, however the vector is
 * cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "content.h"
#include "tools/sample_counts.h"

/* ---- operations ---------------------------------------------------------- */

static uint64_t load(const void *from, size_t i) {
  uint64_t value;
  memcpy(&value, (const uint8_t *)from + 8 * i, 8);
  return value;
}
static void store(void *to, size_t i, uint64_t value) {
  memcpy((uint8_t *)to + 8 * i, &value, 8);
}

static void add(void *dst, const void *left, const void *right, size_t count) {
  for (size_t i = 0; i < count; i++)
    store(dst, i, load(left, i) + load(right, i));
}

static void add_bytes(void *dst, const void *left, const void *right,
                      size_t count) {
  const uint8_t *l = left, *r = right;
  uint8_t *sum = dst;
  for (size_t i = 0; i < count; i++) sum[i] = (uint8_t)(l[i] + r[i]);
}

/* Combines without commutativity or associativity: any two orders give
 * different bits, as NaNs and rounding may. */
static void mix(void *dst, const void *left, const void *right, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t state = load(left, i) * 3 + (load(right, i) ^ 0x5555555555555555u);
    store(dst, i, world_random(&state));
  }
}

/* Combines associatively, but not commutatively: maps x -> a x + b, a and b 32
 * bits each, the left one applied first. */
static void compose(void *dst, const void *left, const void *right,
                    size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t l = load(left, i), r = load(right, i);
    uint32_t la = (uint32_t)(l >> 32), lb = (uint32_t)l;
    uint32_t ra = (uint32_t)(r >> 32), rb = (uint32_t)r;
    uint32_t a = ra * la, b = ra * lb + rb;
    store(dst, i, (uint64_t)a << 32 | b);
  }
}

/* ---- one case ------------------------------------------------------------ */

static void fail_case(const gli_algorithm *a, const gli_plan_params *p,
                      world_layout layout, uint64_t seed) {
  const char *const names[] = {"apart", "in place", "mixed"};
  fail_msg(
      "%s %s: %u ranks, root %u, count %llu of %llu bytes, %s, segments "
      "of %llu, seed %llu",
      gli_collective_name(a->collective), a->name, p->size, p->root,
      (unsigned long long)p->count, (unsigned long long)p->elem_bytes,
      names[layout], (unsigned long long)p->segment_bytes,
      (unsigned long long)seed);
}

static void run_case(const gli_algorithm *a, gli_plan_params p,
                     world_layout layout) {
  static uint64_t seed = 1;
  gli_reduce_fn reduce = p.elem_bytes == 1 ? add_bytes : add;
  seed++;
  world w;
  if (!world_open(&w, a->build, p, layout, seed))
    fail_case(a, &p, layout, seed);
  inputs all = inputs_copy(&w);
  bool right = world_run(&w, reduce, WORLD_ALL, seed) &&
               content_is_right(&w, &all, reduce);
  inputs_free(&all, w.size);
  world_close(&w);
  if (!right) fail_case(a, &p, layout, seed);
}

/* ---- all cases ----------------------------------------------------------- */

static const uint32_t sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                 12, 13, 14, 15, 16, 17, 31, 32, 33, 64};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Runs all layouts, long vectors in segments that do not divide them. */
static void run_layouts(const gli_algorithm *a, gli_plan_params p) {
  uint64_t in, out;
  assert_true(gli_plan_buffer_bytes(&p, &in, &out));
  uint64_t segment = p.elem_bytes * 3 + (in > out ? in : out) / 24;
  for (int layout = WORLD_APART; layout <= WORLD_MIXED; layout++) {
    p.segment_bytes = 0;
    run_case(a, p, (world_layout)layout);
    p.segment_bytes = segment;
    run_case(a, p, (world_layout)layout);
  }
}

/* Returns true if the vector has a block for each rank. */
static bool has_blocks(gli_collective collective) {
  gli_plan_params p = {
      .collective = collective, .size = 2, .count = 1, .elem_bytes = 1};
  return gli_plan_vector_bytes(&p) > 1;
}

static void run_counts(const gli_algorithm *a, uint32_t size, uint32_t root) {
  const uint64_t counts[] = {0, 1, size - 1, size, size + 1, 100, 1000};
  size_t n = has_blocks(a->collective) && size > 17 ? 6 : 7; /* long enough */
  for (size_t i = 0; i < n; i++)
    run_layouts(a, (gli_plan_params){.collective = a->collective,
                                     .size = size,
                                     .root = root,
                                     .count = counts[i],
                                     .elem_bytes = i % 2 == 0 ? 8 : 1});
}

static void run_collective(gli_collective collective) {
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective != collective) continue;
    for (size_t k = 0; k < N_SIZES; k++) {
      uint32_t roots = gli_collective_rooted(collective) ? sizes[k] : 1;
      uint32_t step = sizes[k] <= 17 ? 1 : 7; /* the checker sees every root */
      for (uint32_t root = 0; root < roots; root += step)
        run_counts(a, sizes[k], root);
    }
  }
}

static void broadcast_gives_all_ranks_the_bytes_of_the_root(void **state) {
  (void)state;
  run_collective(GLI_BROADCAST);
}
static void allreduce_adds_every_input_once(void **state) {
  (void)state;
  run_collective(GLI_ALLREDUCE);
}
static void reduce_scatter_gives_each_rank_its_block(void **state) {
  (void)state;
  run_collective(GLI_REDUCE_SCATTER);
}
static void allgather_puts_every_block_in_its_place(void **state) {
  (void)state;
  run_collective(GLI_ALLGATHER);
}

static void alltoall_swaps_every_pair_of_blocks(void **state) {
  (void)state;
  run_collective(GLI_ALLTOALL);
}

static void reduce_gives_the_root_the_sum(void **state) {
  (void)state;
  run_collective(GLI_REDUCE);
}
static void gather_collects_at_the_root(void **state) {
  (void)state;
  run_collective(GLI_GATHER);
}
static void scatter_spreads_from_the_root(void **state) {
  (void)state;
  run_collective(GLI_SCATTER);
}
static void scans_add_up_to_each_rank(void **state) {
  (void)state;
  run_collective(GLI_SCAN);
  run_collective(GLI_EXSCAN);
}

/* ---- given counts -------------------------------------------------------- */

static void run_sample(const gli_algorithm *a, uint32_t size, uint32_t root,
                       uint64_t seed, world_layout layout) {
  bool gaps = seed % 3 == 2;
  gli_sample_counts sample;
  assert_true(gli_sample_counts_make(&sample, a->collective, size, root,
                                     seed % 40 * 3, seed, gaps,
                                     layout != WORLD_APART));
  gli_plan_params p = {.collective = a->collective,
                       .size = size,
                       .root = root,
                       .count = sample.count,
                       .elem_bytes = seed % 2 == 0 ? 8 : 1,
                       .counts = sample.of};
  run_case(a, p, layout);
  p.segment_bytes = p.elem_bytes * 7;
  run_case(a, p, layout);
  gli_sample_counts_free(&sample);
}

static void counted_blocks_get_to_their_places(void **state) {
  (void)state;
  uint64_t seed = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!gli_collective_counted(a->collective)) continue;
    for (uint32_t size = 1; size <= 20; size++) {
      uint32_t roots = gli_collective_rooted(a->collective) ? size : 1;
      for (uint32_t root = 0; root < roots; root++)
        for (int n = 0; n < 9; n++)
          run_sample(a, size, root, seed++, (world_layout)(n / 3));
    }
  }
}

/* Returns a thousand ranks if each takes only a few steps. */
static uint32_t many_ranks(const gli_algorithm *a) {
  gli_plan_params p = {.collective = a->collective,
                       .size = 1000,
                       .count = 1000,
                       .elem_bytes = 8};
  gli_plan *plan;
  if (has_blocks(a->collective)) p.count = 1;
  assert_int_equal(gli_plan_make(a->build, &p, &plan, NULL), GLOO_OK);
  uint32_t size = plan->n_steps <= 500 ? 1000 : 150;
  gli_plan_free(plan);
  return size;
}

static void many_ranks_get_it_right(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (gli_collective_counted(a->collective)) continue;
    uint32_t size = many_ranks(a);
    run_case(a,
             (gli_plan_params){.collective = a->collective,
                               .size = size,
                               .root = size / 3,
                               .count = has_blocks(a->collective) ? 1 : size,
                               .elem_bytes = 8},
             WORLD_MIXED);
  }
}

/* ---- bits ---------------------------------------------------------------- */

static void run_reduction(const gli_algorithm *a, gli_plan_params p,
                          world_layout layout, gli_reduce_fn reduce,
                          bool in_order) {
  world w;
  if (!world_open(&w, a->build, p, layout, p.size))
    fail_case(a, &p, layout, p.size);
  inputs all = inputs_copy(&w);
  bool right = world_run(&w, reduce, WORLD_ALL, p.count) &&
               all_outputs_equal(&w) &&
               (!in_order || content_is_right(&w, &all, reduce));
  inputs_free(&all, w.size);
  world_close(&w);
  if (!right) fail_case(a, &p, layout, p.size);
}

static void allreduce_gives_all_ranks_the_same_bits(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective != GLI_ALLREDUCE) continue;
    for (uint32_t size = 1; size <= 64; size++) {
      gli_plan_params p = {.collective = GLI_ALLREDUCE,
                           .size = size,
                           .count = 97,
                           .elem_bytes = 8};
      run_reduction(a, p, WORLD_APART, mix, false);
      p.segment_bytes = 40;
      run_reduction(a, p, WORLD_IN_PLACE, mix, false);
    }
  }
}

static void recursive_doubling_keeps_operands_in_order(void **state) {
  (void)state;
  const gli_algorithm *a =
      gli_algorithm_find(GLI_ALLREDUCE, "recursive_doubling");
  for (uint32_t size = 1; size <= 64; size++) {
    gli_plan_params p = {
        .collective = GLI_ALLREDUCE, .size = size, .count = 9, .elem_bytes = 8};
    run_reduction(a, p, WORLD_APART, compose, true);
    run_reduction(a, p, WORLD_IN_PLACE, compose, true);
  }
}

/* A reduction into the buffer that its own round sends would wait for that
 * send, and deadlock without buffering. */
static void recursive_doubling_never_reduces_into_what_it_sends(void **state) {
  (void)state;
  const gli_algorithm *a =
      gli_algorithm_find(GLI_ALLREDUCE, "recursive_doubling");
  for (uint32_t i = 0; i < 128; i++) {
    gli_plan_params p = {.collective = GLI_ALLREDUCE,
                         .size = i / 2 + 1,
                         .count = 5,
                         .elem_bytes = 8,
                         .in_place = i % 2 != 0};
    for (p.rank = 0; p.rank < p.size; p.rank++) {
      gli_plan *plan;
      assert_int_equal(gli_plan_make(a->build, &p, &plan, NULL), GLOO_OK);
      for (uint32_t k = 1; k < plan->n_steps; k++) {
        const gli_step *s = &plan->steps[k - 1], *r = &plan->steps[k];
        if (s->kind != GLI_STEP_SEND || r->kind != GLI_STEP_RECV_REDUCE)
          continue;
        assert_int_not_equal(s->a_buffer, r->dst_buffer);
      }
      gli_plan_free(plan);
    }
  }
}

/* ---- barrier ------------------------------------------------------------- */

static void barrier_ends_when_all_have_come(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective != GLI_BARRIER) continue;
    for (uint32_t size = 1; size <= 33; size++) {
      gli_plan_params p = {
          .collective = GLI_BARRIER, .size = size, .elem_bytes = 1};
      world w;
      if (!world_open(&w, a->build, p, WORLD_APART, 1))
        fail_case(a, &p, WORLD_APART, 1);
      if (!world_run(&w, add, WORLD_ALL, size))
        fail_case(a, &p, WORLD_APART, size);
      for (uint32_t late = 0; late < size && size > 1; late++) {
        assert_false(world_run(&w, add, late, size));
        for (uint32_t r = 0; r < size; r++)
          assert_true(w.ranks[r].n_done < w.ranks[r].plan->n_steps);
      }
      world_close(&w);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(barrier_ends_when_all_have_come),
      cmocka_unit_test(broadcast_gives_all_ranks_the_bytes_of_the_root),
      cmocka_unit_test(allreduce_adds_every_input_once),
      cmocka_unit_test(reduce_scatter_gives_each_rank_its_block),
      cmocka_unit_test(allgather_puts_every_block_in_its_place),
      cmocka_unit_test(alltoall_swaps_every_pair_of_blocks),
      cmocka_unit_test(reduce_gives_the_root_the_sum),
      cmocka_unit_test(gather_collects_at_the_root),
      cmocka_unit_test(scatter_spreads_from_the_root),
      cmocka_unit_test(scans_add_up_to_each_rank),
      cmocka_unit_test(counted_blocks_get_to_their_places),
      cmocka_unit_test(many_ranks_get_it_right),
      cmocka_unit_test(allreduce_gives_all_ranks_the_same_bits),
      cmocka_unit_test(recursive_doubling_keeps_operands_in_order),
      cmocka_unit_test(recursive_doubling_never_reduces_into_what_it_sends),
  };
  return cmocka_run_group_tests_name("algorithms/content", tests, NULL, NULL);
}
