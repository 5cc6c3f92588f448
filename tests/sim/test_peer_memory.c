/* A peer, and memory that ranks expose to each other. */
#include <stdlib.h>
#include <string.h>

#include "memory/region.h"
#include "peer.h"

enum { LONG = 3000, PIECE = LONG / 2 * 4 };

/* An announced message does not carry a reference. */
static void an_rkey_may_have_to_wait(void **state) {
  enum { SENDS = 16000, BYTES = 300 };
  (void)state;
  pair_of_ranks two;
  peer_set_up_rkeys(&two, 0);
  uint8_t *bytes = calloc(1, BYTES);
  gloo_request **ops = calloc(SENDS, sizeof(gloo_request *));
  for (int i = 0; i < SENDS; i++) {
    assert_int_equal(gloo_send_start(two.context, bytes, BYTES, GLOO_UINT8, 1,
                                     NULL, &ops[i], NULL),
                     GLOO_OK);
  }
  peer_run_both(&two);
  assert_true(two.came[GLI_MESSAGE_DATA] < SENDS);
  assert_true(two.came[GLI_MESSAGE_RTS] > 0);
  for (int i = 0; i < SENDS; i++) gloo_request_destroy(ops[i]);
  free(ops);
  free(bytes);
  peer_tear_down(&two);
}

/* Exposes a message of LONG floats. */
static gli_header show(pair_of_ranks *two, const float *memory,
                       gloo_request **op) {
  assert_int_equal(gloo_send_start(two->context, memory, LONG, GLOO_FLOAT32, 1,
                                   NULL, op, NULL),
                   GLOO_OK);
  peer_run_both(two);
  assert_int_equal(two->came[GLI_MESSAGE_DATA], 1);
  assert_int_equal(two->last[GLI_MESSAGE_DATA].form, GLI_FORM_RKEY);
  return two->last[GLI_MESSAGE_DATA];
}

static void what_is_exposed_is_done_when_read(void **state) {
  (void)state;
  static const float memory[LONG];
  for (int percent = 0; percent <= 100; percent += 100) {
    pair_of_ranks two;
    peer_set_up_rkeys(&two, percent);
    gloo_request *op;
    gli_header about = show(&two, memory, &op);
    assert_int_equal(gloo_request_test(op, NULL), GLOO_IN_PROGRESS);
    peer_say(&two, GLI_MESSAGE_READ_DONE, &about, 0);
    peer_run_both(&two);
    assert_int_equal(gloo_request_test(op, NULL), GLOO_OK);
    gloo_request_destroy(op);
    peer_tear_down(&two);
  }
}

/* Duplicates, and messages with another slot, number or signature, are
 * refused. */
static void only_what_is_exposed_is_read(void **state) {
  (void)state;
  static const float memory[LONG];
  for (int lie = 0; lie < 4; lie++) {
    pair_of_ranks two;
    peer_set_up_rkeys(&two, 0);
    gloo_request *op;
    gloo_error error;
    gli_header about = show(&two, memory, &op);
    if (lie == 0) peer_say(&two, GLI_MESSAGE_READ_DONE, &about, 0);
    if (lie == 2) about.operation++;
    if (lie == 3) about.tag++;
    peer_say(&two, GLI_MESSAGE_READ_DONE, &about, lie == 1);
    peer_run_both(&two);
    assert_int_equal(gloo_context_error(two.context, &error),
                     GLOO_ERR_PROTOCOL);
    assert_int_equal(error.rank, 1);
    assert_int_equal(gloo_request_test(op, NULL),
                     lie == 0 ? GLOO_OK : GLOO_ERR_PROTOCOL);
    gloo_request_destroy(op);
    peer_tear_down(&two);
  }
}

static void who_leaves_needs_nothing_more(void **state) {
  (void)state;
  static const float memory[LONG];
  pair_of_ranks two;
  peer_set_up_rkeys(&two, 100);
  gloo_request *op;
  gli_header about = show(&two, memory, &op);
  peer_say(&two, GLI_MESSAGE_BYE, &about, 0);
  peer_say(&two, GLI_MESSAGE_READ_DONE, &about, 0); /* nothing may follow */
  peer_run_engine(&two);
  assert_int_equal(gloo_request_test(op, NULL), GLOO_OK);
  gloo_request_destroy(op);
  peer_tear_down(&two);
}

static void what_is_exposed_goes_with_its_operation(void **state) {
  (void)state;
  static const float memory[LONG];
  for (int how = 0; how < 3; how++) {
    pair_of_ranks two;
    peer_set_up_rkeys(&two, 50);
    gloo_request *op;
    gli_header about = show(&two, memory, &op);
    if (how == 0) gloo_request_cancel(op, NULL);
    if (how > 0) gloo_request_destroy(op);
    if (how == 2) peer_say(&two, GLI_MESSAGE_READ_DONE, &about, 0);
    peer_run_both(&two);
    if (how == 0) {
      assert_int_equal(gloo_request_test(op, NULL), GLOO_ERR_CANCELLED);
      gloo_request_destroy(op);
    }
    peer_tear_down(&two);
  }
}

/* An allreduce of LONG floats as rank 0 of two. Each rank exposes the half that
 * it does not own (slots 0, 1), and fills the other's (slot 2). */
typedef struct fused {
  float in[LONG], out[LONG];
  gloo_request *op;
  gli_header about;
} fused;

static void start_fused(pair_of_ranks *two, fused *f) {
  for (int i = 0; i < LONG; i++) f->in[i] = (float)i;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "fused";
  assert_int_equal(
      gloo_allreduce_start(two->context, f->in, f->out, LONG, GLOO_FLOAT32,
                           GLOO_SUM, &o, &f->op, NULL),
      GLOO_OK);
  peer_run_both(two);
  assert_int_equal(two->came[GLI_MESSAGE_DATA], 2);
  f->about = two->last[GLI_MESSAGE_DATA];
}

static void end_fused(pair_of_ranks *two, fused *f, gloo_status status) {
  gloo_error error;
  peer_run_both(two);
  assert_int_equal(gloo_request_test(f->op, NULL), status);
  if (status != GLOO_OK) {
    assert_int_equal(gloo_request_error(f->op, &error), status);
    assert_int_equal(error.rank, 1);
  }
  gloo_request_destroy(f->op);
  peer_tear_down(two);
  free(f);
}

static fused *new_fused(void) {
  fused *f = calloc(1, sizeof *f);
  assert_non_null(f);
  return f;
}

/* The peer sends bytes where memory could have been used, and vice versa. */
static void puts_come_back_in_either_form(void **state) {
  (void)state;
  for (int placed = 0; placed < 2; placed++) {
    pair_of_ranks two;
    peer_set_up_rkeys(&two, 30);
    fused *f = new_fused();
    start_fused(&two, f);
    peer_rkey_pack(&two, &f->about, 0, GLI_FORM_BYTES, 0); /* lends nothing */
    peer_data(&two, &f->about, 1, GLI_FORM_BYTES, f->in, PIECE);
    if (placed) peer_data(&two, &f->about, 2, GLI_FORM_PUT_DONE, NULL, 0);
    if (!placed) peer_data(&two, &f->about, 2, GLI_FORM_BYTES, f->in, PIECE);
    peer_run_both(&two);
    peer_say(&two, GLI_MESSAGE_READ_DONE, &f->about,
             2); /* slot of the sum; the peer lent no memory */
    peer_run_both(&two);
    for (int i = 0; i < LONG / 2; i++) {
      assert_true(f->out[i] == 2 * f->in[i]);
      assert_true(f->out[LONG / 2 + i] == (placed ? 0 : f->in[i]));
    }
    end_fused(&two, f, GLOO_OK);
  }
}

/* Unknown references for reading and writing are refused, also for a sum and
 * where no rkey belongs. */
static void nonsense_is_refused(void **state) {
  (void)state;
  static const uint64_t nonsense[] = {1, UINT64_MAX};
  for (uint32_t lie = 0; lie < 8; lie++) {
    pair_of_ranks two;
    peer_set_up_rkeys(&two, 30);
    fused *f = new_fused();
    start_fused(&two, f);
    uint32_t slot = lie / 2 % 3;
    if (slot == 1) peer_rkey_pack(&two, &f->about, 0, GLI_FORM_BYTES, 0);
    peer_rkey_pack(&two, &f->about, slot,
                   lie < 6 && slot == 0 ? GLI_FORM_BYTES : GLI_FORM_RKEY,
                   nonsense[lie % 2]);
    end_fused(&two, f, GLOO_ERR_PROTOCOL);
  }
}

static void what_was_not_exposed_is_not_put(void **state) {
  (void)state;
  for (int lie = 0; lie < 3; lie++) {
    pair_of_ranks two;
    if (lie < 2) {
      peer_set_up_rkeys(&two, 30);
    } else {
      peer_set_up(&two, 30, -1); /* no memory is exposed */
    }
    fused *f = new_fused();
    start_fused(&two, f);
    peer_data(&two, &f->about, (uint32_t)lie, GLI_FORM_PUT_DONE, NULL, 0);
    end_fused(&two, f, GLOO_ERR_PROTOCOL);
  }
}

/* Two ranges, one of them exposed, are reported as filled before the rank
 * expects it. */
static void each_put_is_done_once(void **state) {
  enum { HUGE_COUNT = 3 << 20 };
  (void)state;
  pair_of_ranks two;
  peer_set_up_exposing(&two, 100, 3);
  float *memory = calloc(2, HUGE_COUNT * sizeof *memory);
  assert_non_null(memory);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "fused";
  gloo_request *op;
  gloo_error error;
  assert_int_equal(
      gloo_allreduce_start(two.context, memory, memory + HUGE_COUNT, HUGE_COUNT,
                           GLOO_FLOAT32, GLOO_SUM, &o, &op, NULL),
      GLOO_OK);
  peer_run_both(&two);
  assert_int_equal(two.came[GLI_MESSAGE_DATA], 4);
  gli_header about = two.last[GLI_MESSAGE_DATA];
  gloo_request *again;
  assert_int_equal(
      gloo_allreduce_start(two.context, memory, memory + HUGE_COUNT, HUGE_COUNT,
                           GLOO_FLOAT32, GLOO_SUM, &o, &again, NULL),
      GLOO_OK);
  about.operation++;
  peer_data(&two, &about, 2, GLI_FORM_PUT_DONE, NULL, 0);
  peer_data(&two, &about, 5, GLI_FORM_PUT_DONE, NULL, 0);
  peer_run_engine(&two);
  assert_int_equal(gloo_context_error(two.context, &error), GLOO_OK);
  peer_run_both(&two);
  assert_int_equal(gloo_context_error(two.context, &error), GLOO_ERR_PROTOCOL);
  gloo_request_destroy(op);
  gloo_request_destroy(again);
  free(memory);
  peer_tear_down(&two);
}

static void build_exposer(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_expose_put(b, 1, out);
  gli_recv_put(b, 1, out);
}

/* Exposed memory is detached, also for a plan that reads no memory of
 * others. */
static void what_is_exposed_is_cut_off(void **state) {
  (void)state;
  pair_of_ranks two;
  gloo_error error;
  gli_region region;
  void *memory;
  peer_set_up_rkeys(&two, 30);
  assert_int_equal(gloo_alloc(LONG, &memory, &error), GLOO_OK);
  bool shared = gli_region_find(memory, LONG, &region);
  gli_call call = {.build = build_exposer,
                   .params = {.collective = GLI_ALLREDUCE,
                              .size = 2,
                              .count = LONG,
                              .elem_bytes = 1},
                   .dtype = GLOO_UINT8,
                   .op = GLOO_SUM,
                   .input = memory,
                   .output = memory};
  gloo_request *op;
  assert_int_equal(gli_operation_prepare(two.context, &call, &op, &error),
                   GLOO_OK);
  assert_int_equal(gloo_request_start(op, NULL), GLOO_OK);
  peer_run_both(&two);
  assert_true(gli_region_find(memory, LONG, &region) == shared);
  gloo_request_destroy(op);
  assert_false(gli_region_find(memory, LONG, &region));
  gloo_free(memory);
  peer_tear_down(&two);
}

/* ---- who reads ----------------------------------------------------------- */

enum { VECTOR = 512 << 10, LONG_VECTOR = 8 << 20, MEMORY = 2 * LONG_VECTOR };

typedef struct reading_case {
  gli_collective collective;
  size_t bytes; /* of a vector */
  bool in_place;
  gli_access access;
  bool turns; /* true if the ranks share a core */
} reading_case;

static const reading_case reading_cases[] = {
    {GLI_BROADCAST, VECTOR, false, GLI_ACCESS_SINGLE_COPY, false},
    {GLI_BROADCAST, VECTOR, false, GLI_ACCESS_READ, true},
    {GLI_BROADCAST, VECTOR, true, GLI_ACCESS_READ, false},
    {GLI_BROADCAST, VECTOR - 1, false, GLI_ACCESS_READ, false},
    {GLI_ALLGATHER, VECTOR, false, GLI_ACCESS_SINGLE_COPY, false},
    {GLI_ALLGATHER, VECTOR - 2, false, GLI_ACCESS_READ, false},
    {GLI_ALLTOALL, LONG_VECTOR, false, GLI_ACCESS_SINGLE_COPY, true},
    {GLI_ALLTOALL, LONG_VECTOR + 2, false, GLI_ACCESS_READ, true},
    {GLI_ALLTOALL, LONG_VECTOR + 2, false, GLI_ACCESS_SINGLE_COPY, false},
    {GLI_ALLGATHER, LONG_VECTOR + 2, false, GLI_ACCESS_READ, true},
    {GLI_SCATTER, LONG_VECTOR + 2, false, GLI_ACCESS_SINGLE_COPY, true},
    {GLI_GATHER, VECTOR, false, GLI_ACCESS_READ, false},
    {GLI_ALLREDUCE, VECTOR, false, GLI_ACCESS_READ, false},
};

static gloo_status start_case(gloo_context *c, const reading_case *r,
                              uint8_t *memory, gloo_request **op) {
  const void *in = r->in_place ? GLOO_IN_PLACE : memory;
  uint8_t *out = memory + MEMORY;
  switch (r->collective) {
    case GLI_BROADCAST:
      return gloo_broadcast_start(c, in, out, r->bytes, GLOO_UINT8, 0, NULL, op,
                                  NULL);
    case GLI_ALLGATHER:
      return gloo_allgather_start(c, in, out, r->bytes / 2, GLOO_UINT8, NULL,
                                  op, NULL);
    case GLI_ALLTOALL:
      return gloo_alltoall_start(c, in, out, r->bytes / 2, GLOO_UINT8, NULL, op,
                                 NULL);
    case GLI_SCATTER:
      return gloo_scatter_start(c, in, out, r->bytes / 2, GLOO_UINT8, 0, NULL,
                                op, NULL);
    case GLI_GATHER:
      return gloo_gather_start(c, in, NULL, r->bytes / 2, GLOO_UINT8, 1, NULL,
                               op, NULL);
    default:
      return gloo_allreduce_start(c, in, out, r->bytes, GLOO_UINT8, GLOO_SUM,
                                  NULL, op, NULL);
  }
}

static void take_turns(gloo_context *context) {
  static const uint64_t hosts_of[2] = {7, 7};
  gli_hosts *hosts;
  assert_int_equal(gli_hosts_make(hosts_of, 2, &hosts, NULL), GLOO_OK);
  gli_context_place(context, hosts, GLI_OVERSUBSCRIBED);
}

/* A peer reads the vectors of a rank that copies more than the peer does. */
static void busy_rank_asks_for_single_copy(void **state) {
  (void)state;
  uint8_t *memory = calloc(2, MEMORY);
  assert_non_null(memory);
  for (size_t i = 0; i < sizeof reading_cases / sizeof reading_cases[0]; i++) {
    const reading_case *r = &reading_cases[i];
    pair_of_ranks two;
    peer_set_up_rkeys(&two, 100);
    if (r->turns) take_turns(two.context);
    gloo_request *op;
    assert_int_equal(start_case(two.context, r, memory, &op), GLOO_OK);
    peer_run_both(&two);
    int access = sim_last_access(two.world);
    if (access != (int)r->access)
      fail_msg("%s of %zu bytes: access %d", gli_collective_name(r->collective),
               r->bytes, access);
    gloo_request_destroy(op);
    peer_tear_down(&two);
  }
  free(memory);
}

int main(void) {
  gloo_log_set_level(GLOO_LOG_OFF);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_rkey_may_have_to_wait),
      cmocka_unit_test(what_is_exposed_is_done_when_read),
      cmocka_unit_test(only_what_is_exposed_is_read),
      cmocka_unit_test(who_leaves_needs_nothing_more),
      cmocka_unit_test(what_is_exposed_goes_with_its_operation),
      cmocka_unit_test(puts_come_back_in_either_form),
      cmocka_unit_test(nonsense_is_refused),
      cmocka_unit_test(what_was_not_exposed_is_not_put),
      cmocka_unit_test(each_put_is_done_once),
      cmocka_unit_test(what_is_exposed_is_cut_off),
      cmocka_unit_test(busy_rank_asks_for_single_copy),
  };
  return cmocka_run_group_tests_name("peer_memory", tests, NULL, NULL);
}
