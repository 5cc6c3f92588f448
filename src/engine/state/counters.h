/* Counters per tag. */
#ifndef GLI_ENGINE_STATE_COUNTERS_H
#define GLI_ENGINE_STATE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gli_tag_counter {
  uint32_t tag;
  uint64_t next;
} gli_tag_counter;

/* Zeros are an empty set. */
typedef struct gli_counters {
  gli_tag_counter **slots;
  uint32_t n, n_slots;
} gli_counters;

/* Persistent requests that are matched by the order in which they were made
 * count their own runs, each in a range of numbers that no other run uses. */
static inline uint64_t gli_number_of_init(uint32_t init) {
  return UINT64_C(1) << 63 | (uint64_t)init << 32;
}
static inline bool gli_number_is_of_init(uint64_t number) {
  return number >> 63 != 0;
}
static inline uint32_t gli_number_init(uint64_t number) {
  return (uint32_t)(number >> 32) & UINT32_C(0x7fffffff);
}

/* Returns the counter of a tag, whose address stays valid; NULL if out of
 * memory. */
uint64_t *gli_counter(gli_counters *counters, uint32_t tag);
/* Returns the count of a tag; 0 when no operation has used it. */
uint64_t gli_counted(const gli_counters *counters, uint32_t tag);
void gli_counters_free(gli_counters *counters);

#endif
