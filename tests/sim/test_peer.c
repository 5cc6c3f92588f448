/* One rank with the real engine, and a peer that is none: it sends what the
 * test wants, when the test wants it, and counts what it gets. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "gloo_c/gloo_c.h"
#include "sim.h"

enum { ENGINE_KEY = 1000, PEER_KEY = 2000, DISCARD_BYTES = 1 << 20 };

/* ---- the two ------------------------------------------------------------- */

typedef struct said {
  gli_send_request request;
  struct said *before;
} said;

typedef struct pair_of_ranks {
  sim_world *world;
  gloo_device *device; /* rank 0 */
  gloo_context *context;
  gli_transport *peer; /* rank 1 */
  gli_pair *pair;
  uint8_t *discard;
  said *said; /* all requests of the peer */
  uint32_t came[GLI_MESSAGE_TYPES];
  gli_header last[GLI_MESSAGE_TYPES];
} pair_of_ranks;

static gloo_status on_header(void *user, const gli_header *h, gli_sink *sink) {
  pair_of_ranks *two = user;
  assert_true(h->length <= DISCARD_BYTES);
  two->came[h->type]++;
  two->last[h->type] = *h;
  *sink = (gli_sink){.dst = two->discard};
  return GLOO_OK;
}

static void on_received(void *user, void *token) {
  (void)user;
  (void)token;
}

static void on_sent(void *user, gli_send_request *request) {
  (void)user;
  (void)request;
}

static void on_failed(void *user, const gloo_error *cause) {
  (void)user;
  (void)cause;
}

static gli_pair *on_accept(void *user, uint64_t key, uint32_t rank) {
  pair_of_ranks *two = user;
  return key == PEER_KEY && rank == 0 ? two->pair : NULL;
}

static const gli_upcalls upcalls = {on_header, on_received, on_sent, on_failed,
                                    on_accept};

static void set_up(pair_of_ranks *two, int in_progress_percent,
                   int64_t timeout_ns) {
  gloo_error error;
  sim_options options = {.seed = 1,
                         .delay_max_ns = 1000,
                         .streams = 1,
                         .progress_percent = in_progress_percent};
  *two = (pair_of_ranks){.world = sim_create(&options),
                         .discard = malloc(DISCARD_BYTES)};
  gli_transport_config c = {.host = sim_host(two->world, 0), .streams = 1};
  assert_int_equal(
      gli_device_open(&sim_transport, &c, false, &two->device, &error), 0);
  assert_int_equal(gli_context_open(two->device, 0, 2, ENGINE_KEY, timeout_ns,
                                    &two->context, &error),
                   0);
  c = (gli_transport_config){.host = sim_host(two->world, 1),
                             .streams = 1,
                             .upcalls = &upcalls,
                             .device_user = two};
  assert_int_equal(sim_transport.open(&c, &two->peer, &error), 0);
  gli_address address;
  sim_transport.address(two->peer, &address);
  gli_context_set_peer(two->context, 1, &address, PEER_KEY);
  gli_pair_config p = {.self_rank = 1,
                       .peer_rank = 0,
                       .local_key = PEER_KEY,
                       .remote_key = ENGINE_KEY,
                       .user = two};
  gli_device_address(two->device, &p.address);
  assert_int_equal(sim_transport.pair_open(two->peer, &p, &two->pair, &error),
                   0);
}

static void tear_down(pair_of_ranks *two) {
  sim_transport.pair_close(two->pair, NULL);
  gli_context_close(two->context);
  gli_device_close(two->device);
  sim_transport.close(two->peer);
  sim_destroy(two->world);
  while (two->said) {
    said *last = two->said;
    two->said = last->before;
    free(last);
  }
  free(two->discard);
}

/* Until nothing is under way. */
static void run_engine(pair_of_ranks *two) {
  sim_freeze(two->world, 1);
  do gli_device_progress(two->device);
  while (sim_step(two->world));
  sim_thaw(two->world, 1);
}

static void run_both(pair_of_ranks *two) {
  do {
    gli_device_progress(two->device);
    sim_transport.poll(two->peer);
  } while (sim_step(two->world));
}

static void say(pair_of_ranks *two, gli_message_type type,
                const gli_header *about, uint32_t slot) {
  said *new = calloc(1, sizeof *new);
  assert_non_null(new);
  new->before = two->said;
  two->said = new;
  gli_send_request *request = &new->request;
  request->header = *about;
  request->header.type = (uint8_t)type;
  request->header.slot = slot;
  request->header.charged = 0;
  request->header.length = 0;
  request->header.credit = 0;
  assert_int_not_equal(two->pair->ops->send(two->pair, request),
                       GLI_POST_AGAIN);
}

/* ---- tests --------------------------------------------------------------- */

/* What waits because too many operations are announced already is announced
 * when answers make room, however the sends themselves were set free. */
static void room_for_announcements_is_used(void **state) {
  enum { SENDS = 1100, FIRST = 500000, EACH = 48448, ANNOUNCED = 1024 };
  (void)state;
  pair_of_ranks two;
  set_up(&two, 0, -1);
  uint8_t *data = calloc(1, FIRST);
  gloo_operation *ops[2 + SENDS];
  for (int i = 0; i < 2 + SENDS; i++) {
    assert_int_equal(gloo_send_start(two.context, data, i < 2 ? FIRST : EACH,
                                     GLOO_UINT8, 1, NULL, &ops[i]),
                     GLOO_OK);
  }
  run_both(&two);
  assert_int_equal(two.came[GLI_MESSAGE_DATA], 2);
  assert_int_equal(two.came[GLI_MESSAGE_WANT], ANNOUNCED);
  gli_header about = two.last[GLI_MESSAGE_WANT];
  for (uint32_t slot = 0; slot < 2; slot++) { /* unasked; then as answers */
    for (uint64_t i = 0; i < ANNOUNCED; i++) {
      about.operation = 2 + i;
      say(&two, GLI_MESSAGE_STARTED, &about, slot);
    }
    run_both(&two);
    assert_int_equal(two.came[GLI_MESSAGE_DATA], 2 + ANNOUNCED);
  }
  assert_int_equal(two.came[GLI_MESSAGE_WANT], SENDS);
  for (int i = 0; i < 2 + SENDS; i++) gloo_operation_destroy(ops[i]);
  free(data);
  tear_down(&two);
}

/* The signature of an operation that the engine is in. */
static gli_header start_barrier(pair_of_ranks *two, gloo_operation **op) {
  assert_int_equal(gloo_barrier_start(two->context, NULL, op), GLOO_OK);
  run_both(two);
  assert_int_equal(two->came[GLI_MESSAGE_DATA], 1);
  return two->last[GLI_MESSAGE_DATA];
}

static void one_who_only_asks_is_cut_off(void **state) {
  (void)state;
  pair_of_ranks two;
  set_up(&two, 100, -1);
  gloo_operation *op;
  gli_header about = start_barrier(&two, &op);
  for (int i = 0; i < 6000; i++) say(&two, GLI_MESSAGE_WANT, &about, 0);
  run_engine(&two);
  assert_int_equal(gloo_operation_test(op), GLOO_ERR_PROTOCOL);
  gloo_operation_destroy(op);
  tear_down(&two);
}

static void probes_are_answered_within_reason(void **state) {
  enum { PROBES = 6000, ENOUGH = 3000 };
  (void)state;
  pair_of_ranks two;
  set_up(&two, 100, -1);
  gloo_operation *op;
  gli_header about = start_barrier(&two, &op);
  for (int i = 0; i < PROBES; i++) say(&two, GLI_MESSAGE_PROBE, &about, 0);
  run_engine(&two);
  assert_int_equal(gloo_operation_test(op), GLOO_IN_PROGRESS);
  run_both(&two);
  assert_true(two.came[GLI_MESSAGE_WAITING] > 0);
  assert_true(two.came[GLI_MESSAGE_WAITING] < ENOUGH);
  gloo_operation_destroy(op);
  tear_down(&two);
}

static gloo_status test_after(pair_of_ranks *two, gloo_operation *op,
                              uint64_t ns) {
  for (int i = 0; i < 10; i++) {
    run_both(two);
    sim_advance(two->world, ns / 10);
  }
  return gloo_operation_test(op);
}

/* Somebody else is late and asks; nobody's time is up. */
static void a_question_costs_no_time(void **state) {
  (void)state;
  pair_of_ranks two;
  set_up(&two, 50, INT64_C(10000000000));
  gloo_operation *op;
  gloo_error error;
  gli_header about = start_barrier(&two, &op);
  say(&two, GLI_MESSAGE_PROBE, &about, 0);
  assert_int_equal(test_after(&two, op, 5000000000), GLOO_IN_PROGRESS);
  assert_true(two.came[GLI_MESSAGE_PROBE] > 0);
  say(&two, GLI_MESSAGE_PROBE, &about, 1); /* now it is */
  assert_int_equal(test_after(&two, op, 500000000), GLOO_ERR_TIMEOUT);
  gloo_operation_error(op, &error);
  assert_int_equal(error.rank, 1);
  gloo_operation_destroy(op);
  tear_down(&two);
}

/* The last word is one's own, when all that were asked wait as well. */
static void those_who_all_wait_give_up_in_the_end(void **state) {
  (void)state;
  pair_of_ranks two;
  set_up(&two, 50, INT64_C(10000000000));
  gloo_operation *op;
  gli_header about = start_barrier(&two, &op);
  say(&two, GLI_MESSAGE_PROBE, &about, 1);
  say(&two, GLI_MESSAGE_WAITING, &about, 0);
  assert_int_equal(test_after(&two, op, 9000000000), GLOO_IN_PROGRESS);
  assert_int_equal(test_after(&two, op, 1000000000), GLOO_IN_PROGRESS);
  assert_int_equal(test_after(&two, op, 1000000000), GLOO_ERR_TIMEOUT);
  gloo_operation_destroy(op);
  tear_down(&two);
}

int main(void) {
  gloo_log_set_level(GLOO_LOG_OFF);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(room_for_announcements_is_used),
      cmocka_unit_test(one_who_only_asks_is_cut_off),
      cmocka_unit_test(probes_are_answered_within_reason),
      cmocka_unit_test(a_question_costs_no_time),
      cmocka_unit_test(those_who_all_wait_give_up_in_the_end),
  };
  return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
