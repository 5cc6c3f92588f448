/* How often something was begun with each tag. */
#ifndef GLI_ENGINE_STATE_COUNTERS_H
#define GLI_ENGINE_STATE_COUNTERS_H

#include <stdint.h>

typedef struct gli_tag_counter {
  uint32_t tag;
  uint64_t next;
} gli_tag_counter;

/* Zeroed: none yet. */
typedef struct gli_counters {
  gli_tag_counter **slots;
  uint32_t n, n_slots;
} gli_counters;

/* The counter of a tag, which stays where it is; NULL when out of memory. */
uint64_t *gli_counter(gli_counters *counters, uint32_t tag);
/* What it counts to; 0 when nobody asked for it yet. */
uint64_t gli_counted(const gli_counters *counters, uint32_t tag);
void gli_counters_free(gli_counters *counters);

#endif
