/* How often something was started with each tag. */
#include <stdlib.h>

#include "engine/state/context.h"

/* Open addressing; slots are a power of two and at most half full. */
static gli_tag_counter **find_counter(gli_tag_counter **counters,
                                      uint32_t slots, uint32_t tag) {
  uint32_t mask = slots - 1;
  uint32_t at = tag * UINT32_C(0x9e3779b1) & mask;
  while (counters[at] && counters[at]->tag != tag) at = (at + 1) & mask;
  return &counters[at];
}

static bool grow_counters(gloo_context *context) {
  uint32_t slots = context->counter_slots ? context->counter_slots * 2 : 16;
  gli_tag_counter **bigger = calloc(slots, sizeof(gli_tag_counter *));
  if (!bigger) return false;
  for (uint32_t i = 0; i < context->counter_slots; i++) {
    gli_tag_counter *old = context->counters[i];
    if (old) *find_counter(bigger, slots, old->tag) = old;
  }
  free(context->counters);
  context->counters = bigger;
  context->counter_slots = slots;
  return true;
}

uint64_t *gli_context_counter(gloo_context *context, uint32_t tag) {
  if (context->n_counters * 2 >= context->counter_slots &&
      !grow_counters(context)) {
    return NULL;
  }
  gli_tag_counter **at =
      find_counter(context->counters, context->counter_slots, tag);
  if (!*at) {
    *at = calloc(1, sizeof **at);
    if (!*at) return NULL;
    (*at)->tag = tag;
    context->n_counters++;
  }
  return &(*at)->next;
}

uint64_t gli_context_started(const gloo_context *context, uint32_t tag) {
  if (context->counter_slots == 0) return 0;
  const gli_tag_counter *counter =
      *find_counter(context->counters, context->counter_slots, tag);
  return counter ? counter->next : 0;
}

void gli_context_free_counters(gloo_context *context) {
  for (uint32_t i = 0; i < context->counter_slots; i++) {
    free(context->counters[i]);
  }
  free(context->counters);
}
