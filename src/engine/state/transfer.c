/* Transfers: lists, and a pool so that none is allocated twice. */
#include <stdlib.h>

#include "engine/state/context.h"
#include "engine/state/device.h"
#include "engine/state/link.h"

void gli_transfer_list_add(gli_transfer_list *list, gli_transfer *t) {
  t->next = NULL;
  t->prev = list->last;
  if (list->last != NULL) {
    list->last->next = t;
  } else {
    list->first = t;
  }
  list->last = t;
}

void gli_transfer_list_remove(gli_transfer_list *list, gli_transfer *t) {
  if (t->prev != NULL) {
    t->prev->next = t->next;
  } else {
    list->first = t->next;
  }
  if (t->next != NULL) {
    t->next->prev = t->prev;
  } else {
    list->last = t->prev;
  }
  t->prev = t->next = NULL;
}

gli_transfer *gli_transfer_new(gli_link *link) {
  gloo_device *device = link->context->device;
  gli_transfer *t = device->free_transfers;
  if (t != NULL) {
    device->free_transfers = t->next;
  } else {
    t = malloc(sizeof *t);
    if (t == NULL) return NULL;
  }
  /* The sender fills in the header, which is half of a transfer. */
  t->request.payload = NULL;
  t->link = link;
  t->operation = NULL;
  t->early = NULL;
  t->step = t->peer = 0;
  t->answer = t->errand = t->exposed = t->held = false;
  t->form = GLI_FORM_BYTES;
  t->window = NULL;
  t->unsent = NULL;
  t->prev = t->next = NULL;
  return t;
}

void gli_transfer_free(gli_transfer *t) {
  gloo_device *device = t->link->context->device;
  if (t->answer) t->link->answers--;
  if (t->errand) {
    device->owed--;
    free(t->note);
  }
  t->next = device->free_transfers;
  device->free_transfers = t;
}

void gli_transfer_free_pool(gloo_device *device) {
  while (device->free_transfers != NULL) {
    gli_transfer *t = device->free_transfers;
    device->free_transfers = t->next;
    free(t);
  }
}
