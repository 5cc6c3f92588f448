/* Lanes of pairs: their end, their completion events, room in queues, keys, and
 * the loss of a device. The ends are device objects of one process, as in the
 * battery, and each has three ports. Run with the stand-in in LD_LIBRARY_PATH,
 * and with GLOO_IBV_RAILS=3. Argument: pattern of the tests to run; optional. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "battery.h"
#include "gloo_c/log.h"
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

/* ---- queues -------------------------------------------------------------- */

/* With room for few reads, trials wait for their turn. */
static void trials_wait_for_room(void **state) {
  enum { N = 12, ROOM = 2 };
  bat_world *w = *state;
  bat_pair *a[N], *b[N];
  connect_pairs(w, N, a, b);
  for (int end = 0; end < 2; end++)
    for (int i = 0; i < RAILS; i++)
      end_of(w, end)->rails.port[i].cq_entries = ROOM;
  for (int i = 0; i < N; i++) bat_send_filled(a[i], 0, LONG, (uint64_t)i);
  uint32_t most = 0;
  for (bat_patience patience = {0, 0}; !all_up(a, N) || !all_up(b, N);) {
    bat_drive_once(w, &patience, "all lanes work");
    for (int end = 0; end < 2; end++)
      for (int i = 0; i < RAILS; i++)
        if (end_of(w, end)->rails.rail[i].in_flight > most)
          most = end_of(w, end)->rails.rail[i].in_flight;
  }
  assert_in_range(most, 1, ROOM);
}

/* ---- threads ------------------------------------------------------------- */

static int n_without; /* lines that tell of pairs without rails */

static void on_line(gloo_log_level level, const char *line, void *user) {
  (void)level;
  (void)user;
  n_without += strstr(line,
                      "no rails are used between ranks 0 and 1: they lack a "
                      "thread: Resource temporarily unavailable") != NULL;
}

/* The job that makes lanes ends as if no thread could be started. */
static void rails_need_a_thread(void **state) {
  enum { MANY = 8 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_pairs(w, 1, &a, &b);
  gli_ibv *t = end_of(w, 0);
  gloo_log_set_level(GLOO_LOG_INFO);
  gloo_log_set_sink(on_line, NULL);
  t->jobs.threads += MANY; /* so that none is started */
  bat_send_filled(a, 0, LONG, 1);
  while (inner(a)->lanes == NULL) (void)bat_poll_end(w, 0);
  t->jobs.threads -= MANY;
  gli_ibv_job *job = &inner(a)->lanes->job;
  job->lacks = "a thread";
  job->code = EAGAIN;
  job->state = GLI_IBV_JOB_DONE;
  gli_ibv_touch(t);
  BAT_DRIVE(w, b->n_received == 1 && n_without == 1);
  bat_send_filled(a, 0, LONG, 2);
  BAT_DRIVE(w, b->n_received == 2);
  gloo_log_set_sink(NULL, NULL);
  gloo_log_set_level(GLOO_LOG_WARN);
  bat_assert_message(b, 1, LONG, 2);
  assert_int_equal(lanes_up(a) | lanes_up(b), 0);
}

/* ---- keys ---------------------------------------------------------------- */

/* Lets the lane do what no rank does. */
static void write_over(gli_ibv_lane *lane, const struct ibv_mr *from,
                       uint64_t to, uint32_t rkey) {
  struct ibv_sge part = {.addr = (uintptr_t)from->addr, 64, from->lkey};
  struct ibv_send_wr *bad, wr = {.wr_id = (uintptr_t)lane,
                                 .sg_list = &part,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = to;
  wr.wr.rdma.rkey = rkey;
  lane->read[lane->posted++ % GLI_IBV_LANE_DEPTH] =
      (gli_ibv_read){.message = GLI_IBV_LANE_MESSAGES};
  lane->of->t->rails.rail[lane->rail].in_flight++;
  assert_int_equal(ibv_post_send(lane->qp, &wr, &bad), 0);
}

/* A key that permits writes elsewhere permits reads only. */
static void peers_only_read_over_lanes(void **state) {
  enum { BYTES = 4096 };
  bat_world *w = *state;
  bat_pair *a, *b;
  uint8_t *memory = bat_memory(w, BYTES);
  struct ibv_mr *mr[GLI_IBV_RAILS_MAX + 1];
  memset(memory, 7, BYTES);
  connect_lanes(w, &a, &b);
  gli_ibv *victim = inner(a)->t, *evil = inner(b)->t;
  assert_true(gli_ibv_registered_rails(victim, memory, BYTES, mr));
  for (int i = 0; i < RAILS; i++) {
    gli_ibv_lane *lane = &inner(b)->lanes->lane[i];
    uint32_t home = victim->rails.rail[inner(a)->lanes->lane[i].rail].home;
    inner(b)->lanes->tried |= 1u << i; /* so that poll looks for its end */
    write_over(lane, evil->rails.rail[lane->rail].mr, (uintptr_t)memory,
               mr[home]->rkey);
  }
  gli_ibv_pair_busy(inner(b));
  BAT_DRIVE(w, lanes_up(b) == 0);
  assert_non_null(strstr(inner(b)->lanes->why, "remote access error"));
  for (int i = 0; i < BYTES; i++) assert_int_equal(memory[i], 7);
  bat_memory_free(memory);
}

static void an_answer_comes_once(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_lanes(w, &a, &b);
  gli_ibv_out *out = &inner(a)->out[0];
  gli_send_request request = {.header = {.length = LONG}};
  const gli_ibv_kind kinds[] = {GLI_IBV_FETCHED, GLI_IBV_STREAM, GLI_IBV_PLACE};
  static const uint8_t place[GLI_IBV_PLACE_BYTES];
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    const gli_ibv_frame first = {.kind = GLI_IBV_FETCHED, .data = place};
    const gli_ibv_frame second = {
        .kind = (uint8_t)kinds[i],
        .data = place,
        .bytes = kinds[i] == GLI_IBV_PLACE ? sizeof place : 0};
    *out = (gli_ibv_out){.request = &request, .offered = true};
    assert_true(gli_ibv_answered(inner(a), &first));
    assert_false(gli_ibv_answered(inner(a), &second));
  }
  *out = (gli_ibv_out){.request = NULL};
}

/* ---- loss of devices ----------------------------------------------------- */

static int n_fatal; /* events to come */

static int fatal_once(struct ibv_context *context,
                      struct ibv_async_event *event) {
  (void)context;
  event->event_type = IBV_EVENT_DEVICE_FATAL;
  errno = EAGAIN;
  return n_fatal-- > 0 ? 0 : -1;
}

static void ack_nothing(struct ibv_async_event *event) {
  (void)event;
}

static int no_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                    void **user) {
  (void)channel;
  (void)cq;
  (void)user;
  errno = EIO;
  return -1;
}

/* A rail whose events cannot be read may still move data. Its queue pairs end
 * before another rail reads their parts. */
static void a_lost_rail_moves_nothing(void **state) {
  enum { BYTES = 4 << 20 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_lanes(w, &a, &b);
  begin_to_read(w, a, b, BYTES);
  gli_ibv_lanes *lanes = inner(b)->lanes;
  gli_ibv_rails *rails = &end_of(w, 1)->rails;
  const gli_verbs *before = rails->port[1].v;
  gli_verbs verbs = *before;
  verbs.get_cq_event = no_event;
  rails->port[1].v = &verbs;
  (void)gli_ibv_rails_heard(rails);
  rails->port[1].v = before;
  for (uint32_t i = 0; i < lanes->n; i++)
    assert_true((lanes->lane[i].qp == NULL) == (lanes->lane[i].rail == 1));
  BAT_DRIVE(w, b->n_received == 2 && a->n_done == 2);
  bat_assert_message(b, 1, BYTES, 3);
  assert_int_equal(rails->rail[1].in_flight, 0);
}

/* Two ports of one device: only the first has its events. */
static void a_lost_device_takes_all_its_ports(void **state) {
  enum { BYTES = 4 << 20 };
  bat_world *w = *state;
  bat_pair *a, *b;
  connect_lanes(w, &a, &b);
  begin_to_read(w, a, b, BYTES);
  gli_ibv_rails *rails = &end_of(w, 1)->rails;
  gli_ibv_port *owner = &rails->port[1], *borrower = &rails->port[2];
  const gli_ibv_port before[] = {*owner, *borrower};
  gli_verbs verbs = *owner->v;
  verbs.get_async_event = fatal_once;
  verbs.ack_async_event = ack_nothing;
  owner->v = &verbs;
  borrower->context = owner->context;
  borrower->borrows = true;
  n_fatal = 1;
  (void)gli_ibv_rails_heard(rails);
  *owner = before[0];
  *borrower = before[1];
  assert_true(rails->rail[1].lost && rails->rail[2].lost);
  assert_false(rails->rail[0].lost);
  BAT_DRIVE(w, b->n_received == 2 && a->n_done == 2);
  bat_assert_message(b, 1, BYTES, 3);
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
      BAT_TEST(trials_wait_for_room),
      BAT_TEST(rails_need_a_thread),
      BAT_TEST(peers_only_read_over_lanes),
      BAT_TEST(an_answer_comes_once),
      BAT_TEST(a_lost_rail_moves_nothing),
      BAT_TEST(a_lost_device_takes_all_its_ports),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return bat_run("ibv_lanes", tests, sizeof tests / sizeof tests[0],
                 (void *)(uintptr_t)&variant);
}
