/* Links to other ranks, transfers to them, and flow control (credit.c). */
#ifndef GLI_ENGINE_WIRE_WIRE_H
#define GLI_ENGINE_WIRE_WIRE_H

#include "core/hints.h"
#include "engine/state/context.h"
#include "plan/plan.h"

/* The number of bytes from which a receiver tells the sender at once that it
 * has started, so that the sender need not stop at the end of its credit. */
#define GLI_CTS_UNASKED_BYTES ((uint64_t)64 * 1024)
/* The bounds of the early bytes from one peer: an equal share of ALL, between
 * MIN and MAX. */
#define GLI_EAGER_BUDGET_MAX ((uint32_t)1 << 20)
#define GLI_EAGER_BUDGET_MIN ((uint32_t)128 << 10)
#define GLI_EAGER_BUDGET_ALL ((uint32_t)256 << 20)
/* The number of RTSs of one peer that are kept here, and of answers to it. */
#define GLI_RTS_MAX 1024u

/* ---- messages to the transport (post.c) ---------------------------------- */

/* Hands a message to the transport, or keeps it until there is room. */
void gli_wire_post(gli_transfer *t);
int gli_wire_retry(gloo_device *device);
/* Takes a message that the transport has sent. */
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
/* Answers an RTS (CTS), a PROBE (WAITING), or anything for a group that has
 * ended (DEPARTED). A peer that keeps asking but does not read the answers gets
 * no more of them; with RTS that is an error. */
gloo_status gli_wire_answer(gli_link *link, gli_message_type type,
                            const gli_header *about, gloo_error *error);

/* ---- credit (credit.c) --------------------------------------------------- */

/* Sends a message of a step: at once, or when its receiver has started or has
 * room. `stuck`: it must not overtake earlier messages. */
void gli_wire_send(gli_transfer *t, bool stuck);
/* Takes the answer to an RTS of this rank. */
void gli_wire_answered(gli_link *link);
gloo_status gli_wire_credit(gli_link *link, uint32_t credit, gloo_error *error);
/* Takes credit in the most common case, in which no message waits for credit.
 * Returns false in any other case. */
static inline bool gli_wire_credit_now(gli_link *link, uint32_t credit) {
  uint32_t given = credit - link->credit.acked;
  if (link->blocked.first != NULL ||
      given > link->credit.sent - link->credit.acked)
    return given == 0;
  link->credit.acked = credit;
  return true;
}
void gli_wire_granted(gli_operation *op, uint32_t peer);
/* Returns the send that a message of this number and tag belongs to, while part
 * of it is blocked, with the index of the receiver among its peers. NULL if
 * none. */
gli_operation *gli_wire_blocked(const gli_link *link, const gli_header *header,
                                uint32_t *peer);
/* Takes back the blocked messages of an operation that the peer does not know
 * of. */
void gli_wire_withdraw(gli_operation *op, uint32_t peer);
/* Gives its blocked messages the next lower number. */
void gli_wire_step_down(gli_operation *op, uint32_t peer);
void gli_wire_drop_blocked(gli_link *link);
static inline uint64_t gli_wire_cost(uint64_t length) {
  return length + GLI_HEADER_BYTES;
}
/* Counts an eager message of this many payload bytes as consumed. Returns the
 * credit in a message if nothing has been sent to the peer for long. */
GLI_COLD void gli_wire_send_credit(gli_link *link);
static inline void gli_wire_consumed(gli_link *link, uint64_t length) {
  link->credit.consumed += (uint32_t)gli_wire_cost(length);
  if (link->credit.consumed - link->credit.consumed_acked >=
      link->context->budget / 2) {
    gli_wire_send_credit(link);
  }
}

/* Offers a message to a transport that may send it at once, if flow control
 * permits. Returns false, without any change, if it was not sent. */
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

/* Returns the link to a rank, made and opened on first use; NULL with
 * `error`. */
gli_link *gli_context_link(gloo_context *context, uint32_t rank,
                           gloo_error *error);
/* Returns a link to a rank for heartbeats alone (heartbeat.c). Nothing else
 * uses it until it is asked for or kept. There is one at a time. */
gli_link *gli_context_try_link(gloo_context *root, uint32_t rank,
                               gloo_error *error);
/* Makes it a link like any other. */
void gli_context_keep_link(gli_link *link);
/* Returns the configuration of the pair of a root's link, without `user`. */
gli_pair_config gli_context_pair_config(const gloo_context *root,
                                        uint32_t rank);
/* Returns a new link of a group for messages from `base_link`. It has no rank
 * until it joins. */
gli_link *gli_group_new_link(gloo_context *group, gli_link *base_link,
                             gloo_error *error);
/* Gives a link its rank. Messages of a rank to itself need no number. */
void gli_group_join_link(gli_link *link, gli_peer *peer, uint32_t local);
/* Returns the link for messages from `base_link` to the group with this number;
 * NULL if there is none yet. */
gli_link *gli_group_known_link(const gli_link *base_link, uint32_t id);
/* Closes the pair of a link, after a last message to the peer. `last` may be
 * NULL. */
void gli_link_close(gli_link *link, const gli_send_request *last);
/* Closes and removes a failed link of a root, without a message. */
void gli_context_drop_link(gloo_context *root, uint32_t rank);
/* Frees a link that is in no list. */
void gli_link_free(gli_link *link);
/* Removes the route of a link: no message finds it any more. */
void gli_group_forget_link(gli_family *family, const gli_link *link);

#endif
