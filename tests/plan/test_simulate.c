/* The simulator against times that can be worked out by hand. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "proof/simulate.h"

static const gli_sim_model by_hand = {
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

/* Returns hosts of `each` consecutive ranks. */
static gli_hosts *hosts_of(uint32_t size, uint32_t each) {
  uint64_t keys[10000];
  assert_true(size <= 10000);
  for (uint32_t i = 0; i < size; i++) keys[i] = i / each;
  gli_hosts *hosts;
  assert_int_equal(gli_hosts_make(keys, size, &hosts, NULL), GLOO_OK);
  return hosts;
}

static gli_sim_report run_on(uint32_t each, gli_build_fn build,
                             gli_plan_params p, gli_sim_model model,
                             double *done) {
  gli_sim_report report;
  gloo_error error;
  gli_hosts *hosts = hosts_of(p.size, each);
  p.hosts = hosts;
  gloo_status status = gli_simulate(build, &p, &model, &report, done, &error);
  gli_hosts_free(hosts);
  if (status != GLOO_OK) fail_msg("%s", error.message);
  return report;
}

/* Simulates with every rank on a separate host. */
static gli_sim_report run(gli_build_fn build, gli_plan_params p,
                          gli_sim_model model, double *done) {
  return run_on(1, build, p, model, done);
}

static void expect_ns(double is, double wanted) {
  if (is - wanted < 0.01 && wanted - is < 0.01) return;
  fail_msg("%.3f ns, not %.3f ns", is, wanted);
}

/* ---- one message --------------------------------------------------------- */

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
  r = run_on(2, build_one, params(GLI_SENDRECV, 2, 25), by_hand, done);
  expect_ns(r.total_ns, 1 + 50 + 10 + 1);
  assert_int_equal(r.bytes_inside, 100);
}

/* ---- local steps --------------------------------------------------------- */

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

/* ---- shared links -------------------------------------------------------- */

/* Builds a send from each rank of the first host to one of the second. */
static void build_across(gli_builder *b, const gli_plan_params *p) {
  uint32_t half = p->size / 2;
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  if (p->rank < half) gli_send(b, p->rank + half, in);
  if (p->rank >= half) gli_recv(b, p->rank - half, out);
}

static void ranks_of_a_host_share_its_link(void **state) {
  (void)state;
  double done[8];
  gli_sim_report r =
      run_on(4, build_across, params(GLI_SENDRECV, 8, 25), by_hand, done);
  /* The last of four waits for three messages and the gaps behind them. */
  expect_ns(r.total_ns, 100 + 3 * (200 + 50) + 200 + 1000 + 100);
  expect_ns(done[4], 100 + 200 + 1000 + 100);
}

/* Builds sends to rank 0 from separate hosts, which share its link. */
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

/* ---- rings --------------------------------------------------------------- */

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
    double x[24], y[24];
    gli_sim_report r = run_on(5, a->build, p, m, x);
    gli_sim_report s = run_on(5, a->build, p, m, y);
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

/* ---- hosts --------------------------------------------------------------- */

/* Checks that two levels beat one, for any links between hosts. */
static void expect_two_levels_win(const gli_sim_model *m, uint64_t bytes) {
  static const char *const names[] = {"two_level", "ring", "circulant"};
  double ns[3];
  for (int i = 0; i < 3; i++) {
    const gli_algorithm *a = gli_algorithm_find(GLI_ALLREDUCE, names[i]);
    assert_non_null(a);
    gli_plan_params p = params(GLI_ALLREDUCE, 32, bytes / 4);
    p.segment_bytes = gli_segment_bytes(a, &p);
    ns[i] = run_on(8, a->build, p, *m, NULL).total_ns;
  }
  if (ns[0] < 0.97 * ns[1] && ns[0] < 0.5 * ns[2]) return;
  fail_msg("%llu bytes: two levels %.0f us, ring %.0f us, circulant %.0f us",
           (unsigned long long)bytes, ns[0] / 1000, ns[1] / 1000, ns[2] / 1000);
}

static void two_levels_beat_one_on_4_hosts_of_8_ranks(void **state) {
  (void)state;
  gli_sim_model fast = GLI_SIM_MODEL_DEFAULT, slow = fast;
  slow.across.latency_ns = 15000;
  slow.across.per_byte_ns = 0.8;
  for (uint64_t bytes = 64 << 10; bytes <= 64 << 20; bytes *= 4) {
    expect_two_levels_win(&fast, bytes);
    expect_two_levels_win(&slow, bytes);
  }
}

/* ---- memory of other ranks ----------------------------------------------- */

static void mapped_memory_carries_no_bytes(void **state) {
  (void)state;
  const gli_algorithm *a = gli_algorithm_find(GLI_ALLREDUCE, "fused");
  assert_non_null(a);
  gli_plan_params p = params(GLI_ALLREDUCE, 4, 1000);
  gli_sim_model m = by_hand;
  gli_sim_report sent = run_on(4, a->build, p, m, NULL);
  m.reach = true;
  gli_sim_report reached = run_on(4, a->build, p, m, NULL);
  /* for each pair: memory exposed for PUT, data exposed for reading, and data
   * put */
  assert_int_equal(sent.bytes_inside, 12 * (8 + 1000 + 1000));
  assert_int_equal(reached.bytes_inside, 12 * (8 + 8));
  assert_int_equal(reached.messages, sent.messages);
  assert_true(reached.total_ns < sent.total_ns);
  gli_sim_report across = run_on(1, a->build, p, m, NULL);
  assert_int_equal(across.bytes_across, 12 * (8 + 1000 + 1000));
  gli_sim_report half = run_on(2, a->build, p, m, NULL);
  assert_int_equal(half.bytes_across, 8 * (8 + 1000 + 1000));
  assert_int_equal(half.bytes_inside, 4 * (8 + 8));
}

/* The processor writes the result to each put, which costs as much as a
 * copy. */
static void writing_puts_costs_what_copying_costs(void **state) {
  (void)state;
  const gli_algorithm *a = gli_algorithm_find(GLI_ALLREDUCE, "fused");
  assert_non_null(a);
  gli_sim_model slow = by_hand, fast = by_hand;
  slow.reach = fast.reach = true;
  slow.copy_ns = fast.copy_ns + 1;
  for (uint32_t size = 2; size <= 4; size++) {
    gli_plan_params p = params(GLI_ALLREDUCE, size, 250 * size);
    double more = run_on(size, a->build, p, slow, NULL).total_ns -
                  run_on(size, a->build, p, fast, NULL).total_ns;
    assert_int_equal((int)(more + 0.5), 1000 * (size - 1));
  }
}

/* ---- errors -------------------------------------------------------------- */

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
  gli_hosts *hosts = hosts_of(3, 1);
  p.hosts = hosts;
  assert_int_equal(gli_simulate(build_one, &p, &m, &r, NULL, &error),
                   GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "hosts describe 3 ranks, not 2"));
  gli_hosts_free(hosts);
  p.hosts = NULL;
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
      cmocka_unit_test(two_levels_beat_one_on_4_hosts_of_8_ranks),
      cmocka_unit_test(mapped_memory_carries_no_bytes),
      cmocka_unit_test(writing_puts_costs_what_copying_costs),
      cmocka_unit_test(what_cannot_be_simulated_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
