/* Sleeping and waking, and ends that are driven by their own threads. Each end
 * has a lock, as the engine has; every function but sleep, wake and now_ns is
 * called with it held. */
#include <stdlib.h>

#include "battery.h"

/* ---- sleep and wake ------------------------------------------------------ */

static void sleep_ends_with_its_timeout(void **state) {
  bat_world *w = *state;
  const gli_transport_ops *ops = w->variant->ops;
  bat_settle(w);
  ops->sleep(w->ends[0].t, 0);
  ops->sleep(w->ends[0].t, 1);
  ops->sleep(w->ends[0].t, 20000000);
}

static void wake_before_sleep_is_not_lost(void **state) {
  bat_world *w = *state;
  const gli_transport_ops *ops = w->variant->ops;
  for (int i = 0; i < 100; i++) {
    ops->wake(w->ends[0].t);
    ops->sleep(w->ends[0].t, -1);
  }
}

typedef struct sleeper {
  bat_world *w;
  atomic_int round; /* the waker's */
  atomic_int seen;
  uv_thread_t thread;
} sleeper;

enum { ROUNDS = 500 };

static void sleep_each_round(void *arg) {
  sleeper *s = arg;
  for (int i = 1; i <= ROUNDS; i++) {
    while (atomic_load(&s->round) < i) {
      s->w->variant->ops->sleep(s->w->ends[0].t, -1);
    }
    atomic_store(&s->seen, i);
  }
}

static void wake_from_another_thread_ends_sleep(void **state) {
  bat_world *w = *state;
  sleeper s = {.w = w};
  assert_int_equal(uv_thread_create(&s.thread, sleep_each_round, &s), 0);
  for (int i = 1; i <= ROUNDS; i++) {
    atomic_store(&s.round, i);
    w->variant->ops->wake(w->ends[0].t);
    while (i % 2 && atomic_load(&s.seen) < i) uv_sleep(0);
  }
  uv_thread_join(&s.thread);
}

static void sleep_once(void *arg) {
  sleeper *s = arg;
  atomic_fetch_add(&s->seen, 1);
  while (atomic_load(&s->round) == 0) {
    s->w->variant->ops->sleep(s->w->ends[0].t, -1);
  }
}

static void wake_ends_all_sleeps(void **state) {
  bat_world *w = *state;
  sleeper s = {.w = w};
  uv_thread_t threads[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(uv_thread_create(&threads[i], sleep_once, &s), 0);
  }
  while (atomic_load(&s.seen) < 3) uv_sleep(1);
  uv_sleep(10);
  atomic_store(&s.round, 1);
  /* A thread that was not yet asleep is woken too: a wake that finds no sleeper
   * is kept for the next one. */
  for (int i = 0; i < 3; i++) {
    w->variant->ops->wake(w->ends[0].t);
    uv_thread_join(&threads[i]);
  }
}

/* ---- ends with threads --------------------------------------------------- */

typedef struct driver {
  bat_world *w;
  int end;
  bool (*finished)(const struct driver *d);
  size_t target;
  bat_pair *pairs[2];
  int n_pairs;
  uv_thread_t thread;
} driver;

static void drive(void *arg) {
  driver *d = arg;
  bat_end *end = &d->w->ends[d->end];
  for (bool done = false; !done && !atomic_load(&d->w->complaint);) {
    uv_mutex_lock(&end->lock);
    int events = bat_poll_end(d->w, d->end);
    done = d->finished(d);
    uv_mutex_unlock(&end->lock);
    if (events == 0 && !done) d->w->variant->ops->sleep(end->t, 1000000000);
  }
}

static bool all_received(const driver *d) {
  for (int i = 0; i < d->n_pairs; i++) {
    const bat_pair *p = d->pairs[i];
    if (p->n_received < d->target || p->n_done < p->n_posted) return false;
  }
  return true;
}

static void start(driver *d) {
  assert_int_equal(uv_thread_create(&d->thread, drive, d), 0);
}

static void echo(bat_pair *p, const gli_header *header) {
  if (header->operation >= 2000) return;
  bat_send_filled(p, 0, header->operation % 50 == 0 ? 50000 : 8, 0);
}

static void data_wakes_a_sleeping_end(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  a->on_received = b->on_received = echo;
  bat_send_filled(a, 0, 8, 0);
  driver da = {w, 0, all_received, 2000, {a}, 1, 0};
  driver db = {w, 1, all_received, 2000, {b}, 1, 0};
  start(&da);
  start(&db);
  uv_thread_join(&da.thread);
  uv_thread_join(&db.thread);
  bat_check(w);
}

static void three_threads_exchange_at_once(void **state) {
  enum { MESSAGES = 400 };
  bat_world *w = *state;
  driver d[3];
  for (int i = 0; i < 3; i++) {
    d[i] = (driver){w, i, all_received, MESSAGES, {NULL}, 0, 0};
  }
  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3;
    bat_pair *a, *b;
    bat_connect(w, i, j, &a, &b);
    d[i].pairs[d[i].n_pairs++] = a;
    d[j].pairs[d[j].n_pairs++] = b;
  }
  for (int i = 0; i < 3; i++) start(&d[i]);
  for (uint32_t m = 0; m < MESSAGES; m++) {
    for (int i = 0; i < 3; i++) {
      uv_mutex_lock(&w->ends[i].lock);
      for (int k = 0; k < 2; k++) {
        bat_send_filled(d[i].pairs[k], 0, m % 20 ? m : 90000 + m, m);
      }
      uv_mutex_unlock(&w->ends[i].lock);
    }
  }
  for (int i = 0; i < 3; i++) uv_thread_join(&d[i].thread);
  bat_check(w);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 2; k++) {
      assert_int_equal(d[i].pairs[k]->n_received, MESSAGES);
      for (uint32_t m = 0; m < MESSAGES; m++) {
        bat_assert_message(d[i].pairs[k], m, m % 20 ? m : 90000 + m, m);
      }
    }
  }
}

/* ---- closing while the other side reads ---------------------------------- */

static bool peer_ended(const driver *d) {
  const bat_pair *p = d->pairs[0];
  if (p->failed > 0) return true;
  if (p->n_received == 0 || !p->in[p->n_in - 1].received) return false;
  uint8_t last = p->in[p->n_in - 1].header.type;
  if (last == GLI_MESSAGE_ABORT) return true; /* may cut a message short */
  return last == GLI_MESSAGE_BYE && p->n_received == p->n_in;
}

/* The sender closes, and poisons and frees its payloads, while the receiver's
 * thread is somewhere among them. What was received whole must be right. */
static void sender_closes_while_the_receiver_reads(void **state) {
  static const int types[] = {0, GLI_MESSAGE_BYE, GLI_MESSAGE_ABORT};
  bat_world *w = *state;
  for (unsigned round = 0; round < 45; round++) {
    bat_pair *a, *b;
    bat_connect(w, 0, 1, &a, &b);
    driver d = {w, 1, peer_ended, 0, {b}, 1, 0};
    start(&d);
    for (uint32_t i = 0; i < 4; i++) bat_send_filled(a, i, 400000, i);
    for (unsigned i = 0; i < round * 2000; i++) {
      if (i % 100 == 0) bat_poll_end(w, 0);
      atomic_load(&w->complaint);
    }
    bat_close(a, types[round % 3], "why",
              types[round % 3] == GLI_MESSAGE_ABORT ? 3 : 0);
    while (w->ends[0].owed > 0) bat_poll_end(w, 0);
    uv_thread_join(&d.thread);
    bat_check(w);
    for (size_t i = 0; i < b->n_in; i++) {
      if (b->in[i].header.type != GLI_MESSAGE_DATA || !b->in[i].received) {
        continue;
      }
      bat_assert_message(b, i, 400000, b->in[i].header.slot);
    }
    bat_close(b, 0, NULL, 0);
  }
}

/* Both sides open, talk and close at the same time, from their own threads. */
typedef struct life {
  bat_world *w;
  bat_pair *pair;
  uv_thread_t thread;
} life;

static void live(void *arg) {
  life *l = arg;
  bat_pair *p = l->pair;
  bat_end *end = &l->w->ends[p->end];
  uv_mutex_lock(&end->lock);
  if (p->pair == NULL) bat_open(p);
  for (uint32_t i = 0; i < 10; i++) bat_send_filled(p, 0, i * 5000, i);
  while (!atomic_load(&l->w->complaint) &&
         (p->n_received < 10 || p->n_done < 10)) {
    int events = bat_poll_end(l->w, p->end);
    uv_mutex_unlock(&end->lock);
    if (events == 0) l->w->variant->ops->sleep(end->t, 1000000000);
    uv_mutex_lock(&end->lock);
  }
  bat_close(p, GLI_MESSAGE_BYE, NULL, 0);
  uv_mutex_unlock(&end->lock);
}

static void threads_open_talk_and_close_at_once(void **state) {
  bat_world *w = *state;
  for (int round = 0; round < 60; round++) {
    life a = {.w = w}, b = {.w = w};
    bat_link(w, 0, 1, &a.pair, &b.pair);
    assert_int_equal(uv_thread_create(&a.thread, live, &a), 0);
    assert_int_equal(uv_thread_create(&b.thread, live, &b), 0);
    uv_thread_join(&a.thread);
    uv_thread_join(&b.thread);
    while (w->ends[0].owed + w->ends[1].owed > 0) {
      bat_poll_end(w, 0);
      bat_poll_end(w, 1);
    }
    bat_check(w);
    assert_true(a.pair->n_received >= 10 && b.pair->n_received >= 10);
    for (uint32_t i = 0; i < 10; i++) {
      bat_assert_message(a.pair, i, i * 5000, i);
      bat_assert_message(b.pair, i, i * 5000, i);
    }
    assert_int_equal(a.pair->failed + b.pair->failed, 0);
  }
}

/* One side opens, sends, leaves and closes its end point before the other has
 * done anything at all. */
static void flee(void *arg) {
  life *l = arg;
  bat_pair *p = l->pair;
  bat_open(p);
  for (uint32_t i = 0; i < 5; i++) bat_send_filled(p, 0, i * 50, i);
  while (p->again.next_post != &p->again) bat_poll_end(l->w, p->end);
  bat_close(p, GLI_MESSAGE_BYE, NULL, 0);
  bat_close_end(l->w, p->end);
}

static void farewell_outlives_its_end_point(void **state) {
  bat_world *w = *state;
  life l = {.w = w};
  bat_pair *b;
  bat_link(w, 0, 1, &l.pair, &b);
  assert_int_equal(uv_thread_create(&l.thread, flee, &l), 0);
  while (b->n_received < 6 && b->failed == 0) {
    if (bat_poll_end(w, 1) == 0) w->variant->ops->sleep(w->ends[1].t, 1000000);
  }
  uv_thread_join(&l.thread);
  bat_check(w);
  assert_int_equal(b->failed, 0);
  for (uint32_t i = 0; i < 5; i++) bat_assert_message(b, i, i * 50, i);
  assert_int_equal(b->in[5].header.type, GLI_MESSAGE_BYE);
}

int bat_run_thread_tests(void *variant) {
  struct CMUnitTest tests[] = {
      BAT_TEST(sleep_ends_with_its_timeout),
      BAT_TEST(wake_before_sleep_is_not_lost),
      BAT_TEST(wake_from_another_thread_ends_sleep),
      BAT_TEST(wake_ends_all_sleeps),
      BAT_TEST(data_wakes_a_sleeping_end),
      BAT_TEST(three_threads_exchange_at_once),
      BAT_TEST(sender_closes_while_the_receiver_reads),
      BAT_TEST(threads_open_talk_and_close_at_once),
      BAT_TEST(farewell_outlives_its_end_point),
  };
  return bat_run("thread", tests, sizeof tests / sizeof tests[0], variant);
}
