/* The list of algorithms and the choice among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <string.h>

#include "algorithms/registry.h"

static gli_plan_params params(gli_collective collective, uint32_t size,
                              uint64_t count) {
  return (gli_plan_params){.collective = collective,
                           .size = size,
                           .count = collective == GLI_BARRIER ? 0 : count,
                           .elem_bytes = collective == GLI_BARRIER ? 1 : 4};
}

static const char *choice(gli_collective collective, uint32_t size,
                          uint64_t count) {
  gli_plan_params p = params(collective, size, count);
  return gli_algorithm_select(&p)->name;
}

static void names_and_numbers_find_their_algorithm(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    assert_ptr_equal(gli_algorithm_find(a->collective, a->name), a);
    assert_int_equal(gli_algorithm_id(a), i);
    assert_true(strlen(a->summary) > 0);
  }
  assert_null(gli_algorithm_find(GLI_ALLREDUCE, "binomial"));
  assert_null(gli_algorithm_find(GLI_ALLREDUCE, ""));
  assert_null(gli_algorithm_find(GLI_SENDRECV, "ring"));
}

static void every_call_has_a_choice(void **state) {
  (void)state;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    for (uint64_t size = 1; size <= 1u << 20; size += size / 3 + 1) {
      for (int bits = 0; bits < 64; bits++) {
        gli_plan_params p = params((gli_collective)c, (uint32_t)size,
                                   bits == 0 ? 0 : UINT64_MAX >> (64 - bits));
        const gli_algorithm *a = gli_algorithm_select(&p);
        if (c == GLI_SENDRECV) {
          assert_null(a);
          continue;
        }
        assert_non_null(a);
        assert_int_equal(a->collective, c);
      }
    }
  }
}

/* The choice keeps the order on any machine, for any length, and for blocks of
 * given lengths. */
static void the_choice_keeps_the_order_that_a_call_needs(void **state) {
  (void)state;
  for (int bits = 0; bits < 40 * 8; bits++) {
    for (int c = 0; c < GLI_COLLECTIVES; c++) {
      if (!gli_collective_reduces((gli_collective)c)) continue;
      gli_plan_params p =
          params((gli_collective)c, (uint32_t)(1 + bits % 7 * bits % 9),
                 UINT64_MAX >> (63 - bits / 8));
      p.oversubscribed = (gli_subscription)(bits % 3);
      p.locality = (gli_locality)(bits / 3 % 3);
      p.order = bits % 8 >= 4 ? GLI_ORDER_RANKS : GLI_ORDER_FOLD;
      assert_true(gli_algorithm_order(gli_algorithm_select(&p)) >= p.order);
    }
  }
}

/* No rank receives or sends the vector more than twice. */
static void long_ordered_vectors_take_few_bytes(void **state) {
  (void)state;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (!gli_collective_reduces((gli_collective)c)) continue;
    for (uint32_t size = 3; size <= 64; size *= 2) {
      gli_plan_params p = params((gli_collective)c, size, (uint64_t)1 << 28);
      p.order = GLI_ORDER_FOLD;
      const gli_algorithm *a = gli_algorithm_select(&p);
      uint64_t m = gli_plan_vector_bytes(&p);
      assert_true(a->bytes(size, m) <= 2 * m);
      assert_string_not_equal(a->name, "flat");
    }
  }
}

/* "fused" is chosen if it is the fastest ordered algorithm, even if an
 * unordered one is faster. */
static void long_ordered_vectors_are_fused_where_memory_is_shared(
    void **state) {
  (void)state;
  for (int oversubscribed = 0; oversubscribed < 2; oversubscribed++) {
    gli_plan_params p = params(GLI_ALLREDUCE, 4, (uint64_t)1 << 24);
    p.locality = GLI_INTRA_NODE;
    p.oversubscribed = oversubscribed != 0;
    assert_string_not_equal(gli_algorithm_select(&p)->name, "fused");
    p.order = GLI_ORDER_FOLD;
    assert_string_equal(gli_algorithm_select(&p)->name, "fused");
  }
}

/* "fused" is several times slower than others on oversubscribed ranks, unless
 * memory is mapped. */
static void oversubscribed_ranks_do_not_fuse_ordinary_memory(void **state) {
  (void)state;
  for (uint64_t count = 32 << 10; count <= 1 << 20; count *= 2) {
    gli_plan_params p = params(GLI_ALLREDUCE, 4, count);
    p.locality = GLI_INTRA_NODE;
    p.oversubscribed = GLI_OVERSUBSCRIBED;
    assert_string_equal(gli_algorithm_select(&p)->name,
                        count > 32 << 10 ? "circulant" : "flat");
    p.oversubscribed = GLI_PINNED;
    assert_string_equal(gli_algorithm_select(&p)->name, "halving_doubling");
  }
}

static void expect_mapped(gli_collective collective, uint32_t size,
                          uint64_t bytes, const char *name) {
  uint64_t each = collective == GLI_BROADCAST ? 1 : size;
  for (int oversubscribed = 0; oversubscribed < 2; oversubscribed++) {
    gli_plan_params p = params(collective, size, bytes / each / 4);
    p.locality = GLI_MAPPED;
    p.oversubscribed = oversubscribed ? GLI_PINNED : GLI_CORE_EACH;
    assert_string_equal(gli_algorithm_select(&p)->name, name);
  }
}

/* Each rank stores its part into all outputs if that pays. */
static void long_mapped_vectors_are_stored_by_all(void **state) {
  (void)state;
  const uint64_t mib = (uint64_t)1 << 20;
  expect_mapped(GLI_BROADCAST, 2, 8 * mib, "flat");
  expect_mapped(GLI_BROADCAST, 2, 16 * mib, "fused");
  expect_mapped(GLI_BROADCAST, 4, mib / 2, "flat");
  expect_mapped(GLI_BROADCAST, 4, mib, "fused");
  expect_mapped(GLI_BROADCAST, 8, 2 * mib, "flat");
  expect_mapped(GLI_BROADCAST, 8, 4 * mib, "fused");
  expect_mapped(GLI_BROADCAST, 16, 64 * mib, "flat");
  expect_mapped(GLI_ALLGATHER, 2, mib / 4, "fused");
  expect_mapped(GLI_ALLGATHER, 2, 4 * mib, "fused");
  expect_mapped(GLI_ALLGATHER, 2, 8 * mib, "direct");
  expect_mapped(GLI_ALLGATHER, 2, 16 * mib, "fused");
  expect_mapped(GLI_ALLGATHER, 4, 4 * mib, "direct");
  expect_mapped(GLI_ALLGATHER, 4, 8 * mib, "fused");
  expect_mapped(GLI_ALLGATHER, 8, 16 * mib, "direct");
  expect_mapped(GLI_ALLGATHER, 8, 32 * mib, "fused");
  expect_mapped(GLI_ALLGATHER, 16, 64 * mib, "direct");
}

/* A promise does not affect short vectors; of long ones each rank processes a
 * part of all. */
static void buffers_promised_to_be_mapped_are_worked_on_where_they_are(
    void **state) {
  (void)state;
  const gli_collective reduced[] = {GLI_ALLREDUCE, GLI_REDUCE,
                                    GLI_REDUCE_SCATTER};
  for (uint32_t size = 2; size <= 32; size++) {
    for (int i = 0; i < 6; i++) {
      uint64_t count = (uint64_t)1 << 20;
      bool scatters = reduced[i % 3] == GLI_REDUCE_SCATTER;
      gli_plan_params p =
          params(reduced[i % 3], size, scatters ? count / size : count);
      p.oversubscribed = i < 3;
      p.order = size % 2 != 0 ? GLI_ORDER_FOLD : GLI_ORDER_ANY;
      p.locality = GLI_MAPPED;
      assert_string_equal(gli_algorithm_select(&p)->name,
                          size <= 8 ? "fused" : "direct");
      p.count = 4;
      const gli_algorithm *of_few = gli_algorithm_select(&p);
      p.locality = GLI_INTRA_NODE;
      assert_ptr_equal(gli_algorithm_select(&p), of_few);
    }
  }
}

/* With a core for each rank, a few ranks exchange messages with all others at
 * once; if ranks outnumber cores, the number of messages must be small. */
static const char *oversubscribed_choice(gli_collective collective,
                                         uint32_t size, uint64_t count) {
  gli_plan_params p = params(collective, size, count);
  p.oversubscribed = GLI_OVERSUBSCRIBED;
  return gli_algorithm_select(&p)->name;
}

static void short_vectors_take_few_rounds(void **state) {
  (void)state;
  for (uint32_t size = 3; size <= 8; size++) {
    assert_string_equal(choice(GLI_BARRIER, size, 0), "all_to_all");
    assert_string_equal(choice(GLI_ALLREDUCE, size, 1), "one_shot");
    assert_string_equal(choice(GLI_BROADCAST, size, 1), "flat");
    assert_string_equal(choice(GLI_ALLGATHER, size, 1), "direct");
    assert_string_equal(choice(GLI_REDUCE_SCATTER, size, 1), "direct");
  }
  for (uint32_t size = 64; size <= 1024; size++) {
    assert_string_equal(choice(GLI_BARRIER, size, 0), "dissemination");
    assert_string_equal(choice(GLI_ALLREDUCE, size, 1), "recursive_doubling");
    assert_string_equal(choice(GLI_BROADCAST, size, 1), "binomial");
    assert_string_equal(choice(GLI_ALLGATHER, size, 1), "circulant");
    assert_string_equal(choice(GLI_REDUCE_SCATTER, size, 1), "circulant");
  }
}

static void oversubscribed_ranks_take_few_messages(void **state) {
  (void)state;
  for (uint32_t size = 4; size <= 1024; size++) {
    assert_string_equal(oversubscribed_choice(GLI_BARRIER, size, 0),
                        "all_to_one");
    assert_string_equal(oversubscribed_choice(GLI_ALLREDUCE, size, 1), "flat");
    assert_string_equal(oversubscribed_choice(GLI_BROADCAST, size, 1),
                        "binomial");
    assert_string_equal(oversubscribed_choice(GLI_ALLGATHER, size, 1), "flat");
    assert_string_equal(oversubscribed_choice(GLI_REDUCE_SCATTER, size, 1),
                        "flat");
  }
}

/* With shared memory a message costs no work, but waiting for a core does. */
static void oversubscribed_ranks_that_share_memory_take_few_rounds(
    void **state) {
  (void)state;
  for (uint32_t size = 3; size <= 16; size++) {
    gli_plan_params p = params(GLI_BARRIER, size, 0);
    p.oversubscribed = GLI_OVERSUBSCRIBED;
    p.locality = GLI_INTRA_NODE;
    assert_string_equal(gli_algorithm_select(&p)->name,
                        size < 6 ? "all_to_all" : "all_to_one");
    p = params(GLI_ALLREDUCE, size, 1);
    p.oversubscribed = GLI_OVERSUBSCRIBED;
    p.locality = GLI_INTRA_NODE;
    assert_string_equal(gli_algorithm_select(&p)->name,
                        size <= 11 ? "one_shot" : "flat");
  }
}

/* If all ranks may map a rank's memory, they need not wait for one another, but
 * the root alone should not serve many of them. */
static void oversubscribed_ranks_that_share_memory_are_served_by_the_root(
    void **state) {
  (void)state;
  for (uint64_t count = 8 << 10; count <= 64 << 10; count *= 2) {
    for (uint32_t size = 3; size <= 64; size++) {
      gli_plan_params p = params(GLI_BROADCAST, size, count);
      p.oversubscribed = GLI_OVERSUBSCRIBED;
      p.locality = GLI_INTRA_NODE;
      bool flat = strcmp(gli_algorithm_select(&p)->name, "flat") == 0;
      assert_int_equal(flat, size <= 8 || count * 4 < size * 8192);
    }
  }
}

/* Data that a rank has just received is in the caches of its core, close to its
 * neighbour: trees and halving between neighbours move less data than one rank
 * that serves all. */
static void pinned_ranks_pass_on_to_their_neighbours(void **state) {
  (void)state;
  const struct {
    gli_collective collective;
    uint64_t from;
    const char *settled, *roaming;
  } cases[] = {{GLI_ALLREDUCE, 32 << 10, "halving_doubling", "flat"},
               {GLI_BROADCAST, 128 << 10, "binomial", "flat"},
               {GLI_REDUCE, 128 << 10, "binomial", "flat"}};
  for (int i = 0; i < 3; i++) {
    gli_plan_params p = params(cases[i].collective, 4, cases[i].from / 4);
    p.locality = GLI_INTRA_NODE;
    p.oversubscribed = GLI_OVERSUBSCRIBED;
    assert_string_equal(gli_algorithm_select(&p)->name, cases[i].roaming);
    p.oversubscribed = GLI_PINNED;
    assert_string_equal(gli_algorithm_select(&p)->name, cases[i].settled);
    p.count = 256;
    const gli_algorithm *of_few = gli_algorithm_select(&p);
    p.oversubscribed = GLI_OVERSUBSCRIBED;
    assert_ptr_equal(gli_algorithm_select(&p), of_few);
  }
}

static void long_vectors_take_few_bytes(void **state) {
  (void)state;
  uint64_t count = (uint64_t)1 << 33;
  for (uint32_t size = 4; size <= 1024; size++) {
    const char *few = size <= 16 ? "direct" : "circulant";
    if (size > 16 && size < 24) continue; /* the threshold */
    assert_string_equal(choice(GLI_ALLREDUCE, size, count), few);
    bool halves = (size & (size - 1)) == 0;
    assert_string_equal(oversubscribed_choice(GLI_ALLREDUCE, size, count),
                        halves ? "halving_doubling" : "circulant");
    assert_string_equal(choice(GLI_BROADCAST, size, count),
                        "scatter_allgather");
  }
  assert_string_equal(choice(GLI_ALLREDUCE, 2, count), "ring");
  assert_string_equal(choice(GLI_ALLREDUCE, 10000, 1 << 24), "circulant");
}

/* ---- hosts --------------------------------------------------------------- */

/* Returns the choice for `n` hosts of `each` ranks. */
static const char *choice_on(gli_collective collective, uint32_t n,
                             uint32_t each, bool in_order, uint64_t count) {
  uint64_t keys[64];
  gli_plan_params p = params(collective, n * each, count);
  for (uint32_t i = 0; i < p.size; i++) keys[i] = in_order ? i / each : i % n;
  gli_hosts *hosts;
  assert_int_equal(gli_hosts_make(keys, p.size, &hosts, NULL), GLOO_OK);
  p.hosts = hosts;
  const char *name = gli_algorithm_select(&p)->name;
  gli_hosts_free(hosts);
  return name;
}

static void two_levels_are_chosen_where_ranks_share_hosts(void **state) {
  (void)state;
  static const gli_collective all[] = {GLI_BARRIER, GLI_BROADCAST,
                                       GLI_ALLREDUCE, GLI_REDUCE_SCATTER,
                                       GLI_ALLGATHER};
  for (int c = 0; c < 5; c++) {
    for (uint64_t count = 1; count <= 1 << 20; count *= 4) {
      assert_string_equal(choice_on(all[c], 4, 8, true, count), "two_level");
      assert_string_equal(choice_on(all[c], 4, 8, false, count), "two_level");
      assert_string_not_equal(choice_on(all[c], 8, 1, true, count),
                              "two_level");
      assert_string_not_equal(choice_on(all[c], 1, 8, true, count),
                              "two_level");
    }
  }
}

/* Returns the choice for one rank on each of 64 hosts. */
static const gli_algorithm *far_choice(gli_collective collective,
                                       uint64_t count) {
  return gli_algorithm_find(collective,
                            choice_on(collective, 64, 1, true, count));
}

static void few_rounds_between_hosts_and_for_long_vectors_few_bytes(
    void **state) {
  (void)state;
  const gli_algorithm *a = far_choice(GLI_ALLREDUCE, 1);
  assert_true(a->rounds(64) < 6); /* log2 64 */
  for (uint64_t bytes = 64 << 10; bytes <= 64 << 20; bytes *= 4) {
    a = far_choice(GLI_ALLREDUCE, bytes / 4);
    assert_true(a->rounds(64) <= 12);
    assert_int_equal(a->bytes(64, bytes), 2 * (bytes - bytes / 64));
  }
  a = far_choice(GLI_BROADCAST, (uint64_t)1 << 26);
  assert_int_equal(a->bytes(64, 1 << 20), 1 << 20);
}

static void choice_ignores_what_may_differ_between_ranks(void **state) {
  (void)state;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (c == GLI_SENDRECV) continue;
    for (uint64_t count = 0; count < (uint64_t)1 << 40;
         count += count / 2 + 1) {
      gli_plan_params first = params((gli_collective)c, 12, count);
      gli_plan_params last = first;
      last.rank = 11;
      const gli_algorithm *a = gli_algorithm_select(&first);
      assert_ptr_equal(a, gli_algorithm_select(&last));
      assert_int_equal(gli_segment_bytes(a, &first),
                       gli_segment_bytes(a, &last));
    }
  }
}

/* ---- segments ------------------------------------------------------------ */

static void short_vectors_are_not_cut(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    gli_plan_params p = params(a->collective, 8, 1000);
    bool pairwise = gli_collective_pairwise(a->collective); /* unknown length */
    if (!pairwise) assert_int_equal(gli_segment_bytes(a, &p), 0);
  }
}

static void segments_are_shorter_where_bytes_flow_along_chains(void **state) {
  (void)state;
  size_t flowing = 0;
  gli_plan_params p = params(GLI_BROADCAST, 16, 1 << 20);
  const gli_algorithm *still =
      gli_algorithm_find(GLI_BROADCAST, "scatter_allgather");
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!a->flows) continue;
    flowing++;
    gli_plan_params q = params(a->collective, 16, 1 << 20);
    assert_true(gli_segment_bytes(a, &q) < gli_segment_bytes(still, &p));
  }
  assert_true(flowing > 0);
}

static void what_nobody_passes_on_is_cut_less_without_shared_memory(
    void **state) {
  (void)state;
  const gli_algorithm *flat = gli_algorithm_find(GLI_BROADCAST, "flat");
  const gli_algorithm *tree = gli_algorithm_find(GLI_BROADCAST, "binomial");
  for (uint32_t size = 2; size <= 4; size += 2) {
    gli_plan_params p = params(GLI_BROADCAST, size, 1 << 24);
    p.locality = GLI_INTRA_NODE;
    uint64_t near = gli_segment_bytes(flat, &p);
    assert_int_equal(gli_segment_bytes(tree, &p), near);
    p.locality = GLI_INTER_NODE;
    assert_true(gli_segment_bytes(flat, &p) > near);
    uint64_t of_tree = gli_segment_bytes(tree, &p);
    if (size == 2)
      assert_true(of_tree > near);
    else
      assert_int_equal(of_tree, near);
  }
}

static void segments_are_whole_elements(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    for (uint64_t elem = 1; elem <= 24; elem++) {
      for (uint64_t count = 1 << 20; count < (uint64_t)1 << 36; count *= 3) {
        gli_plan_params p = params(a->collective, 5, count);
        if (a->collective == GLI_BARRIER) continue;
        p.elem_bytes = elem;
        uint64_t bytes = gli_segment_bytes(a, &p);
        assert_true(bytes >= 8 << 10);
        assert_int_equal(bytes % elem, 0);
      }
    }
  }
}

static void plans_of_huge_vectors_stay_short(void **state) {
  (void)state;
  const uint32_t sizes[] = {1, 2, 3, 5, 8, 64, 100};
  for (size_t i = 0; i < gli_algorithm_count * 7; i++) {
    const gli_algorithm *a = &gli_algorithms[i / 7];
    for (uint64_t count = 1 << 20; count <= (uint64_t)1 << 38; count *= 4) {
      gli_plan_params p = params(a->collective, sizes[i % 7], count + 1);
      /* A plan cannot exceed the address space, scratch memory included. */
      if (p.count * p.elem_bytes > SIZE_MAX / 16 / p.size) break;
      p.rank = p.root = p.size / 2;
      p.segment_bytes = gli_segment_bytes(a, &p);
      gli_plan *plan;
      gloo_error error;
      if (gli_plan_make(a->build, &p, &plan, &error) != GLOO_OK)
        fail_msg("%s %s of %llu for %u ranks: %s",
                 gli_collective_name(a->collective), a->name,
                 (unsigned long long)p.count, p.size, error.message);
      if (plan->n_steps > 8000)
        fail_msg("%s %s: %u steps for %u ranks",
                 gli_collective_name(a->collective), a->name, plan->n_steps,
                 p.size);
      gli_plan_free(plan);
    }
  }
}

/* Few ranks choose an algorithm in which one reader sees all inputs, since
 * bytes are the cost. Many ranks with short vectors choose another one, since
 * rounds are. */
static void narrow_averages_are_sent_as_they_are_where_bytes_count(
    void **state) {
  (void)state;
  for (uint32_t size = 3; size <= 8; size++) {
    for (uint64_t count = 1; count <= 1u << 24; count *= 2) {
      gli_plan_params p = params(GLI_ALLREDUCE, size, count);
      p.elem_bytes = 2;
      p.low_precision = p.average = true;
      const gli_algorithm *a = gli_algorithm_select(&p);
      assert_int_equal(gli_algorithm_order(a), GLI_ORDER_FOLD);
    }
  }
  gli_plan_params p = params(GLI_ALLREDUCE, 64, 100);
  p.elem_bytes = 2;
  p.low_precision = p.average = true;
  assert_int_not_equal(gli_algorithm_order(gli_algorithm_select(&p)),
                       GLI_ORDER_FOLD);
  p.order = GLI_ORDER_FOLD;
  assert_int_equal(gli_algorithm_order(gli_algorithm_select(&p)),
                   GLI_ORDER_FOLD);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_numbers_find_their_algorithm),
      cmocka_unit_test(every_call_has_a_choice),
      cmocka_unit_test(the_choice_keeps_the_order_that_a_call_needs),
      cmocka_unit_test(long_ordered_vectors_take_few_bytes),
      cmocka_unit_test(long_ordered_vectors_are_fused_where_memory_is_shared),
      cmocka_unit_test(oversubscribed_ranks_do_not_fuse_ordinary_memory),
      cmocka_unit_test(short_vectors_take_few_rounds),
      cmocka_unit_test(oversubscribed_ranks_take_few_messages),
      cmocka_unit_test(oversubscribed_ranks_that_share_memory_take_few_rounds),
      cmocka_unit_test(
          oversubscribed_ranks_that_share_memory_are_served_by_the_root),
      cmocka_unit_test(pinned_ranks_pass_on_to_their_neighbours),
      cmocka_unit_test(long_vectors_take_few_bytes),
      cmocka_unit_test(two_levels_are_chosen_where_ranks_share_hosts),
      cmocka_unit_test(few_rounds_between_hosts_and_for_long_vectors_few_bytes),
      cmocka_unit_test(choice_ignores_what_may_differ_between_ranks),
      cmocka_unit_test(long_mapped_vectors_are_stored_by_all),
      cmocka_unit_test(
          buffers_promised_to_be_mapped_are_worked_on_where_they_are),
      cmocka_unit_test(narrow_averages_are_sent_as_they_are_where_bytes_count),
      cmocka_unit_test(short_vectors_are_not_cut),
      cmocka_unit_test(segments_are_shorter_where_bytes_flow_along_chains),
      cmocka_unit_test(what_nobody_passes_on_is_cut_less_without_shared_memory),
      cmocka_unit_test(segments_are_whole_elements),
      cmocka_unit_test(plans_of_huge_vectors_stay_short),
  };
  return cmocka_run_group_tests_name("algorithms/select", tests, NULL, NULL);
}
