/* Plans that access other ranks' memory give the same result as with sent
 * bytes, whichever memory is mapped, in any order of events. */
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
#include "executor.h"

/* Combines without commutativity or associativity: only one order gives these
 * bits. */
static void mix(void *dst, const void *left, const void *right, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t l, r;
    memcpy(&l, (const uint8_t *)left + 8 * i, 8);
    memcpy(&r, (const uint8_t *)right + 8 * i, 8);
    uint64_t state = l * 3 + (r ^ 0x5555555555555555u);
    l = world_random(&state);
    memcpy((uint8_t *)dst + 8 * i, &l, 8);
  }
}

/* ---- one case ------------------------------------------------------------ */

static uint8_t *input_of(const world_rank *r) {
  return r->plan->params.in_place ? r->out : r->in;
}

/* Returns true for gathers; without lists all blocks have one length. */
static bool gathers(const gli_plan_params *p) {
  return p->collective == GLI_ALLGATHER || p->collective == GLI_ALLGATHERV;
}

/* Returns all inputs, concatenated. */
static uint8_t *gather(const world *w, uint64_t bytes) {
  uint8_t *all = malloc((size_t)(w->size * bytes + 1));
  assert_non_null(all);
  for (uint32_t i = 0; i < w->size; i++) {
    const world_rank *r = &w->ranks[i];
    uint64_t at = r->plan->params.in_place ? i * bytes : 0;
    memcpy(all + i * bytes, input_of(r) + at, (size_t)bytes);
  }
  return all;
}

static uint8_t *copy_of(const uint8_t *bytes, uint64_t n) {
  uint8_t *copy = malloc((size_t)n + 1);
  assert_non_null(copy);
  memcpy(copy, bytes, (size_t)n);
  return copy;
}

/* Returns all inputs, combined in rank order. */
static uint8_t *reduce_in_order(const world *w) {
  uint64_t bytes = w->ranks[0].plan->in_bytes;
  uint8_t *sum = malloc((size_t)bytes + 1);
  assert_non_null(sum);
  memcpy(sum, input_of(&w->ranks[0]), (size_t)bytes);
  for (uint32_t i = 1; i < w->size; i++)
    mix(sum, sum, input_of(&w->ranks[i]), (size_t)bytes / 8);
  return sum;
}

/* Returns the expected output of each rank, or of all ranks together for
 * collectives that scatter. */
static uint8_t *result_of(const world *w) {
  const gli_plan_params *p = &w->ranks[0].plan->params;
  uint64_t bytes = p->count * p->elem_bytes;
  if (gathers(p)) return gather(w, bytes);
  if (p->collective == GLI_BROADCAST) {
    return copy_of(input_of(&w->ranks[p->root]), bytes);
  }
  return reduce_in_order(w);
}

static bool is_right(const world *w, const uint8_t *sum) {
  for (uint32_t i = 0; i < w->size; i++) {
    const gli_plan_params *p = &w->ranks[i].plan->params;
    if (p->collective == GLI_REDUCE && i != p->root) continue;
    uint64_t bytes = p->count * p->elem_bytes;
    uint64_t at = p->collective == GLI_REDUCE_SCATTER ? i * bytes : 0;
    if (gathers(p)) bytes *= w->size;
    if (memcmp(w->ranks[i].out, sum + at, (size_t)bytes) == 0) continue;
    printf("# rank %u has the wrong bytes\n", i);
    return false;
  }
  return true;
}

static void run_case(const gli_algorithm *a, uint32_t size, uint64_t count,
                     world_layout layout, world_mapping reach) {
  static uint64_t seed = 1;
  gli_plan_params p = {.collective = a->collective,
                       .size = size,
                       .root = (uint32_t)(count % size),
                       .count = count,
                       .elem_bytes = 8};
  world w;
  assert_true(world_open(&w, a->build, p, layout, ++seed));
  w.reach = reach;
  uint8_t *result = result_of(&w);
  bool right = world_run(&w, mix, WORLD_ALL, seed) && is_right(&w, result);
  free(result);
  world_close(&w);
  if (right) return;
  fail_msg("%s %s: %u ranks, count %llu, layout %d, reach %d, seed %llu",
           gli_collective_name(a->collective), a->name, size,
           (unsigned long long)count, layout, reach, (unsigned long long)seed);
}

static void run_ways(const gli_algorithm *a, uint32_t size, uint64_t count) {
  for (int layout = WORLD_APART; layout <= WORLD_MIXED; layout++) {
    for (int reach = WORLD_SENDS; reach <= WORLD_MIXES; reach++)
      run_case(a, size, count, (world_layout)layout, (world_mapping)reach);
  }
}

static bool refers(const gli_algorithm *a) {
  gli_plan_params p = {
      .collective = a->collective, .size = 3, .count = 30, .elem_bytes = 8};
  gli_plan *plan;
  if (gli_plan_make(a->build, &p, &plan, NULL) != GLOO_OK) return false;
  bool any = plan->n_windows > 0;
  gli_plan_free(plan);
  return any;
}

/* ---- all cases ----------------------------------------------------------- */

static void all_ways_give_the_bits_of_rank_order(void **state) {
  (void)state;
  size_t n = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!refers(a)) continue;
    for (uint32_t size = 1; size <= 17; size++) {
      const uint64_t counts[] = {0, 1, size - 1, size, size + 1, 100, 1000};
      for (size_t k = 0; k < 7; k++) run_ways(a, size, counts[k]);
    }
    run_ways(a, 64, 130);
    n++;
  }
  assert_true(n >= 3);
}

/* Parts that are long enough to be processed in several pieces. */
static void long_vectors_take_several_turns(void **state) {
  (void)state;
  const gli_algorithm *all = gli_algorithm_find(GLI_ALLREDUCE, "fused");
  const gli_algorithm *one = gli_algorithm_find(GLI_REDUCE_SCATTER, "fused");
  const gli_algorithm *root = gli_algorithm_find(GLI_REDUCE, "fused");
  const gli_algorithm *broadcast = gli_algorithm_find(GLI_BROADCAST, "fused");
  const gli_algorithm *allgather = gli_algorithm_find(GLI_ALLGATHER, "fused");
  uint64_t count = ((uint64_t)5 << 19) + 3; /* a little over 20 MiB */
  for (uint32_t size = 2; size <= 3; size++) {
    run_case(all, size, count, WORLD_APART, WORLD_MIXES);
    run_case(all, size, count, WORLD_IN_PLACE, WORLD_MAPS);
    run_case(root, size, count, WORLD_MIXED, WORLD_MIXES);
    run_case(broadcast, size, count, WORLD_APART, WORLD_MIXES);
    run_case(broadcast, size, count, WORLD_IN_PLACE, WORLD_MAPS);
    run_case(allgather, size, count / size, WORLD_MIXED, WORLD_MIXES);
    run_case(allgather, size, count / size, WORLD_IN_PLACE, WORLD_SENDS);
    run_case(one, size, count / size, WORLD_MIXED, WORLD_MIXES);
    run_case(one, size, count / size, WORLD_IN_PLACE, WORLD_SENDS);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ways_give_the_bits_of_rank_order),
      cmocka_unit_test(long_vectors_take_several_turns),
  };
  return cmocka_run_group_tests_name("algorithms/references", tests, NULL,
                                     NULL);
}
