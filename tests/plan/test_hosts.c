/* Host numbers, and plans within plans. */
#include <stdlib.h>
#include <string.h>

#include "plan/cache.h"
#include "plan/cmocka_all.h"
#include "plan/plan.h"
#include "plan/random.h"
#include "proof/check.h"

/* ---- hosts --------------------------------------------------------------- */

static gli_hosts *make(const uint64_t *keys, uint32_t size) {
  gli_hosts *hosts;
  assert_int_equal(gli_hosts_make(keys, size, &hosts, NULL), GLOO_OK);
  return hosts;
}

static void hosts_are_numbered_by_their_lowest_ranks(void **state) {
  (void)state;
  const uint64_t keys[] = {UINT64_MAX, 3, UINT64_MAX, 0, 3, 3};
  gli_hosts *h = make(keys, 6);
  const uint32_t of[] = {0, 1, 0, 2, 1, 1}, place[] = {0, 0, 1, 0, 1, 2};
  const uint32_t ranks[] = {0, 2, 1, 4, 5, 3}, first[] = {0, 2, 5, 6};
  const uint32_t leaders[] = {0, 1, 3};
  assert_int_equal(h->size, 6);
  assert_int_equal(h->n, 3);
  assert_int_equal(h->least, 1);
  assert_int_equal(h->most, 3);
  assert_int_equal(h->crowd, 3);
  assert_int_equal(h->leaving, 2); /* rank 2 and rank 0 */
  assert_memory_equal(h->of, of, sizeof of);
  assert_memory_equal(h->place, place, sizeof place);
  assert_memory_equal(h->ranks, ranks, sizeof ranks);
  assert_memory_equal(h->first, first, sizeof first);
  assert_memory_equal(h->leaders, leaders, sizeof leaders);
  assert_int_equal(h->apart->size, 3);
  assert_int_equal(h->apart->n, 3);
  assert_int_equal(h->apart->most, 1);
  gli_hosts_free(h);
}

static void ranks_with_one_place_are_found_on_every_host(void **state) {
  (void)state;
  const uint64_t keys[] = {1, 2, 3, 1, 2, 3, 1};
  gli_hosts *h = make(keys, 7);
  const uint32_t leaders[] = {0, 1, 2, 3, 4, 5};
  assert_int_equal(h->least, 2);
  assert_memory_equal(h->leaders, leaders, sizeof leaders);
  assert_int_equal(h->leaving, 2);
  gli_hosts_free(h);
}

static void random_hosts_fit_together(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (uint32_t round = 0; round < 500; round++) {
    uint64_t keys[200];
    uint32_t size = 1 + random_below(&seed, 200);
    uint32_t different = 1 + random_below(&seed, size);
    for (uint32_t i = 0; i < size; i++)
      keys[i] = random_below(&seed, different);
    gli_hosts *h = make(keys, size);
    assert_int_equal(h->first[h->n], size);
    for (uint32_t i = 0; i < size; i++) {
      assert_true(h->of[i] < h->n);
      assert_int_equal(h->ranks[h->first[h->of[i]] + h->place[i]], i);
      for (uint32_t k = 0; k < i; k++) {
        assert_int_equal(keys[i] == keys[k], h->of[i] == h->of[k]);
      }
      if (h->place[i] >= h->least) continue;
      assert_int_equal(h->leaders[h->place[i] * h->n + h->of[i]], i);
    }
    gli_hosts_free(h);
  }
}

static void no_ranks_and_other_ranks_are_refused(void **state) {
  (void)state;
  uint64_t key = 1;
  gli_hosts *h;
  gloo_error error;
  assert_int_equal(gli_hosts_make(&key, 0, &h, &error), GLOO_ERR_INVALID);
  gli_hosts_free(NULL);
}

/* ---- plans within -------------------------------------------------------- */

static const uint32_t odd[] = {1, 3, 5};

static void swap(gli_builder *b, const gli_plan_params *p) {
  uint32_t next = (p->rank + 1) % p->size;
  uint32_t previous = (p->rank + p->size - 1) % p->size;
  gli_send(b, next, gli_elems(p, GLI_IN, 0, p->count));
  gli_recv(b, previous, gli_elems(p, GLI_OUT, 0, p->count));
}

/* Returns a plan in which the odd ranks swap elements 2 and 3 of IN, into 5 and
 * 6 of OUT. */
static gli_sub odd_ranks(const gli_plan_params *p) {
  return (gli_sub){.collective = GLI_SENDRECV,
                   .members = odd,
                   .size = 3,
                   .rank = p->rank / 2,
                   .count = 2,
                   .in = gli_elems(p, GLI_IN, 2, 2),
                   .out = gli_elems(p, GLI_OUT, 5, 2)};
}

static void build_within(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  gli_sub_plan(b, swap, &sub);
}

static gli_plan_params params(uint32_t rank) {
  return (gli_plan_params){.collective = GLI_SENDRECV,
                           .rank = rank,
                           .size = 6,
                           .count = 10,
                           .elem_bytes = 4};
}

static void a_plan_within_has_other_ranks_and_places(void **state) {
  (void)state;
  gli_plan_params p = params(5);
  gli_plan *plan;
  assert_int_equal(gli_plan_make(build_within, &p, &plan, NULL), GLOO_OK);
  assert_int_equal(plan->n_steps, 2);
  const gli_step *send = &plan->steps[0], *recv = &plan->steps[1];
  assert_int_equal(plan->peers[send->peer].rank, 1);
  assert_int_equal(plan->peers[recv->peer].rank, 3);
  assert_int_equal(send->a_buffer, GLI_IN);
  assert_int_equal(send->a, 8);
  assert_int_equal(recv->dst_buffer, GLI_OUT);
  assert_int_equal(recv->dst, 20);
  assert_int_equal(recv->bytes, 8);
  gli_plan_free(plan);
}

static bool seen_in_place;
static void look(gli_builder *b, const gli_plan_params *p) {
  (void)b;
  seen_in_place = p->in_place;
}

static gli_range look_in, look_out;
static gli_collective look_at;
static void build_look(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = {.collective = look_at,
                 .members = odd,
                 .size = 3,
                 .rank = p->rank / 2,
                 .count = 2,
                 .in = look_in,
                 .out = look_out};
  gli_sub_plan(b, look, &sub);
}

static bool is_in_place(gli_collective c, bool whole, gli_range in,
                        gli_range out) {
  gli_plan_params p = params(3);
  p.collective = GLI_ALLREDUCE;
  p.in_place = whole;
  look_at = c, look_in = in, look_out = out;
  gli_plan *plan;
  assert_int_equal(gli_plan_make(build_look, &p, &plan, NULL), GLOO_OK);
  gli_plan_free(plan);
  return seen_in_place;
}

static void in_place_is_found_out(void **state) {
  (void)state;
  gli_range in = gli_bytes(GLI_IN, 4, 8), out = gli_bytes(GLI_OUT, 4, 8);
  gli_range all = gli_bytes(GLI_OUT, 0, 24), own = gli_bytes(GLI_IN, 8, 8);
  assert_false(is_in_place(GLI_ALLREDUCE, false, in, out));
  assert_true(is_in_place(GLI_ALLREDUCE, true, in, out));
  assert_true(is_in_place(GLI_ALLREDUCE, false, out, out));
  assert_false(is_in_place(GLI_ALLREDUCE, true, own, out));
  /* Block of the second of three ranks of an allgather. */
  assert_true(is_in_place(GLI_ALLGATHER, true, own, all));
  assert_false(is_in_place(GLI_ALLGATHER, false, own, all));
  assert_false(is_in_place(GLI_ALLGATHER, true, in, all));
}

/* ---- broken rules -------------------------------------------------------- */

static void expect_refused(gli_build_fn build, const char *what) {
  gli_plan_params p = params(3);
  gli_plan *plan;
  gloo_error error;
  assert_int_equal(gli_plan_make(build, &p, &plan, &error), GLOO_ERR_INTERNAL);
  if (strstr(error.message, what) == NULL) fail_msg("%s", error.message);
}

static void build_nested(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  gli_sub_plan(b, build_within, &sub);
}
static void build_other_member(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  sub.rank = 2;
  gli_sub_plan(b, swap, &sub);
}
static void build_no_member(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  sub.rank = 3;
  gli_sub_plan(b, swap, &sub);
}
static void build_other_length(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  sub.count = 3;
  gli_sub_plan(b, swap, &sub);
}
static void too_far(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 0, gli_elems(p, GLI_IN, 1, p->count));
}
static void build_too_far(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  gli_sub_plan(b, too_far, &sub);
}
static void to_nobody(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 3, gli_elems(p, GLI_IN, 0, p->count));
}
static void build_to_nobody(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  gli_sub_plan(b, to_nobody, &sub);
}
static void build_like_root(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  sub.collective = GLI_BROADCAST;
  gli_sub_plan(b, swap, &sub);
}
static void write_in(gli_builder *b, const gli_plan_params *p) {
  gli_recv(b, 0, gli_elems(p, GLI_IN, 0, p->count));
}
static void build_writes_in(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  sub.in = sub.out;
  gli_sub_plan(b, write_in, &sub);
}
static void build_into_in(gli_builder *b, const gli_plan_params *p) {
  gli_sub sub = odd_ranks(p);
  sub.out = sub.in;
  gli_sub_plan(b, swap, &sub);
}

static void broken_rules_are_named(void **state) {
  (void)state;
  expect_refused(build_nested, "it contains another nested plan");
  expect_refused(build_other_member, "not the member");
  expect_refused(build_no_member, "not the member");
  expect_refused(build_other_length, "buffer lengths");
  expect_refused(build_too_far, "exceeds its buffer");
  expect_refused(build_to_nobody, "does not exist");
  expect_refused(build_like_root, "reads IN, which only the root has");
  expect_refused(build_writes_in, "writes IN");
  expect_refused(build_into_in, "writes IN, which belongs to the caller");
}

/* ---- tokens -------------------------------------------------------------- */

static void meet(gli_builder *b, const gli_plan_params *p) {
  for (uint32_t k = 1; k < p->size; k++) {
    gli_send(b, (p->rank + k) % p->size, gli_bytes(GLI_TOKEN, 0, 1));
    gli_recv(b, (p->rank + p->size - k) % p->size, gli_bytes(GLI_TOKEN, k, 1));
  }
}

/* Builds tokens along the rows, then the columns, of 2 x 3 ranks, so that every
 * rank has heard from all. */
static void build_rows_and_columns(gli_builder *b, const gli_plan_params *p) {
  static const uint32_t rows[2][3] = {{0, 1, 2}, {3, 4, 5}};
  static const uint32_t columns[3][2] = {{0, 3}, {1, 4}, {2, 5}};
  gli_sub row = {.collective = GLI_BARRIER,
                 .members = rows[p->rank / 3],
                 .size = 3,
                 .rank = p->rank % 3};
  gli_sub column = {.collective = GLI_BARRIER,
                    .members = columns[p->rank % 3],
                    .size = 2,
                    .rank = p->rank / 3};
  gli_sub_plan(b, meet, &row);
  gli_sub_plan(b, meet, &column);
}

static void build_rows_only(gli_builder *b, const gli_plan_params *p) {
  static const uint32_t rows[2][3] = {{0, 1, 2}, {3, 4, 5}};
  gli_sub row = {.collective = GLI_BARRIER,
                 .members = rows[p->rank / 3],
                 .size = 3,
                 .rank = p->rank % 3};
  gli_sub_plan(b, meet, &row);
}

static void barriers_within_pass_on_what_was_heard(void **state) {
  (void)state;
  gli_checker *checker = gli_checker_create(0);
  gli_check_report report;
  gloo_error error;
  gli_plan_params p = {.collective = GLI_BARRIER, .size = 6, .elem_bytes = 1};
  gloo_status status =
      gli_checker_run(checker, build_rows_and_columns, &p, &report, &error);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  assert_int_equal(report.rounds, 2);
  assert_int_equal(
      gli_checker_run(checker, build_rows_only, &p, &report, &error),
      GLOO_ERR_INTERNAL);
  gli_checker_destroy(checker);
}

/* ---- the cache ----------------------------------------------------------- */

static void hosts_make_another_plan(void **state) {
  (void)state;
  const uint64_t keys[] = {0, 0, 0, 1, 1, 1};
  gli_hosts *hosts = make(keys, 6);
  gli_plan_cache *cache = gli_plan_cache_create(1000, NULL);
  gli_plan_ref *plain, *with, *oversubscribed, *again;
  gli_plan_params p = params(3);
  assert_int_equal(gli_plan_cache_get(cache, build_within, &p, &plain, NULL),
                   GLOO_OK);
  p.hosts = hosts;
  assert_int_equal(gli_plan_cache_get(cache, build_within, &p, &with, NULL),
                   GLOO_OK);
  assert_int_equal(gli_plan_cache_get(cache, build_within, &p, &again, NULL),
                   GLOO_OK);
  p.oversubscribed = true;
  assert_int_equal(
      gli_plan_cache_get(cache, build_within, &p, &oversubscribed, NULL),
      GLOO_OK);
  assert_ptr_not_equal(plain, with);
  assert_ptr_not_equal(oversubscribed, with);
  assert_ptr_equal(again, with);
  gli_plan_cache_put(cache, plain);
  gli_plan_cache_put(cache, with);
  gli_plan_cache_put(cache, again);
  gli_plan_cache_put(cache, oversubscribed);
  gli_plan_cache_destroy(cache);
  gli_hosts_free(hosts);
}

static void hosts_of_other_ranks_are_refused(void **state) {
  (void)state;
  const uint64_t keys[] = {0, 1};
  gli_hosts *hosts = make(keys, 2);
  gli_plan_params p = params(3);
  gli_plan *plan;
  gloo_error error;
  p.hosts = hosts;
  assert_int_equal(gli_plan_make(build_within, &p, &plan, &error),
                   GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "hosts describe 2 ranks, not 6"));
  gli_hosts_free(hosts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hosts_are_numbered_by_their_lowest_ranks),
      cmocka_unit_test(ranks_with_one_place_are_found_on_every_host),
      cmocka_unit_test(random_hosts_fit_together),
      cmocka_unit_test(no_ranks_and_other_ranks_are_refused),
      cmocka_unit_test(a_plan_within_has_other_ranks_and_places),
      cmocka_unit_test(in_place_is_found_out),
      cmocka_unit_test(broken_rules_are_named),
      cmocka_unit_test(barriers_within_pass_on_what_was_heard),
      cmocka_unit_test(hosts_make_another_plan),
      cmocka_unit_test(hosts_of_other_ranks_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
