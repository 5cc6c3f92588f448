/* The simulator against times that can be worked out by hand. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "plan/simulate.h"

static const gli_sim_model by_hand = {
    .ranks_per_host = 1,
    .inside = {10, 1, 0, 0.5},
    .across = {1000, 100, 50, 2},
    .copy_ns = 0.25,
    .reduce_ns = 0.5,
};

static gli_plan_params params(gli_collective collective, uint32_t size,
                              uint64_t count) {
  return (gli_plan_params){
      .collective = collective, .size = size, .count = count, .elem_bytes = 4};
}

static gli_sim_report run(gli_build_fn build, gli_plan_params p,
                          gli_sim_model model, double *done) {
  gli_sim_report report;
  gloo_error error;
  gloo_status status = gli_simulate(build, &p, &model, &report, done, &error);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  return report;
}

static void expect_ns(double is, double wanted) {
  if (is - wanted < 0.01 && wanted - is < 0.01) return;
  fail_msg("%.3f ns, not %.3f ns", is, wanted);
}

/* ---- one message -------------------------------------------------------- */

static void build_one(gli_builder *b, const gli_plan_params *p) {
  if (p->rank == 0) gli_send(b, 1, gli_elems(p, GLI_IN, 0, p->count));
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 0, p->count));
}

static void one_message_takes_two_overheads_a_latency_and_its_bytes(
    void **state) {
  (void)state;
  double done[2];
  gli_sim_report r = run(build_one, params(GLI_SENDRECV, 2, 25), by_hand, done);
  expect_ns(r.total_ns, 100 + 200 + 1000 + 100);
  expect_ns(done[0], 100 + 200);
  expect_ns(done[1], r.total_ns);
  expect_ns(r.first_done_ns, done[0]);
  assert_int_equal(r.messages, 1);
  assert_int_equal(r.bytes_across, 100);
  assert_int_equal(r.bytes_inside, 0);
  gli_sim_model one_host = by_hand;
  one_host.ranks_per_host = 2;
  r = run(build_one, params(GLI_SENDRECV, 2, 25), one_host, done);
  expect_ns(r.total_ns, 1 + 50 + 10 + 1);
  assert_int_equal(r.bytes_inside, 100);
}

/* ---- local steps -------------------------------------------------------- */

static void build_local(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_copy(b, in, out);
  gli_reduce(b, out, in, out);
}

static void local_work_takes_its_bytes(void **state) {
  (void)state;
  gli_sim_report r =
      run(build_local, params(GLI_ALLREDUCE, 1, 25), by_hand, NULL);
  expect_ns(r.total_ns, 25 + 50);
}

/* ---- shared links ------------------------------------------------------- */

/* Ranks of the first host each send to one of the second. */
static void build_across(gli_builder *b, const gli_plan_params *p) {
  uint32_t half = p->size / 2;
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  if (p->rank < half) gli_send(b, p->rank + half, in);
  if (p->rank >= half) gli_recv(b, p->rank - half, out);
}

static void ranks_of_a_host_share_its_link(void **state) {
  (void)state;
  gli_sim_model m = by_hand;
  m.ranks_per_host = 4;
  double done[8];
  gli_sim_report r = run(build_across, params(GLI_SENDRECV, 8, 25), m, done);
  /* The last of four waits for three messages and the gaps behind them. */
  expect_ns(r.total_ns, 100 + 3 * (200 + 50) + 200 + 1000 + 100);
  expect_ns(done[4], 100 + 200 + 1000 + 100);
}

/* All send to rank 0, from hosts of their own: they meet at its link. */
static void build_funnel(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, 25);
  if (p->rank != 0) gli_send(b, 0, in);
  for (uint32_t i = 1; p->rank == 0 && i < p->size; i++) {
    gli_recv(b, i, gli_elems(p, GLI_OUT, 25 * (i - 1), 25));
  }
}

static void messages_queue_at_the_receiving_link(void **state) {
  (void)state;
  gli_sim_report r =
      run(build_funnel, params(GLI_SENDRECV, 5, 100), by_hand, NULL);
  expect_ns(r.total_ns, 100 + 1000 + 3 * (200 + 50) + 200 + 100);
}

/* ---- rings -------------------------------------------------------------- */

static void ring_takes_what_the_formula_says(void **state) {
  (void)state;
  const gli_algorithm *ring = gli_algorithm_find(GLI_ALLREDUCE, "ring");
  assert_non_null(ring);
  for (uint32_t size = 2; size <= 32; size *= 2) {
    gli_sim_report r =
        run(ring->build, params(GLI_ALLREDUCE, size, 64 * size), by_hand, NULL);
    double part = 64 * 4, rounds = size - 1;
    double message = 100 + 1000 + 2 * part + 100;
    expect_ns(r.total_ns, rounds * (2 * message + 0.5 * part));
    expect_ns(r.first_done_ns, r.total_ns);
  }
}

static void same_input_gives_the_same_times(void **state) {
  (void)state;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    gli_plan_params p = params(a->collective, 24, 1000);
    gli_sim_model m = GLI_SIM_MODEL_DEFAULT;
    m.ranks_per_host = 5;
    double x[24], y[24];
    gli_sim_report r = run(a->build, p, m, x), s = run(a->build, p, m, y);
    assert_memory_equal(x, y, sizeof(x));
    assert_true(memcmp(&r, &s, sizeof(r)) == 0);
    assert_true(r.total_ns > 0);
    for (int j = 0; j < 24; j++) assert_true(x[j] <= r.total_ns);
  }
}

static void logarithmic_plans_run_at_10000_ranks(void **state) {
  (void)state;
  const gli_algorithm *a = gli_algorithm_find(GLI_BARRIER, "dissemination");
  assert_non_null(a);
  gli_sim_report r =
      run(a->build, params(GLI_BARRIER, 10000, 0), by_hand, NULL);
  expect_ns(r.total_ns, 14 * 1200);
}

/* ---- errors ------------------------------------------------------------- */

static void build_lonely(gli_builder *b, const gli_plan_params *p) {
  if (p->rank == 1) gli_send(b, 0, gli_elems(p, GLI_IN, 0, 1));
}
static void build_stuck(gli_builder *b, const gli_plan_params *p) {
  if (p->rank == 1) gli_recv(b, 0, gli_elems(p, GLI_OUT, 0, 1));
}

static void what_cannot_be_simulated_is_an_error(void **state) {
  (void)state;
  gli_sim_report r;
  gloo_error error;
  gli_sim_model m = by_hand;
  gli_plan_params p = params(GLI_SENDRECV, 2, 25);
  assert_int_equal(gli_simulate(build_lonely, &p, &m, &r, NULL, &error),
                   GLOO_ERR_INTERNAL);
  assert_non_null(strstr(error.message, "rank 1 sends 1 messages to rank 0"));
  assert_int_equal(gli_simulate(build_stuck, &p, &m, &r, NULL, &error),
                   GLOO_ERR_INTERNAL);
  assert_non_null(strstr(error.message, "1 of 1 steps can never run"));
  m.ranks_per_host = 0;
  assert_int_equal(gli_simulate(build_one, &p, &m, &r, NULL, &error),
                   GLOO_ERR_INVALID);
  m = by_hand;
  m.across.gap_ns = -1;
  assert_int_equal(gli_simulate(build_one, &p, &m, &r, NULL, &error),
                   GLOO_ERR_INVALID);
  p.size = 0;
  assert_int_equal(gli_simulate(build_one, &p, &by_hand, &r, NULL, &error),
                   GLOO_ERR_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_message_takes_two_overheads_a_latency_and_its_bytes),
      cmocka_unit_test(local_work_takes_its_bytes),
      cmocka_unit_test(ranks_of_a_host_share_its_link),
      cmocka_unit_test(messages_queue_at_the_receiving_link),
      cmocka_unit_test(ring_takes_what_the_formula_says),
      cmocka_unit_test(same_input_gives_the_same_times),
      cmocka_unit_test(logarithmic_plans_run_at_10000_ranks),
      cmocka_unit_test(what_cannot_be_simulated_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
