/* Messages that take_now takes, instead of poll. */
#include "battery.h"

enum { TRIES = 20 };
/* The lengths for which even real transports must not leave messages to
 * poll. */
enum { SHORT = 8 };

/* Tries to take a message, while time passes for all but its receiver. */
static bool take(bat_pair *from, bat_pair *to, const gli_header *expected,
                 gli_taken *taken) {
  bat_world *w = to->world;
  for (int i = 0; i < TRIES; i++) {
    if (w->variant->ops->take_now(to->pair, expected, taken)) return true;
    bat_poll_end(w, from->end);
    if (w->variant->idle) w->variant->idle(w->simulation);
  }
  return false;
}

/* Connects, and sends a message each way. */
static void connect_both(bat_world *w, bat_pair **a, bat_pair **b) {
  bat_connect(w, 0, 1, a, b);
  bat_send_filled(*a, 0, 5, 1);
  bat_send_filled(*b, 0, 5, 2);
  BAT_DRIVE(w, (*a)->n_received == 1 && (*b)->n_received == 1);
}

static gli_header header_of(uint64_t i) {
  return (gli_header){.type = GLI_MESSAGE_DATA,
                      .eager = i % 3 == 0,
                      .tuning = 1,
                      .collective = 2,
                      .dtype = 3,
                      .op = 4,
                      .algorithm = 5,
                      .context = 6,
                      .tag = 7,
                      .root = 8,
                      .credit = (uint32_t)(i * UINT32_C(0x9e3779b1)),
                      .operation = i,
                      .count = 9,
                      .length = i % (GLI_TAKE_BYTES + 1)};
}

/* The fields of the header that the receiver knows in advance. */
static gli_header expected_of(uint64_t i) {
  gli_header h = header_of(i);
  h.eager = 0;
  h.credit = 0;
  return h;
}

static void send_numbered(bat_pair *from, uint64_t i) {
  uint8_t data[GLI_TAKE_BYTES];
  gli_header h = header_of(i);
  bat_fill(data, (size_t)h.length, i);
  bat_send_header(from, &h, data);
}

static void check_taken(uint64_t i, const gli_taken *taken) {
  gli_header h = header_of(i);
  assert_true(bat_matches(taken->payload, (size_t)h.length, i));
  assert_int_equal(taken->credit, h.credit);
  assert_int_equal(taken->eager, h.eager);
}

/* Message `i` is the n-th that was polled; more may have followed. */
static void check_polled(bat_pair *to, size_t n, uint64_t i) {
  gli_header h = header_of(i);
  BAT_DRIVE(to->world, to->n_received >= n);
  bat_assert_message(to, n - 1, (size_t)h.length, i);
  assert_true(to->in[n - 1].header.operation == i);
  assert_int_equal(to->in[n - 1].header.credit, h.credit);
  assert_int_equal(to->in[n - 1].header.eager, h.eager);
}

/* Real transports deliver it at once; simulated ones may refuse. */
static void a_message_is_taken_or_polled_never_both(void **state) {
  enum { MESSAGES = 300 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  size_t polled = 1, taken = 0;
  for (uint64_t i = 0; i < MESSAGES; i++) {
    gli_taken got = {0};
    gli_header expected = expected_of(i);
    send_numbered(a, i);
    if (i % 4 == 0 || !take(a, b, &expected, &got)) {
      check_polled(b, ++polled, i);
      continue;
    }
    taken++;
    check_taken(i, &got);
    assert_false(w->variant->ops->take_now(b->pair, &expected, &got));
  }
  if (!w->variant->create) assert_int_equal(taken, MESSAGES * 3 / 4);
  bat_settle(w);
  assert_int_equal(b->n_in, polled);
  assert_int_equal(a->n_done, 1 + MESSAGES);
}

/* Changes the header word by word. */
static void only_the_expected_message_is_taken(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  gli_header wrong[14];
  for (int i = 0; i < 14; i++) wrong[i] = expected_of(1);
  wrong[0].tuning++;
  wrong[1].collective++;
  wrong[2].dtype++;
  wrong[3].op++;
  wrong[4].algorithm++;
  wrong[5].context++;
  wrong[6].tag++;
  wrong[7].slot++;
  wrong[8].root++;
  wrong[9].operation++;
  wrong[10].operation += UINT64_C(1) << 32;
  wrong[11].count++;
  wrong[12].length++;
  wrong[13].length--;
  send_numbered(a, 1);
  for (int i = 0; i < 14; i++) {
    gli_taken got;
    assert_false(take(a, b, &wrong[i], &got));
  }
  check_polled(b, 2, 1);
}

/* Sends something, and then a message that could be taken if it were first. */
static void check_second_waits(bat_world *w, bat_pair *a, bat_pair *b,
                               const gli_header *first) {
  static const uint8_t zeros[100000];
  size_t before = b->n_received;
  gli_header expected = expected_of(1);
  gli_taken got;
  bat_send_header(a, first, zeros);
  send_numbered(a, 1);
  assert_false(take(a, b, &expected, &got));
  BAT_DRIVE(w, b->n_received == before + 2);
  assert_int_equal(b->in[before].header.length, first->length);
  bat_assert_message(b, before + 1, (size_t)expected.length, 1);
}

static void nothing_is_taken_before_its_turn(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  gli_header other = header_of(7), longer = header_of(0), longest = longer;
  longer.length = 900;
  longest.length = 100000;
  gli_header rkey = {.type = GLI_MESSAGE_DATA,
                     .form = GLI_FORM_RKEY,
                     .length = GLI_RKEY_BYTES};
  gli_header control = {.type = GLI_MESSAGE_RTS, .operation = 1};
  const gli_header *const firsts[] = {&other, &longer, &longest, &rkey,
                                      &control};
  for (int i = 0; i < 5; i++) check_second_waits(w, a, b, firsts[i]);
}

/* The sender must learn what was taken, or it cannot send all messages. */
static void taking_makes_room(void **state) {
  enum { MESSAGES = 3000, AHEAD = 1000 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_both(w, &a, &b);
  uint64_t sent = 0;
  size_t polled = 1;
  for (uint64_t i = 0; i < MESSAGES; i++) {
    for (; sent < MESSAGES && sent < i + AHEAD; sent++) send_numbered(a, sent);
    gli_taken got;
    gli_header expected = expected_of(i);
    if (polled == b->n_received && take(a, b, &expected, &got)) {
      check_taken(i, &got);
    } else {
      assert_true(w->variant->create != NULL || expected.length > SHORT);
      check_polled(b, ++polled, i);
    }
  }
  BAT_DRIVE(w, a->n_done == 1 + MESSAGES);
  assert_int_equal(b->n_in, polled);
}

int bat_run_take_tests(void *variant) {
  struct CMUnitTest tests[] = {
      BAT_TEST(a_message_is_taken_or_polled_never_both),
      BAT_TEST(only_the_expected_message_is_taken),
      BAT_TEST(nothing_is_taken_before_its_turn),
      BAT_TEST(taking_makes_room),
  };
  return bat_run("take", tests, sizeof tests / sizeof tests[0], variant);
}
