/* Links to other ranks, messages on their way to them, and flow control: what
 * may be sent when (credit.c says how). */
#ifndef GLI_ENGINE_WIRE_WIRE_H
#define GLI_ENGINE_WIRE_WIRE_H

#include "core/hints.h"
#include "engine/state/context.h"
#include "plan/plan.h"

/* From this many bytes on a receiver tells the sender at once that it has
 * started, so that the sender need not stop at the end of its credit. */
#define GLI_CTS_UNASKED_BYTES ((uint64_t)64 * 1024)
/* The bounds of the bytes that a peer may have here early: its part of ALL,
 * within MIN and MAX. */
#define GLI_EAGER_BUDGET_MAX ((uint32_t)1 << 20)
#define GLI_EAGER_BUDGET_MIN ((uint32_t)128 << 10)
#define GLI_EAGER_BUDGET_ALL ((uint32_t)256 << 20)
/* How many RTSs of one peer are kept here, and answers to it as well. */
#define GLI_RTS_MAX 1024u

/* ---- messages to the transport (post.c) ---------------------------------- */

/* Hand it to the transport, or keep it until that has room. */
void gli_wire_post(gli_transfer *t);
int gli_wire_retry(gloo_device *device);
/* The transport has sent it. */
void gli_wire_sent(gli_transfer *t);
/* Ends a transfer. If it was that of a step, the step is complete, which
 * device->finished passes to the thread that runs operations next
 * (gli_device_run). */
void gli_wire_finish(gli_transfer *t);
/* Drops all transfers of a link. */
void gli_wire_drop(gli_link *link);

/* Sends a message without payload. The slot of an RTS is the first blocked
 * slot; of a CTS, 1 if it answers an RTS; of a PROBE, 1 after the deadline. */
void gli_wire_control(gli_link *link, gli_message_type type,
                      const gli_header *about, uint32_t slot);
/* Sends a message with a payload from malloc, which the link takes over;
 * `about` has the slot. */
void gli_wire_note(gli_link *link, gli_message_type type,
                   const gli_header *about, uint8_t *note, size_t bytes);
/* Answer an RTS (CTS), a PROBE (WAITING) or anything for a group that is
 * gone (DEPARTED). A peer that goes on asking but does not take its answers
 * gets no more of them; of an RTS, which is an error. */
gloo_status gli_wire_answer(gli_link *link, gli_message_type type,
                            const gli_header *about, gloo_error *error);

/* ---- credit (credit.c) --------------------------------------------------- */

/* A message of a step: at once, or when its receiver has started, or has room.
 * `stuck`: not before others that it must not overtake. */
void gli_wire_send(gli_transfer *t, bool stuck);
/* An RTS of ours was answered. */
void gli_wire_answered(gli_link *link);
gloo_status gli_wire_credit(gli_link *link, uint32_t credit, gloo_error *error);
/* The commonest case: no message waits for credit. False: it is not so. */
static inline bool gli_wire_credit_now(gli_link *link, uint32_t credit) {
  uint32_t given = credit - link->credit.acked;
  if (link->blocked.first != NULL ||
      given > link->credit.sent - link->credit.acked)
    return given == 0;
  link->credit.acked = credit;
  return true;
}
void gli_wire_granted(gli_operation *op, uint32_t peer);
/* The send that a message of this number and tag belongs to, as long as some of
 * it is blocked, and the receiver's index among its peers. NULL: none is. */
gli_operation *gli_wire_blocked(const gli_link *link, const gli_header *header,
                                uint32_t *peer);
/* Take back what is blocked of an operation that the peer does not know of. */
void gli_wire_withdraw(gli_operation *op, uint32_t peer);
/* Its messages that are blocked have the next lower number now. */
void gli_wire_step_down(gli_operation *op, uint32_t peer);
void gli_wire_drop_blocked(gli_link *link);
static inline uint64_t gli_wire_cost(uint64_t length) {
  return length + GLI_HEADER_BYTES;
}
/* Took an eager message of this many payload bytes. When nothing has gone the
 * other way for long, the sender is told. */
GLI_COLD void gli_wire_send_credit(gli_link *link);
static inline void gli_wire_consumed(gli_link *link, uint64_t length) {
  link->credit.consumed += (uint32_t)gli_wire_cost(length);
  if (link->credit.consumed - link->credit.consumed_acked >=
      link->context->budget / 2) {
    gli_wire_send_credit(link);
  }
}

/* Hand a message to a transport that is done with it at once, if it is so, and
 * the message is free to go. False: nothing has changed. */
GLI_INLINE bool gli_wire_offer(const gli_op_peer *peer, gli_pair *pair,
                               gli_header *header, const void *payload) {
  gli_link *link = peer->link;
  uint32_t cost = 0;
  header->eager = 0;
  if (!peer->granted) {
    uint32_t used = link->credit.sent - link->credit.acked;
    cost = (uint32_t)gli_wire_cost(header->length);
    header->eager = 1;
    if (cost > link->context->budget - used) return false;
  }
  header->credit = link->credit.consumed;
  if (!pair->ops->send_now(pair, header, payload)) return false;
  link->credit.sent += cost;
  link->leaving.sent++;
  link->credit.consumed_acked = link->credit.consumed;
  return true;
}

/* ---- links (links.c) ----------------------------------------------------- */

/* The link to a rank, made and opened when first asked for; NULL with `error`.
 */
gli_link *gli_context_link(gloo_context *context, uint32_t rank,
                           gloo_error *error);
/* The same for signs of life alone (heartbeat.c): nothing else knows of it
 * until something asks for it, or it is kept. There is one at a time. */
gli_link *gli_context_try_link(gloo_context *root, uint32_t rank,
                               gloo_error *error);
/* From now on it is a link as any other. */
void gli_context_keep_link(gli_link *link);
/* What the pair of a link of a root is opened with, but for its user. */
gli_pair_config gli_context_pair_config(const gloo_context *root,
                                        uint32_t rank);
/* One of a group for what comes through `base_link`: not of a rank yet, until
 * it joins. */
gli_link *gli_group_new_link(gloo_context *group, gli_link *base_link,
                             gloo_error *error);
/* Messages of a rank to itself need no number. */
void gli_group_join_link(gli_link *link, gli_peer *peer, uint32_t local);
/* The one for what comes through `base_link` for the group that is `id` here;
 * NULL: there is none yet. */
gli_link *gli_group_known_link(const gli_link *base_link, uint32_t id);
/* Its pair is closed, with a last message if the peer is to have one. NULL:
 * none. */
void gli_link_close(gli_link *link, const gli_send_request *last);
/* Of a root, and it has failed: closed without a word, and not there any more.
 */
void gli_context_drop_link(gloo_context *root, uint32_t rank);
/* It is in no list. */
void gli_link_free(gli_link *link);
/* Nothing that comes finds it any more. */
void gli_group_forget_link(gli_family *family, const gli_link *link);

#endif
