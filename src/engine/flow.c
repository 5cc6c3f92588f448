/* Flow control: what may be sent when.
 *
 * A message for an operation that its receiver has not started has to be parked
 * there. Each rank lets each other rank park up to a budget: such messages are
 * `charged`, and come back as credit in the header of any later message. When
 * credit runs out the sender says WANT, and the receiver answers STARTED as
 * soon as it has started the operation; from then on nothing of it is charged.
 * A receiver that expects much says STARTED unasked, so that in balanced
 * programs nobody ever stops. */
#include <string.h>

#include "core/error.h"
#include "engine/context.h"
#include "engine/describe.h"
#include "engine/device.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/match.h"
#include "engine/operation.h"
#include "engine/reach.h"

/* Hand a message to the transport. */
static gli_post hand_over(gli_transfer *t) {
  gli_link *link = t->link;
  gloo_device *device = link->context->device;
  t->request.header.credit = link->consumed;
  link->consumed_told = link->consumed;
  if (link->self) {
    gli_transfer_list_add(&device->self_queue, t);
    return GLI_POST_IN_PROGRESS;
  }
  gli_post posted = link->pair->ops->send(link->pair, &t->request);
  if (posted == GLI_POST_IN_PROGRESS) gli_transfer_list_add(&link->flying, t);
  return posted;
}

void gli_flow_sent(gli_transfer *t) {
  gloo_operation *op = t->operation;
  if (t->shown && !t->link->left) {
    gli_transfer_list_add(&t->link->shown, t);
    return;
  }
  uint32_t step = t->step;
  gli_transfer_free(t);
  if (op) gli_operation_step_done(op, step);
}

static void queue_again(gli_transfer *t) {
  gli_link *link = t->link;
  gloo_device *device = link->context->device;
  gli_transfer_list_add(&link->again, t);
  if (link->again_queued) return;
  link->again_queued = true;
  link->again_next = device->again_links;
  device->again_links = link;
}

static void post(gli_transfer *t) {
  if (t->link->again.first) {
    queue_again(t); /* nothing overtakes what waits already */
    return;
  }
  gli_post posted = hand_over(t);
  if (posted == GLI_POST_AGAIN) queue_again(t);
  if (posted == GLI_POST_DONE) gli_flow_sent(t);
}

static int retry_link(gli_link *link) {
  int sent = 0;
  while (link->again.first) {
    gli_transfer *t = link->again.first;
    gli_transfer_list_remove(&link->again, t);
    gli_post posted = hand_over(t);
    if (posted == GLI_POST_AGAIN) {
      t->next = link->again.first; /* back to the front */
      if (t->next) {
        t->next->prev = t;
      } else {
        link->again.last = t;
      }
      link->again.first = t;
      return sent;
    }
    sent++;
    if (posted == GLI_POST_DONE) gli_flow_sent(t);
  }
  return sent;
}

int gli_flow_retry(gloo_device *device) {
  int sent = 0;
  gli_link *link = device->again_links;
  device->again_links = NULL;
  while (link) {
    gli_link *next = link->again_next;
    link->again_queued = false;
    sent += retry_link(link);
    if (link->again.first && !link->again_queued) {
      link->again_queued = true;
      link->again_next = device->again_links;
      device->again_links = link;
    }
    link = next;
  }
  return sent;
}

static gli_transfer *new_control(gli_link *link, gli_message_type type,
                                 const gli_header *about, uint32_t slot) {
  if (link->left || link->failed || (!link->pair && !link->self)) return NULL;
  if (link->local == GLI_NO_RANK) return NULL; /* what it calls us is unknown */
  gli_transfer *t = gli_transfer_new(link);
  if (!t) {
    gloo_error error;
    gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for a message to rank %u", link->rank);
    gli_context_poison(link->context, &error);
    return NULL;
  }
  t->errand = true;
  link->context->device->owed++;
  t->request.header = about ? *about : (gli_header){0};
  t->request.header.type = (uint8_t)type;
  t->request.header.context = link->group;
  t->request.header.form = GLI_FORM_BYTES;
  t->request.header.slot = slot;
  t->request.header.charged = 0;
  t->request.header.length = 0;
  return t;
}

void gli_flow_control(gli_link *link, gli_message_type type,
                      const gli_header *about, uint32_t slot) {
  gli_transfer *t = new_control(link, type, about, slot);
  if (t) post(t);
}

gloo_status gli_flow_answer(gli_link *link, gli_message_type type,
                            const gli_header *about, gloo_error *error) {
  /* WAITING takes half of the room, and can be done without. */
  bool vital = type == GLI_MESSAGE_STARTED;
  if (!vital && link->answers >= GLI_WANTS_MAX) return GLOO_OK;
  if (link->answers >= 2 * GLI_WANTS_MAX) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u asks and asks, but does not take the answers",
                    link->rank);
  }
  uint32_t slot = type == GLI_MESSAGE_WAITING ? 0 : 1;
  gli_transfer *t = new_control(link, type, about, slot);
  if (!t) return GLOO_OK;
  t->answer = true;
  link->answers++;
  post(t);
  return GLOO_OK;
}

/* ---- credit -------------------------------------------------------------- */

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

static void release(gli_transfer *t) {
  if (!announced(t)) t->link->unannounced--;
  gli_transfer_list_remove(&t->link->blocked, t);
  post(t);
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

/* ---- sending ------------------------------------------------------------- */

/* `at_fault` is -1 where it is not the receiver. */
static void fail_send(gloo_operation *op, gli_link *link, gloo_status status,
                      int at_fault, const char *why) {
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  gli_fail(&error, status, at_fault, "%s: cannot send to rank %u: %s",
           gli_describe_call(&op->signature, text), link->rank, why);
  gli_context_poison(op->context, &error);
}

/* Messages between two ranks keep their order: they must not pass one that the
 * receiver does not know of. */
static bool is_stuck(const gloo_operation *op, const gli_link *link) {
  bool message = op->signature.collective == GLI_SENDRECV;
  return message && link->unannounced > 0;
}

static void fill_header(const gloo_operation *op, const gli_step *step,
                        gli_header *header) {
  *header = op->signature;
  header->type = GLI_MESSAGE_DATA;
  header->context = op->peers[step->peer].link->group;
  header->slot = step->slot;
  header->length = gli_step_wire_bytes(step);
  if (op->pairwise) {
    header->count = gli_plan_exchanged(op->plan, step->peer, true);
  }
}

/* A short message of bytes, which needs no transfer when the transport is done
 * with it at once. False: nothing has changed. */
static bool send_now(gloo_operation *op, const gli_step *step, gli_link *link) {
  gli_pair *pair = link->pair;
  if (!pair || !pair->ops->send_now || link->again.first) return false;
  if (step->role != GLI_ROLE_BYTES || is_stuck(op, link)) return false;
  uint64_t length = gli_step_wire_bytes(step);
  if (length > GLI_REFER_BYTES) return false;
  gli_header header;
  fill_header(op, step, &header);
  const void *payload = gli_operation_at(op, step->a_buffer, step->a);
  return gli_flow_offer(&op->peers[step->peer], pair, &header, payload);
}

void gli_flow_send_step(gloo_operation *op, uint32_t index) {
  const gli_step *step = &op->plan->steps[index];
  gli_link *link = op->peers[step->peer].link;
  if (link->left) {
    fail_send(op, link, GLOO_ERR_PEER, (int)link->rank, "it has left");
    return;
  }
  if (send_now(op, step, link)) {
    gli_operation_step_done(op, index);
    return;
  }
  gli_transfer *t = gli_transfer_new(link);
  if (!t) {
    fail_send(op, link, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return;
  }
  t->operation = op;
  t->step = index;
  t->peer = step->peer;
  link->data_sent++;
  fill_header(op, step, &t->request.header);
  gli_reach_offer(t);
  if (is_stuck(op, link) || !admit(t)) {
    block(t);
    return;
  }
  post(t);
}

static void drop_list(gli_transfer_list *list) {
  while (list->first) {
    gli_transfer *t = list->first;
    gli_transfer_list_remove(list, t);
    /* These, while they arrive, are known to nobody else. */
    if (t->parked &&
        (t->parked->header.type == GLI_MESSAGE_ABORT || t->parked->orphan)) {
      gli_parked_free(t->parked);
    }
    gli_transfer_free(t);
  }
}

void gli_flow_drop(gli_link *link) {
  gloo_device *device = link->context->device;
  drop_list(&link->blocked);
  drop_list(&link->again);
  drop_list(&link->flying);
  drop_list(&link->shown);
  drop_list(&link->arriving);
  link->unannounced = 0;
  gli_transfer *next;
  for (gli_transfer *t = device->self_queue.first; t; t = next) {
    next = t->next;
    if (t->link != link) continue;
    gli_transfer_list_remove(&device->self_queue, t);
    gli_transfer_free(t);
  }
  gli_link **at = &device->again_links;
  while (*at && *at != link) at = &(*at)->again_next;
  if (*at) *at = link->again_next;
  link->again_queued = false;
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
