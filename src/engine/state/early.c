/* Messages that arrived before their receive was ready: memory and lookup. */
#include <stdlib.h>
#include <string.h>

#include "engine/state/context.h"
#include "engine/state/device.h"
#include "engine/state/early.h"

/* Limits of the memory that is kept for long messages. The system clears memory
 * that was returned to it, page by page, when it is requested again. */
#define LONG_FROM ((uint64_t)128 << 10)
#define LONG_KEPT ((uint64_t)4 << 20)

/* Returns the size of a class. Powers of two are kept for reuse, and larger
 * messages are allocated each time. The memory of a message is thus within a
 * factor of the bytes that are counted for it. */
static uint64_t class_bytes(uint32_t size_class) {
  return UINT64_C(64) << size_class;
}

static gli_early *take_free(gloo_device *device, uint32_t size_class) {
  gli_early *early = device->free_early[size_class];
  if (early == NULL) return NULL;
  device->free_early[size_class] = early->next;
  uint64_t bytes = class_bytes(size_class);
  if (bytes >= LONG_FROM) device->free_long -= bytes;
  return early;
}

/* Returns false if enough is kept. */
static bool keep_free(gloo_device *device, gli_early *early) {
  uint32_t size_class = early->size_class;
  if (size_class == GLI_EARLY_CLASSES) return false;
  uint64_t bytes = class_bytes(size_class);
  if (bytes >= LONG_FROM) {
    if (device->free_long + bytes > LONG_KEPT) return false;
    device->free_long += bytes;
  }
  early->next = device->free_early[size_class];
  device->free_early[size_class] = early;
  return true;
}

gli_early *gli_early_new(gli_link *link, const gli_header *header,
                         uint64_t bytes) {
  gloo_device *device = link->context->device;
  uint32_t size_class = 0;
  while (size_class < GLI_EARLY_CLASSES && bytes > class_bytes(size_class)) {
    size_class++;
  }
  gli_early *early = NULL;
  if (size_class < GLI_EARLY_CLASSES) {
    bytes = class_bytes(size_class);
    early = take_free(device, size_class);
  }
  if (early == NULL) {
    if (bytes > SIZE_MAX - sizeof *early) return NULL;
    early = malloc(sizeof *early + (size_t)bytes);
  }
  if (early == NULL) return NULL;
  memset(early, 0, sizeof *early);
  early->header = *header;
  early->link = link;
  early->size_class = size_class;
  return early;
}

void gli_early_free(gli_early *early) {
  gloo_device *device = early->link->context->device;
  if (early->envelope) gli_early_remove_envelope(early);
  if (!keep_free(device, early)) free(early);
}

void gli_early_free_pools(gloo_device *device) {
  for (int i = 0; i < GLI_EARLY_CLASSES; i++) {
    while (device->free_early[i] != NULL) {
      gli_early *early = device->free_early[i];
      device->free_early[i] = early->next;
      free(early);
    }
  }
}

void gli_early_keep(gli_early *early, gli_key key) {
  gloo_context *context = early->link->context;
  context->n_early++;
  gli_key_table_add(&context->early, &early->keyed, key);
}

gli_early *gli_early_take(gloo_context *context, gli_key key) {
  if (context->n_early == 0) return NULL;
  gli_keyed *found = gli_key_table_find(&context->early, key);
  if (found == NULL) return NULL;
  gli_key_table_remove(&context->early, found);
  context->n_early--;
  return gli_early_keyed(found);
}

void gli_early_add_envelope(gli_early *early) {
  gloo_context *context = early->link->context;
  early->envelope = true;
  early->envelope_next = NULL;
  early->envelope_prev = context->envelopes_last;
  if (context->envelopes_last != NULL) {
    context->envelopes_last->envelope_next = early;
  } else {
    context->envelopes_first = early;
  }
  context->envelopes_last = early;
}

void gli_early_remove_envelope(gli_early *early) {
  gloo_context *context = early->link->context;
  early->envelope = false;
  if (early->envelope_prev != NULL) {
    early->envelope_prev->envelope_next = early->envelope_next;
  } else {
    context->envelopes_first = early->envelope_next;
  }
  if (early->envelope_next != NULL) {
    early->envelope_next->envelope_prev = early->envelope_prev;
  } else {
    context->envelopes_last = early->envelope_prev;
  }
}

bool gli_early_has_envelope(const gloo_context *context, gli_key key) {
  gli_keyed *entry = gli_key_table_find(&context->early, key);
  while (entry != NULL && !gli_early_keyed(entry)->envelope)
    entry = gli_key_table_find_next(entry);
  return entry != NULL;
}

/* Drops an early message. One that is still arriving on a live pair is freed
 * when it has arrived. */
static void early_drop(gli_early *early) {
  bool arriving = early->header.type == GLI_MESSAGE_DATA && !early->complete;
  if (!arriving || early->link->pair == NULL) {
    gli_early_free(early);
    return;
  }
  if (early->envelope) gli_early_remove_envelope(early);
  early->orphan = true;
}

void gli_early_drop(gloo_context *context) {
  gli_key_table *table = &context->early;
  for (size_t i = 0; table->n > 0; i++) {
    gli_keyed *entry;
    while (table->n > 0 && (entry = gli_key_table_slot(table, i)) != NULL) {
      gli_key_table_remove(table, entry);
      early_drop(gli_early_keyed(entry));
    }
  }
  context->n_early = 0;
}
