/* Tables of choices: parsing, refusals, and the resulting choices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/tuning.h"

static gli_plan_params params(gli_collective collective, uint32_t size,
                              uint64_t bytes) {
  return (gli_plan_params){
      .collective = collective, .size = size, .count = bytes, .elem_bytes = 1};
}

static gli_tuning *parse(const char *text) {
  gli_tuning_text texts[] = {{"here", text, false}};
  gli_tuning *tuning = NULL;
  gloo_error error;
  if (gli_tuning_parse(texts, 1, &tuning, &error) != GLOO_OK) {
    fail_msg("%s", error.message);
  }
  return tuning;
}

/* "": nothing. */
static const char *found(const gli_tuning *tuning, gli_collective collective,
                         uint32_t size, uint64_t bytes) {
  gli_plan_params p = params(collective, size, bytes);
  const gli_algorithm *a = gli_tuning_find(tuning, &p);
  return a != NULL ? a->name : "";
}

/* ---- reading ------------------------------------------------------------- */

static void ranges_hold_their_sizes(void **state) {
  (void)state;
  gli_tuning *t = parse(
      "allreduce:0-4k=recursive_doubling,4k-1M=ring,"
      "2m-1G=direct;broadcast:0-=binomial");
  assert_int_equal(t->n, 4);
  const uint64_t k = 1 << 10, m = 1 << 20;
  const char *rd = "recursive_doubling";
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, 0), rd);
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, 4 * k - 1), rd);
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, 4 * k), "ring");
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, m - 1), "ring");
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, m), "");
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, 2 * m), "direct");
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, (1 << 30) - 1), "direct");
  assert_string_equal(found(t, GLI_ALLREDUCE, 4, 1 << 30), "");
  assert_string_equal(found(t, GLI_BROADCAST, 4, UINT64_MAX), "binomial");
  assert_string_equal(found(t, GLI_REDUCE, 4, 0), "");
  free(t);
}

static void lines_comments_and_blanks_are_read(void **state) {
  (void)state;
  gli_tuning *t = parse(
      "# measured\r\n\n  allreduce : 0 - 16 = ring ; # more\n"
      "\tbarrier:0-=all_to_one\r\n;;\n");
  assert_int_equal(t->n, 2);
  assert_string_equal(found(t, GLI_ALLREDUCE, 2, 15), "ring");
  assert_string_equal(found(t, GLI_BARRIER, 2, 0), "all_to_one");
  free(t);
  assert_null(parse(""));
  assert_null(parse(" # nothing\n;\n"));
}

static void blocks_count_with_those_of_all_ranks(void **state) {
  (void)state;
  gli_tuning *t = parse("allgather:0-4k=ring,4k-=direct");
  assert_string_equal(found(t, GLI_ALLGATHER, 4, 1023), "ring");
  assert_string_equal(found(t, GLI_ALLGATHER, 4, 1024), "direct");
  free(t);
}

static void qualifiers_limit_an_entry(void **state) {
  (void)state;
  gli_tuning *t = parse(
      "allreduce@shm@ranks=2:0-=fused;"
      "allreduce@tcp:0-=ring;allreduce:0-=direct");
  gli_plan_params p = params(GLI_ALLREDUCE, 2, 64);
  assert_string_equal(gli_tuning_find(t, &p)->name, "ring");
  p.locality = GLI_INTRA_NODE;
  assert_string_equal(gli_tuning_find(t, &p)->name, "fused");
  p.size = 3;
  assert_string_equal(gli_tuning_find(t, &p)->name, "direct");
  free(t);
}

static void earlier_texts_come_first(void **state) {
  (void)state;
  gli_tuning_text texts[] = {{"first", "allreduce:0-8=ring", false},
                             {"second", "allreduce:0-=direct", false}};
  gli_tuning *t;
  assert_int_equal(gli_tuning_parse(texts, 2, &t, NULL), GLOO_OK);
  assert_string_equal(found(t, GLI_ALLREDUCE, 2, 7), "ring");
  assert_string_equal(found(t, GLI_ALLREDUCE, 2, 8), "direct");
  free(t);
}

/* An entry of a file that cannot be applied is skipped. A forced one is kept,
 * and the call is refused then. */
static void tables_keep_the_order_that_a_call_needs(void **state) {
  (void)state;
  for (int forced = 0; forced < 2; forced++) {
    gli_tuning_text text = {"here",
                            "allreduce:0-=ring;allreduce:0-=recursive_doubling",
                            forced != 0};
    gli_tuning *t;
    assert_int_equal(gli_tuning_parse(&text, 1, &t, NULL), GLOO_OK);
    gli_plan_params p = {.collective = GLI_ALLREDUCE,
                         .size = 4,
                         .count = 8,
                         .elem_bytes = 4,
                         .tuning = t};
    assert_string_equal(gli_algorithm_choose(&p).algorithm->name, "ring");
    p.order = GLI_ORDER_RANKS;
    assert_string_equal(gli_algorithm_choose(&p).algorithm->name,
                        forced ? "ring" : "recursive_doubling");
    p.order = GLI_ORDER_FOLD;
    gli_choice choice = gli_algorithm_choose(&p);
    assert_true(forced || gli_algorithm_order(choice.algorithm) == p.order);
    free(t);
  }
}

static void the_hash_tells_tables_apart(void **state) {
  (void)state;
  static const char *const texts[] = {
      "allreduce:0-8=ring",      "allreduce:0-9=ring",
      "allreduce:1-8=ring",      "allreduce:0-8=direct",
      "allreduce@shm:0-8=ring",  "allreduce@ranks=2:0-8=ring",
      "reduce_scatter:0-8=ring", "allreduce:0-8=ring;allreduce:0-8=ring"};
  enum { N = sizeof texts / sizeof texts[0] };
  uint64_t hashes[N];
  for (int i = 0; i < N; i++) {
    gli_tuning *t = parse(texts[i]);
    hashes[i] = t->hash;
    assert_true(t->hash != 0);
    for (int k = 0; k < i; k++) assert_true(hashes[k] != hashes[i]);
    free(t);
  }
  gli_tuning *same = parse("# the same\nallreduce: 0-8 = ring");
  assert_true(same->hash == hashes[0]);
  free(same);
}

/* ---- refusing ------------------------------------------------------------ */

static void mistakes_are_named_with_their_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"allreduce:0-=ring\nallreducer:0-=ring",
       "here, line 2: 'allreducer' is not a collective"},
      {"ring",
       "here, line 1: 'ring' is not a collective with algorithms; expected "
       "COLLECTIVE:SIZES=ALGORITHM, such as allreduce:0-=ring for all sizes"},
      {"allreduce=ring", "or allreduce:0-64K=direct,64K-=ring"},
      {"sendrecv:0-=ring", "'sendrecv' is not a collective"},
      {"broadcast:0-=ring",
       "line 1: 'ring' is not an algorithm of broadcast; "
       "valid: binomial"},
      {"allreduce:0-=", "found instead of an algorithm"},
      {"allreduce:0-4k", "found instead of '=' and an algorithm"},
      {"allreduce=ring", "'=ring' found instead of ':' and a size range"},
      {"allreduce", "found instead of ':' and a size range"},
      {"allreduce:4k=ring", "'4k' is not a size range"},
      {"allreduce:-4k=ring", "found instead of a size"},
      {"allreduce:0-4q=ring", "'4q' is not a size range"},
      {"allreduce:0-=ring,broadcast:0-=flat",
       "'broadcast' found instead of a size; start each collective "
       "after ';'"},
      {"allreduce:0-k=ring", "'k' is not a size range"},
      {"allreduce:0-4kk=ring", "'4kk' is not a size range"},
      {"allreduce:0-99999999999999999999=ring", "is not a size range"},
      {"allreduce:0-99999999999G=ring", "is not a size range"},
      {"allreduce:4-4=ring", "'4-4' is empty"},
      {"allreduce:8-4=ring", "'8-4' is empty"},
      {"allreduce:0-4=ring,3-5=direct", "'3-5' starts before"},
      {"allreduce:0-=ring,3-5=direct", "'3-5' starts before"},
      {"allreduce:0-=ring ring", "'ring' follows an entry"},
      {"allreduce@ibv:0-=ring", "'ibv' is not one of shm, tcp, ranks=N"},
      {"allreduce@ranks:0-=ring", "'ranks' is not one of"},
      {"allreduce@ranks=0:0-=ring", "'0' is not a number of ranks"},
      {"allreduce@ranks=x:0-=ring", "'x' is not a number of ranks"},
      {"\x01:0-=ring", "'?' is not a collective"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gli_tuning_text text = {"here", cases[i].text, false};
    gli_tuning *tuning = NULL;
    gloo_error error;
    assert_int_equal(gli_tuning_parse(&text, 1, &tuning, &error),
                     GLOO_ERR_INVALID);
    assert_null(tuning);
    if (strstr(error.message, cases[i].message) == NULL) {
      fail_msg("'%s': %s", cases[i].text, error.message);
    }
  }
}

/* Every prefix of a valid text is read or refused. */
static void cut_texts_do_no_harm(void **state) {
  (void)state;
  const char whole[] =
      "allreduce@shm@ranks=2:0-4k=ring,4k-=direct;# x\n"
      "broadcast@tcp:0-=binomial";
  for (size_t n = 0; n < sizeof whole; n++) {
    char *cut = malloc(n + 1);
    assert_non_null(cut);
    memcpy(cut, whole, n);
    cut[n] = 0;
    gli_tuning_text text = {"here", cut, false};
    gli_tuning *tuning = NULL;
    (void)gli_tuning_parse(&text, 1, &tuning, NULL);
    free(tuning);
    free(cut);
  }
}

static void too_many_ranges_are_refused(void **state) {
  (void)state;
  static const char one[] = "allreduce:0-=ring\n";
  size_t n = GLI_TUNING_MAX_RULES + 1;
  char *many = malloc(n * (sizeof one - 1) + 1);
  assert_non_null(many);
  for (size_t i = 0; i < n; i++) {
    memcpy(many + i * (sizeof one - 1), one, sizeof one);
  }
  gli_tuning_text text = {"here", many, false};
  gli_tuning *tuning;
  gloo_error error;
  assert_int_equal(gli_tuning_parse(&text, 1, &tuning, &error),
                   GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "line 4097: more than 4096 ranges"));
  many[(n - 1) * (sizeof one - 1)] = 0;
  assert_int_equal(gli_tuning_parse(&text, 1, &tuning, &error), GLOO_OK);
  assert_int_equal(tuning->n, GLI_TUNING_MAX_RULES);
  free(tuning);
  free(many);
}

/* ---- costs --------------------------------------------------------------- */

static void figures_near_an_estimate_are_the_estimate(void **state) {
  (void)state;
  for (int i = 0; i < GLI_LINK_KINDS; i++) {
    const gli_link_cost *e = &gli_costs_estimate.link[i];
    gli_link_kind kind = (gli_link_kind)i;
    const uint32_t alphas[] = {e->alpha_ns / 2 + 1, e->alpha_ns,
                               2 * e->alpha_ns};
    for (int k = 0; k < 3; k++) {
      gli_link_cost cost = gli_costs_snap_link(kind, alphas[k], e->beta_ps);
      assert_int_equal(cost.alpha_ns, e->alpha_ns);
      assert_int_equal(cost.beta_ps, e->beta_ps);
    }
    gli_link_cost next =
        gli_costs_snap_link(kind, 2 * e->alpha_ns + 1, 2 * e->beta_ps + 1);
    assert_int_equal(next.alpha_ns, 4 * e->alpha_ns);
    assert_int_equal(next.beta_ps, 4 * e->beta_ps);
  }
}

static void figures_stay_in_their_range(void **state) {
  (void)state;
  const gli_costs *e = &gli_costs_estimate;
  const uint64_t huge = UINT64_MAX;
  assert_int_equal(gli_costs_snap_link(GLI_LINK_SHM, 0, 0).alpha_ns,
                   e->link[GLI_LINK_SHM].alpha_ns / 4);
  assert_int_equal(gli_costs_snap_link(GLI_LINK_TCP, huge, huge).beta_ps,
                   4 * e->link[GLI_LINK_TCP].beta_ps);
  assert_int_equal(gli_costs_snap_link(GLI_LINK_FAR, huge, huge).alpha_ns,
                   64 * e->link[GLI_LINK_FAR].alpha_ns);
  assert_int_equal(gli_costs_snap_gamma(huge), 4 * e->gamma_ps);
  assert_int_equal(gli_costs_snap_gamma(0), e->gamma_ps / 4);
}

static gli_costs other_costs(void) {
  gli_costs costs = gli_costs_estimate;
  costs.link[GLI_LINK_TCP].alpha_ns *= 4;
  costs.link[GLI_LINK_FAR].beta_ps *= 64;
  costs.gamma_ps /= 4;
  return costs;
}

/* Figures that settling does not produce are refused. */
static void costs_travel_as_bytes(void **state) {
  (void)state;
  gli_costs costs = other_costs(), got;
  uint8_t bytes[GLI_COSTS_BYTES];
  gli_costs_encode(&costs, bytes);
  assert_true(gli_costs_decode(bytes, &got));
  assert_true(gli_costs_hash(&got) == gli_costs_hash(&costs));
  assert_true(gli_costs_hash(&got) != gli_costs_hash(&gli_costs_estimate));
  for (int i = 0; i < GLI_COSTS_BYTES; i++) {
    bytes[i] ^= 1;
    assert_false(gli_costs_decode(bytes, &got));
    bytes[i] ^= 1;
  }
}

static void costs_join_a_table(void **state) {
  (void)state;
  gli_costs costs = other_costs();
  gli_tuning *rules = parse("allreduce:0-4k=ring"), *both, *alone;
  assert_int_equal(gli_tuning_with_costs(rules, &costs, &both, NULL), GLOO_OK);
  assert_int_equal(gli_tuning_with_costs(NULL, &costs, &alone, NULL), GLOO_OK);
  assert_string_equal(found(both, GLI_ALLREDUCE, 4, 0), "ring");
  assert_string_equal(found(alone, GLI_ALLREDUCE, 4, 0), "");
  assert_true(both->hash != rules->hash && both->hash != alone->hash);
  gli_tuning *again;
  assert_int_equal(gli_tuning_with_costs(rules, &costs, &again, NULL), GLOO_OK);
  assert_true(again->hash == both->hash);
  free(rules);
  free(both);
  free(alone);
  free(again);
}

/* With slower messages, more bytes are spent to save messages. */
static void choices_follow_costs(void **state) {
  (void)state;
  gli_costs slow = gli_costs_estimate, fast = gli_costs_estimate;
  slow.link[GLI_LINK_TCP].alpha_ns *= 4;
  fast.link[GLI_LINK_TCP].alpha_ns /= 4;
  gli_tuning *many, *few;
  assert_int_equal(gli_tuning_with_costs(NULL, &slow, &few, NULL), GLOO_OK);
  assert_int_equal(gli_tuning_with_costs(NULL, &fast, &many, NULL), GLOO_OK);
  gli_plan_params p = params(GLI_ALLREDUCE, 64, 128 << 10);
  p.tuning = few;
  assert_string_equal(gli_algorithm_choose(&p).algorithm->name,
                      "recursive_doubling");
  p.tuning = many;
  assert_string_not_equal(gli_algorithm_choose(&p).algorithm->name,
                          "recursive_doubling");
  free(few);
  free(many);
}

/* ---- choosing ------------------------------------------------------------ */

static void tables_come_before_the_selector(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_ALLREDUCE, 64, 16);
  assert_string_equal(gli_algorithm_choose(&p).algorithm->name,
                      "recursive_doubling");
  /* Repeated calls with and without tables: no choice persists. */
  for (int i = 0; i < 3; i++) {
    gli_tuning *ring = parse("allreduce:0-17=ring");
    p.tuning = ring;
    assert_string_equal(gli_algorithm_choose(&p).algorithm->name, "ring");
    free(ring);
    gli_tuning *direct = parse("allreduce:0-17=direct");
    p.tuning = direct;
    assert_string_equal(gli_algorithm_choose(&p).algorithm->name, "direct");
    free(direct);
    p.tuning = NULL;
    assert_string_equal(gli_algorithm_choose(&p).algorithm->name,
                        "recursive_doubling");
  }
}

static void segments_go_with_the_choice(void **state) {
  (void)state;
  gli_tuning *t = parse("allreduce:0-=ring");
  gli_plan_params p = params(GLI_ALLREDUCE, 5, (uint64_t)1 << 32);
  p.tuning = t;
  gli_choice choice = gli_algorithm_choose(&p);
  assert_int_equal(choice.segment_bytes,
                   gli_segment_bytes(choice.algorithm, &p));
  assert_true(choice.segment_bytes > 0);
  free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranges_hold_their_sizes),
      cmocka_unit_test(lines_comments_and_blanks_are_read),
      cmocka_unit_test(blocks_count_with_those_of_all_ranks),
      cmocka_unit_test(qualifiers_limit_an_entry),
      cmocka_unit_test(earlier_texts_come_first),
      cmocka_unit_test(tables_keep_the_order_that_a_call_needs),
      cmocka_unit_test(the_hash_tells_tables_apart),
      cmocka_unit_test(mistakes_are_named_with_their_place),
      cmocka_unit_test(cut_texts_do_no_harm),
      cmocka_unit_test(too_many_ranges_are_refused),
      cmocka_unit_test(figures_near_an_estimate_are_the_estimate),
      cmocka_unit_test(figures_stay_in_their_range),
      cmocka_unit_test(costs_travel_as_bytes),
      cmocka_unit_test(costs_join_a_table),
      cmocka_unit_test(choices_follow_costs),
      cmocka_unit_test(tables_come_before_the_selector),
      cmocka_unit_test(segments_go_with_the_choice),
  };
  return cmocka_run_group_tests_name("algorithms/tuning", tests, NULL, NULL);
}
