/* Messages that count as sent must reach the peer even if their sender polls
 * only while its pairs owe something. */
#include "battery.h"

enum { MESSAGES = 12, PATIENCE_MS = 100000 };

static size_t size_of(uint32_t i) {
  static const size_t sizes[] = {0, 4, 500, 4000, 16000, 70000};
  return sizes[i % (sizeof sizes / sizeof sizes[0])];
}

/* Returns true if an engine would poll here with no operation waiting for the
 * peer. */
static bool is_needed(const bat_world *w, const bat_pair *p) {
  return w->ends[p->end].owed > 0 || p->n_done < p->n_posted;
}

/* Polls `here` until it has `n` messages, and `away` only while it is
 * needed. */
static void drive_away(bat_world *w, const bat_pair *away, const bat_pair *here,
                       size_t n) {
  for (int waited_ms = 0; here->n_received < n; bat_check(w)) {
    int events = bat_poll_end(w, here->end);
    if (is_needed(w, away)) events += bat_poll_end(w, away->end);
    if (w->variant->idle) w->variant->idle(w->simulation);
    if (events > 0) continue;
    if (!w->variant->idle) uv_sleep(1);
    if (++waited_ms > PATIENCE_MS) fail_msg("a message stays with its sender");
  }
}

static void assert_intact(const bat_pair *p, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) bat_assert_message(p, i, size_of(i), i);
}

/* The first message is sent after any number of polls, at any point of
 * connecting. */
static void send_and_leave(bat_world *w, int from, int polls, bool both_open) {
  bat_pair *a, *b;
  bat_link(w, from, 1 - from, &a, &b);
  bat_open(a);
  if (both_open) bat_open(b);
  for (int i = 0; i < polls; i++) bat_poll_end(w, i % 2);
  uint32_t n = 1 + (uint32_t)polls % MESSAGES;
  for (uint32_t i = 0; i < n; i++) bat_send_filled(a, 0, size_of(i), i);
  drive_away(w, a, b, n);
  assert_intact(b, n);
  BAT_DRIVE(w, w->ends[from].owed == 0);
  for (uint32_t i = 0; i < n; i++) {
    bat_send_filled(a, 0, size_of(i), i);
    drive_away(w, a, b, n + i + 1);
  }
  bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
  drive_away(w, a, b, 2 * n + 1);
  bat_close(b, GLI_MESSAGE_BYE, NULL, 0);
}

static void first_messages_arrive_without_their_sender(void **state) {
  bat_world *w = *state;
  for (int polls = 0; polls < 24; polls++) {
    send_and_leave(w, 0, polls, polls % 3 == 1);
    send_and_leave(w, 1, polls, polls % 3 == 2);
  }
}

/* The closed pair's end is polled only while the pair owes something. */
static void farewell_arrives_without_its_sender(void **state) {
  bat_world *w = *state;
  for (int polls = 0; polls < 12; polls++) {
    bat_pair *a, *b;
    bat_link(w, 0, 1, &a, &b);
    bat_open(a);
    for (int i = 0; i < polls; i++) bat_poll_end(w, i % 2);
    for (uint32_t i = 0; i < MESSAGES; i++) {
      bat_send_filled(a, 0, size_of(i), i);
    }
    BAT_DRIVE(w, a->again.next_post == &a->again); /* all taken */
    bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
    a->n_done = a->n_posted; /* the pair owns them now */
    drive_away(w, a, b, MESSAGES + 1);
    assert_intact(b, MESSAGES);
    bat_close(b, GLI_MESSAGE_BYE, NULL, 0);
  }
}

static void quiet_pairs_owe_nothing(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  bat_open(a);
  assert_int_equal(w->ends[0].owed, 0);
  bat_send_filled(a, 0, 100, 1);
  BAT_DRIVE(w, b->n_received == 1 && a->n_done == 1);
  BAT_DRIVE(w, w->ends[0].owed == 0 && w->ends[1].owed == 0);
  bat_send_filled(a, 0, 100, 1);
  bat_send_filled(b, 0, 100, 1);
  assert_int_equal(w->ends[0].owed + w->ends[1].owed, 0);
  BAT_DRIVE(w, b->n_received == 2 && a->n_received == 1);
}

int bat_run_owed_tests(void *variant) {
  struct CMUnitTest tests[] = {
      BAT_TEST(first_messages_arrive_without_their_sender),
      BAT_TEST(farewell_arrives_without_its_sender),
      BAT_TEST(quiet_pairs_owe_nothing),
  };
  return bat_run("owed", tests, sizeof tests / sizeof tests[0], variant);
}
