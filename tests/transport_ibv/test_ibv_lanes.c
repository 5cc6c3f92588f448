/* Lanes of pairs: their end, and their completion events. The ends are device objects of one process, as in the
 * battery, and each has three ports. Run with the stand-in in LD_LIBRARY_PATH,
 * and with GLOO_IBV_RAILS=3. Argument: pattern of the tests to run; optional. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "battery.h"
#include "transport_ibv/ibv.h"

enum {
  RAILS = 3,
  ALL = (1 << RAILS) - 1, /* lanes, as bits */
  LONG = 1 << 20,         /* above GLOO_IBV_RAILS_MIN */
  HANGS_S = 60
};

static gli_ibv_pair *inner(const bat_pair *pair) {
  return (gli_ibv_pair *)pair->pair;
}

static gli_ibv *end_of(const bat_world *w, int end) {
  return (gli_ibv *)w->ends[end].t;
}

static uint32_t lanes_up(const bat_pair *pair) {
  const gli_ibv_lanes *lanes = inner(pair)->lanes;
  return lanes != NULL ? lanes->up : 0;
}

static bool all_up(bat_pair *const *pairs, int n) {
  for (int i = 0; i < n; i++)
    if (lanes_up(pairs[i]) != ALL || inner(pairs[i])->lanes->far_up != ALL)
      return false;
  return true;
}

/* Connects pairs between ends 0 and 1. */
static void connect_pairs(bat_world *w, int n, bat_pair **a, bat_pair **b) {
  for (int i = 0; i < n; i++) {
    bat_connect(w, 0, 1, &a[i], &b[i]);
    BAT_DRIVE(w, inner(a[i])->way >= GLI_IBV_BY_VERBS &&
                     inner(b[i])->way >= GLI_IBV_BY_VERBS);
    assert_int_equal(inner(a[i])->way, GLI_IBV_BY_VERBS);
  }
}

/* The first long message takes another way, and begins to set up lanes. */
static void connect_lanes(bat_world *w, bat_pair **a, bat_pair **b) {
  connect_pairs(w, 1, a, b);
  bat_send_filled(*a, 0, LONG, 1);
  BAT_DRIVE(w, (*b)->n_received == 1 && all_up(a, 1) && all_up(b, 1));
  bat_assert_message(*b, 0, LONG, 1);
}

/* ---- sleeping ------------------------------------------------------------ */

/* The reader sleeps without a limit, and only the completions of its reads wake
 * it: the sender is not polled. */
static void sleepers_wake_for_each_completion(void **state) {
  enum { BYTES = 6 << 20, SLEEPS = 3 };
  bat_world *w = *state;
  bat_pair *a, *b;
  unsigned sleeps = 0;
  connect_lanes(w, &a, &b);
  bat_send_filled(a, 0, BYTES, 2);
  BAT_DRIVE(w, inner(b)->in[0].used);
  assert_int_equal(inner(b)->in[0].mode, GLI_IBV_READS);
  alarm(HANGS_S);
  while (b->n_received < 2) {
    if (bat_poll_end(w, 1) > 0) continue;
    gli_transport_sleep(w->ends[1].t, -1);
    sleeps++;
  }
  alarm(0);
  assert_true(sleeps >= SLEEPS);
  bat_assert_message(b, 1, BYTES, 2);
  BAT_DRIVE(w, a->n_done == 2);
}

/* ---- closing ------------------------------------------------------------- */

/* Sends a payload, and returns once the other end reads it and has not yet
 * finished. */
static void begin_to_read(bat_world *w, bat_pair *a, bat_pair *b,
                          size_t bytes) {
  size_t before = b->n_in;
  bat_send_filled(a, 0, bytes, 3);
  BAT_DRIVE(w, b->n_in > before);
  const gli_ibv_fetch *fetch = &inner(b)->lanes->fetch[0];
  assert_true(fetch->begun > 0 && fetch->done < fetch->bytes);
  assert_true(inner(a)->out[0].offered);
}

/* The payload belongs to the sender again once it has closed the pair, which
 * does not wait for the reader. */
static void a_payload_arrives_though_its_sender_has_left(void **state) {
  enum { BYTES = 4 << 20 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_lanes(w, &a, &b);
  begin_to_read(w, a, b, BYTES);
  bat_close(a, GLI_MESSAGE_BYE, NULL, 0);
  BAT_DRIVE(w, b->n_received == 3); /* also BYE */
  bat_assert_message(b, 1, BYTES, 3);
  assert_null(inner(b)->lanes);
  assert_int_equal(b->failed, 0);
  BAT_DRIVE(w, end_of(w, 0)->pairs == NULL);
  assert_null(end_of(w, 0)->rails.lanes);
}

/* A reader that leaves loses what it reads, and not what it has sent. */
static void messages_of_a_reader_that_leaves_arrive(void **state) {
  enum { BYTES = 4 << 20, SHORT = 9000 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_lanes(w, &a, &b);
  begin_to_read(w, a, b, BYTES);
  for (uint64_t i = 0; i < GLI_IBV_SLOTS; i++) bat_send_filled(b, 0, SHORT, i);
  bat_close(b, GLI_MESSAGE_BYE, NULL, 0);
  BAT_DRIVE(w, a->n_received == GLI_IBV_SLOTS + 1);
  for (uint64_t i = 0; i < GLI_IBV_SLOTS; i++)
    bat_assert_message(a, (size_t)i, SHORT, i);
  assert_int_equal(a->failed, 0);
}

int main(int argc, char **argv) {
  static const bat_variant variant = {.name = "ibv_lanes",
                                      .ops = &gli_transport_ibv,
                                      .host = "127.0.0.1",
                                      .streams = 1,
                                      .registered = true};
  struct CMUnitTest tests[] = {
      BAT_TEST(sleepers_wake_for_each_completion),
      BAT_TEST(a_payload_arrives_though_its_sender_has_left),
      BAT_TEST(messages_of_a_reader_that_leaves_arrive),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return bat_run("ibv_lanes", tests, sizeof tests / sizeof tests[0],
                 (void *)(uintptr_t)&variant);
}
