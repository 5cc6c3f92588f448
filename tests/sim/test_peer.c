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

#include "core/bytes.h"
#include "engine/engine.h"
#include "gloo_c/gloo_c.h"
#include "memory/region.h"
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

static const gli_upcalls upcalls = {.header = on_header,
                                    .received = on_received,
                                    .sent = on_sent,
                                    .failed = on_failed,
                                    .accept = on_accept};

static void set_up_with(pair_of_ranks *two, const sim_options *options,
                        int64_t timeout_ns) {
  gloo_error error;
  *two = (pair_of_ranks){.world = sim_create(options),
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

static void set_up(pair_of_ranks *two, int in_progress_percent,
                   int64_t timeout_ns) {
  sim_options options = {.seed = 1,
                         .delay_max_ns = 1000,
                         .streams = 1,
                         .progress_percent = in_progress_percent};
  set_up_with(two, &options, timeout_ns);
}

/* All memory is within reach; for writing, `lends` times. */
static void set_up_lending(pair_of_ranks *two, int in_progress_percent,
                           int lends) {
  sim_options options = {.seed = 1,
                         .delay_max_ns = 1000,
                         .streams = 1,
                         .progress_percent = in_progress_percent,
                         .refer_percent = 100,
                         .lends = lends};
  set_up_with(two, &options, -1);
}

static void set_up_reach(pair_of_ranks *two, int in_progress_percent) {
  set_up_lending(two, in_progress_percent, 1000);
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

static void post(pair_of_ranks *two, const gli_header *header,
                 const void *payload) {
  said *new = calloc(1, sizeof *new + (size_t)header->length);
  assert_non_null(new);
  new->before = two->said;
  two->said = new;
  gli_send_request *request = &new->request;
  request->header = *header;
  request->header.credit = 0;
  if (header->length > 0) memcpy(new + 1, payload, (size_t)header->length);
  request->payload = new + 1;
  assert_int_not_equal(two->pair->ops->send(two->pair, request),
                       GLI_POST_AGAIN);
}

static void say(pair_of_ranks *two, gli_message_type type,
                const gli_header *about, uint32_t slot) {
  gli_header header = *about;
  header.type = (uint8_t)type;
  header.form = GLI_FORM_BYTES;
  header.slot = slot;
  header.charged = 0;
  header.length = 0;
  post(two, &header, NULL);
}

/* DATA in any form; of the bytes, if any, `payload` is all. */
static void data(pair_of_ranks *two, const gli_header *about, uint32_t slot,
                 gli_form form, const void *payload, uint64_t bytes) {
  gli_header header = *about;
  header.type = GLI_MESSAGE_DATA;
  header.form = (unsigned)form & 0x7fu;
  header.slot = slot;
  header.length = bytes;
  header.charged = 0;
  post(two, &header, payload);
}

static void refer_to(pair_of_ranks *two, const gli_header *about, uint32_t slot,
                     gli_form form, uint64_t reference) {
  uint8_t payload[GLI_REFERENCE_BYTES];
  gli_put_u64(payload, reference);
  data(two, about, slot, form, payload, sizeof payload);
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

/* Whoever looks first, and when. */
static void time_runs_from_the_start(void **state) {
  (void)state;
  pair_of_ranks two;
  set_up(&two, 50, INT64_C(1000000000));
  gloo_operation *op;
  assert_int_equal(gloo_barrier_start(two.context, NULL, &op), GLOO_OK);
  sim_advance(two.world, UINT64_C(10000000000));
  assert_int_equal(gloo_operation_test(op), GLOO_IN_PROGRESS); /* it asks */
  sim_advance(two.world, UINT64_C(500000000));
  assert_int_equal(gloo_operation_test(op), GLOO_ERR_TIMEOUT);
  gloo_operation_destroy(op);
  tear_down(&two);
}

/* ---- memory of other ranks ----------------------------------------------- */

enum { LONG = 3000, PIECE = LONG / 2 * 4 };

/* What is announced is no message that refers to something. */
static void a_reference_may_have_to_wait(void **state) {
  enum { SENDS = 16000, BYTES = 300 };
  (void)state;
  pair_of_ranks two;
  set_up_reach(&two, 0);
  uint8_t *bytes = calloc(1, BYTES);
  gloo_operation **ops = calloc(SENDS, sizeof(gloo_operation *));
  for (int i = 0; i < SENDS; i++) {
    assert_int_equal(gloo_send_start(two.context, bytes, BYTES, GLOO_UINT8, 1,
                                     NULL, &ops[i]),
                     GLOO_OK);
  }
  run_both(&two);
  assert_true(two.came[GLI_MESSAGE_DATA] < SENDS);
  assert_true(two.came[GLI_MESSAGE_WANT] > 0);
  for (int i = 0; i < SENDS; i++) gloo_operation_destroy(ops[i]);
  free(ops);
  free(bytes);
  tear_down(&two);
}

/* A message of LONG floats, shown. */
static gli_header show(pair_of_ranks *two, const float *memory,
                       gloo_operation **op) {
  assert_int_equal(
      gloo_send_start(two->context, memory, LONG, GLOO_FLOAT32, 1, NULL, op),
      GLOO_OK);
  run_both(two);
  assert_int_equal(two->came[GLI_MESSAGE_DATA], 1);
  assert_int_equal(two->last[GLI_MESSAGE_DATA].form, GLI_FORM_REFERENCE);
  return two->last[GLI_MESSAGE_DATA];
}

static void what_is_shown_is_done_when_taken(void **state) {
  (void)state;
  static const float memory[LONG];
  for (int percent = 0; percent <= 100; percent += 100) {
    pair_of_ranks two;
    set_up_reach(&two, percent);
    gloo_operation *op;
    gli_header about = show(&two, memory, &op);
    assert_int_equal(gloo_operation_test(op), GLOO_IN_PROGRESS);
    say(&two, GLI_MESSAGE_TAKEN, &about, 0);
    run_both(&two);
    assert_int_equal(gloo_operation_test(op), GLOO_OK);
    gloo_operation_destroy(op);
    tear_down(&two);
  }
}

/* Twice, another slot, another number, another signature. */
static void only_what_is_shown_is_taken(void **state) {
  (void)state;
  static const float memory[LONG];
  for (int lie = 0; lie < 4; lie++) {
    pair_of_ranks two;
    set_up_reach(&two, 0);
    gloo_operation *op;
    gloo_error error;
    gli_header about = show(&two, memory, &op);
    if (lie == 0) say(&two, GLI_MESSAGE_TAKEN, &about, 0);
    if (lie == 2) about.operation++;
    if (lie == 3) about.tag++;
    say(&two, GLI_MESSAGE_TAKEN, &about, lie == 1);
    run_both(&two);
    assert_int_equal(gloo_context_error(two.context, &error),
                     GLOO_ERR_PROTOCOL);
    assert_int_equal(error.rank, 1);
    assert_int_equal(gloo_operation_test(op),
                     lie == 0 ? GLOO_OK : GLOO_ERR_PROTOCOL);
    gloo_operation_destroy(op);
    tear_down(&two);
  }
}

static void who_leaves_needs_nothing_more(void **state) {
  (void)state;
  static const float memory[LONG];
  pair_of_ranks two;
  set_up_reach(&two, 100);
  gloo_operation *op;
  gli_header about = show(&two, memory, &op);
  say(&two, GLI_MESSAGE_BYE, &about, 0);
  say(&two, GLI_MESSAGE_TAKEN, &about, 0); /* nothing may follow */
  run_engine(&two);
  assert_int_equal(gloo_operation_test(op), GLOO_OK);
  gloo_operation_destroy(op);
  tear_down(&two);
}

static void what_is_shown_goes_with_its_operation(void **state) {
  (void)state;
  static const float memory[LONG];
  for (int how = 0; how < 3; how++) {
    pair_of_ranks two;
    set_up_reach(&two, 50);
    gloo_operation *op;
    gli_header about = show(&two, memory, &op);
    if (how == 0) gloo_operation_cancel(op);
    if (how > 0) gloo_operation_destroy(op);
    if (how == 2) say(&two, GLI_MESSAGE_TAKEN, &about, 0);
    run_both(&two);
    if (how == 0) {
      assert_int_equal(gloo_operation_test(op), GLOO_ERR_CANCELLED);
      gloo_operation_destroy(op);
    }
    tear_down(&two);
  }
}

/* An allreduce of LONG floats as rank 0 of two. Both lend and show the half
 * that is not theirs (slots 0, 1), and fill the other's (slot 2). */
typedef struct fused {
  float in[LONG], out[LONG];
  gloo_operation *op;
  gli_header about;
} fused;

static void start_fused(pair_of_ranks *two, fused *f) {
  for (int i = 0; i < LONG; i++) f->in[i] = (float)i;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "fused";
  assert_int_equal(gloo_allreduce_start(two->context, f->in, f->out, LONG,
                                        GLOO_FLOAT32, GLOO_SUM, &o, &f->op),
                   GLOO_OK);
  run_both(two);
  assert_int_equal(two->came[GLI_MESSAGE_DATA], 2);
  f->about = two->last[GLI_MESSAGE_DATA];
}

static void end_fused(pair_of_ranks *two, fused *f, gloo_status status) {
  gloo_error error;
  run_both(two);
  assert_int_equal(gloo_operation_test(f->op), status);
  if (status != GLOO_OK) {
    assert_int_equal(gloo_operation_error(f->op, &error), status);
    assert_int_equal(error.rank, 1);
  }
  gloo_operation_destroy(f->op);
  tear_down(two);
  free(f);
}

static fused *new_fused(void) {
  fused *f = calloc(1, sizeof *f);
  assert_non_null(f);
  return f;
}

/* Bytes where memory could have been used, and the other way round. */
static void loans_come_back_in_either_form(void **state) {
  (void)state;
  for (int placed = 0; placed < 2; placed++) {
    pair_of_ranks two;
    set_up_reach(&two, 30);
    fused *f = new_fused();
    start_fused(&two, f);
    refer_to(&two, &f->about, 0, GLI_FORM_BYTES, 0); /* lends nothing */
    data(&two, &f->about, 1, GLI_FORM_BYTES, f->in, PIECE);
    if (placed) data(&two, &f->about, 2, GLI_FORM_PLACED, NULL, 0);
    if (!placed) data(&two, &f->about, 2, GLI_FORM_BYTES, f->in, PIECE);
    run_both(&two);
    say(&two, GLI_MESSAGE_TAKEN, &f->about,
        2); /* of the sum, for nothing lent */
    run_both(&two);
    for (int i = 0; i < LONG / 2; i++) {
      assert_true(f->out[i] == 2 * f->in[i]);
      assert_true(f->out[LONG / 2 + i] == (placed ? 0 : f->in[i]));
    }
    end_fused(&two, f, GLOO_OK);
  }
}

/* References to what nobody has, for reading and for writing; as a sum, and
 * where no reference belongs. */
static void nonsense_is_refused(void **state) {
  (void)state;
  static const uint64_t nonsense[] = {1, UINT64_MAX};
  for (uint32_t lie = 0; lie < 8; lie++) {
    pair_of_ranks two;
    set_up_reach(&two, 30);
    fused *f = new_fused();
    start_fused(&two, f);
    uint32_t slot = lie / 2 % 3;
    if (slot == 1) refer_to(&two, &f->about, 0, GLI_FORM_BYTES, 0);
    refer_to(&two, &f->about, slot,
             lie < 6 && slot == 0 ? GLI_FORM_BYTES : GLI_FORM_REFERENCE,
             nonsense[lie % 2]);
    end_fused(&two, f, GLOO_ERR_PROTOCOL);
  }
}

static void what_was_not_lent_is_not_placed(void **state) {
  (void)state;
  for (int lie = 0; lie < 3; lie++) {
    pair_of_ranks two;
    if (lie < 2) {
      set_up_reach(&two, 30);
    } else {
      set_up(&two, 30, -1); /* nothing is lent */
    }
    fused *f = new_fused();
    start_fused(&two, f);
    data(&two, &f->about, (uint32_t)lie, GLI_FORM_PLACED, NULL, 0);
    end_fused(&two, f, GLOO_ERR_PROTOCOL);
  }
}

/* Two ranges, one of them lent, and both said to be filled before the rank is
 * ready to hear it. */
static void each_loan_is_placed_once(void **state) {
  enum { HUGE_COUNT = 3 << 20 };
  (void)state;
  pair_of_ranks two;
  set_up_lending(&two, 100, 3);
  float *memory = calloc(2, HUGE_COUNT * sizeof *memory);
  assert_non_null(memory);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "fused";
  gloo_operation *op;
  gloo_error error;
  assert_int_equal(
      gloo_allreduce_start(two.context, memory, memory + HUGE_COUNT, HUGE_COUNT,
                           GLOO_FLOAT32, GLOO_SUM, &o, &op),
      GLOO_OK);
  run_both(&two);
  assert_int_equal(two.came[GLI_MESSAGE_DATA], 4);
  gli_header about = two.last[GLI_MESSAGE_DATA];
  gloo_operation *again;
  assert_int_equal(
      gloo_allreduce_start(two.context, memory, memory + HUGE_COUNT, HUGE_COUNT,
                           GLOO_FLOAT32, GLOO_SUM, &o, &again),
      GLOO_OK);
  about.operation++;
  data(&two, &about, 2, GLI_FORM_PLACED, NULL, 0);
  data(&two, &about, 5, GLI_FORM_PLACED, NULL, 0);
  run_engine(&two);
  assert_int_equal(gloo_context_error(two.context, &error), GLOO_OK);
  run_both(&two);
  assert_int_equal(gloo_context_error(two.context, &error), GLOO_ERR_PROTOCOL);
  gloo_operation_destroy(op);
  gloo_operation_destroy(again);
  free(memory);
  tear_down(&two);
}

static void build_lender(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_lend(b, 1, out);
  gli_recv_filled(b, 1, out);
}

/* Also by a plan that looks at nothing of others. */
static void what_is_lent_is_cut_off(void **state) {
  (void)state;
  pair_of_ranks two;
  gloo_error error;
  gli_region region;
  void *memory;
  set_up_reach(&two, 30);
  assert_int_equal(gloo_alloc(LONG, &memory, &error), GLOO_OK);
  bool shared = gli_region_find(memory, LONG, &region);
  gli_call call = {.build = build_lender,
                   .params = {.collective = GLI_ALLREDUCE,
                              .size = 2,
                              .count = LONG,
                              .elem_bytes = 1},
                   .dtype = GLOO_UINT8,
                   .op = GLOO_SUM,
                   .input = memory,
                   .output = memory};
  gloo_operation *op;
  assert_int_equal(gli_operation_prepare(two.context, &call, &op, &error),
                   GLOO_OK);
  assert_int_equal(gloo_operation_start(op), GLOO_OK);
  run_both(&two);
  assert_true(gli_region_find(memory, LONG, &region) == shared);
  gloo_operation_destroy(op);
  assert_false(gli_region_find(memory, LONG, &region));
  gloo_free(memory);
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
      cmocka_unit_test(time_runs_from_the_start),
      cmocka_unit_test(a_reference_may_have_to_wait),
      cmocka_unit_test(what_is_shown_is_done_when_taken),
      cmocka_unit_test(only_what_is_shown_is_taken),
      cmocka_unit_test(who_leaves_needs_nothing_more),
      cmocka_unit_test(what_is_shown_goes_with_its_operation),
      cmocka_unit_test(loans_come_back_in_either_form),
      cmocka_unit_test(nonsense_is_refused),
      cmocka_unit_test(what_was_not_lent_is_not_placed),
      cmocka_unit_test(each_loan_is_placed_once),
      cmocka_unit_test(what_is_lent_is_cut_off),
  };
  return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
