/* Tests of memory and queues that pairs share: many pairs of one device, peers
 * that do not receive or send too much, and devices that lack something or are
 * slow. The ends are two or three device objects of one process, as in the
 * battery. Run with the stand-in in LD_LIBRARY_PATH.
 *
 * Without an argument: all tests of a device without limits; with one, those
 * whose names contain it. "fewer RDMA TEXT":
 * the device refuses something; at least so many of the pairs use RDMA, the
 * others TCP, and the reason contains the text. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "battery.h"
#include "transport_ibv/ibv.h"

enum {
  PAIRS = 1100, /* more than the completion queue has room for at first */
  LOCKED_MAX = 64 << 20,
  /* A pair's lane on a device; and for all pairs the buffers of this test, and
   * frames. */
  LANE_LOCKED_MAX = 4096,
  RAILS_USE_MAX = 6 << 20,
  /* Most of a frame, and an inline message. */
  LONG_BYTES = 7000,
  SHORT_BYTES = 40
};

static size_t (*standin_locked)(void);
static unsigned long (*standin_moved)(const char *name);
static unsigned long (*standin_refusals)(void);
static void (*standin_hold)(int calls);
static int (*standin_held)(void);
static int least_by_rdma = PAIRS, most_by_rdma = PAIRS;
static const char *why_not = "";

static void load_symbol(const char *name, void *function) {
  void *library = dlopen("libibverbs.so.1", RTLD_NOW);
  void *symbol = library != NULL ? dlsym(library, name) : NULL;
  if (symbol == NULL) {
    fprintf(stderr, "this needs the stand-in for libibverbs\n");
    exit(1);
  }
  memcpy(function, &symbol, sizeof symbol);
}

static gli_ibv_pair *inner(const bat_pair *pair) {
  return (gli_ibv_pair *)pair->pair;
}

static gli_ibv_shared *shared_of(const bat_world *w, int end) {
  return &((gli_ibv *)w->ends[end].t)->shared;
}

static bool is_decided(const bat_pair *pair) {
  char why[GLI_WHY_BYTES];
  return pair->pair != NULL && pair->pair->ops->route(pair->pair, why) != NULL;
}

static bool all_decided(bat_pair *const *pairs, int n) {
  for (int i = 0; i < n; i++)
    if (!is_decided(pairs[i])) return false;
  return true;
}

/* Connects `n` pairs between two ends, some at a time. */
static void connect_many(bat_world *w, int a, int b, int n, bat_pair **pa,
                         bat_pair **pb) {
  enum { AT_ONCE = 50 };
  for (int i = 0; i < n; i++) {
    bat_link(w, a, b, &pa[i], &pb[i]);
    bat_open(pa[i]);
    if (i % AT_ONCE == AT_ONCE - 1 || i == n - 1)
      BAT_DRIVE(w, all_decided(pa, i + 1) && all_decided(pb, i + 1));
  }
}

static int count_by_rdma(bat_pair *const *pairs, int n) {
  int by_rdma = 0;
  for (int i = 0; i < n; i++) {
    char why[GLI_WHY_BYTES];
    if (strcmp(pairs[i]->pair->ops->route(pairs[i]->pair, why), "RDMA") == 0)
      by_rdma++;
    else if (strstr(why, why_not) == NULL || why_not[0] == '\0')
      fail_msg("pair %d uses TCP: %s", i, why);
  }
  return by_rdma;
}

static bool all_received(bat_pair *const *pairs, int n, size_t messages) {
  for (int i = 0; i < n; i++)
    if (pairs[i]->n_received < messages) return false;
  return true;
}

static bool all_done(bat_pair *const *pairs, int n, size_t messages) {
  for (int i = 0; i < n; i++)
    if (pairs[i]->n_done < messages) return false;
  return true;
}

static void send_on_each(bat_pair *const *pairs, int n, int messages,
                         size_t bytes) {
  for (int i = 0; i < n; i++)
    for (int m = 0; m < messages; m++)
      bat_send_filled(pairs[i], 0, bytes, (uint64_t)(i + m));
}

static void assert_filled(bat_pair *const *pairs, int n, size_t first,
                          size_t messages, size_t bytes) {
  for (int i = 0; i < n; i++)
    for (size_t m = 0; m < messages; m++)
      bat_assert_message(pairs[i], first + m, bytes, (uint64_t)i + m);
}

/* ---- connecting ---------------------------------------------------------- */

static uint64_t heard_by(const bat_pair *pair) {
  return pair->pair->ops->heard(pair->pair);
}

/* Heartbeats wait like other messages, so the transport itself shows that its
 * rank lives. */
static void a_pair_that_is_being_connected_shows_life(void **state) {
  enum { RTR = 1, SIGNS = 3 }; /* as in standin.h */
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_link(w, 0, 1, &a, &b);
  standin_hold(RTR);
  bat_open(a);
  BAT_DRIVE(w, standin_held() == 2);
  for (int i = 0; i < SIGNS; i++) {
    uint64_t by_a = heard_by(a), by_b = heard_by(b);
    BAT_DRIVE(w, heard_by(a) > by_a && heard_by(b) > by_b);
  }
  assert_false(is_decided(a) || is_decided(b));
  standin_hold(0);
  BAT_DRIVE(w, is_decided(a) && is_decided(b));
  assert_int_equal(count_by_rdma(&a, 1), 1);
}

/* ---- many pairs ---------------------------------------------------------- */

/* All pairs are in use at once, both ways, with more than their credits. */
static void a_thousand_pairs_lock_little_memory(void **state) {
  enum { EACH = 18 };
  static bat_pair *a[PAIRS], *b[PAIRS];
  bat_world *w = *state;
  connect_many(w, 0, 1, PAIRS, a, b);
  int by_rdma = count_by_rdma(a, PAIRS);
  assert_int_equal(count_by_rdma(b, PAIRS), by_rdma);
  assert_in_range(by_rdma, least_by_rdma, most_by_rdma);
  const gli_ibv_port *port = &((gli_ibv *)w->ends[0].t)->port;
  assert_in_range(port->cq_entries, 1, port->cq->cqe); /* what is reserved */
  size_t idle = standin_locked();
  send_on_each(a, PAIRS, EACH, LONG_BYTES);
  send_on_each(b, PAIRS, EACH, LONG_BYTES);
  BAT_DRIVE(w, all_received(a, PAIRS, EACH) && all_received(b, PAIRS, EACH) &&
                   all_done(a, PAIRS, EACH) && all_done(b, PAIRS, EACH));
  assert_filled(a, PAIRS, 0, EACH, LONG_BYTES);
  assert_filled(b, PAIRS, 0, EACH, LONG_BYTES);
  printf("# %d pairs by RDMA lock %zu KiB, in use %zu KiB\n", by_rdma,
         idle >> 10, standin_locked() >> 10);
  assert_true(standin_locked() <= LOCKED_MAX);
}

/* ---- many pairs with rails ----------------------------------------------- */

enum { RAIL_BYTES = 32768, RAIL_PAIRS = 50 };

/* Memory of incoming messages, a slot for each end of RAIL_PAIRS pairs. */
static uint8_t *rail_memory;

static gloo_status sink_in_place(bat_pair *pair, const gli_header *header,
                                 gli_sink *sink) {
  const uint32_t *slot = pair->user;
  assert_int_equal(header->length, RAIL_BYTES);
  sink->dst = rail_memory + (size_t)*slot * RAIL_BYTES;
  return GLOO_OK;
}

static uint32_t lanes_both_ways(const bat_pair *pair) {
  const gli_ibv_lanes *lanes = inner(pair)->lanes;
  return lanes != NULL ? lanes->up & lanes->far_up : 0;
}

/* Passes a long message on each of some pairs, and checks it. */
static void pass_long(bat_world *w, bat_pair *const *from, bat_pair *const *to,
                      int n, uint64_t seed) {
  size_t before = to[0]->n_received;
  memset(rail_memory, 0, (size_t)2 * RAIL_PAIRS * RAIL_BYTES);
  for (int i = 0; i < n; i++)
    bat_send_filled(from[i], 0, RAIL_BYTES, seed + (uint64_t)i);
  BAT_DRIVE(w,
            all_received(to, n, before + 1) && all_done(from, n, before + 1));
  for (int i = 0; i < n; i++) {
    const uint32_t *slot = to[i]->user;
    assert_true(bat_matches(rail_memory + (size_t)*slot * RAIL_BYTES,
                            RAIL_BYTES, seed + (uint64_t)i));
  }
}

static bool all_have_lanes(bat_pair *const *pairs, int n) {
  for (int i = 0; i < n; i++)
    if (lanes_both_ways(pairs[i]) != 3) return false;
  return true;
}

/* Each pair has a lane on both ports, and has read over them both ways. */
static void a_thousand_pairs_with_rails_lock_little_memory(void **state) {
  static bat_pair *a[PAIRS], *b[PAIRS];
  static uint32_t slot[2 * RAIL_PAIRS];
  bat_world *w = *state;
  rail_memory = bat_memory(w, (size_t)2 * RAIL_PAIRS * RAIL_BYTES);
  connect_many(w, 0, 1, PAIRS, a, b);
  assert_int_equal(count_by_rdma(a, PAIRS), PAIRS);
  size_t without = standin_locked();
  for (int i = 0; i < PAIRS; i++) {
    uint32_t n = (uint32_t)(i % RAIL_PAIRS);
    a[i]->sink = b[i]->sink = sink_in_place;
    slot[n] = n;
    slot[n + RAIL_PAIRS] = n + RAIL_PAIRS;
    a[i]->user = &slot[n];
    b[i]->user = &slot[n + RAIL_PAIRS];
  }
  for (int i = 0; i < PAIRS; i += RAIL_PAIRS) {
    pass_long(w, &a[i], &b[i], RAIL_PAIRS, 1);
    BAT_DRIVE(w, all_have_lanes(&a[i], RAIL_PAIRS) &&
                     all_have_lanes(&b[i], RAIL_PAIRS));
  }
  unsigned long before = standin_moved("b");
  for (int i = 0; i < PAIRS; i += RAIL_PAIRS) {
    pass_long(w, &a[i], &b[i], RAIL_PAIRS, 2);
    pass_long(w, &b[i], &a[i], RAIL_PAIRS, 3);
  }
  assert_true(standin_moved("b") > before);
  size_t most = standin_locked();
  printf("# %d pairs lock %zu KiB of a device, with lanes %zu KiB\n", PAIRS,
         without >> 10, most >> 10);
  assert_true(most - without <=
              (size_t)PAIRS * LANE_LOCKED_MAX + RAILS_USE_MAX);
  assert_true(most <= LOCKED_MAX);
  bat_memory_free(rail_memory);
}

/* ---- flow control -------------------------------------------------------- */

/* One end does not poll, and has fewer buffers than the other may send to. */
static void frames_wait_for_buffers(void **state) {
  enum { N = 120, EACH = 12, ROUNDS = 2000 };
  bat_world *w = *state;
  bat_pair *a[N], *b[N];
  connect_many(w, 0, 1, N, a, b);
  uint32_t before = shared_of(w, 1)->buffers;
  assert_true(before < N * EACH);
  unsigned long refused = standin_refusals();
  send_on_each(a, N, EACH, LONG_BYTES);
  for (int i = 0; i < ROUNDS || standin_refusals() == refused; i++)
    (void)bat_poll_end(w, 0);
  BAT_DRIVE(w, all_received(b, N, EACH) && all_done(a, N, EACH));
  assert_filled(b, N, 0, EACH, LONG_BYTES);
  BAT_DRIVE(w, shared_of(w, 1)->buffers > before); /* the device tells */
}

/* More frames than all slots wait for a rank that does not poll. */
static void a_rank_that_does_not_receive_stops_no_other(void **state) {
  enum { N = 200, EACH = 16, GOOD = 100 };
  bat_world *w = *state;
  bat_pair *a[N], *b[N], *good[1], *other[1];
  connect_many(w, 0, 1, N, a, b);
  connect_many(w, 0, 2, 1, good, other);
  send_on_each(a, N, EACH, LONG_BYTES);
  for (int i = 0; i < 100; i++) (void)bat_poll_end(w, 0);
  assert_non_null(shared_of(w, 0)->waiting);
  send_on_each(good, 1, GOOD, LONG_BYTES);
  for (uint64_t since = uv_hrtime(); other[0]->n_received < GOOD;) {
    (void)bat_poll_end(w, 0);
    (void)bat_poll_end(w, 2);
    if (uv_hrtime() - since > UINT64_C(60000000000)) fail_msg("it waits");
  }
  assert_filled(other, 1, 0, GOOD, LONG_BYTES);
  BAT_DRIVE(w, all_received(b, N, EACH) && all_done(a, N, EACH));
  assert_filled(b, N, 0, EACH, LONG_BYTES);
}

/* One end ignores credits and takes all receive buffers. Once enough is on its
 * way it takes credits again: it would fail the pair itself if it got more than
 * there are. */
static void a_peer_that_floods_is_cut_off(void **state) {
  enum { N = 4, EACH = 12, FLOOD = 400, ENOUGH = 100 };
  bat_world *w = *state;
  bat_pair *a[N], *b[N], *evil[1], *victim[1];
  connect_many(w, 0, 1, N, a, b);
  connect_many(w, 2, 1, 1, evil, victim);
  for (int i = 0; i < FLOOD; i++) {
    inner(evil[0])->credits = GLI_IBV_SLOTS;
    send_on_each(evil, 1, 1, SHORT_BYTES);
    (void)bat_poll_end(w, 2);
  }
  while (inner(evil[0])->posted < ENOUGH) {
    inner(evil[0])->credits = GLI_IBV_SLOTS;
    (void)bat_poll_end(w, 2);
  }
  inner(evil[0])->credits = 0;
  send_on_each(a, N, EACH, LONG_BYTES);
  BAT_DRIVE(w, all_received(b, N, EACH) && victim[0]->failed == 1);
  assert_int_equal(victim[0]->cause.status, GLOO_ERR_PROTOCOL);
  assert_non_null(strstr(victim[0]->cause.message, "exceeds the permitted"));
  assert_in_range(victim[0]->n_received, 1, 2 * GLI_IBV_SLOTS);
  assert_filled(b, N, 0, EACH, LONG_BYTES);
  BAT_DRIVE(w, all_done(a, N, EACH));
}

/* ---- loss of queue pairs -------------------------------------------------- */

static bool all_failed(bat_pair *const *pairs, int n) {
  for (int i = 0; i < n; i++)
    if (pairs[i]->failed == 0) return false;
  return true;
}

/* A device may flush a queue pair without reporting a cause, and without an event
 * (the stand-in raises one for every second queue pair). */
static void a_queue_pair_that_breaks_in_silence_is_noticed(void **state) {
  enum { N = 12 };
  bat_world *w = *state;
  bat_pair *a[N], *b[N];
  connect_many(w, 0, 1, N, a, b);
  for (int i = 0; i < N; i++) {
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    const gli_verbs *v = inner(a[i])->t->port.v;
    assert_int_equal(v->modify_qp(inner(a[i])->qp, &to, IBV_QP_STATE), 0);
  }
  send_on_each(a, N, 1, SHORT_BYTES);
  BAT_DRIVE(w, all_failed(a, N));
  for (int i = 0; i < N; i++)
    assert_non_null(strstr(a[i]->cause.message, "the device gives no cause"));
}

/* ---- ends of pairs ------------------------------------------------------- */

/* A driver may discard completions of a destroyed queue pair, and use its number
 * for the next one. */
static void broken_pairs_cost_no_buffers(void **state) {
  enum { TURNS = 150, EACH = 10 };
  bat_world *w = *state;
  bat_pair *a[1], *b[1], *lasting[1], *other[1];
  connect_many(w, 0, 1, 1, lasting, other);
  uint32_t before = 0;
  for (int i = 0; i < TURNS; i++) {
    connect_many(w, 0, 1, 1, a, b);
    if (i == 0) before = shared_of(w, 1)->buffers;
    send_on_each(a, 1, EACH, LONG_BYTES);
    for (int turn = 0; turn < 20; turn++) (void)bat_poll_end(w, 0);
    bat_close(b[0], 0, NULL, 0);
    bat_close(a[0], 0, NULL, 0);
    send_on_each(lasting, 1, 1, LONG_BYTES);
    BAT_DRIVE(w, other[0]->n_received == (size_t)i + 1);
    bat_assert_message(other[0], (size_t)i, LONG_BYTES, 0);
  }
  BAT_DRIVE(w, lasting[0]->n_done == TURNS);
  assert_true(shared_of(w, 1)->buffers <= 2 * before);
}

static int refuse_to_destroy(struct ibv_qp *qp) {
  (void)qp;
  return EBUSY;
}

/* A device that does not destroy a queue pair may still name the pair, and read
 * its slots. */
static void memory_of_a_queue_pair_that_stays_is_kept(void **state) {
  bat_world *w = *state;
  bat_pair *a[1], *b[1], *good[1], *other[1];
  connect_many(w, 0, 1, 1, a, b);
  connect_many(w, 0, 1, 1, good, other);
  gli_ibv_pair *pair = inner(a[0]);
  gli_ibv *t = pair->t;
  gli_verbs verbs = *t->port.v;
  const gli_verbs *before = t->port.v;
  verbs.destroy_qp = refuse_to_destroy;
  send_on_each(a, 1, 2, LONG_BYTES);
  uint32_t held = pair->held;
  assert_true(held > 0);
  t->port.v = &verbs;
  bat_close(a[0], 0, NULL, 0);
  t->port.v = before;
  send_on_each(good, 1, 5, LONG_BYTES);
  BAT_DRIVE(w, all_received(other, 1, 5) && all_done(good, 1, 5));
  assert_filled(other, 1, 0, 5, LONG_BYTES);
  assert_ptr_equal(t->qp_leaked, pair);
  assert_int_equal(pair->held, held);
  assert_true(t->shared.sending >= held);
}

/* Makes n completions wait at an end that does not poll. */
static void await_completions(bat_world *w, int end, size_t n) {
  gli_ibv *t = (gli_ibv *)w->ends[end].t;
  while (t->n_stash < n) {
    (void)bat_poll_end(w, 1 - end);
    gli_ibv_stash_all(t, 0);
  }
}

/* Closes a pair whose last frames are behind more completions than a poll takes,
 * and opens another. Returns true if that has the number of the closed one. */
static bool replace_late_pair(bat_world *w, size_t before, bat_pair **a,
                              bat_pair **b) {
  enum { LATE = 10 };
  gli_ibv *t = (gli_ibv *)w->ends[1].t;
  uint32_t number = inner(*b)->number;
  send_on_each(a, 1, LATE, SHORT_BYTES);
  await_completions(w, 1, before + LATE);
  bat_close(*a, 0, NULL, 0);
  bat_close(*b, 0, NULL, 0);
  bat_link(w, 0, 1, a, b);
  atomic_store(&t->needs_poll, false);
  bat_open(*b);
  while (!atomic_load(&t->needs_poll)) sched_yield(); /* a thread makes it */
  (void)bat_poll_end(w, 1);
  bat_open(*a);
  BAT_DRIVE(w, is_decided(*a) && is_decided(*b));
  assert_int_equal((*b)->n_received, 0);
  send_on_each(a, 1, 1, SHORT_BYTES);
  BAT_DRIVE(w, all_received(b, 1, 1));
  assert_filled(b, 1, 0, 1, SHORT_BYTES);
  assert_int_equal((*b)->failed, 0);
  return inner(*b)->number == number;
}

/* Late completions of a destroyed queue pair leave the next one of its number
 * alone. The device uses it again at random. Each pair has credit for EACH
 * frames without a poll of the other end. */
static void late_completions_are_not_those_of_the_next_pair(void **state) {
  enum { N = 60, EACH = 8, TURNS = 64, GOOD = 5 };
  bat_world *w = *state;
  bat_pair *a[N], *b[N], *late[1], *other[1];
  connect_many(w, 0, 1, N, a, b);
  connect_many(w, 0, 1, 1, late, other);
  uint32_t before = shared_of(w, 1)->buffers;
  unsigned long refused = standin_refusals();
  send_on_each(a, N, EACH, SHORT_BYTES);
  while (standin_refusals() == refused) (void)bat_poll_end(w, 0);
  BAT_DRIVE(w, all_received(b, N, EACH) && shared_of(w, 1)->buffers > before);
  for (int turn = 0, good = 0; good < GOOD; turn++) {
    assert_true(turn < TURNS);
    size_t first = b[0]->n_received;
    send_on_each(a, N, EACH, SHORT_BYTES);
    await_completions(w, 1, N * EACH);
    good += replace_late_pair(w, N * EACH, late, other);
    BAT_DRIVE(w, all_received(b, N, first + EACH));
    assert_filled(b, N, first, EACH, SHORT_BYTES);
  }
}

/* The last pair's end returns all memory. */
static void memory_ends_with_the_last_pair(void **state) {
  enum { N = 5 };
  bat_world *w = *state;
  bat_pair *a[N], *b[N];
  int before = ((gli_ibv *)w->ends[0].t)->port.cq_left;
  for (int turn = 0; turn < 3; turn++) {
    connect_many(w, 0, 1, N, a, b);
    send_on_each(a, N, 1, LONG_BYTES);
    BAT_DRIVE(w, all_received(b, N, 1) && all_done(a, N, 1));
    assert_true(shared_of(w, 0)->n_pairs == N);
    for (int i = 0; i < N; i++) {
      bat_close(a[i], GLI_MESSAGE_BYE, NULL, 0);
      bat_close(b[i], GLI_MESSAGE_BYE, NULL, 0);
    }
    BAT_DRIVE(w,
              shared_of(w, 0)->n_pairs == 0 && shared_of(w, 1)->n_pairs == 0);
    assert_null(shared_of(w, 0)->blocks);
    assert_int_equal(((gli_ibv *)w->ends[0].t)->port.cq_left, before);
  }
}

/* ---- running ------------------------------------------------------------- */

extern const gli_transport_ops gli_transport_ibv;

static void allow_many_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Without a limit, the lack of locked memory would be no reason. */
static void limit_locked_memory(void) {
  const char *text = getenv("STANDIN_MEMLOCK");
  rlim_t bytes = text != NULL ? strtoul(text, NULL, 10) : LOCKED_MAX;
  const struct rlimit limit = {bytes, bytes};
  (void)setrlimit(RLIMIT_MEMLOCK, &limit);
}

int main(int argc, char **argv) {
  static const bat_variant ibv = {.name = "ibv",
                                  .ops = &gli_transport_ibv,
                                  .host = "127.0.0.1",
                                  .streams = 1};
  static const bat_variant registered = {.name = "ibv_rails",
                                         .ops = &gli_transport_ibv,
                                         .host = "127.0.0.1",
                                         .streams = 1,
                                         .registered = true};
  struct CMUnitTest tests[] = {
      BAT_TEST(a_thousand_pairs_lock_little_memory),
      BAT_TEST(a_pair_that_is_being_connected_shows_life),
      BAT_TEST(frames_wait_for_buffers),
      BAT_TEST(a_rank_that_does_not_receive_stops_no_other),
      BAT_TEST(a_peer_that_floods_is_cut_off),
      BAT_TEST(a_queue_pair_that_breaks_in_silence_is_noticed),
      BAT_TEST(broken_pairs_cost_no_buffers),
      BAT_TEST(memory_of_a_queue_pair_that_stays_is_kept),
      BAT_TEST(late_completions_are_not_those_of_the_next_pair),
      BAT_TEST(memory_ends_with_the_last_pair),
  };
  struct CMUnitTest with_rails[] = {
      BAT_TEST(a_thousand_pairs_with_rails_lock_little_memory),
  };
  size_t n = sizeof tests / sizeof tests[0];
  load_symbol("standin_locked", &standin_locked);
  load_symbol("standin_moved", &standin_moved);
  load_symbol("standin_refusals", &standin_refusals);
  load_symbol("standin_hold", &standin_hold);
  load_symbol("standin_held", &standin_held);
  allow_many_descriptors();
  limit_locked_memory();
  if (argc == 2) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
      if (strstr(tests[i].name, argv[1]) != NULL) tests[kept++] = tests[i];
    n = kept;
  }
  if (argc > 3) {
    least_by_rdma = atoi(argv[2]);
    most_by_rdma = PAIRS - 1;
    why_not = argv[3];
    n = 1;
  }
  if (getenv("GLOO_IBV_RAILS") != NULL)
    return bat_run("ibv_shared_rails", with_rails, 1,
                   (void *)(uintptr_t)&registered);
  return bat_run("ibv_shared", tests, n, (void *)(uintptr_t)&ibv);
}
