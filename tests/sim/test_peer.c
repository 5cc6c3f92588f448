/* A peer that misbehaves or never connects: probes, announcements, timeouts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/failure/failure.h"
#include "peer.h"

/* Sends that wait because too many operations are announced are announced when
 * answers make room, whichever way they became free to go. */
static void room_for_announcements_is_used(void **state) {
  enum { SENDS = 1100, FIRST = 500000, EACH = 48448, ANNOUNCED = 1024 };
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 0, -1);
  uint8_t *data = calloc(1, FIRST);
  gloo_request *ops[2 + SENDS];
  for (int i = 0; i < 2 + SENDS; i++) {
    assert_int_equal(gloo_send_start(two.context, data, i < 2 ? FIRST : EACH,
                                     GLOO_UINT8, 1, NULL, &ops[i], NULL),
                     GLOO_OK);
  }
  peer_run_both(&two);
  assert_int_equal(two.came[GLI_MESSAGE_DATA], 2);
  assert_int_equal(two.came[GLI_MESSAGE_RTS], ANNOUNCED);
  gli_header about = two.last[GLI_MESSAGE_RTS];
  for (uint32_t slot = 0; slot < 2; slot++) { /* unrequested, then as answers */
    for (uint64_t i = 0; i < ANNOUNCED; i++) {
      about.operation = 2 + i;
      peer_say(&two, GLI_MESSAGE_CTS, &about, slot);
    }
    peer_run_both(&two);
    assert_int_equal(two.came[GLI_MESSAGE_DATA], 2 + ANNOUNCED);
  }
  assert_int_equal(two.came[GLI_MESSAGE_RTS], SENDS);
  for (int i = 0; i < 2 + SENDS; i++) gloo_request_destroy(ops[i]);
  free(data);
  peer_tear_down(&two);
}

/* Starts a barrier and returns its signature. */
static gli_header start_barrier(pair_of_ranks *two, gloo_request **op) {
  assert_int_equal(gloo_barrier_start(two->context, NULL, op, NULL), GLOO_OK);
  peer_run_both(two);
  assert_int_equal(two->came[GLI_MESSAGE_DATA], 1);
  return two->last[GLI_MESSAGE_DATA];
}

static void one_who_only_asks_is_cut_off(void **state) {
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 100, -1);
  gloo_request *op;
  gli_header about = start_barrier(&two, &op);
  for (int i = 0; i < 6000; i++) peer_say(&two, GLI_MESSAGE_RTS, &about, 0);
  peer_run_engine(&two);
  assert_int_equal(gloo_request_test(op, NULL), GLOO_ERR_PROTOCOL);
  gloo_error error;
  gloo_request_error(op, &error);
  assert_non_null(
      strstr(error.message,
             "rank 1 keeps sending requests without reading the replies"));
  gloo_request_destroy(op);
  peer_tear_down(&two);
}

static void probes_are_answered_within_reason(void **state) {
  enum { PROBES = 6000, ENOUGH = 3000 };
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 100, -1);
  gloo_request *op;
  gli_header about = start_barrier(&two, &op);
  for (int i = 0; i < PROBES; i++) peer_say(&two, GLI_MESSAGE_PROBE, &about, 0);
  peer_run_engine(&two);
  assert_int_equal(gloo_request_test(op, NULL), GLOO_IN_PROGRESS);
  peer_run_both(&two);
  assert_true(two.came[GLI_MESSAGE_WAITING] > 0);
  assert_true(two.came[GLI_MESSAGE_WAITING] < ENOUGH);
  gloo_request_destroy(op);
  peer_tear_down(&two);
}

static gloo_status test_after(pair_of_ranks *two, gloo_request *op,
                              uint64_t ns) {
  for (int i = 0; i < 10; i++) {
    peer_run_both(two);
    sim_advance(two->world, ns / 10);
  }
  return gloo_request_test(op, NULL);
}

/* A probe leaves this rank's timeout alone while the peer's deadline has not
 * passed. */
static void a_question_costs_no_time(void **state) {
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 50, INT64_C(10000000000));
  gloo_request *op;
  gloo_error error;
  gli_header about = start_barrier(&two, &op);
  peer_say(&two, GLI_MESSAGE_PROBE, &about, 0);
  assert_int_equal(test_after(&two, op, 5000000000), GLOO_IN_PROGRESS);
  assert_true(two.came[GLI_MESSAGE_PROBE] > 0);
  peer_say(&two, GLI_MESSAGE_PROBE, &about, 1); /* now it has passed */
  assert_int_equal(test_after(&two, op, 500000000), GLOO_ERR_TIMEOUT);
  gloo_request_error(op, &error);
  assert_int_equal(error.rank, 1);
  gloo_request_destroy(op);
  peer_tear_down(&two);
}

/* A rank times out in the end when all peers that it asked wait as well. */
static void those_who_all_wait_give_up_in_the_end(void **state) {
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 50, INT64_C(10000000000));
  gloo_request *op;
  gli_header about = start_barrier(&two, &op);
  peer_say(&two, GLI_MESSAGE_PROBE, &about, 1);
  peer_say(&two, GLI_MESSAGE_WAITING, &about, 0);
  assert_int_equal(test_after(&two, op, 9000000000), GLOO_IN_PROGRESS);
  assert_int_equal(test_after(&two, op, 1000000000), GLOO_IN_PROGRESS);
  assert_int_equal(test_after(&two, op, 1000000000), GLOO_ERR_TIMEOUT);
  gloo_request_destroy(op);
  peer_tear_down(&two);
}

/* The timeout counts from the start of the operation, not from the first
 * poll. */
static void time_runs_from_the_start(void **state) {
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 50, INT64_C(1000000000));
  gloo_request *op;
  assert_int_equal(gloo_barrier_start(two.context, NULL, &op, NULL), GLOO_OK);
  sim_advance(two.world, UINT64_C(10000000000));
  assert_int_equal(gloo_request_test(op, NULL), GLOO_IN_PROGRESS); /* it asks */
  sim_advance(two.world, UINT64_C(500000000));
  assert_int_equal(gloo_request_test(op, NULL), GLOO_ERR_TIMEOUT);
  gloo_request_destroy(op);
  peer_tear_down(&two);
}

#define SECOND UINT64_C(1000000000)

/* Returns true if the silent peer is missed within `ns`. The polls are so
 * frequent that none is late. */
static bool missed_within(pair_of_ranks *two, uint64_t ns) {
  gloo_error error;
  for (uint64_t step_ns = SECOND / 100; ns >= step_ns; ns -= step_ns) {
    peer_run_engine(two);
    sim_advance(two->world, step_ns);
  }
  if (gli_context_usable(two->context, &error) == GLOO_OK) return false;
  assert_int_equal(gloo_context_error(two->context, &error), GLOO_ERR_PEER);
  assert_int_equal(error.rank, 1);
  assert_non_null(strstr(error.message, "no heartbeat"));
  return true;
}

/* A peer from which no message has arrived may still be starting. */
static void peer_that_was_never_heard_has_time_to_come(void **state) {
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 50, -1);
  gli_context_start_heartbeat(two.context, SECOND);
  assert_false(missed_within(&two, 29 * SECOND));
  assert_true(missed_within(&two, 2 * SECOND));
  peer_tear_down(&two);
}

/* A peer announces its heartbeats and their period only once, possibly while
 * this rank still reads the peers' addresses. */
static void sign_before_the_start_counts(void **state) {
  static const gli_header nothing;
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 50, -1);
  peer_say(&two, GLI_MESSAGE_ALIVE, &nothing, 1500); /* ms */
  peer_run_both(&two);
  assert_int_equal(two.came[GLI_MESSAGE_ALIVE], 1);
  gli_context_start_heartbeat(two.context, SECOND);
  assert_false(missed_within(&two, 3 * SECOND));
  assert_true(missed_within(&two, SECOND));
  peer_tear_down(&two);
}

/* A peer is missed when it has been silent for the limit, whenever in between
 * this rank looked. */
static void silence_counts_from_the_last_sign(void **state) {
  static const gli_header nothing;
  (void)state;
  pair_of_ranks two;
  peer_set_up(&two, 50, -1);
  peer_say(&two, GLI_MESSAGE_ALIVE, &nothing, 500); /* ms */
  peer_run_both(&two);
  gli_context_start_heartbeat(two.context, SECOND);
  /* This rank looks every half second; the sign comes a fifth of that later. */
  uint64_t into_ns = sim_now_ns(two.world) % (SECOND / 2);
  assert_false(missed_within(&two, SECOND * 6 / 10 - into_ns));
  peer_say(&two, GLI_MESSAGE_ALIVE, &nothing, 500);
  assert_false(missed_within(&two, SECOND * 128 / 100));
  assert_true(missed_within(&two, SECOND * 5 / 100));
  peer_tear_down(&two);
}

static void take_line(gloo_log_level level, const char *line, void *user) {
  (void)level;
  snprintf(user, 512, "%s", line);
}

/* Losing a connection that only the heartbeat uses is no failure: the rank may
 * have left. */
static void lost_rank_gets_no_heartbeat(void **state) {
  (void)state;
  pair_of_ranks two;
  char line[512] = "";
  peer_set_up(&two, 50, -1);
  sim_kill(two.world, 1);
  gli_heartbeat_start(two.context, SECOND, true);
  gloo_log_set_sink(take_line, line);
  gloo_log_set_level(GLOO_LOG_DEBUG);
  assert_false(missed_within(&two, SECOND / 2));
  gloo_log_set_level(GLOO_LOG_OFF);
  gloo_log_set_sink(NULL, NULL);
  assert_non_null(strstr(line, "rank 0 sends its heartbeat to another rank: "));
  peer_tear_down(&two);
}

/* A rank that knows all others may create groups while this one still connects
 * to them: the group's context then exists before the settings common to all
 * contexts. */
static gloo_context *begin_early(pair_of_ranks *two) {
  gloo_context *control;
  gloo_error error;
  peer_set_up(two, 50, -1);
  assert_int_equal(gli_context_control(two->context, &control, &error),
                   GLOO_OK);
  return control;
}

static void groups_that_begin_early_are_in_the_trace(void **state) {
  (void)state;
  pair_of_ranks two;
  gloo_error error;
  gloo_context *control = begin_early(&two);
  assert_int_equal(gli_context_keep_traces(two.context, 1, &error), GLOO_OK);
  gloo_request *op;
  int x = 1;
  assert_int_equal(
      gloo_send_start(control, &x, 1, GLOO_INT32, 1, NULL, &op, NULL), GLOO_OK);
  peer_run_both(&two);
  assert_int_equal(gloo_request_test(op, NULL), GLOO_OK);
  gloo_request_destroy(op);
  gli_snapshot *snapshot = gli_context_snapshot(two.context);
  assert_non_null(snapshot);
  assert_int_equal(snapshot->ended, 1);
  gli_snapshot_free(snapshot);
  peer_tear_down(&two);
}

static void groups_that_begin_early_know_of_the_cores(void **state) {
  static const uint64_t hosts_of[2] = {7, 8};
  (void)state;
  pair_of_ranks two;
  gloo_error error;
  gli_hosts *hosts;
  const gloo_context *control = begin_early(&two);
  assert_int_equal(gli_hosts_make(hosts_of, 2, &hosts, &error), GLOO_OK);
  gli_context_place(two.context, hosts, GLI_OVERSUBSCRIBED);
  assert_int_equal(gli_context_oversubscribed(control), GLI_OVERSUBSCRIBED);
  assert_int_equal(gli_context_locality(control),
                   gli_context_locality(two.context));
  peer_tear_down(&two);
}

static int told;

static void tell(void *user, gli_snapshot *snapshot) {
  assert_non_null(snapshot);
  assert_int_equal(snapshot->cause.status, GLOO_ERR_ABORTED);
  assert_int_equal(*(int *)user, 17);
  gli_snapshot_free(snapshot);
  told++;
}

/* The callback runs once, whether it is set before or after the failure. */
static void failure_is_told(void **state) {
  const gloo_error cause = {.status = GLOO_ERR_ABORTED, .rank = 1};
  (void)state;
  for (int late = 0; late < 2; late++) {
    pair_of_ranks two;
    peer_set_up(&two, 50, -1);
    int *user = malloc(sizeof *user);
    *user = 17;
    told = 0;
    if (late) (void)gli_context_fail(two.context, &cause);
    gli_context_on_failure(two.context, tell, user);
    if (!late) (void)gli_context_fail(two.context, &cause);
    peer_run_both(&two);
    assert_int_equal(told, 1);
    peer_tear_down(&two);
  }
}

int main(void) {
  gloo_log_set_level(GLOO_LOG_OFF);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(room_for_announcements_is_used),
      cmocka_unit_test(one_who_only_asks_is_cut_off),
      cmocka_unit_test(probes_are_answered_within_reason),
      cmocka_unit_test(a_question_costs_no_time),
      cmocka_unit_test(those_who_all_wait_give_up_in_the_end),
      cmocka_unit_test(time_runs_from_the_start),
      cmocka_unit_test(peer_that_was_never_heard_has_time_to_come),
      cmocka_unit_test(sign_before_the_start_counts),
      cmocka_unit_test(silence_counts_from_the_last_sign),
      cmocka_unit_test(lost_rank_gets_no_heartbeat),
      cmocka_unit_test(groups_that_begin_early_are_in_the_trace),
      cmocka_unit_test(groups_that_begin_early_know_of_the_cores),
      cmocka_unit_test(failure_is_told),
  };
  return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
