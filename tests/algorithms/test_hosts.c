/* Two-level algorithms: right for any placement of ranks, and without redundant
 * bytes between hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "algorithms/registry.h"
#include "executor.h"
#include "proof/check.h"
#include "proof/simulate.h"

/* ---- shapes -------------------------------------------------------------- */

enum { MOST_RANKS = 64 };

static uint64_t all_on_one(uint32_t rank, uint32_t size) {
  (void)rank, (void)size;
  return 7;
}
static uint64_t one_each(uint32_t rank, uint32_t size) {
  (void)size;
  return rank;
}
static uint64_t pairs(uint32_t rank, uint32_t size) {
  (void)size;
  return rank / 2;
}
static uint64_t eights(uint32_t rank, uint32_t size) {
  (void)size;
  return rank / 8;
}
static uint64_t halves(uint32_t rank, uint32_t size) {
  return rank < size / 2;
}
static uint64_t unequal(uint32_t rank, uint32_t size) {
  return rank * rank / (size + 1);
}
static uint64_t one_alone(uint32_t rank, uint32_t size) {
  return rank == size / 3;
}
static uint64_t interleaved(uint32_t rank, uint32_t size) {
  (void)size;
  return rank % 3;
}
static uint64_t scattered(uint32_t rank, uint32_t size) {
  (void)size;
  return (rank * 2654435761u >> 7) % 5;
}
static uint64_t backwards(uint32_t rank, uint32_t size) {
  return (size - 1 - rank) / 4;
}

typedef uint64_t (*shape)(uint32_t rank, uint32_t size);
static const shape shapes[] = {all_on_one, one_each, pairs,     eights,
                               halves,     unequal,  one_alone, interleaved,
                               scattered,  backwards};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static gli_hosts *hosts_of(int which, uint32_t size) {
  uint64_t keys[MOST_RANKS];
  for (uint32_t i = 0; i < size; i++) keys[i] = shapes[which](i, size);
  gli_hosts *hosts;
  assert_int_equal(gli_hosts_make(keys, size, &hosts, NULL), GLOO_OK);
  return hosts;
}

static bool is_two_level(const gli_algorithm *a) {
  return strcmp(a->name, "two_level") == 0;
}

/* ---- content ------------------------------------------------------------- */

static void check(gli_checker *checker, const gli_algorithm *a,
                  gli_plan_params p, int which) {
  gli_check_report report;
  gloo_error error;
  if (gli_checker_run(checker, a->build, &p, &report, &error) == GLOO_OK)
    return;
  fail_msg("%s %s, shape %d, %u ranks, root %u, count %llu%s: %s",
           gli_collective_name(a->collective), a->name, which, p.size, p.root,
           (unsigned long long)p.count, p.in_place ? ", in place" : "",
           error.message);
}

/* Runs vectors long enough for several leaders, or for several turns with few
 * ranks. */
static void check_counts(gli_checker *checker, const gli_algorithm *a,
                         gli_plan_params p, int which) {
  const uint64_t counts[] = {p.size + 1, 0, 1, 2999};
  for (int i = 0; i < 4; i++) {
    p.count = counts[i];
    p.elem_bytes = i % 2 == 0 ? 4 : 8;
    for (int in_place = 0; in_place < 2; in_place++) {
      /* With many ranks, test every other case. */
      if (p.size > 16 && (i + in_place + which) % 2 != 0) continue;
      p.in_place = in_place != 0;
      p.segment_bytes = i % 2 == 0 ? 0 : 16 + p.count * p.elem_bytes / 3;
      check(checker, a, p, which);
    }
  }
  if (p.size > 9 || a->collective == GLI_BARRIER) return;
  p.count = 131072 + 5;
  p.segment_bytes = 0;
  check(checker, a, p, which);
}

static void check_roots(gli_checker *checker, const gli_algorithm *a,
                        gli_plan_params p, int which) {
  bool rooted = gli_collective_rooted(a->collective);
  uint32_t step = p.size <= 8 ? 1 : p.size / 3;
  for (p.root = 0; p.root < (rooted ? p.size : 1); p.root += step)
    check_counts(checker, a, p, which);
}

static void they_are_right_for_up_to_64_ranks_on_any_hosts(void **state) {
  (void)state;
  gli_checker *checker = gli_checker_create(0);
  assert_non_null(checker);
  for (uint32_t size = 1; size <= MOST_RANKS; size += size < 34 ? 1 : 10) {
    for (int which = 0; which < N_SHAPES; which++) {
      gli_hosts *hosts = hosts_of(which, size);
      for (size_t i = 0; i < gli_algorithm_count; i++) {
        const gli_algorithm *a = &gli_algorithms[i];
        if (!is_two_level(a)) continue;
        check_roots(checker, a,
                    (gli_plan_params){.collective = a->collective,
                                      .size = size,
                                      .hosts = hosts,
                                      .oversubscribed = size % 2 != 0},
                    which);
      }
      gli_hosts_free(hosts);
    }
  }
  gli_checker_destroy(checker);
}

/* The automatically chosen algorithms are right too. */
static void choices_are_right_on_any_hosts(void **state) {
  (void)state;
  gli_checker *checker = gli_checker_create(0);
  assert_non_null(checker);
  for (uint32_t size = 1; size <= 17; size++) {
    for (int which = 0; which < N_SHAPES; which++) {
      gli_hosts *hosts = hosts_of(which, size);
      for (int c = 0; c < GLI_COLLECTIVES; c++) {
        gli_plan_params p = {.collective = (gli_collective)c,
                             .size = size,
                             .count = c == GLI_BARRIER ? 0 : 500,
                             .elem_bytes = c == GLI_BARRIER ? 1 : 4,
                             .hosts = hosts};
        const gli_algorithm *a = gli_algorithm_select(&p);
        if (a != NULL) check(checker, a, p, which);
      }
      gli_hosts_free(hosts);
    }
  }
  gli_checker_destroy(checker);
}

/* ---- bits ---------------------------------------------------------------- */

/* Combines without commutativity or associativity. */
static void mix(void *dst, const void *left, const void *right, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t l, r;
    memcpy(&l, (const uint8_t *)left + 8 * i, 8);
    memcpy(&r, (const uint8_t *)right + 8 * i, 8);
    uint64_t seed = l * 3 + (r ^ 0x5555555555555555u);
    l = world_random(&seed);
    memcpy((uint8_t *)dst + 8 * i, &l, 8);
  }
}

static void allreduce_gives_all_ranks_the_same_bits(void **state) {
  (void)state;
  const gli_algorithm *a = gli_algorithm_find(GLI_ALLREDUCE, "two_level");
  assert_non_null(a);
  for (uint32_t size = 2; size <= 33; size++) {
    for (int which = 0; which < N_SHAPES; which++) {
      gli_hosts *hosts = hosts_of(which, size);
      gli_plan_params p = {.collective = GLI_ALLREDUCE,
                           .size = size,
                           .count = which % 2 == 0 ? 3 : 3001,
                           .elem_bytes = 8,
                           .hosts = hosts};
      world w;
      assert_true(world_open(&w, a->build, p, WORLD_MIXED, size));
      assert_true(world_run(&w, mix, WORLD_ALL, size));
      for (uint32_t i = 1; i < size; i++)
        assert_memory_equal(w.ranks[0].out, w.ranks[i].out,
                            (size_t)p.count * 8);
      world_close(&w);
      gli_hosts_free(hosts);
    }
  }
}

/* ---- bytes between hosts ------------------------------------------------- */

static gli_sim_report simulate(gli_collective collective, gli_plan_params p) {
  const gli_algorithm *a = gli_algorithm_find(collective, "two_level");
  gli_sim_model m = GLI_SIM_MODEL_DEFAULT;
  gli_sim_report report;
  gloo_error error;
  p.collective = collective;
  gloo_status status = gli_simulate(a->build, &p, &m, &report, NULL, &error);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  return report;
}

/* A sum or gather of one host leaves it once for each other host that needs it,
 * and half of an allreduce is a reduce-scatter. */
static void no_byte_crosses_between_hosts_twice(void **state) {
  (void)state;
  for (uint32_t size = 4; size <= 32; size += 1 + size / 12) {
    for (int which = 0; which < N_SHAPES; which++) {
      gli_hosts *hosts = hosts_of(which, size);
      if (hosts->n > 1 && hosts->n < size) {
        gli_plan_params p = {.size = size, .elem_bytes = 4, .hosts = hosts};
        for (p.count = 100; p.count <= 10000; p.count += 9900) {
          uint64_t m = p.count * 4 * size, times = hosts->n - 1;
          gli_sim_report r = simulate(GLI_ALLGATHER, p);
          assert_int_equal(r.bytes_across, m * times);
          r = simulate(GLI_REDUCE_SCATTER, p);
          assert_int_equal(r.bytes_across, m * times);
        }
        p.count = 1 << 20;
        gli_sim_report r = simulate(GLI_ALLREDUCE, p);
        assert_int_equal(r.bytes_across, 2 * p.count * 4 * (hosts->n - 1));
        p.count = 0;
        p.elem_bytes = 1;
        r = simulate(GLI_BARRIER, p);
        assert_true(r.messages < size * size);
      }
      gli_hosts_free(hosts);
    }
  }
}

/* ---- one level ----------------------------------------------------------- */

/* Compares members: padding may differ. */
static bool same_step(const gli_step *x, const gli_step *y) {
  return x->kind == y->kind && x->role == y->role && x->lane == y->lane &&
         x->incoming_first == y->incoming_first && x->a_buffer == y->a_buffer &&
         x->b_buffer == y->b_buffer && x->dst_buffer == y->dst_buffer &&
         x->peer == y->peer && x->slot == y->slot && x->window == y->window &&
         x->n == y->n && x->own == y->own && x->put == y->put &&
         x->n_puts == y->n_puts && x->stride == y->stride && x->a == y->a &&
         x->b == y->b && x->dst == y->dst && x->bytes == y->bytes;
}

static void without_levels_it_is_the_best_of_one(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!is_two_level(a)) continue;
    for (int which = 0; which < 2; which++) {
      gli_hosts *hosts = hosts_of(which, 12);
      gli_plan_params p = {.collective = a->collective,
                           .size = 12,
                           .rank = 5,
                           .count = 50,
                           .elem_bytes = 4,
                           .hosts = hosts};
      gli_plan *plan, *best;
      const gli_algorithm *choice = gli_algorithm_select(&p);
      assert_ptr_not_equal(choice, a);
      assert_int_equal(gli_plan_make(a->build, &p, &plan, NULL), GLOO_OK);
      assert_int_equal(gli_plan_make(choice->build, &p, &best, NULL), GLOO_OK);
      assert_int_equal(plan->n_steps, best->n_steps);
      for (uint32_t k = 0; k < best->n_steps; k++) {
        assert_true(same_step(&plan->steps[k], &best->steps[k]));
      }
      gli_plan_free(plan);
      gli_plan_free(best);
      gli_hosts_free(hosts);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(they_are_right_for_up_to_64_ranks_on_any_hosts),
      cmocka_unit_test(choices_are_right_on_any_hosts),
      cmocka_unit_test(allreduce_gives_all_ranks_the_same_bits),
      cmocka_unit_test(no_byte_crosses_between_hosts_twice),
      cmocka_unit_test(without_levels_it_is_the_best_of_one),
  };
  return cmocka_run_group_tests_name("algorithms/hosts", tests, NULL, NULL);
}
