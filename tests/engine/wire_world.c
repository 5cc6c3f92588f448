#include "engine/wire_world.h"

#include <stdlib.h>
#include <string.h>

#include "plan/cmocka_all.h"
#include "plan/random.h"

/* ---- pairs --------------------------------------------------------------- */

static void write_down(wire_pair *pair, const gli_header *h,
                       const gloo_request *op) {
  assert_true(pair->n_log < LOG);
  pair->log[pair->n_log++] = (logged){*h, op};
}

static gli_post pair_send(gli_pair *base, gli_send_request *request) {
  wire_pair *pair = (wire_pair *)(void *)base;
  bool slow = pair->slow;
  if (pair->seed) {
    if (random_below(pair->seed, 3) == 0) return GLI_POST_NO_ROOM;
    slow = random_below(pair->seed, 2) == 0;
  }
  if (pair->room == 0) return GLI_POST_NO_ROOM;
  if (pair->room != UINT32_MAX) pair->room--;
  const gli_transfer *t = (const gli_transfer *)(void *)request;
  write_down(pair, &request->header, t->operation);
  if (!slow) return GLI_POST_DONE;
  request->next = NULL; /* the transport may use these members */
  request->private_ = UINT64_MAX;
  assert_true(pair->n_in_progress < IN_PROGRESS);
  pair->in_progress[pair->n_in_progress++] = request;
  return GLI_POST_IN_PROGRESS;
}

static bool pair_send_now(gli_pair *base, gli_header *header,
                          const void *payload) {
  (void)payload;
  wire_pair *pair = (wire_pair *)(void *)base;
  if (pair->slow || pair->room == 0) return false;
  if (pair->seed && random_below(pair->seed, 3) == 0) return false;
  if (pair->room != UINT32_MAX) pair->room--;
  write_down(pair, header, NULL);
  return true;
}

static const gli_transport_ops pair_ops = {
    .name = "told", .send = pair_send, .send_now = pair_send_now};

/* Acts as the engine does in the `sent` upcall (drive/upcalls.c). */
void wire_sent_one(wire_pair *pair, uint32_t which) {
  gli_transfer *t = (gli_transfer *)(void *)pair->in_progress[which];
  memmove(&pair->in_progress[which], &pair->in_progress[which + 1],
          (--pair->n_in_progress - which) * sizeof(gli_send_request *));
  gli_transfer_list_remove(&t->link->in_flight, t);
  gli_wire_sent(t);
}

void wire_sent(wire_pair *pair) {
  while (pair->n_in_progress > 0) wire_sent_one(pair, 0);
}

/* ---- a rank -------------------------------------------------------------- */

static uint32_t free_transfers(const gloo_device *device) {
  uint32_t n = 0;
  for (const gli_transfer *t = device->free_transfers; t; t = t->next) n++;
  return n;
}

wire_world *wire_begin(uint32_t budget) {
  wire_world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  bare_begin(&w->rank);
  w->rank.context.budget = budget;
  for (uint32_t i = 1; i < BARE_SIZE; i++) {
    w->pairs[i].base.ops = &pair_ops;
    w->pairs[i].room = UINT32_MAX;
    w->rank.links[i].pair = &w->pairs[i].base;
  }
  static gli_transfer *made[TRANSFERS];
  for (uint32_t i = 0; i < TRANSFERS; i++) {
    made[i] = gli_transfer_new(&w->rank.links[1]);
    assert_non_null(made[i]);
  }
  for (uint32_t i = 0; i < TRANSFERS; i++) gli_transfer_free(made[i]);
  return w;
}

void wire_end(wire_world *w) {
  gloo_device *device = &w->rank.device;
  for (uint32_t i = 0; i < BARE_SIZE; i++) {
    gli_link *link = &w->rank.links[i];
    gli_wire_drop(link);
    assert_null(link->blocked.first);
    assert_null(link->pending.first);
    assert_null(link->in_flight.first);
    assert_null(link->exposed.first);
    assert_null(link->arriving.first);
    assert_null(link->unannounced);
    assert_int_equal(link->answers, 0);
    assert_false(link->pending_queued);
  }
  assert_null(device->self_queue.first);
  assert_null(device->finished.first);
  assert_null(device->pending_links);
  assert_int_equal(device->owed, 0);
  assert_int_equal(free_transfers(device), TRANSFERS);
  bare_end(&w->rank);
  free(w);
}

void wire_count_from(wire_world *w, uint32_t start) {
  for (uint32_t i = 0; i < BARE_SIZE; i++) {
    gli_link *link = &w->rank.links[i];
    link->credit.sent = link->credit.acked = start;
    link->credit.consumed = link->credit.consumed_acked = start;
  }
}

/* ---- operations ---------------------------------------------------------- */

gloo_request *wire_operation(wire_world *w) {
  gloo_request *op = calloc(1, sizeof *op);
  gli_op_peer *peers = calloc(BARE_SIZE, sizeof *peers);
  assert_true(op && peers);
  op->context = &w->rank.context;
  op->device = &w->rank.device;
  op->state = GLI_OPERATION_RUNNING;
  op->peers = peers;
  for (uint32_t i = 0; i < BARE_SIZE; i++) peers[i].link = &w->rank.links[i];
  return op;
}

void wire_operation_free(gloo_request *op) {
  free(op->peers);
  free(op);
}

void wire_post_step(gloo_request *op, uint32_t peer, uint32_t step,
                    const gli_header *h, bool stuck) {
  gli_transfer *t = gli_transfer_new(op->peers[peer].link);
  assert_non_null(t);
  t->operation = op;
  t->step = step;
  t->peer = peer;
  t->request.header = *h;
  gli_wire_send(t, stuck);
}

/* ---- invariants of every state ------------------------------------------- */

typedef struct census {
  uint32_t transfers, errands, answers;
  uint32_t keyed; /* entries in the context's table */
} census;

static void count(const gli_transfer_list *list, const gli_link *link,
                  census *c) {
  const gli_transfer *before = NULL;
  for (const gli_transfer *t = list->first; t; t = t->next) {
    assert_ptr_equal(t->prev, before);
    before = t;
    if (link && t->link != link) continue;
    c->transfers++;
    c->errands += t->errand;
    c->answers += t->answer;
  }
  assert_ptr_equal(list->last, before);
}

uint32_t wire_list_length(const gli_transfer_list *list) {
  census c = {0, 0, 0, 0};
  count(list, NULL, &c);
  return c.transfers;
}

static void check_link(const wire_world *w, const gli_link *link, census *c) {
  assert_true(link->credit.sent - link->credit.acked <= link->context->budget);
  const gli_transfer *unannounced = NULL;
  for (const gli_transfer *t = link->blocked.first; t; t = t->next) {
    const gli_op_peer *peer = &t->operation->peers[t->peer];
    assert_false(peer->granted);
    if (!peer->rts_sent && !unannounced) unannounced = t;
    const gli_transfer *same = peer->blocked_first;
    while (same && same != t) same = same->blocked_next;
    assert_ptr_equal(same, t);
    if (t->request.header.collective != GLI_SENDRECV) continue;
    assert_non_null(t->keyed.at);
    c->keyed++;
  }
  assert_ptr_equal(link->unannounced, unannounced);
  assert_true(link->rts_out <= GLI_RTS_MAX);
  assert_true(!unannounced || link->rts_out == GLI_RTS_MAX);
  census own = {0, 0, 0, 0};
  count(&link->blocked, link, &own);
  count(&link->pending, link, &own);
  count(&link->in_flight, link, &own);
  count(&link->exposed, link, &own);
  count(&w->rank.device.self_queue, link, &own);
  assert_int_equal(link->answers, own.answers);
  uint32_t queued = 0;
  for (const gli_link *l = w->rank.device.pending_links; l;
       l = l->pending_next) {
    queued += l == link;
  }
  assert_int_equal(queued, link->pending.first ? 1 : 0);
  assert_int_equal(link->pending_queued, queued);
  c->transfers += own.transfers;
  c->errands += own.errands;
}

void wire_check(const wire_world *w) {
  const gloo_device *device = &w->rank.device;
  census all = {0, 0, 0, 0};
  for (uint32_t i = 0; i < BARE_SIZE; i++) {
    check_link(w, &w->rank.links[i], &all);
  }
  assert_int_equal(device->owed, all.errands);
  assert_int_equal(w->rank.context.blocked.n, all.keyed);
  for (const gli_transfer *t = device->finished.first; t; t = t->next) {
    assert_true(t->operation->runnable);
    uint32_t listed = 0;
    for (const gloo_request *op = device->runnable; op;
         op = op->runnable_next) {
      listed += op == t->operation;
    }
    assert_int_equal(listed, 1);
  }
  uint32_t finished = wire_list_length(&device->finished);
  assert_int_equal(free_transfers(device) + all.transfers + finished,
                   TRANSFERS);
}
