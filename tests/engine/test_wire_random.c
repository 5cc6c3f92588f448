/* Random messages to receivers that count: no more bytes are kept early than
 * they allow, and every message arrives once and in the required order. */
#include <stdlib.h>
#include <string.h>

#include "engine/wire_world.h"
#include "plan/cmocka_all.h"
#include "plan/random.h"

enum {
  RUNS = 3000, /* operations in total */
  LIVE = 10,   /* at once */
  SLOTS = 3,   /* most messages of one operation to each rank */
  ANSWERS = RUNS,
  TOLD = 4,
  BUDGET = 600
};
/* RTSs that seem to be in flight, to reach the limits. */
#define WANTS_BEFORE (GLI_RTS_MAX - 2)

/* An operation of this rank. */
typedef struct run {
  gloo_request *op; /* NULL: none */
  uint32_t number;
  bool message; /* between two ranks */
  uint32_t all[BARE_SIZE], sent[BARE_SIZE], finished[BARE_SIZE]; /* slots */
} run;

/* The operation at another rank. */
typedef struct remote_run {
  uint32_t got; /* bit set of slots */
  uint32_t early;
  bool involved, message; /* the rank takes part; as in `run` */
  bool started, wanted, met, withdrawn;
} remote_run;

typedef struct remote {
  remote_run runs[RUNS];
  uint32_t early, consumed;
  uint32_t told[TOLD]; /* earlier states of `consumed` */
  uint32_t oldest;     /* oldest operation not started */
  uint32_t newest;     /* newest message that it has met */
  struct {
    uint32_t number;
    bool asked;
  } starts[ANSWERS]; /* STARTEDs in flight, oldest first */
  uint32_t n_starts;
  uint32_t data, probes, probes_sent, credit;
} remote;

typedef struct scenery {
  wire_world *w;
  uint64_t seed;
  run live[LIVE];
  uint32_t n_runs;
  remote *remotes; /* [BARE_SIZE] */
  /* Counts of events. */
  size_t eager, free, wants, again, stuck, withdrawn;
} scenery;

static bool one_in(scenery *s, uint32_t n) {
  return random_below(&s->seed, n) == 0;
}

static gli_link *link_to(const scenery *s, uint32_t rank) {
  return &s->w->rank.links[rank];
}

/* ---- the other ranks ----------------------------------------------------- */

/* Notes the first sign of a message; these come in order. */
static void meet(remote *r, uint32_t number) {
  remote_run *it = &r->runs[number];
  if (it->met) return;
  assert_true(number > r->newest);
  r->newest = number;
  it->met = true;
}

static void answer(remote *r, uint32_t number, bool asked) {
  assert_true(r->n_starts < ANSWERS);
  r->starts[r->n_starts].number = number;
  r->starts[r->n_starts++].asked = asked;
}

static void unpark(remote *r, uint32_t bytes) {
  r->early -= bytes;
  r->consumed += bytes;
}

static void get_data(scenery *s, remote *r, const gli_header *h) {
  remote_run *it = &r->runs[h->operation];
  r->data++;
  assert_true(h->slot < SLOTS && (it->got >> h->slot & 1) == 0);
  assert_false(it->withdrawn);
  it->got |= 1u << h->slot;
  if (h->collective == GLI_SENDRECV && h->slot == 0) {
    meet(r, (uint32_t)h->operation);
  }
  if (!h->eager) {
    assert_true(it->started);
    s->free++;
    return;
  }
  s->eager++;
  uint32_t cost = (uint32_t)gli_wire_cost(h->length);
  r->early += cost;
  assert_true(r->early <= BUDGET);
  if (it->started) {
    unpark(r, cost);
  } else {
    it->early += cost;
  }
}

static void get_want(scenery *s, remote *r, const gli_header *h) {
  remote_run *it = &r->runs[h->operation];
  assert_false(it->wanted);
  assert_false(it->withdrawn);
  it->wanted = true;
  s->wants++;
  if (h->collective == GLI_SENDRECV && h->slot == 0) {
    meet(r, (uint32_t)h->operation);
  }
  if (it->started) answer(r, (uint32_t)h->operation, true);
}

static void get(scenery *s, uint32_t rank, const gli_header *h) {
  remote *r = &s->remotes[rank];
  assert_true(h->credit - r->credit <= INT32_MAX); /* credit never decreases */
  r->credit = h->credit;
  if (h->type == GLI_MESSAGE_DATA) get_data(s, r, h);
  if (h->type == GLI_MESSAGE_RTS) get_want(s, r, h);
  if (h->type == GLI_MESSAGE_PROBE) {
    assert_int_equal(h->slot, r->probes);
    r->probes++;
  }
}

static void get_all(scenery *s) {
  for (uint32_t rank = 1; rank < BARE_SIZE; rank++) {
    wire_pair *pair = &s->w->pairs[rank];
    for (uint32_t i = 0; i < pair->n_log; i++) {
      get(s, rank, &pair->log[i].header);
    }
    pair->n_log = 0;
  }
}

/* Starts an operation at a rank; a message must have been met there. */
static void start_there(scenery *s, uint32_t rank, uint32_t number) {
  remote *r = &s->remotes[rank];
  remote_run *it = &r->runs[number];
  if (it->started || !it->involved || (it->message && !it->met)) return;
  it->started = true;
  unpark(r, it->early);
  it->early = 0;
  if (it->wanted) {
    answer(r, number, true);
  } else if (one_in(s, 3)) {
    answer(r, number, false);
  }
}

/* Starts the oldest operation, or a newer one. */
static void start_some_there(scenery *s, uint32_t rank) {
  remote *r = &s->remotes[rank];
  while (r->oldest < s->n_runs) {
    const remote_run *it = &r->runs[r->oldest];
    if (it->involved && !it->started && !it->withdrawn) break;
    r->oldest++;
  }
  uint32_t number = r->oldest;
  if (one_in(s, 2)) number += random_below(&s->seed, LIVE);
  if (number < s->n_runs) start_there(s, rank, number);
}

/* ---- messages from them -------------------------------------------------- */

static const run *find_run(const scenery *s, uint32_t number) {
  for (uint32_t i = 0; i < LIVE; i++) {
    if (s->live[i].op && s->live[i].number == number) return &s->live[i];
  }
  return NULL;
}

static void take_started(scenery *s, uint32_t rank) {
  remote *r = &s->remotes[rank];
  if (r->n_starts == 0) return;
  uint32_t number = r->starts[0].number;
  bool asked = r->starts[0].asked;
  memmove(&r->starts[0], &r->starts[1], --r->n_starts * sizeof r->starts[0]);
  if (asked) gli_wire_answered(link_to(s, rank));
  const run *x = find_run(s, number);
  if (x) gli_wire_granted(x->op, rank);
}

/* Takes credit, not always the newest. */
static void take_credit(scenery *s, uint32_t rank, bool newest) {
  remote *r = &s->remotes[rank];
  gli_link *link = link_to(s, rank);
  uint32_t credit = r->consumed;
  uint32_t at = random_below(&s->seed, TOLD);
  if (!newest && one_in(s, 3)) credit = r->told[at];
  r->told[at] = r->consumed;
  if (one_in(s, 2) && gli_wire_credit_now(link, credit)) return;
  gloo_error error;
  assert_int_equal(gli_wire_credit(link, credit, &error), GLOO_OK);
}

/* ---- this rank ----------------------------------------------------------- */

static uint64_t random_length(scenery *s) {
  return random_below(&s->seed, one_in(s, 8) ? BUDGET : BUDGET / 3);
}

/* Sends as engine/run/run.c does: the fast path first. */
static void send_next(scenery *s, run *x, uint32_t rank) {
  if (x->sent[rank] == x->all[rank]) return;
  gli_link *link = link_to(s, rank);
  uint32_t slot = x->sent[rank]++;
  gli_header h = {.type = GLI_MESSAGE_DATA,
                  .collective = x->message ? GLI_SENDRECV : GLI_ALLREDUCE,
                  .operation = x->number,
                  .slot = slot,
                  .length = random_length(s)};
  bool stuck = x->message && link->unannounced;
  if (link->pair && !link->pending.first && !stuck && one_in(s, 2) &&
      gli_wire_offer(&x->op->peers[rank], link->pair, &h, NULL)) {
    x->finished[rank] |= 1u << slot;
    return;
  }
  s->stuck += stuck;
  h.eager = 0;
  wire_post_step(x->op, rank, slot, &h, stuck);
}

/* Starts an operation. A message between two ranks has no steps that wait for
 * others. */
static void begin_run(scenery *s) {
  run *x = s->live;
  while (x < s->live + LIVE && x->op) x++;
  if (x == s->live + LIVE || s->n_runs == RUNS) return;
  *x = (run){.op = wire_operation(s->w), .number = s->n_runs++};
  x->message = one_in(s, 2);
  uint32_t only = random_below(&s->seed, BARE_SIZE);
  for (uint32_t rank = 0; rank < BARE_SIZE; rank++) {
    if (x->message && rank != only) continue;
    x->all[rank] = random_below(&s->seed, SLOTS) + 1;
    remote_run *there = &s->remotes[rank].runs[x->number];
    there->involved = true;
    there->message = x->message;
  }
  while (x->message && x->sent[only] < x->all[only]) send_next(s, x, only);
}

static run *random_run(scenery *s) {
  run *x = &s->live[random_below(&s->seed, LIVE)];
  return x->op ? x : NULL;
}

/* Withdraws a message that no rank knows of yet. */
static void withdraw(scenery *s, run *x) {
  if (!x->message) return;
  uint32_t rank = 0;
  while (x->all[rank] == 0) rank++;
  gli_link *link = link_to(s, rank);
  uint32_t blocked = 0;
  for (const gli_transfer *t = link->blocked.first; t; t = t->next) {
    blocked += t->operation == x->op;
  }
  if (x->op->peers[rank].rts_sent || blocked == 0 || blocked != x->sent[rank]) {
    return;
  }
  gli_wire_withdraw(x->op, rank);
  s->withdrawn++;
  s->remotes[rank].runs[x->number].withdrawn = true;
  wire_operation_free(x->op);
  x->op = NULL;
}

static void probe(scenery *s, uint32_t rank) {
  uint32_t serial = s->remotes[rank].probes_sent++;
  gli_wire_control(link_to(s, rank), GLI_MESSAGE_PROBE, NULL, serial);
}

/* Delivers this rank's messages to itself; see drive/driver.c. */
static void poll_self(scenery *s) {
  gloo_device *device = &s->w->rank.device;
  gli_transfer *t = device->self_queue.first;
  if (!t) return;
  gli_transfer_list_remove(&device->self_queue, t);
  get(s, 0, &t->request.header);
  gli_wire_sent(t);
}

static void transport_says_sent(scenery *s, uint32_t rank) {
  wire_pair *pair = &s->w->pairs[rank];
  if (pair->n_in_progress == 0) return;
  wire_sent_one(pair, random_below(&s->seed, pair->n_in_progress));
}

static bool is_over(const run *x) {
  for (uint32_t rank = 0; rank < BARE_SIZE; rank++) {
    if (x->finished[rank] != (1u << x->all[rank]) - 1) return false;
  }
  return true;
}

/* Handles finished transfers as engine/run/run.c does. */
static void take_finished(scenery *s) {
  gloo_device *device = &s->w->rank.device;
  while (device->finished.first) {
    gli_transfer *t = device->finished.first;
    gli_transfer_list_remove(&device->finished, t);
    run *x = s->live;
    while (x < s->live + LIVE && x->op != t->operation) x++;
    assert_true(x < s->live + LIVE);
    assert_true(x->op->runnable);
    assert_true((x->finished[t->peer] >> t->step & 1) == 0);
    const remote_run *it = &s->remotes[t->peer].runs[x->number];
    assert_true((it->got >> t->step & 1) != 0);
    x->finished[t->peer] |= 1u << t->step;
    gli_transfer_free(t);
  }
  for (gloo_request *op = device->runnable; op; op = op->runnable_next) {
    op->runnable = false;
  }
  device->runnable = NULL;
  for (uint32_t i = 0; i < LIVE; i++) {
    if (!s->live[i].op || !is_over(&s->live[i])) continue;
    wire_operation_free(s->live[i].op);
    s->live[i].op = NULL;
  }
}

/* ---- random steps -------------------------------------------------------- */

static void step(scenery *s) {
  uint32_t rank = random_below(&s->seed, BARE_SIZE);
  run *x = random_run(s);
  switch (random_below(&s->seed, 12)) {
    case 0:
    case 1:
      begin_run(s);
      break;
    case 2:
    case 3:
    case 4:
      if (x) send_next(s, x, rank);
      break;
    case 5:
      start_some_there(s, rank);
      break;
    case 6:
      take_started(s, rank);
      break;
    case 7:
      take_credit(s, rank, false);
      break;
    case 8:
      s->again += s->w->rank.device.pending_links != NULL;
      gli_wire_retry(&s->w->rank.device);
      break;
    case 9:
      transport_says_sent(s, rank);
      poll_self(s);
      break;
    case 10:
      take_finished(s);
      for (x = s->live; x < s->live + LIVE; x++) {
        if (x->op && one_in(s, 2)) withdraw(s, x);
      }
      break;
    default:
      if (one_in(s, 2)) probe(s, rank);
      gli_wire_consumed(link_to(s, rank), random_below(&s->seed, 50));
  }
  get_all(s);
  wire_check(s->w);
}

static void open_scenery(scenery *s, uint64_t seed) {
  *s = (scenery){.w = wire_begin(BUDGET), .seed = seed, .n_runs = 1};
  s->remotes = calloc(BARE_SIZE, sizeof *s->remotes);
  assert_non_null(s->remotes);
  uint32_t start = UINT32_MAX - 5000; /* counters wrap soon */
  wire_count_from(s->w, start);
  for (uint32_t rank = 0; rank < BARE_SIZE; rank++) {
    s->w->pairs[rank].seed = &s->seed;
    s->remotes[rank].consumed = s->remotes[rank].credit = start;
    for (int i = 0; i < TOLD; i++) s->remotes[rank].told[i] = start;
    link_to(s, rank)->rts_out = WANTS_BEFORE;
  }
}

static void close_scenery(scenery *s) {
  wire_end(s->w);
  for (uint32_t i = 0; i < LIVE; i++) {
    if (s->live[i].op) wire_operation_free(s->live[i].op);
  }
  free(s->remotes);
}

/* Sends, starts and polls for all operations in progress. Returns true if any
 * is left. */
static bool finish_some(scenery *s) {
  bool left = false;
  for (uint32_t rank = 0; rank < BARE_SIZE; rank++) {
    for (uint32_t i = 0; i < LIVE; i++) {
      if (!s->live[i].op) continue;
      left = true;
      send_next(s, &s->live[i], rank);
    }
    start_some_there(s, rank);
    left = left || s->remotes[rank].oldest < s->n_runs;
    take_started(s, rank);
    take_credit(s, rank, true);
    wire_sent(&s->w->pairs[rank]);
    left = left || s->remotes[rank].n_starts > 0;
  }
  gli_wire_retry(&s->w->rank.device);
  poll_self(s);
  get_all(s);
  take_finished(s);
  wire_check(s->w);
  const gloo_device *device = &s->w->rank.device;
  return left || device->owed > 0 || device->self_queue.first;
}

static void every_message_comes_out_once(void **state) {
  (void)state;
  enum { STEPS = 60000 };
  static scenery s;
  open_scenery(&s, 2024);
  for (uint32_t i = 0; i < STEPS; i++) step(&s);
  uint32_t rounds = 0;
  while (finish_some(&s)) assert_true(rounds++ < 2000);
  assert_int_equal(s.w->rank.device.owed, 0);
  for (uint32_t rank = 0; rank < BARE_SIZE; rank++) {
    const gli_link *link = link_to(&s, rank);
    const remote *r = &s.remotes[rank];
    assert_null(link->blocked.first);
    assert_int_equal(link->rts_out, WANTS_BEFORE);
    assert_int_equal(r->early, 0);
    assert_int_equal(link->credit.sent, r->consumed);
    assert_int_equal(link->credit.acked, r->consumed);
    assert_int_equal(link->leaving.sent, r->data);
    assert_int_equal(r->probes, r->probes_sent);
    assert_true(link->credit.consumed - r->credit < BUDGET / 2);
    assert_true(r->consumed < UINT32_MAX / 2); /* the counter has wrapped */
  }
  /* No path is rare. */
  assert_true(s.eager > 1000 && s.free > 500 && s.wants > 500);
  assert_true(s.again > 500 && s.stuck > 100 && s.withdrawn > 50);
  close_scenery(&s);
}

/* Links are dropped in random states. */
static void whatever_is_under_way_can_be_dropped(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 100; i++) {
    static scenery s;
    open_scenery(&s, i);
    for (uint32_t n = 3 * i; n > 0; n--) step(&s);
    close_scenery(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_message_comes_out_once),
      cmocka_unit_test(whatever_is_under_way_can_be_dropped),
  };
  return cmocka_run_group_tests_name("engine wire, random", tests, NULL, NULL);
}
