/* Addresses, connecting from either side, refusing. */
#include "battery.h"

static void address_fits_and_is_its_own(void **state) {
  bat_world *w = *state;
  const gli_address *a = &w->ends[0].address, *b = &w->ends[1].address;
  assert_in_range(a->bytes, 1, GLI_ADDRESS_MAX);
  assert_in_range(b->bytes, 1, GLI_ADDRESS_MAX);
  assert_false(a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
  gli_address again;
  w->variant->ops->address(w->ends[0].t, &again);
  assert_int_equal(again.bytes, a->bytes);
  assert_memory_equal(again.data, a->data, a->bytes);
}

static void clock_does_not_run_backwards(void **state) {
  bat_world *w = *state;
  uint64_t last = w->variant->ops->now_ns(w->ends[0].t);
  for (int i = 0; i < 1000; i++) {
    uint64_t now = w->variant->ops->now_ns(w->ends[i % 2].t);
    assert_true(now >= last);
    last = now;
  }
}

static void idle_poll_returns_nothing(void **state) {
  bat_world *w = *state;
  bat_settle(w);
  assert_int_equal(bat_poll(w), 0);
  assert_int_equal(w->ends[0].owed, 0);
}

static void exchange(bat_world *w, bat_pair *a, bat_pair *b) {
  BAT_DRIVE(w, a->n_received == 1 && b->n_received == 1);
  bat_settle(w);
  assert_int_equal(a->n_in, 1);
  assert_int_equal(b->n_in, 1);
  bat_assert_message(b, 0, 100, 1);
  bat_assert_message(a, 0, 200, 2);
}

static void one_side_connects_and_both_talk(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  bat_open(a);
  bat_send_filled(a, 0, 100, 1);
  BAT_DRIVE(w, b->n_received == 1);
  bat_send_filled(b, 0, 200, 2);
  exchange(w, a, b);
}

/* The second side opens after any number of polls of either end, so that the
 * two connections cross in every possible way. */
static void both_connect_and_end_up_with_one_connection(void **state) {
  bat_world *w = *state;
  for (int polls = 0; polls < 24; polls++) {
    bat_pair *a, *b;
    bat_link(w, 0, 1, &a, &b);
    bat_open(a);
    bat_send_filled(a, 0, 100, 1);
    for (int i = 0; i < polls; i++) bat_poll_end(w, (i + polls) % 3 == 0);
    if (b->pair == NULL) bat_open(b);
    bat_send_filled(b, 0, 200, 2);
    exchange(w, a, b);
    assert_int_equal(a->failed + b->failed, 0);
  }
}

static void many_pairs_between_two_ends_do_not_mix(void **state) {
  enum { PAIRS = 12 };
  bat_world *w = *state;
  bat_pair *a[PAIRS], *b[PAIRS];
  for (int i = 0; i < PAIRS; i++) {
    bat_link(w, 0, 1, &a[i], &b[i]);
    bat_open(i % 2 ? a[i] : b[i]);
    if (i % 3 == 0) bat_open(i % 2 ? b[i] : a[i]);
  }
  for (int i = 0; i < PAIRS; i++) {
    BAT_DRIVE(w, a[i]->pair && b[i]->pair);
    bat_send_filled(a[i], 0, 1000, (uint64_t)i);
    bat_send_filled(b[i], 0, 50, (uint64_t)i + 100);
  }
  for (int i = 0; i < PAIRS; i++) {
    BAT_DRIVE(w, a[i]->n_received == 1 && b[i]->n_received == 1);
    bat_assert_message(b[i], 0, 1000, (uint64_t)i);
    bat_assert_message(a[i], 0, 50, (uint64_t)i + 100);
  }
}

static void three_ends_all_talk(void **state) {
  bat_world *w = *state;
  bat_pair *pairs[3][2];
  for (int i = 0; i < 3; i++) {
    bat_link(w, i, (i + 1) % 3, &pairs[i][0], &pairs[i][1]);
    bat_open(pairs[i][i % 2]);
  }
  for (int i = 0; i < 3; i++) {
    BAT_DRIVE(w, pairs[i][0]->pair && pairs[i][1]->pair);
    bat_send_filled(pairs[i][0], 0, 70000, (uint64_t)i);
    bat_send_filled(pairs[i][1], 0, 7, (uint64_t)i + 10);
  }
  for (int i = 0; i < 3; i++) {
    BAT_DRIVE(w, pairs[i][0]->n_received && pairs[i][1]->n_received);
    bat_assert_message(pairs[i][1], 0, 70000, (uint64_t)i);
    bat_assert_message(pairs[i][0], 0, 7, (uint64_t)i + 10);
  }
}

/* Two ranks whose contexts share a device. */
static void an_end_talks_to_itself(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 0, &a, &b);
  a->config.self_rank = b->config.peer_rank = 4;
  a->config.peer_rank = b->config.self_rank = 5;
  bat_open(a);
  bat_send_filled(a, 0, 100, 1);
  BAT_DRIVE(w, b->n_received == 1);
  bat_send_filled(b, 0, 200, 2);
  exchange(w, a, b);

  bat_link(w, 0, 0, &a, &b);
  a->config.self_rank = b->config.peer_rank = 7;
  a->config.peer_rank = b->config.self_rank = 6;
  bat_open(a);
  bat_open(b);
  bat_send_filled(a, 0, 100, 1);
  bat_send_filled(b, 0, 200, 2);
  exchange(w, a, b);
}

static void unknown_key_is_refused_and_the_others_go_on(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b, *c, *d;
  bat_link(w, 0, 1, &a, &b);
  a->config.remote_key ^= 1;
  bat_open(a);
  bat_send_filled(a, 0, 100, 1);
  BAT_DRIVE(w, a->failed == 1);
  assert_int_equal(a->cause.status, GLOO_ERR_PEER);
  assert_int_equal(a->cause.rank, 1);
  assert_null(b->pair);
  assert_int_equal(w->ends[1].accepts > 0, 1);

  bat_connect(w, 2, 1, &c, &d);
  bat_send_filled(c, 0, 10, 3);
  BAT_DRIVE(w, d->n_received == 1);
  bat_assert_message(d, 0, 10, 3);
}

static void refused_rank_is_told(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  b->expected = false;
  bat_open(a);
  BAT_DRIVE(w, a->failed == 1);
  assert_int_equal(a->cause.rank, 1);
}

static void closed_end_point_is_reported_with_its_rank(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  bat_close_end(w, 1);
  bat_open(a);
  bat_send_filled(a, 0, 100, 1);
  BAT_DRIVE(w, a->failed == 1);
  assert_int_equal(a->cause.rank, 1);
  assert_int_equal(a->cause.status, GLOO_ERR_PEER);
  bat_send_filled(a, 0, 100000, 1);
  bat_settle(w);
}

static void address_that_is_none_is_an_error(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  a->config.address.bytes = 0;
  gloo_error error = {0};
  gloo_status status =
      w->variant->ops->pair_open(w->ends[0].t, &a->config, &a->pair, &error);
  if (status == GLOO_OK) {
    BAT_DRIVE(w, a->failed == 1);
    return;
  }
  a->pair = NULL;
  assert_int_equal(error.status, status);
  assert_true(error.message[0] != '\0');
}

int bat_run_connect_tests(void *variant) {
  struct CMUnitTest tests[] = {
      BAT_TEST(address_fits_and_is_its_own),
      BAT_TEST(clock_does_not_run_backwards),
      BAT_TEST(idle_poll_returns_nothing),
      BAT_TEST(one_side_connects_and_both_talk),
      BAT_TEST(both_connect_and_end_up_with_one_connection),
      BAT_TEST(many_pairs_between_two_ends_do_not_mix),
      BAT_TEST(three_ends_all_talk),
      BAT_TEST(an_end_talks_to_itself),
      BAT_TEST(unknown_key_is_refused_and_the_others_go_on),
      BAT_TEST(refused_rank_is_told),
      BAT_TEST(closed_end_point_is_reported_with_its_rank),
      BAT_TEST(address_that_is_none_is_an_error),
  };
  return bat_run("connect", tests, sizeof tests / sizeof tests[0], variant);
}
