/* Messages that came before their receive was ready: memory and look-up. */
#include <stdlib.h>
#include <string.h>

#include "engine/state/context.h"
#include "engine/state/device.h"
#include "engine/state/early.h"

/* Of memory for long messages so much is kept: what was given back to the
 * system has to be cleared, page by page, when it is asked for again. */
#define LONG_FROM ((uint64_t)128 << 10)
#define LONG_KEPT ((uint64_t)4 << 20)

/* Powers of two are kept for reuse; what is larger is allocated each time. The
 * room that a message takes is thus within a factor of what it was charged. */
static uint64_t class_bytes(uint32_t size_class) {
  return UINT64_C(64) << size_class;
}

static gli_parked *take_free(gloo_device *device, uint32_t size_class) {
  gli_parked *parked = device->free_parked[size_class];
  if (!parked) return NULL;
  device->free_parked[size_class] = parked->next;
  uint64_t bytes = class_bytes(size_class);
  if (bytes >= LONG_FROM) device->free_long -= bytes;
  return parked;
}

/* False: enough is kept. */
static bool keep_free(gloo_device *device, gli_parked *parked) {
  uint32_t size_class = parked->size_class;
  if (size_class == GLI_PARKED_CLASSES) return false;
  uint64_t bytes = class_bytes(size_class);
  if (bytes >= LONG_FROM) {
    if (device->free_long + bytes > LONG_KEPT) return false;
    device->free_long += bytes;
  }
  parked->next = device->free_parked[size_class];
  device->free_parked[size_class] = parked;
  return true;
}

gli_parked *gli_parked_new(gli_link *link, const gli_header *header,
                           uint64_t bytes) {
  gloo_device *device = link->context->device;
  uint32_t size_class = 0;
  while (size_class < GLI_PARKED_CLASSES && bytes > class_bytes(size_class)) {
    size_class++;
  }
  gli_parked *parked = NULL;
  if (size_class < GLI_PARKED_CLASSES) {
    bytes = class_bytes(size_class);
    parked = take_free(device, size_class);
  }
  if (!parked) {
    if (bytes > SIZE_MAX - sizeof *parked) return NULL;
    parked = malloc(sizeof *parked + (size_t)bytes);
  }
  if (!parked) return NULL;
  memset(parked, 0, sizeof *parked);
  parked->header = *header;
  parked->link = link;
  parked->size_class = size_class;
  return parked;
}

void gli_parked_free(gli_parked *parked) {
  gloo_device *device = parked->link->context->device;
  if (parked->envelope) gli_parked_remove_envelope(parked);
  if (!keep_free(device, parked)) free(parked);
}

void gli_parked_free_pools(gloo_device *device) {
  for (int i = 0; i < GLI_PARKED_CLASSES; i++) {
    while (device->free_parked[i]) {
      gli_parked *parked = device->free_parked[i];
      device->free_parked[i] = parked->next;
      free(parked);
    }
  }
}

static size_t bucket_of(gli_key key) {
  uint64_t h = key.operation * UINT64_C(0x9e3779b97f4a7c15);
  h ^= ((uint64_t)key.rank << 32 | key.tag) * UINT64_C(0xc2b2ae3d27d4eb4f);
  return (size_t)(h >> 56) % GLI_BUCKETS;
}

static bool belongs(const gli_parked *parked, gli_key key) {
  return gli_keys_equal(gli_key_incoming(parked->link, &parked->header), key);
}

void gli_parked_keep(gli_parked *parked, gli_key key) {
  gli_parked **bucket = &parked->link->context->parked[bucket_of(key)];
  parked->link->context->n_parked++;
  parked->next = *bucket;
  *bucket = parked;
}

gli_parked *gli_parked_take(gloo_context *context, gli_key key) {
  if (context->n_parked == 0) return NULL;
  gli_parked **at = &context->parked[bucket_of(key)];
  while (*at && !belongs(*at, key)) at = &(*at)->next;
  gli_parked *found = *at;
  if (!found) return NULL;
  *at = found->next;
  context->n_parked--;
  return found;
}

void gli_parked_add_envelope(gli_parked *parked) {
  gloo_context *context = parked->link->context;
  parked->envelope = true;
  parked->envelope_next = NULL;
  parked->envelope_prev = context->envelopes_last;
  if (context->envelopes_last) {
    context->envelopes_last->envelope_next = parked;
  } else {
    context->envelopes_first = parked;
  }
  context->envelopes_last = parked;
}

void gli_parked_remove_envelope(gli_parked *parked) {
  gloo_context *context = parked->link->context;
  parked->envelope = false;
  if (parked->envelope_prev) {
    parked->envelope_prev->envelope_next = parked->envelope_next;
  } else {
    context->envelopes_first = parked->envelope_next;
  }
  if (parked->envelope_next) {
    parked->envelope_next->envelope_prev = parked->envelope_prev;
  } else {
    context->envelopes_last = parked->envelope_prev;
  }
}

bool gli_parked_has_envelope(const gloo_context *context, gli_key key) {
  const gli_parked *p = context->parked[bucket_of(key)];
  while (p && !(p->envelope && belongs(p, key))) p = p->next;
  return p != NULL;
}

/* What is still arriving through a pair that lives on is freed when it is here.
 */
static void drop(gli_parked *parked) {
  bool arriving = parked->header.type == GLI_MESSAGE_DATA && !parked->complete;
  if (!arriving || !parked->link->pair) {
    gli_parked_free(parked);
    return;
  }
  if (parked->envelope) gli_parked_remove_envelope(parked);
  parked->orphan = true;
}

void gli_parked_drop(gloo_context *context) {
  for (size_t i = 0; i < GLI_BUCKETS; i++) {
    while (context->parked[i]) {
      gli_parked *parked = context->parked[i];
      context->parked[i] = parked->next;
      drop(parked);
    }
  }
  context->n_parked = 0;
}
