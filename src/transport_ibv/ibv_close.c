/* Closing. BYE and ABORT travel over TCP. A BYE is sent once all earlier
 * messages have arrived; until then a closed pair lingers, with copies of
 * messages that have not been posted yet. */
#include "transport_ibv/ibv.h"

static void ibv_forget_requests(gli_ibv_pair *pair) {
  pair->queue.head = pair->finished.head = NULL;
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) pair->out[n].request = NULL;
}

/* Closes the TCP pair with `last`, unless that is a premature BYE. */
static void ibv_leave(gli_ibv_pair *pair, const gli_send_request *last) {
  bool bye = last != NULL && last->header.type == GLI_MESSAGE_BYE;
  if (bye && pair->way == GLI_IBV_BY_VERBS && !pair->departed) {
    if (gli_ibv_arrived(pair))
      gli_ibv_say_leaves(pair);
    else
      last = NULL;
  }
  gli_ibv_queue_drop(pair);
  ibv_forget_requests(pair);
  pair->tcp->ops->pair_close(pair->tcp, last);
  gli_request_copies_free(&pair->copies);
  gli_ibv_pair_dispose(pair);
}

/* Copies all unsent messages, and `last`. */
static bool ibv_keep(gli_ibv_pair *pair, const gli_send_request *last) {
  gli_send_request *request = pair->queue.head;
  pair->queue.head = NULL;
  for (; request != NULL; request = request->next) {
    gli_send_request *copy = gli_request_keep(&pair->copies, request, 0);
    if (copy == NULL) return false;
    gli_request_push(&pair->queue, copy);
  }
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) {
    gli_ibv_out *out = &pair->out[n];
    if (out->request == NULL) continue;
    out->request = gli_request_keep(&pair->copies, out->request, out->posted);
    out->mr = NULL;
    if (out->request == NULL) return false;
  }
  pair->last = gli_request_keep(&pair->copies, last, 0);
  return pair->last != NULL;
}

/* Returns true if a device reads or writes memory that is not the pair's. */
static bool device_uses_others(const gli_ibv_pair *pair) {
  if (pair->rma.pieces > 0) return true;
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) {
    const gli_ibv_in *in = &pair->in[n];
    const gli_ibv_out *out = &pair->out[n];
    if (out->request != NULL && out->reads > 0) return true;
    if (in->used && in->answered && in->mode == GLI_IBV_WRITES) return true;
  }
  return false;
}

/* Returns true if a payload is being read over lanes, or may be. */
static bool ibv_lanes_read(const gli_ibv_pair *pair) {
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) {
    const gli_ibv_in *in = &pair->in[n];
    if (pair->out[n].request != NULL && pair->out[n].offered) return true;
    if (in->used && in->mode == GLI_IBV_READS) return true;
  }
  return false;
}

/* Returns true if the device has stopped accessing the caller's memory, which
 * must not be written after the close. Posted work requests get a moment to
 * complete, and others are lost: the rank leaves while it is receiving. A
 * payload that the peer reads over lanes is sent from its copy instead. */
static bool ibv_may_linger(gli_ibv_pair *pair) {
  if (pair->lanes != NULL && ibv_lanes_read(pair))
    gli_ibv_lanes_leave(pair->lanes);
  if (device_uses_others(pair)) gli_ibv_settle(pair);
  return !device_uses_others(pair);
}

/* Gives posted work requests a moment to arrive. An ABORT, which travels over
 * TCP, would overtake them. */
static void ibv_let_arrive(gli_ibv_pair *pair) {
  if (pair->way == GLI_IBV_BY_VERBS && pair->qp != NULL &&
      pair->posted != pair->done)
    gli_ibv_settle(pair);
}

void gli_ibv_pair_close(gli_pair *base, const gli_send_request *last) {
  gli_ibv_pair *pair = (gli_ibv_pair *)base;
  bool hears = last != NULL && !pair->departed && !pair->broken;
  bool waits = hears && last->header.type == GLI_MESSAGE_BYE &&
               pair->way != GLI_IBV_BY_TCP;
  pair->live = pair->to_tell = false;
  if (hears && !waits) ibv_let_arrive(pair);
  pair->finished.head = NULL; /* they belong to the engine */
  gli_ibv_rma_forget(pair);
  if (waits && gli_ibv_may_decline(pair)) {
    gli_ibv_decline(pair, "the other rank leaves");
    waits = false;
  }
  if (!waits || !ibv_may_linger(pair) || !ibv_keep(pair, last)) {
    ibv_leave(pair, last);
    return;
  }
  pair->closed = true;
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) pair->in[n].used = false;
  pair->to_answer = 0;
  pair->linger_until_ns = gli_ibv_now(pair->t) + (uint64_t)GLI_LINGER_NS;
  gli_ibv_update_undelivered(pair);
  gli_ibv_schedule(pair->t, pair->linger_until_ns);
  gli_ibv_pair_busy(pair);
  gli_ibv_flush(pair);
  gli_ibv_linger_check(pair);
}

/* Returns true if everything has arrived. Posts a probe if unknown. */
static bool ibv_delivered(gli_ibv_pair *pair) {
  if (gli_ibv_arrived(pair)) return true;
  if (pair->queue.head == NULL && pair->n_out == 0 &&
      (int32_t)(pair->tells_at - pair->must_arrive) < 0)
    (void)gli_ibv_post_probe(pair);
  return false;
}

void gli_ibv_linger_check(gli_ibv_pair *pair) {
  if (pair->tcp == NULL) return;
  bool late = gli_ibv_now(pair->t) >= pair->linger_until_ns;
  if (pair->broken || pair->departed || late || pair->way == GLI_IBV_BY_TCP ||
      (pair->way == GLI_IBV_BY_VERBS && ibv_delivered(pair))) {
    ibv_leave(pair, pair->last);
    return;
  }
  gli_ibv_schedule(pair->t, pair->linger_until_ns);
}
