/* The checker finds errors, and names their rank and step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "plan/spoil.h"
#include "proof/check.h"

static gli_plan_params params(gli_collective collective, uint32_t size,
                              uint64_t count) {
  return (gli_plan_params){
      .collective = collective, .size = size, .count = count, .elem_bytes = 4};
}

static gloo_status run(gli_build_fn build, gli_plan_params p,
                       uint64_t max_steps, gli_check_report *report,
                       gloo_error *error) {
  gli_checker *checker = gli_checker_create(max_steps);
  assert_non_null(checker);
  gloo_status status = gli_checker_run(checker, build, &p, report, error);
  gli_checker_destroy(checker);
  return status;
}

/* Checks that the plan is refused with a message that contains all words. */
static void refuse(gli_build_fn build, gli_plan_params p, int rank,
                   const char *const *words) {
  gli_check_report report;
  gloo_error error;
  assert_int_equal(run(build, p, 0, &report, &error), GLOO_ERR_INTERNAL);
  assert_int_equal(error.status, GLOO_ERR_INTERNAL);
  for (; *words != NULL; words++) {
    if (strstr(error.message, *words) != NULL) continue;
    fail_msg("'%s' does not tell '%s'", error.message, *words);
  }
  assert_int_equal(error.rank, rank);
}
#define WORDS(...)        \
  (const char *const[]) { \
    __VA_ARGS__, NULL     \
  }

static gli_build_fn algorithm(gli_collective collective, const char *name) {
  const gli_algorithm *a = gli_algorithm_find(collective, name);
  assert_non_null(a);
  return a->build;
}

/* ---- three planted faults, named exactly --------------------------------- */

static size_t nth_step(gli_build_fn build, gli_plan_params p, uint32_t rank,
                       gli_step_kind kind, int n) {
  gli_plan *plan = spoil_look(build, p, rank);
  size_t at = 0;
  while (plan->steps[at].kind != kind || n-- > 0) at++;
  assert_true(at < plan->n_steps);
  gli_plan_free(plan);
  return at;
}

static void wrong_peer_is_named(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_ALLREDUCE, 5, 20);
  gli_build_fn ring = algorithm(GLI_ALLREDUCE, "ring");
  size_t step = nth_step(ring, p, 3, GLI_STEP_SEND, 2);
  spoil_set((spoil){ring, SPOIL_PEER, 3, step, 0});
  char at[64];
  snprintf(at, sizeof(at), "rank 3, step %zu (SEND to 0", step);
  refuse(spoil_build, p, 3,
         WORDS(at, "rank 0 receives only 0 messages from rank 3"));
}

static void dropped_step_is_named(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_ALLREDUCE, 5, 20);
  gli_build_fn ring = algorithm(GLI_ALLREDUCE, "ring");
  size_t step = nth_step(ring, p, 3, GLI_STEP_RECV, 0);
  spoil_set((spoil){ring, SPOIL_DROP, 3, step, 0});
  refuse(spoil_build, p, 2,
         WORDS("rank 2, step ", "(SEND to 3, slot 7",
               "rank 3 receives only 7 messages from rank 2"));
}

static void swapped_block_is_named(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_ALLGATHER, 5, 4);
  gli_build_fn ring = algorithm(GLI_ALLGATHER, "ring");
  size_t a = nth_step(ring, p, 3, GLI_STEP_RECV, 2);
  size_t b = nth_step(ring, p, 3, GLI_STEP_RECV, 3);
  spoil_set((spoil){ring, SPOIL_BLOCK, 3, a, b});
  /* Rank 3 passes on a block before it has received it. */
  refuse(spoil_build, p, 3,
         WORDS("rank 3, step 6 (SEND to 4, slot 3", "byte 0 of OUT",
               "was never written"));
}

/* ---- handwritten wrong algorithms ---------------------------------------- */

static uint32_t next_of(const gli_plan_params *p) {
  return (p->rank + 1) % p->size;
}
static uint32_t before(const gli_plan_params *p) {
  return (p->rank + p->size - 1) % p->size;
}

static void build_twice(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_send(b, 1 - p->rank, in);
  gli_recv_reduce(b, 1 - p->rank, in, out, true);
  if (p->rank == 1) gli_reduce(b, out, in, out);
}

static void contribution_that_is_counted_twice_is_named(void **state) {
  (void)state;
  refuse(
      build_twice, params(GLI_ALLREDUCE, 2, 3), 1,
      WORDS("rank 1, step 2 (REDUCE", "element 0", "rank 1 is counted twice"));
}

/* Builds a ring in which every rank receives before it sends: no rank
 * begins. */
static void build_circle(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_recv(b, before(p), out);
  gli_send(b, next_of(p), out);
}

static void deadlock_is_named(void **state) {
  (void)state;
  refuse(build_circle, params(GLI_SENDRECV, 4, 3), 0,
         WORDS("deadlock", "8 steps of all ranks left", "rank 0", "step 0",
               "which waits for"));
}

/* Builds a plan that works only if receives are buffered. */
static void build_needs_buffer(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_copy(b, gli_elems(p, GLI_IN, 0, p->count), out);
  gli_send(b, 1 - p->rank, out);
  gli_recv(b, 1 - p->rank, out);
}

static void exchange_that_needs_a_buffer_is_a_deadlock(void **state) {
  (void)state;
  refuse(build_needs_buffer, params(GLI_SENDRECV, 2, 3), 0,
         WORDS("deadlock", "rank 0, step 1"));
}

static void build_undefined(gli_builder *b, const gli_plan_params *p) {
  gli_range scratch = gli_scratch(b, 12);
  if (p->rank == 0) gli_send(b, 1, scratch);
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 0, 3));
}

static void reading_undefined_bytes_is_named(void **state) {
  (void)state;
  refuse(build_undefined, params(GLI_SENDRECV, 2, 3), 0,
         WORDS("rank 0, step 0 (SEND to 1", "byte 0 of SCRATCH",
               "was never written"));
}

static void build_shifted(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 1 - p->rank, gli_elems(p, GLI_IN, p->rank, 2));
  gli_recv_reduce(b, 1 - p->rank, gli_elems(p, GLI_IN, 0, 2),
                  gli_elems(p, GLI_OUT, 0, 2), true);
}

static void combining_different_elements_is_named(void **state) {
  (void)state;
  refuse(build_shifted, params(GLI_ALLREDUCE, 2, 3), 0,
         WORDS("rank 0, step 1", "element 1 of the inputs with element 0"));
}

static void build_lengths(gli_builder *b, const gli_plan_params *p) {
  if (p->rank == 0) gli_send(b, 1, gli_elems(p, GLI_IN, 0, 2));
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 0, 3));
}
static void build_token_to_bytes(gli_builder *b, const gli_plan_params *p) {
  if (p->rank == 0) gli_send(b, 1, gli_bytes(GLI_TOKEN, 0, 12));
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 0, 3));
}

static void different_lengths_are_named(void **state) {
  (void)state;
  refuse(
      build_lengths, params(GLI_SENDRECV, 2, 3), 1,
      WORDS("rank 1, step 0", "expects 12 bytes", "step 0 of rank 0 sends 8"));
  refuse(build_token_to_bytes, params(GLI_SENDRECV, 2, 3), 1,
         WORDS("rank 1, step 0", "expects 12 bytes", "sends 0"));
}

static void build_moved(gli_builder *b, const gli_plan_params *p) {
  if (p->rank == 0)
    gli_copy(b, gli_elems(p, GLI_IN, 0, 3), gli_elems(p, GLI_OUT, 0, 3));
  if (p->rank == 0) gli_send(b, 1, gli_elems(p, GLI_IN, 0, 2));
  if (p->rank == 0) gli_send(b, 1, gli_elems(p, GLI_IN, 0, 1));
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 0, 2));
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 2, 1));
}
static void build_gap(gli_builder *b, const gli_plan_params *p) {
  gli_range all = gli_elems(p, GLI_OUT, 0, 3);
  if (p->rank == 0) gli_copy(b, gli_elems(p, GLI_IN, 0, 3), all);
  if (p->rank == 0) gli_send(b, 1, gli_elems(p, GLI_IN, 0, 2));
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 0, 2));
}

static void wrong_outputs_name_the_last_writer(void **state) {
  (void)state;
  refuse(build_moved, params(GLI_BROADCAST, 2, 3), 1,
         WORDS("rank 1, step 1 (RECV from 0, slot 1", "element 2 of OUT",
               "from element 0 of the input, not element 2"));
  refuse(build_gap, params(GLI_BROADCAST, 2, 3), 1,
         WORDS("rank 1", "no step writes element 2 of OUT"));
}

/* Builds one round of a barrier that needs two. */
static void build_half_barrier(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, next_of(p), gli_bytes(GLI_TOKEN, 0, 1));
  gli_recv(b, before(p), gli_bytes(GLI_TOKEN, 1, 1));
}
/* Builds two rounds of which the second does not wait for the first. */
static void build_loose_barrier(gli_builder *b, const gli_plan_params *p) {
  build_half_barrier(b, p);
  gli_send(b, (p->rank + 2) % 4, gli_bytes(GLI_TOKEN, 2, 1));
  gli_recv(b, (p->rank + 2) % 4, gli_bytes(GLI_TOKEN, 3, 1));
}

static void barrier_that_does_not_wait_for_all_is_named(void **state) {
  (void)state;
  refuse(build_half_barrier, params(GLI_BARRIER, 4, 0), 0,
         WORDS("rank 0", "step (2)", "knows of ranks 0, 3", "not of rank 1"));
  refuse(build_loose_barrier, params(GLI_BARRIER, 4, 0), 0,
         WORDS("knows of ranks 0, 2-3", "not of rank 1"));
}

static void build_broken(gli_builder *b, const gli_plan_params *p) {
  if (p->rank == 2) gli_send(b, 7, gli_elems(p, GLI_IN, 0, 1));
}

static void rules_of_the_builder_come_through(void **state) {
  (void)state;
  refuse(build_broken, params(GLI_ALLREDUCE, 4, 3), 2,
         WORDS("rank 2 of 4, step 0", "does not exist"));
  gli_check_report report;
  gloo_error error;
  gli_plan_params p = params(GLI_ALLREDUCE, 0, 3);
  assert_int_equal(run(build_broken, p, 0, &report, &error), GLOO_ERR_INVALID);
}

/* ---- every step of every algorithm --------------------------------------- */

static void expect_found(const gli_algorithm *a, gli_plan_params p, spoil s,
                         const char *what) {
  gli_check_report report;
  gloo_error error;
  s.build = a->build;
  spoil_set(s);
  gloo_status status = run(spoil_build, p, 0, &report, &error);
  if (status != GLOO_ERR_INTERNAL) {
    fail_msg("%s %s of %u: %s at rank %u step %zu was not found",
             gli_collective_name(a->collective), a->name, p.size, what, s.rank,
             s.step);
  }
  bool named = strstr(error.message, "rank") != NULL &&
               strstr(error.message, "step") != NULL && error.rank >= 0;
  if (!named) fail_msg("'%s' names no rank or step", error.message);
}

/* Swaps the ranges of two steps. That is wrong if they hold different bytes. */
static void spoil_blocks(const gli_algorithm *a, gli_plan_params p,
                         uint32_t rank, const gli_plan *plan, uint32_t i) {
  const gli_step *s = &plan->steps[i];
  for (uint32_t j = i + 1; j < plan->n_steps; j++) {
    const gli_step *o = &plan->steps[j];
    if (o->kind != s->kind || o->bytes != s->bytes) continue;
    if (s->kind != GLI_STEP_RECV || o->dst_buffer != GLI_OUT) continue;
    if (s->dst_buffer != GLI_OUT || o->dst == s->dst) continue;
    if (o->peer != s->peer) continue;
    expect_found(a, p, (spoil){NULL, SPOIL_BLOCK, rank, i, j}, "a swap");
    return;
  }
}

/* Returns true for an in-place copy to puts alone: the ranks that fill the puts
 * can do it as well. */
static bool is_spare(const gli_step *s) {
  return s->kind == GLI_STEP_COPY && s->a_buffer == s->dst_buffer &&
         s->a == s->dst;
}

static void spoil_all(const gli_algorithm *a, gli_plan_params p) {
  for (uint32_t rank = 0; rank < p.size; rank++) {
    gli_plan *plan = spoil_look(a->build, p, rank);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
      spoil s = {.rank = rank, .step = i, .how = SPOIL_DROP};
      const gli_step *step = &plan->steps[i];
      if (!is_spare(step)) expect_found(a, p, s, "a dropped step");
      if (step->peer != GLI_NO_PEER) {
        s.how = SPOIL_TWICE;
        expect_found(a, p, s, "a doubled message");
      }
      if (step->peer != GLI_NO_PEER && p.size > 2) {
        s.how = SPOIL_PEER;
        expect_found(a, p, s, "a wrong peer");
      }
      bool token = gli_step_wire_bytes(step) == 0;
      if (step->peer != GLI_NO_PEER && !token) {
        s.how = SPOIL_LENGTH;
        expect_found(a, p, s, "a wrong length");
      }
      if (step->peer != GLI_NO_PEER) spoil_blocks(a, p, rank, plan, i);
    }
    gli_plan_free(plan);
  }
}

static void every_planted_slip_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    for (uint32_t size = 2; size <= 8; size++) {
      gli_plan_params p = params(a->collective, size, 3 * size + 1);
      p.in_place = size % 2 != 0;
      p.root = gli_collective_rooted(a->collective) ? size / 2 : 0;
      spoil_all(a, p);
    }
  }
}

/* ---- streaming ----------------------------------------------------------- */

static void streamed_check_agrees_with_the_whole(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    gli_plan_params p = params(a->collective, 7, 700);
    p.segment_bytes = 8;
    gli_check_report whole, streamed;
    gloo_error error;
    assert_int_equal(run(a->build, p, 0, &whole, &error), GLOO_OK);
    gloo_status status = run(a->build, p, 1, &streamed, &error);
    if (status != GLOO_OK) fail_msg("%s", error.message);
    assert_false(whole.streamed);
    assert_int_equal(streamed.streamed, whole.steps > 64 * 7);
    assert_int_equal(streamed.steps, whole.steps);
    assert_int_equal(streamed.messages, whole.messages);
    assert_int_equal(streamed.max_sent_bytes, whole.max_sent_bytes);
  }
}

static void streamed_check_finds_slips_too(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_ALLREDUCE, 100, 1000);
  gli_build_fn ring = algorithm(GLI_ALLREDUCE, "ring");
  spoil spoils[] = {{ring, SPOIL_DROP, 60, 301, 0},
                    {ring, SPOIL_PEER, 60, 250, 0},
                    {ring, SPOIL_BLOCK, 60, 301, 303},
                    {ring, SPOIL_NOTHING, 0, 0, 0}};
  for (int i = 0; i < 4; i++) {
    gli_check_report report;
    gloo_error error;
    spoil_set(spoils[i]);
    gloo_status status = run(spoil_build, p, 1, &report, &error);
    assert_int_equal(status, i < 3 ? GLOO_ERR_INTERNAL : GLOO_OK);
    assert_true(report.streamed || i < 3);
  }
}

/* ---- counting ------------------------------------------------------------ */

static void cost_is_counted(void **state) {
  (void)state;
  gli_check_report report;
  gloo_error error;
  gli_plan_params p = params(GLI_ALLREDUCE, 8, 80);
  gli_build_fn ring = algorithm(GLI_ALLREDUCE, "ring");
  assert_int_equal(run(ring, p, 0, &report, &error), GLOO_OK);
  assert_int_equal(report.rounds, 14);
  assert_int_equal(report.messages, 8 * 14);
  assert_int_equal(report.max_sent_bytes, 14 * 40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_peer_is_named),
      cmocka_unit_test(dropped_step_is_named),
      cmocka_unit_test(swapped_block_is_named),
      cmocka_unit_test(contribution_that_is_counted_twice_is_named),
      cmocka_unit_test(deadlock_is_named),
      cmocka_unit_test(exchange_that_needs_a_buffer_is_a_deadlock),
      cmocka_unit_test(reading_undefined_bytes_is_named),
      cmocka_unit_test(combining_different_elements_is_named),
      cmocka_unit_test(different_lengths_are_named),
      cmocka_unit_test(wrong_outputs_name_the_last_writer),
      cmocka_unit_test(barrier_that_does_not_wait_for_all_is_named),
      cmocka_unit_test(rules_of_the_builder_come_through),
      cmocka_unit_test(every_planted_slip_is_found),
      cmocka_unit_test(streamed_check_agrees_with_the_whole),
      cmocka_unit_test(streamed_check_finds_slips_too),
      cmocka_unit_test(cost_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
