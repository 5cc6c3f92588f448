/* Fixed-width integers as bytes, little-endian on every machine. */
#ifndef GLI_CORE_BYTES_H
#define GLI_CORE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Returns true if the machine is big-endian. */
static inline bool gli_big_endian(void) {
  const union {
    uint32_t value;
    uint8_t bytes[4];
  } one = {.value = 1};
  return one.bytes[0] == 0;
}

/* memcpy, because compilers do not always merge byte stores into one store. */
static inline void gli_put_u32(uint8_t *at, uint32_t value) {
  if (gli_big_endian()) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
  } else {
    memcpy(at, &value, sizeof value);
  }
}
static inline void gli_put_u64(uint8_t *at, uint64_t value) {
  if (gli_big_endian()) {
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> (8 * i));
  } else {
    memcpy(at, &value, sizeof value);
  }
}
/* Written out, because compilers recognise this as one load, but not a loop. */
static inline uint32_t gli_get_u32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
         (uint32_t)at[3] << 24;
}
static inline uint64_t gli_get_u64(const uint8_t *at) {
  return (uint64_t)gli_get_u32(at + 4) << 32 | gli_get_u32(at);
}

#endif
