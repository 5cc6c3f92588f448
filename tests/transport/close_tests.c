/* Closing: what is delivered, what is not touched, what the other side
 * hears. */
#include <stdlib.h>

#include "battery.h"

static void drive_farewell(bat_world *w, int end) {
  BAT_DRIVE(w, w->ends[end].owed == 0);
}

static const gli_header *last_header(const bat_pair *p) {
  return &p->in[p->n_in - 1].header;
}

static size_t size_of(uint32_t i) {
  return i % 5 == 0 ? 300000 + i : i * 20;
}

/* bat_close poisons and frees every payload, so the contents are right only if
 * they were copied or had left. */
static void assert_all_intact(const bat_pair *p) {
  for (size_t i = 0; i < p->n_in; i++) {
    const gli_header *h = &p->in[i].header;
    if (h->type != GLI_MESSAGE_DATA || !p->in[i].received) continue;
    bat_assert_message(p, i, size_of((uint32_t)h->operation), h->operation);
  }
}

enum { MESSAGES = 60 };

static void send_all(bat_pair *p) {
  for (uint32_t i = 0; i < MESSAGES; i++) {
    bat_send_filled(p, i % 4, size_of(i), i);
  }
}

static void bye_follows_everything_that_was_taken(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  send_all(a);
  BAT_DRIVE(w, a->again.next_post == &a->again); /* all taken */
  bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
  BAT_DRIVE(w, b->n_received == MESSAGES + 1);
  assert_int_equal(last_header(b)->type, GLI_MESSAGE_BYE);
  assert_all_intact(b);
  drive_farewell(w, 0);
  bat_settle(w);
  assert_int_equal(b->n_in, MESSAGES + 1);
  assert_int_equal(b->failed, 0);
}

static void bye_reaches_a_peer_that_was_not_there_yet(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  bat_open(a);
  for (uint32_t i = 0; i < 5; i++) bat_send_filled(a, 0, size_of(i), i);
  size_t taken = 0;
  for (bat_post *p = a->posts.next_post; p != &a->posts; p = p->next_post) {
    taken++;
  }
  taken += a->n_done;
  bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
  BAT_DRIVE(w, b->n_received == taken + 1);
  assert_int_equal(last_header(b)->type, GLI_MESSAGE_BYE);
  assert_all_intact(b);
  drive_farewell(w, 0);
  bat_settle(w);
  assert_int_equal(b->failed, 0);
}

static void abort_arrives_with_its_payload(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  uint8_t why[300];
  bat_fill(why, sizeof why, 77);
  for (int polls = 0; polls < 8; polls++) {
    bat_connect(w, 0, 1, &a, &b);
    send_all(a);
    for (int i = 0; i < polls; i++) bat_poll(w);
    bat_close(a, GLI_MESSAGE_ABORT, why, sizeof why);
    BAT_DRIVE(w, b->n_in > 0 && last_header(b)->type == GLI_MESSAGE_ABORT &&
                     b->in[b->n_in - 1].received);
    bat_assert_message(b, b->n_in - 1, sizeof why, 77);
    assert_all_intact(b);
    drive_farewell(w, 0);
    bat_settle(w);
    assert_int_equal(b->failed, 0);
    bat_close(b, GLI_MESSAGE_BYE, NULL, 0);
  }
}

static void close_without_a_word_is_a_failure(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 1, 2, &a, &b);
  bat_send_filled(a, 0, 100, 1);
  BAT_DRIVE(w, b->n_received == 1);
  bat_close(a, 0, NULL, 0);
  BAT_DRIVE(w, b->failed == 1);
  assert_int_equal(b->cause.rank, 1);
  assert_int_equal(b->cause.status, GLOO_ERR_PEER);
  bat_send_filled(b, 0, 100000, 1); /* into the void, and no more upcalls */
  bat_settle(w);
}

static void closed_end_point_fails_its_peers(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b, *c, *d;
  bat_connect(w, 0, 1, &a, &b);
  bat_connect(w, 2, 1, &c, &d);
  bat_close(b, 0, NULL, 0);
  bat_close(d, 0, NULL, 0);
  bat_close_end(w, 1);
  BAT_DRIVE(w, a->failed == 1 && c->failed == 1);
  assert_int_equal(a->cause.rank, 1);
  assert_int_equal(c->cause.rank, 1);
}

/* The receiver closes at any moment while messages are in flight. Its sinks are
 * freed at once, and the recorder complains about upcalls. */
static void closed_pair_hears_and_touches_nothing(void **state) {
  bat_world *w = *state;
  for (int polls = 0; polls < 30; polls++) {
    bat_pair *a, *b;
    bat_connect(w, 0, 1, &a, &b);
    send_all(a);
    send_all(b);
    for (int i = 0; i < polls; i++) bat_poll_end(w, i % 3 == 0);
    bat_close(b, polls % 3 ? GLI_MESSAGE_BYE : 0, NULL, 0);
    for (int i = 0; i < 20; i++) bat_poll(w);
    bat_close(a, polls % 2 ? GLI_MESSAGE_BYE : 0, NULL, 0);
  }
  drive_farewell(w, 0);
  drive_farewell(w, 1);
  bat_settle(w);
}

static void close_in_the_middle_of_a_message(void **state) {
  enum { BYTES = 24 << 20 };
  bat_world *w = *state;
  for (int who = 0; who < 2; who++) {
    bat_pair *a, *b;
    bat_connect(w, 0, 1, &a, &b);
    bat_send_filled(a, 0, BYTES, 3);
    BAT_DRIVE(w, b->n_in == 1);
    bat_close(who ? a : b, 0, NULL, 0);
    if (who == 1) BAT_DRIVE(w, b->failed == 1);
    bat_settle(w);
    if (b->n_received == 1) bat_assert_message(b, 0, BYTES, 3);
    bat_close(who ? b : a, 0, NULL, 0);
  }
}

static void both_say_bye_at_once(void **state) {
  bat_world *w = *state;
  for (int polls = 0; polls < 10; polls++) {
    bat_pair *a, *b;
    bat_connect(w, 0, 1, &a, &b);
    bat_send_filled(a, 0, 1000, 1);
    BAT_DRIVE(w, b->n_received == 1);
    bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
    for (int i = 0; i < polls; i++) bat_poll_end(w, 1);
    bat_close(b, GLI_MESSAGE_BYE, NULL, 0);
    drive_farewell(w, 0);
    drive_farewell(w, 1);
    assert_int_equal(a->failed + b->failed, 0);
  }
}

static void farewell_to_nobody_ends(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  bat_close_end(w, 1);
  bat_open(a);
  bat_send_filled(a, 0, 100000, 1);
  bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
  drive_farewell(w, 0);
}

static void end_point_closes_with_farewells_under_way(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  for (uint32_t i = 0; i < 5; i++) bat_send_filled(a, 0, size_of(i), i);
  BAT_DRIVE(w, a->again.next_post == &a->again);
  drive_farewell(w, 0);
  BAT_DRIVE(w, b->n_received == 5);
  /* The other end is not polled while this one closes, so all streams must be
   * up before. */
  bat_settle(w);
  bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
  bat_close_end(w, 0);
  BAT_DRIVE(w, b->n_received == 6);
  assert_all_intact(b);
  assert_int_equal(last_header(b)->type, GLI_MESSAGE_BYE);
  bat_settle(w);
  assert_int_equal(b->failed, 0);
}

static gloo_status refuse_third(bat_pair *p, const gli_header *header,
                                gli_sink *sink) {
  if (header->operation == 2) return GLOO_ERR_PROTOCOL;
  uint8_t *block = bat_memory(p->world, (size_t)header->length + 1);
  p->in[p->n_in - 1].data = block + 1;
  sink->dst = block + 1;
  return GLOO_OK;
}

static void refused_header_stops_its_pair_only(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b, *c, *d;
  bat_connect(w, 0, 1, &a, &b);
  bat_connect(w, 2, 1, &c, &d);
  b->sink = refuse_third;
  for (uint32_t i = 0; i < 10; i++) bat_send_filled(a, 0, size_of(i), i);
  BAT_DRIVE(w, b->stopped);
  assert_int_equal(b->n_in, 3);
  bat_send_filled(c, 0, 1000, 1);
  BAT_DRIVE(w, d->n_received == 1);
  bat_settle(w);
  assert_int_equal(b->n_in, 3);
  bat_close(b, GLI_MESSAGE_ABORT, "no", 2);
  BAT_DRIVE(w, a->failed == 1 || (a->n_in == 1 && a->n_received == 1));
  if (a->failed == 0) {
    assert_int_equal(last_header(a)->type, GLI_MESSAGE_ABORT);
  }
}

static void ranks_may_connect_again(void **state) {
  bat_world *w = *state;
  for (uint64_t i = 0; i < 20; i++) {
    bat_pair *a, *b;
    bat_connect(w, 0, 1, &a, &b);
    bat_send_filled(b, 0, 3000, i);
    BAT_DRIVE(w, a->n_received == 1);
    bat_assert_message(a, 0, 3000, i);
    bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
    BAT_DRIVE(w, b->n_received == 1);
    bat_close(b, GLI_MESSAGE_BYE, NULL, 0);
  }
  drive_farewell(w, 0);
  drive_farewell(w, 1);
}

int bat_run_close_tests(void *variant) {
  struct CMUnitTest tests[] = {
      BAT_TEST(bye_follows_everything_that_was_taken),
      BAT_TEST(bye_reaches_a_peer_that_was_not_there_yet),
      BAT_TEST(abort_arrives_with_its_payload),
      BAT_TEST(close_without_a_word_is_a_failure),
      BAT_TEST(closed_end_point_fails_its_peers),
      BAT_TEST(closed_pair_hears_and_touches_nothing),
      BAT_TEST(close_in_the_middle_of_a_message),
      BAT_TEST(both_say_bye_at_once),
      BAT_TEST(farewell_to_nobody_ends),
      BAT_TEST(end_point_closes_with_farewells_under_way),
      BAT_TEST(refused_header_stops_its_pair_only),
      BAT_TEST(ranks_may_connect_again),
  };
  return bat_run("close", tests, sizeof tests / sizeof tests[0], variant);
}
