/* The rules of the builder, in-place mapping, segments, buffer sizes. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "plan/cmocka_all.h"
#include "plan/plan.h"

static gli_plan_params params(gli_collective collective, uint32_t rank,
                              uint32_t size, uint64_t count) {
  return (gli_plan_params){.collective = collective,
                           .rank = rank,
                           .size = size,
                           .count = count,
                           .elem_bytes = 4};
}

static gli_plan *make(gli_build_fn build, gli_plan_params p) {
  gli_plan *plan = NULL;
  gloo_error error;
  gloo_status status = gli_plan_make(build, &p, &plan, &error);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  return plan;
}

/* Checks that building fails, with the reason, the rank and the step in the
 * message. */
static void refuse(gli_build_fn build, gli_plan_params p, const char *step,
                   const char *why) {
  gli_plan *plan = NULL;
  gloo_error error;
  gloo_status status = gli_plan_make(build, &p, &plan, &error);
  assert_int_equal(status, GLOO_ERR_INTERNAL);
  assert_int_equal(error.status, GLOO_ERR_INTERNAL);
  assert_null(plan);
  assert_int_equal(error.rank, (int)p.rank);
  char who[32];
  snprintf(who, sizeof(who), "rank %u of %u", p.rank, p.size);
  if (strstr(error.message, who) == NULL ||
      strstr(error.message, step) == NULL ||
      strstr(error.message, why) == NULL) {
    fail_msg("'%s' does not tell '%s', '%s', '%s'", error.message, who, step,
             why);
  }
}

/* ---- rules --------------------------------------------------------------- */

static void build_lengths(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 0, gli_elems(p, GLI_IN, 0, 2));
  gli_copy(b, gli_elems(p, GLI_IN, 0, 2), gli_elems(p, GLI_OUT, 0, 3));
  gli_send(b, 9, gli_elems(p, GLI_IN, 0, 2)); /* the first error stays */
}
static void build_lengths_local(gli_builder *b, const gli_plan_params *p) {
  gli_recv_reduce(b, 0, gli_elems(p, GLI_IN, 0, 1), gli_elems(p, GLI_OUT, 0, 2),
                  true);
}
static void build_lengths_reduce(gli_builder *b, const gli_plan_params *p) {
  gli_reduce(b, gli_elems(p, GLI_IN, 0, 2), gli_elems(p, GLI_IN, 0, 1),
             gli_elems(p, GLI_OUT, 0, 2));
}
static void build_self(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, p->rank, gli_elems(p, GLI_IN, 0, 1));
}
static void build_stranger(gli_builder *b, const gli_plan_params *p) {
  gli_recv(b, p->size, gli_elems(p, GLI_OUT, 0, 1));
}
static void build_writes_in(gli_builder *b, const gli_plan_params *p) {
  gli_recv(b, 0, gli_elems(p, GLI_IN, 0, 1));
}
static void build_outside(gli_builder *b, const gli_plan_params *p) {
  gli_recv(b, 0, gli_elems(p, GLI_OUT, p->count, 1));
}
static void build_wraps(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_recv(b, 0, gli_bytes(GLI_OUT, UINT64_MAX - 1, 8));
}
static void build_no_scratch(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_range r = gli_scratch(b, 8);
  r.bytes = 9;
  gli_recv(b, 0, r);
}
static void build_half_overlap(gli_builder *b, const gli_plan_params *p) {
  gli_copy(b, gli_elems(p, GLI_OUT, 0, 4), gli_elems(p, GLI_OUT, 1, 4));
}
static void build_half_element(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_recv_reduce(b, 0, gli_bytes(GLI_IN, 0, 6), gli_bytes(GLI_OUT, 0, 6),
                  true);
}
static void build_token_work(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_copy(b, gli_bytes(GLI_TOKEN, 0, 4), gli_bytes(GLI_OUT, 0, 4));
}
static void build_reduce_anyway(gli_builder *b, const gli_plan_params *p) {
  gli_recv_reduce(b, 0, gli_elems(p, GLI_OUT, 0, 1),
                  gli_elems(p, GLI_OUT, 0, 1), true);
}
static void build_reads_in(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 0, gli_elems(p, GLI_IN, 0, 1));
}
static void build_no_buffer(gli_builder *b, const gli_plan_params *p) {
  (void)p;
  gli_send(b, 0, gli_bytes(GLI_BUFFERS, 0, 1));
}

static void builder_refuses_broken_rules(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_ALLREDUCE, 1, 4, 10);
  refuse(build_lengths, p, "step 1", "different lengths");
  refuse(build_lengths_local, p, "step 0", "different lengths");
  refuse(build_lengths_reduce, p, "step 0", "different lengths");
  refuse(build_self, p, "step 0", "talks to itself");
  refuse(build_stranger, p, "step 0", "does not exist");
  refuse(build_writes_in, p, "step 0", "writes IN");
  refuse(build_outside, p, "step 0", "OUT[40, +4) exceeds its 40 bytes");
  refuse(build_wraps, p, "step 0", "exceeds its");
  refuse(build_no_scratch, p, "step 0", "SCRATCH");
  refuse(build_half_overlap, p, "step 0", "overlaps part of the result");
  refuse(build_half_element, p, "step 0", "part of an element");
  refuse(build_token_work, p, "step 0", "TOKEN");
  refuse(build_no_buffer, p, "step 0", "no such buffer");
  p.collective = GLI_BROADCAST;
  refuse(build_reduce_anyway, p, "step 0", "without an operation");
  refuse(build_reads_in, p, "step 0", "only the root");
  p.in_place = true;
  refuse(build_reads_in, p, "step 0", "only the root");
  refuse(build_writes_in, p, "step 0", "writes IN");
}

static void build_nothing(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 0, gli_elems(p, GLI_IN, 3, 0));
  gli_recv(b, 0, gli_elems(p, GLI_OUT, p->count, 0));
  gli_recv_reduce(b, 0, gli_elems(p, GLI_IN, 0, 0), gli_elems(p, GLI_OUT, 0, 0),
                  false);
  gli_copy(b, gli_elems(p, GLI_OUT, 2, 0), gli_elems(p, GLI_OUT, 0, 0));
  gli_reduce(b, gli_elems(p, GLI_IN, 0, 0), gli_elems(p, GLI_IN, 0, 0),
             gli_elems(p, GLI_OUT, 0, 0));
  gli_copy(b, gli_elems(p, GLI_OUT, 2, 3), gli_elems(p, GLI_OUT, 2, 3));
}

static void empty_ranges_and_copies_onto_themselves_vanish(void **state) {
  (void)state;
  gli_plan *plan = make(build_nothing, params(GLI_ALLREDUCE, 1, 4, 10));
  assert_int_equal(plan->n_steps, 0);
  assert_int_equal(plan->n_peers, 0);
  assert_int_equal(plan->next_first[0], 0);
  gli_plan_free(plan);
}

static void build_none(gli_builder *b, const gli_plan_params *p) {
  (void)b;
  (void)p;
}

static void bad_parameters_are_refused(void **state) {
  (void)state;
  gli_plan *plan = NULL;
  gloo_error error;
  gli_plan_params good = params(GLI_ALLREDUCE, 1, 4, 10), bad;
#define REFUSED(change)                                            \
  bad = good;                                                      \
  change;                                                          \
  assert_int_equal(gli_plan_make(build_none, &bad, &plan, &error), \
                   GLOO_ERR_INVALID);                              \
  assert_true(strlen(error.message) > 10);                         \
  assert_int_equal(gli_plan_make(build_none, &bad, &plan, NULL),   \
                   GLOO_ERR_INVALID)
  REFUSED(bad.rank = 4);
  REFUSED(bad.size = 0);
  REFUSED(bad.root = 4);
  REFUSED(bad.elem_bytes = 0);
  REFUSED(bad.collective = GLI_COLLECTIVES);
  REFUSED(bad.count = UINT64_MAX / 4);
  REFUSED(bad.count = UINT64_MAX / 2);
#undef REFUSED
  assert_null(plan);
}

/* ---- in place ------------------------------------------------------------ */

static void build_reads_both(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 0, gli_elems(p, GLI_IN, 1, 2));
  gli_send(b, 0, gli_elems(p, GLI_OUT, 1, 2));
  gli_copy(b, gli_elems(p, GLI_IN, 0, p->count),
           gli_elems(p, GLI_OUT,
                     p->collective == GLI_ALLGATHER ? p->rank * p->count : 0,
                     p->count));
}

static void input_lies_in_output_in_place(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_ALLREDUCE, 2, 4, 10);
  gli_plan *plan = make(build_reads_both, p);
  assert_int_equal(plan->n_steps, 3);
  assert_int_equal(plan->steps[0].a_buffer, GLI_IN);
  gli_plan_free(plan);
  p.in_place = true;
  plan = make(build_reads_both, p);
  assert_int_equal(plan->n_steps, 2); /* the copy onto itself is left out */
  assert_int_equal(plan->steps[0].a_buffer, GLI_OUT);
  assert_int_equal(plan->steps[0].a, 4);
  gli_plan_free(plan);
  p.collective = GLI_ALLGATHER;
  plan = make(build_reads_both, p);
  assert_int_equal(plan->n_steps, 2);
  assert_int_equal(plan->steps[0].a_buffer, GLI_OUT);
  assert_int_equal(plan->steps[0].a, 2 * 40 + 4);
  assert_int_equal(plan->steps[1].a, 4);
  gli_plan_free(plan);
}

/* ---- peers and slots ----------------------------------------------------- */

static void build_peers(gli_builder *b, const gli_plan_params *p) {
  for (uint32_t i = p->size; i-- > 0;) {
    if (i == p->rank) continue;
    gli_send(b, i, gli_elems(p, GLI_IN, 0, 1));
    gli_recv(b, i, gli_elems(p, GLI_OUT, 0, 2));
    gli_send(b, i, gli_bytes(GLI_TOKEN, 0, 7));
    if (i % 2 == 0) gli_recv(b, i, gli_elems(p, GLI_OUT, 2, 1));
  }
}

static void peers_are_sorted_and_messages_numbered(void **state) {
  (void)state;
  for (uint32_t size = 2; size <= 200; size += 33) {
    gli_plan_params p = params(GLI_ALLREDUCE, 1, size, 10);
    gli_plan *plan = make(build_peers, p);
    assert_int_equal(plan->n_peers, size - 1);
    for (uint32_t i = 0; i < plan->n_peers; i++) {
      const gli_plan_peer *peer = &plan->peers[i];
      assert_int_equal(peer->rank, i < 1 ? i : i + 1);
      assert_int_equal(gli_plan_find_peer(plan, peer->rank), i);
      assert_int_equal(peer->sends, 2);
      assert_int_equal(peer->send_bytes, 4); /* tokens carry none */
      assert_int_equal(peer->recvs, peer->rank % 2 == 0 ? 2 : 1);
      for (uint32_t slot = 0; slot < peer->recvs; slot++) {
        const gli_step *s =
            &plan->steps[plan->recv_steps[peer->first_recv + slot]];
        assert_int_equal(s->kind, GLI_STEP_RECV);
        assert_int_equal(s->peer, i);
        assert_int_equal(s->slot, slot);
        assert_int_equal(s->dst, slot == 0 ? 0 : 8);
      }
    }
    assert_int_equal(gli_plan_find_peer(plan, 1), GLI_NO_PEER);
    assert_int_equal(gli_plan_find_peer(plan, size), GLI_NO_PEER);
    gli_plan_free(plan);
  }
}

/* ---- segments ------------------------------------------------------------ */

static void build_all_kinds(gli_builder *b, const gli_plan_params *p) {
  gli_range all = gli_elems(p, GLI_OUT, 0, p->count);
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range scratch = gli_scratch(b, p->count * p->elem_bytes);
  gli_send(b, 0, in);
  gli_recv(b, 0, scratch);
  gli_recv_reduce(b, 0, in, all, true);
  gli_copy(b, in, all);
  gli_reduce(b, in, scratch, all);
  gli_send(b, 0, gli_bytes(GLI_TOKEN, 0, 1000));
}

static void check_cut(uint64_t count, uint64_t elem, uint64_t segment) {
  gli_plan_params p = params(GLI_ALLREDUCE, 1, 4, count);
  p.elem_bytes = elem;
  p.segment_bytes = segment;
  gli_plan *plan = make(build_all_kinds, p);
  uint64_t longest = segment < elem ? elem : segment / elem * elem;
  uint64_t bytes = count * elem, each = (bytes + longest - 1) / longest;
  assert_int_equal(plan->n_steps, 5 * each + 1);
  for (uint32_t i = 0; i < 5 * each; i++) {
    const gli_step *s = &plan->steps[i];
    uint64_t at = i % each * longest;
    assert_int_equal(s->bytes, bytes - at < longest ? bytes - at : longest);
    if (s->kind != GLI_STEP_RECV) assert_int_equal(s->a, at);
    if (s->kind != GLI_STEP_SEND) assert_int_equal(s->dst, at);
    if (s->kind == GLI_STEP_REDUCE) assert_int_equal(s->b, at);
    if (s->kind == GLI_STEP_SEND) assert_int_equal(s->slot, i);
  }
  const gli_step *token = &plan->steps[plan->n_steps - 1];
  assert_int_equal(token->bytes, 1000);
  assert_int_equal(gli_step_wire_bytes(token), 0);
  gli_plan_free(plan);
}

static void long_steps_are_cut_into_whole_elements(void **state) {
  (void)state;
  check_cut(10, 4, 12);
  check_cut(10, 4, 13);
  check_cut(10, 4, 15);
  check_cut(12, 4, 16);
  check_cut(10, 8, 3);
  check_cut(10, 4, 1);
  check_cut(10, 4, 40);
  check_cut(10, 4, 1000);
  check_cut(1000, 2, 64);
}

static void build_huge(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 0, gli_elems(p, GLI_IN, 0, p->count));
}

static void too_many_segments_are_refused(void **state) {
  (void)state;
  if (SIZE_MAX <= UINT32_MAX) {
    print_message("# no vector in 32 bits of addresses has so many\n");
    skip();
  }
  gli_plan_params p = params(GLI_ALLREDUCE, 1, 4, (uint64_t)1 << 40);
  p.segment_bytes = 4;
  gli_plan *plan = NULL;
  gloo_error error;
  assert_int_equal(gli_plan_make(build_huge, &p, &plan, &error),
                   GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "longer segments"));
}

/* ---- sizes --------------------------------------------------------------- */

static void expect_bytes(gli_collective c, bool in_place, uint64_t in,
                         uint64_t out) {
  gli_plan_params p = params(c, 1, 5, 10);
  p.in_place = in_place;
  uint64_t has_in, has_out;
  assert_true(gli_plan_buffer_bytes(&p, &has_in, &has_out));
  assert_int_equal(has_in, in);
  assert_int_equal(has_out, out);
}

static void buffers_have_the_sizes_of_the_calls(void **state) {
  (void)state;
  for (int in_place = 0; in_place < 2; in_place++) {
    expect_bytes(GLI_BARRIER, in_place, 0, 0);
    expect_bytes(GLI_BROADCAST, in_place, 0, 40); /* not the root's */
    expect_bytes(GLI_ALLREDUCE, in_place, 40, 40);
    expect_bytes(GLI_REDUCE_SCATTER, in_place, 200, in_place ? 200 : 40);
    expect_bytes(GLI_ALLGATHER, in_place, 40, 200);
    expect_bytes(GLI_SENDRECV, in_place, 40, 40);
  }
  uint64_t in, out;
  gli_plan_params p = params(GLI_ALLGATHER, 0, 4, UINT64_MAX / 8);
  assert_false(gli_plan_buffer_bytes(&p, &in, &out));
  p.count = UINT64_MAX / 2;
  assert_false(gli_plan_buffer_bytes(&p, &in, &out));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(builder_refuses_broken_rules),
      cmocka_unit_test(empty_ranges_and_copies_onto_themselves_vanish),
      cmocka_unit_test(bad_parameters_are_refused),
      cmocka_unit_test(input_lies_in_output_in_place),
      cmocka_unit_test(peers_are_sorted_and_messages_numbered),
      cmocka_unit_test(long_steps_are_cut_into_whole_elements),
      cmocka_unit_test(too_many_segments_are_refused),
      cmocka_unit_test(buffers_have_the_sizes_of_the_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
