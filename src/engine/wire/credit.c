/* Flow control: what may be sent when.
 *
 * A message for an operation that its receiver has not started has to be parked
 * there. Each rank lets each other rank park up to a budget: such messages are
 * `charged`, and come back as credit in the header of any later message. When
 * credit runs out the sender says WANT, and the receiver answers STARTED as
 * soon as it has started the operation; from then on nothing of it is charged.
 * A receiver that expects much says STARTED unasked, so that in balanced
 * programs nobody ever stops. */
#include "core/error.h"
#include "engine/state/context.h"
#include "engine/state/operation.h"
#include "engine/wire/wire.h"

static bool announced(const gli_transfer *t) {
  return t->operation->peers[t->peer].wanted;
}

/* Free to go: the receiver has started, or there is credit (which is taken). */
static bool admit(gli_transfer *t) {
  gli_link *link = t->link;
  if (t->operation->peers[t->peer].granted) return true;
  uint64_t cost = gli_flow_cost(t->request.header.length);
  uint32_t used = link->charged - link->credited;
  if (cost > link->context->budget - used) return false;
  link->charged += (uint32_t)cost;
  t->request.header.charged = 1;
  return true;
}

/* Tell the receiver about blocked operations, oldest first. */
static void announce(gli_link *link) {
  if (link->unannounced == 0) return;
  link->unannounced = 0;
  for (gli_transfer *t = link->blocked.first; t; t = t->next) {
    if (announced(t)) continue;
    if (link->wants_out >= GLI_WANTS_MAX) {
      link->unannounced++;
      continue;
    }
    t->operation->peers[t->peer].wanted = true;
    link->wants_out++;
    const gli_header *h = &t->request.header;
    gli_flow_control(link, GLI_MESSAGE_WANT, h, h->slot);
  }
}

void gli_flow_answered(gli_link *link) {
  link->wants_out--;
  announce(link);
}

static void block(gli_transfer *t) {
  gli_link *link = t->link;
  gli_transfer_list_add(&link->blocked, t);
  if (announced(t)) return;
  link->unannounced++;
  announce(link);
}

void gli_wire_send(gli_transfer *t, bool stuck) {
  t->link->data_sent++;
  bool granted = t->operation->peers[t->peer].granted;
  if ((stuck && !granted) || !admit(t)) {
    block(t);
  } else {
    gli_wire_post(t);
  }
}

static void release(gli_transfer *t) {
  if (!announced(t)) t->link->unannounced--;
  gli_transfer_list_remove(&t->link->blocked, t);
  gli_wire_post(t);
}

void gli_flow_tell_consumed(gli_link *link) {
  if (link->again.first) return; /* that will tell it, once it can be sent */
  gli_flow_control(link, GLI_MESSAGE_CREDIT, NULL, 0);
}

gloo_status gli_flow_credit(gli_link *link, uint32_t credit,
                            gloo_error *error) {
  uint32_t given = credit - link->credited;
  /* With several streams an older message may come after a newer one. */
  if (given == 0 || given > UINT32_MAX / 2) return GLOO_OK;
  if (given > link->charged - link->credited) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u returned more credit than it was owed",
                    link->rank);
  }
  link->credited = credit;
  while (link->blocked.first && admit(link->blocked.first)) {
    release(link->blocked.first);
  }
  announce(link);
  return GLOO_OK;
}

gloo_operation *gli_wire_blocked(const gli_link *link, const gli_header *h,
                                 uint32_t *peer) {
  const gli_transfer *t = link->blocked.first;
  for (; t; t = t->next) {
    const gli_header *own = &t->request.header;
    if (own->collective != GLI_SENDRECV || own->tag != h->tag) continue;
    if (own->operation == h->operation) break;
  }
  if (!t) return NULL;
  *peer = t->peer;
  return t->operation;
}

void gli_flow_granted(gloo_operation *op, uint32_t peer) {
  gli_op_peer *p = &op->peers[peer];
  if (p->granted) return;
  p->granted = true;
  gli_link *link = p->link;
  gli_transfer *next;
  for (gli_transfer *t = link->blocked.first; t; t = next) {
    next = t->next;
    if (t->operation == op && t->peer == peer) release(t);
  }
  announce(link);
}

void gli_flow_withdraw(gli_link *link, const gloo_operation *op) {
  gli_transfer *next;
  for (gli_transfer *t = link->blocked.first; t; t = next) {
    next = t->next;
    if (t->operation != op) continue;
    if (!announced(t)) link->unannounced--;
    gli_transfer_list_remove(&link->blocked, t);
    gli_transfer_free(t);
    link->data_sent--;
  }
}
