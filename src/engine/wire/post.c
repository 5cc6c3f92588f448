/* Messages to the transport, and what is left of them when it has no room. */
#include "core/error.h"
#include "engine/state/context.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/state/operation.h"
#include "engine/wire/wire.h"

void gli_wire_finish(gli_transfer *t) {
  gloo_operation *op = t->operation;
  if (!op) {
    gli_transfer_free(t);
    return;
  }
  gli_transfer_list_add(&op->device->finished, t);
  gli_operation_make_runnable(op);
}

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

/* A message is sent: its step is done, unless it was sent by reference. */
void gli_wire_sent(gli_transfer *t) {
  if (t->shown && !t->link->left) {
    gli_transfer_list_add(&t->link->shown, t);
  } else {
    gli_wire_finish(t);
  }
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

void gli_wire_post(gli_transfer *t) {
  if (t->link->again.first) {
    queue_again(t); /* nothing overtakes what waits already */
    return;
  }
  gli_post posted = hand_over(t);
  if (posted == GLI_POST_AGAIN) queue_again(t);
  if (posted == GLI_POST_DONE) gli_wire_sent(t);
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
    if (posted == GLI_POST_DONE) gli_wire_sent(t);
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

/* ---- messages without payload -------------------------------------------- */

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
  if (t) gli_wire_post(t);
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
  gli_wire_post(t);
  return GLOO_OK;
}

/* ---- the end ------------------------------------------------------------- */

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

static void drop_from(gli_transfer_list *list, const gli_link *link) {
  gli_transfer *next;
  for (gli_transfer *t = list->first; t; t = next) {
    next = t->next;
    if (t->link != link) continue;
    gli_transfer_list_remove(list, t);
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
  drop_from(&device->self_queue, link);
  drop_from(&device->finished, link);
  gli_link **at = &device->again_links;
  while (*at && *at != link) at = &(*at)->again_next;
  if (*at) *at = link->again_next;
  link->again_queued = false;
}
