/* Copies that a peer makes together with the engine: half a mebibyte in 16
 * pieces, of which the engine takes the first ones and the peer the last. */
#include <stdlib.h>
#include <string.h>

#include "memory/region.h"
#include "peer.h"

enum { BYTES = 1 << 19, PIECES = 16, PIECE = BYTES / PIECES };

typedef struct copying {
  pair_of_ranks two;
  uint8_t *from, *to; /* BYTES each */
  gli_header about;   /* header of the copied message */
  gloo_request *op;
} copying;

static void send_some(copying *c) {
  assert_int_equal(gloo_send_start(c->two.context, c->from, BYTES, GLOO_UINT8,
                                   1, NULL, &c->op, NULL),
                   GLOO_OK);
  peer_run_both(&c->two);
  c->about = c->two.last[GLI_MESSAGE_DATA];
}

static void end_send(copying *c) {
  peer_say(&c->two, GLI_MESSAGE_READ_DONE, &c->about, 0);
  peer_run_both(&c->two);
  assert_int_equal(gloo_request_test(c->op, NULL), GLOO_OK);
  gloo_request_destroy(c->op);
}

static void set_up(copying *c, uint32_t shares) {
  void *memory;
  peer_set_up_sharing(&c->two, shares);
  assert_int_equal(gloo_alloc((size_t)2 * BYTES, &memory, NULL), GLOO_OK);
  c->from = memory;
  c->to = c->from + BYTES;
  for (size_t i = 0; i < BYTES; i++) c->from[i] = (uint8_t)(i % 251 + 1);
  memset(c->to, 0, BYTES);
  send_some(c); /* to get its header */
  assert_int_equal(c->about.form, GLI_FORM_SHARED);
  end_send(c);
}

static void tear_down(copying *c) {
  gloo_request_destroy(c->op);
  peer_tear_down(&c->two);
  gloo_free(c->from);
}

static uint64_t rkey_to(copying *c, const uint8_t *memory, bool write) {
  uint64_t rkey;
  assert_true(
      c->two.pair->ops->rkey_pack(c->two.pair, memory, BYTES, write, &rkey));
  return rkey;
}

static void copied(const copying *c, uint32_t first, uint32_t pieces) {
  static const uint8_t nothing[BYTES];
  size_t at = (size_t)first * PIECE, bytes = (size_t)pieces * PIECE;
  assert_memory_equal(c->to, nothing, at);
  assert_memory_equal(c->to + at, c->from + at, bytes);
  assert_memory_equal(c->to + at + bytes, nothing, BYTES - at - bytes);
}

/* ---- the engine receives ------------------------------------------------- */

static void receive(copying *c) {
  assert_int_equal(gloo_recv_start(c->two.context, c->to, BYTES, GLOO_UINT8, 1,
                                   NULL, &c->op, NULL),
                   GLOO_OK);
  peer_rkey_pack(&c->two, &c->about, 0, GLI_FORM_SHARED,
                 rkey_to(c, c->from, false));
  peer_run_both(&c->two);
  assert_int_equal(c->two.came[GLI_MESSAGE_SHARE], 1);
}

static void who_gets_all_pieces_is_done(void **state) {
  (void)state;
  copying c;
  set_up(&c, 0);
  receive(&c);
  assert_int_equal(gloo_request_test(c.op, NULL), GLOO_OK);
  assert_int_equal(c.two.came[GLI_MESSAGE_READ_DONE], 1);
  copied(&c, 0, PIECES);
  tear_down(&c);
}

static void others_are_waited_for(void **state) {
  (void)state;
  for (uint32_t shares = 1; shares <= PIECES; shares += 5) {
    copying c;
    set_up(&c, shares);
    receive(&c);
    assert_int_equal(gloo_request_test(c.op, NULL), GLOO_IN_PROGRESS);
    assert_int_equal(c.two.came[GLI_MESSAGE_READ_DONE], 0);
    copied(&c, 0, PIECES - shares);
    memcpy(c.to, c.from, BYTES);
    peer_say(&c.two, GLI_MESSAGE_SHARE_DONE, &c.about, 0);
    peer_run_both(&c.two);
    assert_int_equal(gloo_request_test(c.op, NULL), GLOO_OK);
    assert_int_equal(c.two.came[GLI_MESSAGE_READ_DONE], 1);
    copied(&c, 0, PIECES);
    tear_down(&c);
  }
}

/* SHARE_DONE is refused if it is a duplicate, has another slot, number or tag,
 * or if the peer took no piece. */
static void sharing_is_refused_that_was_not_asked_for(void **state) {
  (void)state;
  for (uint32_t lie = 0; lie < 5; lie++) {
    copying c;
    gloo_error error;
    set_up(&c, lie < 4 ? 3 : 0);
    receive(&c);
    if (lie == 0) peer_say(&c.two, GLI_MESSAGE_SHARE_DONE, &c.about, 0);
    if (lie == 2) c.about.operation++;
    if (lie == 3) c.about.tag++;
    peer_say(&c.two, GLI_MESSAGE_SHARE_DONE, &c.about, lie == 1);
    peer_run_both(&c.two);
    assert_int_equal(gloo_context_error(c.two.context, &error),
                     GLOO_ERR_PROTOCOL);
    assert_int_equal(error.rank, 1);
    if (lie == 1)
      assert_non_null(strstr(error.message, "a copy that does not exist"));
    tear_down(&c);
  }
}

/* The peer may still write when the operation ends with an error. */
static void what_is_shared_is_cut_off(void **state) {
  (void)state;
  for (uint32_t shares = 0; shares < 2; shares++) {
    copying c;
    gli_region region;
    set_up(&c, shares);
    bool shared = gli_region_find(c.to, BYTES, &region);
    receive(&c);
    gloo_request_cancel(c.op, NULL);
    peer_run_both(&c.two);
    assert_int_equal(gloo_request_test(c.op, NULL),
                     shares ? GLOO_ERR_CANCELLED : GLOO_OK);
    assert_true(gli_region_find(c.to, BYTES, &region) == (shared && !shares));
    tear_down(&c);
  }
}

/* ---- the engine sends ---------------------------------------------------- */

/* Asks as a receiver that takes the first pieces does. */
static void ask(copying *c, uint64_t rkey, uint32_t pieces) {
  gli_shared_copy *copy = c->two.pair->ops->shared_copy(c->two.pair, false);
  copy += c->about.slot % GLI_SHARED_COPIES;
  gli_shared_copy_begin(copy, 7, rkey, &c->about, c->about.context,
                        c->about.slot);
  uint32_t piece;
  for (uint32_t i = 0; i < pieces; i++) {
    assert_true(gli_shared_copy_claim_front(copy, 7, PIECES, &piece));
    assert_int_equal(piece, i);
  }
}

static void who_sends_takes_what_is_left(void **state) {
  (void)state;
  for (uint32_t pieces = 0; pieces <= PIECES; pieces += 4) {
    copying c;
    set_up(&c, 0);
    send_some(&c);
    ask(&c, rkey_to(&c, c.to, true), pieces);
    peer_say(&c.two, GLI_MESSAGE_SHARE, &c.about, 0);
    peer_run_both(&c.two);
    assert_int_equal(c.two.came[GLI_MESSAGE_SHARE_DONE], pieces < PIECES);
    copied(&c, pieces, PIECES - pieces);
    assert_int_equal(gloo_request_test(c.op, NULL), GLOO_IN_PROGRESS);
    peer_say(&c.two, GLI_MESSAGE_READ_DONE, &c.about, 0);
    peer_run_both(&c.two);
    assert_int_equal(gloo_request_test(c.op, NULL), GLOO_OK);
    tear_down(&c);
  }
}

/* Requests that are late, about another message, or to unknown memory. */
static void other_questions_are_not_answered(void **state) {
  (void)state;
  for (uint32_t lie = 0; lie < 6; lie++) {
    copying c;
    gloo_error error;
    set_up(&c, 0);
    send_some(&c);
    gli_header about = c.about;
    uint64_t rkey = rkey_to(&c, c.to, true);
    if (lie == 0) c.about.operation++;
    if (lie == 1) c.about.tag++;
    if (lie == 2) c.about.context++;
    if (lie == 3) c.about.slot += GLI_SHARED_COPIES;
    if (lie == 4) rkey = UINT64_MAX;
    ask(&c, rkey, 1);
    c.about = about;
    if (lie == 5) about.operation++;
    peer_say(&c.two, GLI_MESSAGE_SHARE, &about, 0);
    peer_run_both(&c.two);
    assert_int_equal(c.two.came[GLI_MESSAGE_SHARE_DONE], 0);
    assert_int_equal(gloo_context_error(c.two.context, &error), GLOO_OK);
    copied(&c, 0, 0);
    end_send(&c);
    c.op = NULL;
    tear_down(&c);
  }
}

/* A sender that waits for a message, or has to make another copy, does not
 * offer to share. */
static void only_an_idle_sender_shares(void **state) {
  (void)state;
  copying c;
  set_up(&c, 0);
  gloo_request *waits;
  assert_int_equal(gloo_recv_start(c.two.context, c.to, BYTES, GLOO_UINT8, 1,
                                   NULL, &waits, NULL),
                   GLOO_OK);
  send_some(&c);
  assert_int_equal(c.about.form, GLI_FORM_RKEY);
  end_send(&c);
  gloo_request_cancel(waits, NULL);
  gloo_request_destroy(waits);
  gloo_options o = GLOO_OPTIONS_INIT;
  o.algorithm = "flat";
  for (int in_place = 0; in_place < 2; in_place++) {
    assert_int_equal(
        gloo_broadcast_start(c.two.context, in_place ? GLOO_IN_PLACE : c.from,
                             c.to, BYTES, GLOO_UINT8, 0, &o, &c.op, NULL),
        GLOO_OK);
    peer_run_both(&c.two);
    c.about = c.two.last[GLI_MESSAGE_DATA];
    assert_int_equal(c.about.form, in_place ? GLI_FORM_SHARED : GLI_FORM_RKEY);
    end_send(&c);
  }
  c.op = NULL;
  tear_down(&c);
}

int main(void) {
  gloo_log_set_level(GLOO_LOG_OFF);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_gets_all_pieces_is_done),
      cmocka_unit_test(others_are_waited_for),
      cmocka_unit_test(sharing_is_refused_that_was_not_asked_for),
      cmocka_unit_test(what_is_shared_is_cut_off),
      cmocka_unit_test(who_sends_takes_what_is_left),
      cmocka_unit_test(other_questions_are_not_answered),
      cmocka_unit_test(only_an_idle_sender_shares),
  };
  return cmocka_run_group_tests_name("peer_help", tests, NULL, NULL);
}
