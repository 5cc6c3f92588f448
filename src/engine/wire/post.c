/* Hands messages to the transport, and queues them while it has no room. */
#include <stdlib.h>

#include "core/error.h"
#include "engine/state/context.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/state/operation.h"
#include "engine/wire/wire.h"

void gli_wire_finish(gli_transfer *t) {
  gli_operation *op = t->operation;
  if (op == NULL) {
    if (t->unsent != NULL) {
      gloo_device *device = t->link->context->device;
      (*t->unsent)--;
      if (device->flushes > 0) device->leftovers = true;
    }
    gli_transfer_free(t);
    return;
  }
  gli_transfer_list_add(&op->device->finished, t);
  gli_operation_make_runnable(op);
}

/* Hands a message to the transport. */
static gli_post hand_over(gli_transfer *t) {
  gli_link *link = t->link;
  gloo_device *device = link->context->device;
  t->request.header.credit = link->credit.consumed;
  link->credit.consumed_acked = link->credit.consumed;
  if (link->self) {
    gli_transfer_list_add(&device->self_queue, t);
    device->leftovers = true;
    return GLI_POST_IN_PROGRESS;
  }
  gli_post posted = link->pair->ops->send(link->pair, &t->request);
  if (posted == GLI_POST_IN_PROGRESS)
    gli_transfer_list_add(&link->in_flight, t);
  return posted;
}

/* Takes a message that was sent. Its step is done, unless it was sent as an
 * rkey. */
void gli_wire_sent(gli_transfer *t) {
  if (t->exposed && !t->link->leaving.departed) {
    gli_transfer_list_add(&t->link->exposed, t);
  } else {
    gli_wire_finish(t);
  }
}

static void queue_pending(gli_transfer *t) {
  gli_link *link = t->link;
  gloo_device *device = link->context->device;
  gli_transfer_list_add(&link->pending, t);
  if (link->pending_queued) return;
  link->pending_queued = true;
  link->pending_next = device->pending_links;
  device->pending_links = link;
  device->leftovers = true;
}

void gli_wire_post(gli_transfer *t) {
  if (t->link->pending.first != NULL) {
    queue_pending(t); /* pending messages are not overtaken */
    return;
  }
  gli_post posted = hand_over(t);
  if (posted == GLI_POST_NO_ROOM) queue_pending(t);
  if (posted == GLI_POST_DONE) gli_wire_sent(t);
}

static int retry_link(gli_link *link) {
  int sent = 0;
  while (link->pending.first != NULL) {
    gli_transfer *t = link->pending.first;
    gli_transfer_list_remove(&link->pending, t);
    gli_post posted = hand_over(t);
    if (posted == GLI_POST_NO_ROOM) {
      t->next = link->pending.first; /* back to the front */
      if (t->next != NULL) {
        t->next->prev = t;
      } else {
        link->pending.last = t;
      }
      link->pending.first = t;
      return sent;
    }
    sent++;
    if (posted == GLI_POST_DONE) gli_wire_sent(t);
  }
  return sent;
}

int gli_wire_retry(gloo_device *device) {
  int sent = 0;
  gli_link *link = device->pending_links;
  device->pending_links = NULL;
  while (link != NULL) {
    gli_link *next = link->pending_next;
    link->pending_queued = false;
    sent += retry_link(link);
    if (link->pending.first != NULL && !link->pending_queued) {
      link->pending_queued = true;
      link->pending_next = device->pending_links;
      device->pending_links = link;
    }
    link = next;
  }
  return sent;
}

/* ---- messages without payload -------------------------------------------- */

static gli_transfer *new_control(gli_link *link, gli_message_type type,
                                 const gli_header *about, uint32_t slot) {
  if (link->leaving.departed || link->failed ||
      (link->pair == NULL && !link->self))
    return NULL;
  if (link->local == GLI_NO_RANK) return NULL; /* no number at the peer */
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) {
    gloo_error error;
    gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for a message to rank %u", link->rank);
    gli_context_poison(link->context, &error);
    return NULL;
  }
  t->errand = true;
  t->note = NULL;
  link->context->device->owed++;
  t->request.header = about != NULL ? *about : (gli_header){0};
  t->request.header.type = (uint8_t)type;
  t->request.header.context = link->group.peers;
  t->request.header.form = GLI_FORM_BYTES;
  t->request.header.slot = slot;
  t->request.header.eager = 0;
  t->request.header.length = 0;
  return t;
}

void gli_wire_control(gli_link *link, gli_message_type type,
                      const gli_header *about, uint32_t slot) {
  gli_transfer *t = new_control(link, type, about, slot);
  if (t != NULL) gli_wire_post(t);
}

void gli_wire_note(gli_link *link, gli_message_type type,
                   const gli_header *about, uint8_t *note, size_t bytes) {
  gli_transfer *t = new_control(link, type, about, about->slot);
  if (t == NULL) {
    free(note);
    return;
  }
  t->note = note;
  t->request.payload = note;
  t->request.header.length = bytes;
  gli_wire_post(t);
}

gloo_status gli_wire_answer(gli_link *link, gli_message_type type,
                            const gli_header *about, gloo_error *error) {
  /* WAITING uses half of the room, and may be dropped. */
  bool vital = type == GLI_MESSAGE_CTS;
  if (!vital && link->answers >= GLI_RTS_MAX) return GLOO_OK;
  if (link->answers >= 2 * GLI_RTS_MAX) {
    return gli_fail(
        error, GLOO_ERR_PROTOCOL, (int)link->rank,
        "rank %u keeps sending requests without reading the replies",
        link->rank);
  }
  uint32_t slot = type == GLI_MESSAGE_WAITING ? about->slot : 1;
  gli_transfer *t = new_control(link, type, about, slot);
  if (t == NULL) return GLOO_OK;
  t->answer = true;
  link->answers++;
  gli_wire_post(t);
  return GLOO_OK;
}

/* ---- the end ------------------------------------------------------------- */

static void drop_list(gli_transfer_list *list) {
  while (list->first != NULL) {
    gli_transfer *t = list->first;
    gli_transfer_list_remove(list, t);
    /* The transfer owns such an early message while it arrives. */
    if (t->early != NULL &&
        (t->early->header.type == GLI_MESSAGE_ABORT ||
         t->early->header.type == GLI_MESSAGE_MEMBERS || t->early->orphan)) {
      gli_early_free(t->early);
    }
    gli_transfer_free(t);
  }
}

static void drop_from(gli_transfer_list *list, const gli_link *link) {
  gli_transfer *next;
  for (gli_transfer *t = list->first; t != NULL; t = next) {
    next = t->next;
    if (t->link != link) continue;
    gli_transfer_list_remove(list, t);
    gli_transfer_free(t);
  }
}

void gli_wire_drop(gli_link *link) {
  gloo_device *device = link->context->device;
  gli_wire_drop_blocked(link);
  drop_list(&link->pending);
  drop_list(&link->in_flight);
  drop_list(&link->exposed);
  drop_list(&link->arriving);
  drop_from(&device->self_queue, link);
  drop_from(&device->finished, link);
  gli_link **at = &device->pending_links;
  while (*at != NULL && *at != link) at = &(*at)->pending_next;
  if (*at != NULL) *at = link->pending_next;
  link->pending_queued = false;
}
