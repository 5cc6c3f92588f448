#include "engine/state/counters.h"

#include <stdbool.h>
#include <stdlib.h>

/* Finds the slot of a tag. Open addressing; the number of slots is a power of
 * two, and at most half of them are used. */
static gli_tag_counter **counters_find_counter(gli_tag_counter **slots,
                                               uint32_t n_slots, uint32_t tag) {
  uint32_t mask = n_slots - 1;
  uint32_t at = tag * UINT32_C(0x9e3779b1) & mask;
  while (slots[at] != NULL && slots[at]->tag != tag) at = (at + 1) & mask;
  return &slots[at];
}

static bool grow_counters(gli_counters *c) {
  uint32_t n_slots = c->n_slots ? c->n_slots * 2 : 4;
  gli_tag_counter **bigger = calloc(n_slots, sizeof(gli_tag_counter *));
  if (bigger == NULL) return false;
  for (uint32_t i = 0; i < c->n_slots; i++) {
    gli_tag_counter *old = c->slots[i];
    if (old != NULL) *counters_find_counter(bigger, n_slots, old->tag) = old;
  }
  free(c->slots);
  c->slots = bigger;
  c->n_slots = n_slots;
  return true;
}

uint64_t *gli_counter(gli_counters *c, uint32_t tag) {
  if (c->n * 2 >= c->n_slots && !grow_counters(c)) return NULL;
  gli_tag_counter **at = counters_find_counter(c->slots, c->n_slots, tag);
  if (*at == NULL) {
    *at = calloc(1, sizeof **at);
    if (*at == NULL) return NULL;
    (*at)->tag = tag;
    c->n++;
  }
  return &(*at)->next;
}

uint64_t gli_counted(const gli_counters *c, uint32_t tag) {
  if (c->n_slots == 0) return 0;
  const gli_tag_counter *counter =
      *counters_find_counter(c->slots, c->n_slots, tag);
  return counter != NULL ? counter->next : 0;
}

void gli_counters_free(gli_counters *c) {
  for (uint32_t i = 0; i < c->n_slots; i++) free(c->slots[i]);
  free(c->slots);
}
