/* Flow control: when a message may be sent.
 *
 * The receiver must keep a message for an operation that it has not started.
 * Each rank grants each other rank a budget for that: such messages are
 * `eager`, and their bytes are returned as credit in the header of any later
 * message. Without credit the sender sends RTS, and the receiver answers CTS as
 * soon as it has started the operation; from then on the operation needs no
 * credit. A receiver that expects much sends CTS unasked, so that in balanced
 * programs no sender ever stops. */
#include "core/error.h"
#include "engine/state/context.h"
#include "engine/state/operation.h"
#include "engine/wire/wire.h"

static bool rts_was_sent(const gli_transfer *t) {
  return t->operation->peers[t->peer].rts_sent;
}

/* Returns the first transfer, from `t` on, that the receiver does not know
 * of. */
static gli_transfer *next_unannounced(gli_transfer *t) {
  while (t != NULL && rts_was_sent(t)) t = t->next;
  return t;
}

/* Returns true if the message may be sent: the receiver has started, or there
 * is credit, which is taken. */
static bool take_credit_for(gli_transfer *t) {
  gli_link *link = t->link;
  if (t->operation->peers[t->peer].granted) return true;
  uint64_t cost = gli_wire_cost(t->request.header.length);
  uint32_t used = link->credit.sent - link->credit.acked;
  if (cost > link->context->budget - used) return false;
  link->credit.sent += (uint32_t)cost;
  t->request.header.eager = 1;
  return true;
}

/* Tells the receiver about blocked operations, oldest first. */
static void send_rts(gli_link *link) {
  while (link->unannounced != NULL && link->rts_out < GLI_RTS_MAX) {
    gli_transfer *t = link->unannounced;
    gli_operation_note(t->operation, t->peer)->rts_sent = true;
    link->rts_out++;
    link->unannounced = next_unannounced(t->next);
    const gli_header *h = &t->request.header;
    gli_wire_control(link, GLI_MESSAGE_RTS, h, h->slot);
  }
}

void gli_wire_answered(gli_link *link) {
  link->rts_out--;
  send_rts(link);
}

/* Files a blocked message by key, so that a CTS finds it: messages are in no
 * table of operations. */
static void key_message(gli_transfer *t) {
  const gli_header *h = &t->request.header;
  gli_key key = {t->link->rank, h->tag, h->operation};
  if (h->collective == GLI_SENDRECV)
    gli_key_table_add(&t->link->context->blocked, &t->keyed, key);
}

static void unkey_message(gli_transfer *t) {
  if (t->request.header.collective == GLI_SENDRECV)
    gli_key_table_remove(&t->link->context->blocked, &t->keyed);
}

static void block_message(gli_transfer *t) {
  gli_link *link = t->link;
  gli_op_peer *peer = gli_operation_note(t->operation, t->peer);
  gli_transfer_list_add(&link->blocked, t);
  key_message(t);
  t->blocked_next = NULL;
  if (peer->blocked_first != NULL) {
    peer->blocked_last->blocked_next = t;
  } else {
    peer->blocked_first = t;
  }
  peer->blocked_last = t;
  if (peer->rts_sent) return;
  if (link->unannounced == NULL) link->unannounced = t;
  send_rts(link);
}

/* Removes a transfer, which is the first of its run and peer. */
static void unblock_message(gli_transfer *t) {
  gli_link *link = t->link;
  t->operation->peers[t->peer].blocked_first = t->blocked_next;
  if (link->unannounced == t) link->unannounced = next_unannounced(t->next);
  gli_transfer_list_remove(&link->blocked, t);
  unkey_message(t);
}

void gli_wire_drop_blocked(gli_link *link) {
  link->unannounced = NULL;
  while (link->blocked.first != NULL) {
    gli_transfer *t = link->blocked.first;
    gli_transfer_list_remove(&link->blocked, t);
    unkey_message(t);
    gli_transfer_free(t);
  }
}

void gli_wire_send(gli_transfer *t, bool stuck) {
  t->link->leaving.sent++;
  bool granted = t->operation->peers[t->peer].granted;
  if ((stuck && !granted) || !take_credit_for(t)) {
    block_message(t);
  } else {
    gli_wire_post(t);
  }
}

static void release_blocked(gli_transfer *t) {
  unblock_message(t);
  gli_wire_post(t);
}

void gli_wire_send_credit(gli_link *link) {
  if (link->pending.first != NULL)
    return; /* the pending message carries the credit */
  gli_wire_control(link, GLI_MESSAGE_CREDIT, NULL, 0);
}

gloo_status gli_wire_credit(gli_link *link, uint32_t credit,
                            gloo_error *error) {
  uint32_t given = credit - link->credit.acked;
  /* With several streams an older message may arrive after a newer one. */
  if (given == 0 || given > UINT32_MAX / 2) return GLOO_OK;
  if (given > link->credit.sent - link->credit.acked) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u returned more credit than it was owed",
                    link->rank);
  }
  link->credit.acked = credit;
  while (link->blocked.first != NULL && take_credit_for(link->blocked.first)) {
    release_blocked(link->blocked.first);
  }
  send_rts(link);
  return GLOO_OK;
}

gli_operation *gli_wire_blocked(const gli_link *link, const gli_header *h,
                                uint32_t *peer) {
  const gli_key_table *table = &link->context->blocked;
  gli_key key = {link->rank, h->tag, h->operation};
  gli_keyed *found = table->n > 0 ? gli_key_table_find(table, key) : NULL;
  if (found == NULL) return NULL;
  const gli_transfer *t =
      (gli_transfer *)(void *)((char *)found - offsetof(gli_transfer, keyed));
  *peer = t->peer;
  return t->operation;
}

void gli_wire_granted(gli_operation *op, uint32_t peer) {
  gli_op_peer *p = gli_operation_note(op, peer);
  if (p->granted) return;
  p->granted = true;
  while (p->blocked_first != NULL) release_blocked(p->blocked_first);
  send_rts(p->link);
}

void gli_wire_withdraw(gli_operation *op, uint32_t peer) {
  gli_op_peer *p = &op->peers[peer];
  while (p->blocked_first != NULL) {
    gli_transfer *t = p->blocked_first;
    unblock_message(t);
    gli_transfer_free(t);
    p->link->leaving.sent--;
  }
}

void gli_wire_step_down(gli_operation *op, uint32_t peer) {
  gli_transfer *t = op->peers[peer].blocked_first;
  for (; t != NULL; t = t->blocked_next) {
    unkey_message(t);
    t->request.header.operation--;
    key_message(t);
  }
}
